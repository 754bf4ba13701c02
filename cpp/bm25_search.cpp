#include "bm25_search.hpp"

#include <algorithm>
#include <string>

#include "bm25_paths.hpp"
#include "bm25_plan.hpp"
#include "error.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr const char* kPathNames[] = {"auto",      "plain",  "windows",  "blocks",
                                      "essential", "direct", "integers", "lists"};

Filter filter_of(const Bm25Scorer& scorer, const Allowed& allowed, std::size_t segment) {
    return {scorer.snapshot().segments()[segment].dead.get(),
            segment < allowed.size() ? allowed[segment].get() : nullptr};
}

// Documents that a filter leaves, deleted ones included: a whole segment where it has none.
std::size_t count_allowed(const Bm25Scorer& scorer, const Allowed& allowed) {
    std::size_t n = 0;
    const auto& segments = scorer.snapshot().segments();
    for (std::size_t i = 0; i < segments.size(); ++i)
        n +=
            i < allowed.size() && allowed[i] != nullptr ? allowed[i]->count() : segments[i].segment->n_docs();
    return n;
}

bool filters(const Allowed& allowed) {
    return std::any_of(allowed.begin(), allowed.end(), [](const auto& set) { return set != nullptr; });
}

void direct_path(const Run& run, const Allowed& allowed, TopK& best) {
    const auto& segments = run.scorer.snapshot().segments();
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
        const Filter filter = filter_of(run.scorer, allowed, segment);
        std::vector<std::uint32_t>& docs = run.scratch.docs;
        docs.clear();
        const auto take = [&](std::uint32_t doc) {
            if (segments[segment].live(doc)) docs.push_back(doc);
        };
        if (filter.allowed != nullptr)
            filter.allowed->each(take);
        else
            for (std::uint32_t doc = 0; doc < segments[segment].segment->n_docs(); ++doc) take(doc);
        settle(run, nullptr, segment, docs, best);
    }
}

// The candidates, by segment, scored for good.
void settle_candidates(const Run& run, const Screened& screened, TopK& best) {
    std::vector<std::uint32_t>& slots = run.scratch.slots;
    run.scratch.candidates.take(slots);
    const auto& segments = run.scorer.snapshot().segments();
    std::size_t at = 0;
    for (std::size_t segment = 0; segment < segments.size() && at < slots.size(); ++segment) {
        const std::uint64_t end = segments[segment].base + segments[segment].segment->n_docs();
        std::vector<std::uint32_t>& docs = run.scratch.docs;
        docs.clear();
        for (; at < slots.size() && slots[at] < end; ++at)
            docs.push_back(slots[at] - static_cast<std::uint32_t>(segments[segment].base));
        if (!docs.empty()) settle(run, &screened, segment, docs, best);
    }
}

// A stretch of a segment's documents, whole windows of both kinds.
struct Stretch {
    std::size_t segment;
    std::size_t first;
    std::size_t last;
};

std::vector<Stretch> stretches(const Bm25Scorer& scorer, std::size_t documents) {
    std::vector<Stretch> result;
    const auto& segments = scorer.snapshot().segments();
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
        const std::size_t n_docs = segments[segment].segment->n_docs();
        for (std::size_t first = 0; first < n_docs; first += documents)
            result.push_back({segment, first, std::min(first + documents, n_docs)});
    }
    return result;
}

constexpr std::size_t kShare = 8 * kPlainWindow;  // what a thread takes at once

}  // namespace

Path path_named(std::string_view name) {
    for (std::size_t i = 0; i < std::size(kPathNames); ++i)
        if (name == kPathNames[i]) return static_cast<Path>(i);
    throw InvalidInput(
        "path must be auto, plain, windows, blocks, essential, direct, integers or lists, got '" +
        std::string(name) + "'");
}

const char* path_name(Path path) { return kPathNames[static_cast<std::size_t>(path)]; }

Bm25Search::Bm25Search(const Kernels& kernels, bool keep_screens)
    : kernels_(kernels), scratch_(std::make_unique<Bm25Scratch>(keep_screens)) {}
Bm25Search::~Bm25Search() = default;

namespace {

void plain_all(const Run& run, const Allowed& allowed, std::size_t threads, TopK& best, std::size_t k) {
    const std::vector<Stretch> parts = stretches(
        run.scorer, threads > 1 ? kShare : std::max<std::size_t>(run.scorer.snapshot().n_slots(), 1));
    threads = std::min(threads, std::max<std::size_t>(parts.size(), 1));
    std::vector<Bm25Scratch> scratch(threads > 1 ? threads : 0);
    std::vector<TopK> bests(threads > 1 ? threads : 0, TopK(k));
    parallel_for(threads, parts.size(), [&](std::size_t worker, std::size_t part) {
        const Run own{run.scorer, run.query, run.kernels, threads > 1 ? scratch[worker] : run.scratch};
        const Stretch& stretch = parts[part];
        plain_path(own, stretch.segment, filter_of(run.scorer, allowed, stretch.segment), stretch.first,
                   stretch.last, threads > 1 ? bests[worker] : best);
    });
    for (const TopK& other : bests) best.merge(other);
}

using WindowsPath = decltype(windows_path);

void windows_all(WindowsPath* path, const Run& run, const Screened& screened, const Allowed& allowed,
                 std::size_t threads) {
    Candidates& all = run.scratch.candidates;
    if (threads <= 1) {
        const auto& segments = run.scorer.snapshot().segments();
        for (std::size_t segment = 0; segment < segments.size() && !all.overflown(); ++segment)
            path(run, screened, segment, filter_of(run.scorer, allowed, segment), 0,
                 segments[segment].segment->n_docs(), all);
        return;
    }
    const std::vector<Stretch> parts = stretches(run.scorer, kShare);
    threads = std::min(threads, std::max<std::size_t>(parts.size(), 1));
    std::vector<Bm25Scratch> scratch(threads);
    for (Bm25Scratch& own : scratch) own.candidates = all;
    parallel_for(threads, parts.size(), [&](std::size_t worker, std::size_t part) {
        const Run own{run.scorer, run.query, run.kernels, scratch[worker]};
        const Stretch& stretch = parts[part];
        if (own.scratch.candidates.overflown()) return;
        path(own, screened, stretch.segment, filter_of(run.scorer, allowed, stretch.segment), stretch.first,
             stretch.last, own.scratch.candidates);
    });
    for (Bm25Scratch& own : scratch) all.merge(own.candidates);
}

// Whether the integer path answered: false where so few documents were found that some may have been missed,
// or too many to be settled.
bool integers_all(const Run& run, const Screened& screened, const Allowed& allowed, std::size_t threads,
                  std::size_t k, bool free) {
    Candidates& candidates = run.scratch.candidates;
    candidates.reset(integer_cut(screened), k, free ? integer_start(screened, k) : 0.0F);
    windows_all(integers_path, run, screened, allowed, threads);
    if (candidates.overflown()) return false;
    candidates.shrink();
    return integers_suffice(screened, candidates);
}

// Each segment by blocks, or else by windows, of essential terms where few documents are wanted. False, with
// nothing to be had from the candidates, when `integers` are better than that in a segment.
bool each_segment(const Run& run, const Screened& screened, const Allowed& allowed, std::size_t k,
                  bool integers, Path& path) {
    Candidates& all = run.scratch.candidates;
    const auto& segments = run.scorer.snapshot().segments();
    for (std::size_t segment = 0; segment < segments.size() && !all.overflown(); ++segment) {
        const Filter filter = filter_of(run.scorer, allowed, segment);
        const plan::Costs costs = plan::costs_of(run.scorer, screened, segment, k);
        const double otherwise = integers ? std::min(costs.windows, costs.integers) : costs.windows;
        if (plan::lists_cost(screened, segment, all.threshold(), k, otherwise) < otherwise) {
            lists_path(run, screened, segment, filter, all);
            path = Path::kLists;
            continue;
        }
        const std::size_t worth = plan::worth_in_blocks(screened, otherwise, costs.bounding, k);
        if (worth != 0 && blocks_path(run, screened, segment, filter, all, worth)) {
            path = Path::kBlocks;
        } else if (integers && segment == 0) {
            return false;
        } else if (k <= 100 && screened.terms.size() > 1 &&
                   segments[segment].segment->n_docs() >= plan::kEssentialWindows * kScreenWindow) {
            essential_path(run, screened, segment, filter, all);
            if (path == Path::kWindows) path = Path::kEssential;
        } else {
            windows_path(run, screened, segment, filter, 0, segments[segment].segment->n_docs(), all);
        }
    }
    return true;
}

// The candidates by the path that is asked for, or for kAuto by the planner's; false when they grew beyond
// what settling is worth. `path` becomes the one that was taken.
bool find_candidates(const Run& run, const Screened& screened, const Allowed& allowed, std::size_t k,
                     Path& path, std::size_t threads) {
    const bool free = !filters(allowed);
    const float start = free ? screened.start(k) : 0.0F;
    Candidates& candidates = run.scratch.candidates;
    candidates.reset(screened.cut(), k, screened.cut().of(start));
    if (path == Path::kBlocks || path == Path::kEssential || path == Path::kLists) {
        const std::size_t n_segments = run.scorer.snapshot().segments().size();
        for (std::size_t segment = 0; segment < n_segments && !candidates.overflown(); ++segment) {
            const Filter filter = filter_of(run.scorer, allowed, segment);
            if (path == Path::kBlocks)
                blocks_path(run, screened, segment, filter, candidates);
            else if (path == Path::kLists)
                lists_path(run, screened, segment, filter, candidates);
            else
                essential_path(run, screened, segment, filter, candidates);
        }
        return !candidates.overflown();
    }
    const bool planned = path == Path::kAuto;
    const bool integers = planned ? plan::integers_pay(run.scorer, screened, k) : path == Path::kIntegers;
    path = Path::kWindows;
    // Blocks pay where the best documents are known to be few, and for one thread.
    if (planned && start > 0.0F && threads <= 1 && each_segment(run, screened, allowed, k, integers, path))
        return !candidates.overflown();
    path = Path::kIntegers;
    if (integers && integers_all(run, screened, allowed, threads, k, free)) return true;
    path = Path::kWindows;
    candidates.reset(screened.cut(), k, screened.cut().of(start));
    windows_all(windows_path, run, screened, allowed, threads);
    return !candidates.overflown();
}

// Whether a screened path answered.
bool screened_paths(const Run& run, const Allowed& allowed, std::size_t k, Path& path, std::size_t threads,
                    TopK& best) {
    run.scratch.screens.begin(run.scorer);
    const Screened screened(run.scorer, run.query, run.scratch.screens);
    if (!screened.ok || !find_candidates(run, screened, allowed, k, path, threads)) return false;
    settle_candidates(run, screened, best);
    return true;
}

}  // namespace

std::vector<Hit> Bm25Search::top_k(const Bm25Scorer& scorer, const Bm25Query& query, std::size_t k,
                                   const Allowed& allowed, Path path, std::size_t threads) {
    require(allowed.empty() || allowed.size() == scorer.snapshot().segments().size(),
            "a filter must have one set for each segment");
    used_ = path;
    k = std::min<std::size_t>(k, scorer.snapshot().n_docs());
    if (k == 0 || query.empty()) return {};
    const Prepared prepared(scorer, query);
    const Run run{scorer, prepared, kernels_, *scratch_};
    TopK best(k);
    if (path == Path::kAuto && filters(allowed)) {
        std::uint64_t postings = scorer.snapshot().n_slots() / 8;
        for (const Bm25Term* term : prepared.terms) postings += term->n_postings;
        if (count_allowed(scorer, allowed) * prepared.terms.size() * plan::kLookUp < postings)
            path = Path::kDirect;
    }
    if (path == Path::kAuto &&
        (scorer.snapshot().n_slots() <= plan::kTiny || plan::plain_is_cheaper(scorer, prepared, k)))
        path = Path::kPlain;
    if (path == Path::kDirect) {
        direct_path(run, allowed, best);
    } else if (path == Path::kPlain || !screened_paths(run, allowed, k, path, threads, best)) {
        path = Path::kPlain;
        plain_all(run, allowed, threads, best, k);
    }
    scratch_->screens.end();
    used_ = path;
    return best.take();
}

}  // namespace gnomon
