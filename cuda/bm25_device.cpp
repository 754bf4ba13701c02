#include "bm25_device.hpp"

#include <cmath>
#include <limits>
#include <unordered_map>

#include "memory.hpp"

namespace gnomon::cuda {
namespace {

constexpr int kRangeDocs = 16384;
constexpr std::size_t kQueriesMost = 32768;
constexpr std::size_t kTermsMost = 64;  // of a screened query

Bm25Rule rule_of(const Bm25Formula& formula) {
    return {formula.formula, formula.k1, formula.delta, formula.in_order, formula.at_end};
}

}  // namespace

struct Bm25Corpus::Segment {
    Buffer memory;
    std::uint32_t* docs = nullptr;
    std::uint32_t* tfs = nullptr;
    double* tildes = nullptr;
    std::int64_t* starts = nullptr;
    double* constants = nullptr;
    float* impacts = nullptr;
    std::vector<float> greatest;  // of each term, on the host
    std::vector<float> least;
    std::int64_t n_docs = 0;
    std::uint32_t base = 0;
    std::size_t number = 0;

    Bm25Lists lists() const { return {docs, tfs, tildes, impacts}; }
    int ranges(int docs_each) const { return static_cast<int>((n_docs + docs_each - 1) / docs_each); }
};

// Weights of the screen: of each occurrence, then of each query.
struct Bm25Corpus::Scaled {
    std::vector<float> weights;
    std::vector<double> scales, absent_sums, relatives, slacks;
};

struct Bm25Corpus::Part {
    Stream stream;
    std::size_t n = 0;
    int k = 0;
    Bm25Queries queries{};
    std::int32_t* terms = nullptr;  // of the segment at hand
    std::int64_t* cuts = nullptr;
    std::uint32_t* allowed = nullptr;
    Candidates found{};
    Best best[2]{};
    int* not_a_number = nullptr;
    void* scratch = nullptr;
    std::vector<std::int32_t> distinct;  // of the batch's terms, those of this part
    const Bm25Batch* batch = nullptr;
};

Bm25Corpus::Bm25Corpus(int device, const std::vector<Bm25Arrays>& segments, const Bm25Formula& formula,
                       int range_docs)
    : device_(device), formula_(formula), range_docs_(range_docs != 0 ? range_docs : kRangeDocs) {
    require_device(device);
    const OnDevice here(device);
    const Stream stream;
    for (const Bm25Arrays& given : segments) {
        Segment segment;
        segment.number = segments_.size();
        segment.n_docs = given.n_docs;
        segment.base = given.base;
        const std::size_t n_terms = given.starts.size() - 1;
        const auto share_out = [&](Arena arena) {
            segment.docs = arena.take<std::uint32_t>(given.docs.size());
            segment.tfs = arena.take<std::uint32_t>(given.tfs.size());
            segment.tildes = given.tildes.empty() ? nullptr : arena.take<double>(given.tildes.size());
            segment.starts = arena.take<std::int64_t>(given.starts.size());
            segment.constants =
                given.constants.empty() ? nullptr : arena.take<double>(given.constants.size());
            segment.impacts = arena.take<float>(given.docs.size());
            return arena.used();
        };
        segment.memory = Buffer(share_out(Arena()), "a BM25 segment",
                                "search on the CPU, or shard the index over several devices");
        share_out(Arena(segment.memory.data()));
        stream.give(segment.docs, given.docs);
        stream.give(segment.tfs, given.tfs);
        stream.give(segment.tildes, given.tildes);
        stream.give(segment.starts, given.starts);
        stream.give(segment.constants, given.constants);
        segment.greatest.resize(n_terms);
        segment.least.resize(n_terms);
        if (!given.docs.empty()) {
            const Buffer ends(2 * n_terms * sizeof(float), "the impacts of terms", "free some of it");
            auto* const greatest = reinterpret_cast<float*>(ends.data());
            launch_impacts(segment.lists(), static_cast<std::int64_t>(given.docs.size()), segment.constants,
                           rule_of(formula_), segment.impacts, stream);
            launch_impact_range(segment.starts, segment.impacts, static_cast<std::int64_t>(n_terms), greatest,
                                greatest + n_terms, stream);
            check_launches();
            stream.fetch(std::span(segment.greatest), greatest);
            stream.fetch(std::span(segment.least), greatest + n_terms);
        }
        segments_.push_back(std::move(segment));
    }
}

Bm25Corpus::~Bm25Corpus() = default;

std::size_t Bm25Corpus::n_segments() const { return segments_.size(); }

std::size_t Bm25Corpus::bytes() const {
    std::size_t sum = 0;
    for (const Segment& segment : segments_) sum += segment.memory.bytes();
    return sum;
}

// As Screened of cpp/bm25_prepare.cpp, but for occurrences in the place of terms: the device adds those.
Bm25Corpus::Scaled Bm25Corpus::scaled(const Bm25Batch& batch) const {
    const std::size_t n = batch.starts.size() - 1;
    Scaled out;
    out.weights.assign(batch.slots.size(), 0.0F);
    out.scales.assign(n, 0.0);
    out.absent_sums.assign(n, 0.0);
    out.relatives.assign(n, 0.0);
    out.slacks.assign(n, 0.0);
    for (std::size_t q = 0; q < n; ++q) {
        const auto first = static_cast<std::size_t>(batch.starts[q]);
        const auto last = static_cast<std::size_t>(batch.starts[q + 1]);
        double scale = 0.0;
        double absent = 0.0;
        bool ok = last > first && last - first <= kTermsMost;
        std::vector<float> least(last - first, std::numeric_limits<float>::infinity());
        for (std::size_t o = first; o < last; ++o) {
            float greatest = 0.0F;
            for (const Segment& segment : segments_) {
                const std::int32_t term =
                    batch.terms[segment.number][static_cast<std::size_t>(batch.slots[o])];
                if (term < 0) continue;
                const float most = segment.greatest[static_cast<std::size_t>(term)];
                if (!(most <= greatest)) greatest = most;  // NaN stays
                least[o - first] = std::min(least[o - first], segment.least[static_cast<std::size_t>(term)]);
            }
            ok = ok && batch.weights[o] > 0.0 && std::isfinite(greatest);
            scale += batch.weights[o] * static_cast<double>(greatest);
            absent += std::fabs(batch.absents[o]);
            out.absent_sums[q] += batch.absents[o];
        }
        ok = ok && scale > 0.0 && std::isfinite(scale);
        const auto terms = static_cast<double>(last - first);
        const double slack = (terms + 8.0) * 0x1p-50 * (1.0 + absent / scale);
        ok = ok && std::isfinite(slack);
        for (std::size_t o = first; ok && o < last; ++o)
            ok = static_cast<double>(static_cast<float>(batch.weights[o] / scale)) *
                     static_cast<double>(least[o - first]) >=
                 1e-30;
        if (!ok) continue;
        for (std::size_t o = first; o < last; ++o)
            out.weights[o] = static_cast<float>(batch.weights[o] / scale);
        out.scales[q] = scale;
        out.relatives[q] = (terms + 6.0) * 0x1p-23;
        out.slacks[q] = slack;
    }
    return out;
}

// Of n queries that lie together: those with the most occurrences.
std::size_t Bm25Corpus::part_bytes(const Bm25Batch& batch, std::size_t n, int k, std::size_t capacity) const {
    std::size_t occurrences = 0;
    const std::size_t all = batch.starts.size() - 1;
    for (std::size_t first = 0; first < all; first += n)
        occurrences = std::max(occurrences, static_cast<std::size_t>(batch.starts[std::min(first + n, all)] -
                                                                     batch.starts[first]));
    int ranges = 0;
    std::size_t docs = 0;
    for (const Segment& segment : segments_) {
        ranges = std::max(ranges, segment.ranges(range_docs_));
        docs = std::max(docs, static_cast<std::size_t>(segment.n_docs));
    }
    std::size_t room = 2;
    while (room < static_cast<std::size_t>(k)) room *= 2;
    const std::size_t hits = n * static_cast<std::size_t>(k);
    const std::size_t sort = room <= kSortShared ? 0 : n * room * 12;
    return n * (7 * 8 + 4 * 4) + occurrences * (8 * 3 + 4 * 4 + 8 * (static_cast<std::size_t>(ranges) + 1)) +
           docs / 8 + n * capacity * 12 + 2 * hits * 12 + sort + 256 * 32;
}

Found Bm25Corpus::search(const Bm25Batch& batch, const Bm25Options& options, Did& did) const {
    const OnDevice here(device_);
    const std::size_t n = batch.starts.size() - 1;
    std::size_t slots = 0;
    for (const Segment& segment : segments_) slots += static_cast<std::size_t>(segment.n_docs);
    Found found;
    found.k = std::min(options.k, slots);
    found.counts.assign(n, 0);
    found.scores.resize(n * found.k);
    found.rows.resize(n * found.k);
    if (n == 0 || found.k == 0) return found;
    const int k = static_cast<int>(found.k);
    const auto range = static_cast<std::size_t>(range_docs_);
    std::size_t capacity = options.capacity != 0 ? options.capacity : 4 * found.k + 2048;
    capacity = std::min(capacity, range);
    std::size_t m = std::min(n, kQueriesMost);
    while (m > 1 && part_bytes(batch, m, k, capacity) > options.workspace_bytes) m = (m + 1) / 2;
    std::size_t roomy = m;  // queries at once that may have a whole range of candidates each
    while (roomy > 1 && part_bytes(batch, roomy, k, range) > options.workspace_bytes) roomy = (roomy + 1) / 2;
    const std::size_t bytes = std::max(part_bytes(batch, m, k, capacity), part_bytes(batch, roomy, k, range));
    if (bytes > options.workspace_bytes)
        throw DeviceError("CUDA: max_workspace_bytes is " + std::to_string(options.workspace_bytes) +
                          ", but one query with k = " + std::to_string(k) + " needs " +
                          std::to_string(bytes) + "; raise it, or ask for fewer hits");
    const Buffer memory(bytes, "the workspace of a search",
                        "pass a smaller max_workspace_bytes, or free some of it");
    did.workspace_bytes = bytes;
    const Scaled weights = scaled(batch);
    for (std::size_t first = 0; first < n; first += m) {
        const std::size_t here_n = std::min(m, n - first);
        if (search_part(batch, weights, first, here_n, k, capacity, memory.data(), found, did)) continue;
        ++did.repeated;
        for (std::size_t at = first; at < first + here_n; at += roomy)
            search_part(batch, weights, at, std::min(roomy, first + here_n - at), k, range, memory.data(),
                        found, did);
    }
    return found;
}

bool Bm25Corpus::search_part(const Bm25Batch& batch, const Scaled& scaled, std::size_t first, std::size_t n,
                             int k, std::size_t capacity, char* memory, Found& found, Did& did) const {
    Part part;
    part.n = n;
    part.k = k;
    part.batch = &batch;
    const auto from = static_cast<std::size_t>(batch.starts[first]);
    const auto until = static_cast<std::size_t>(batch.starts[first + n]);
    std::vector<std::int32_t> starts(n + 1);
    std::vector<std::int32_t> slots;
    std::unordered_map<std::int32_t, std::int32_t> places;
    for (std::size_t q = 0; q <= n; ++q) starts[q] = batch.starts[first + q] - batch.starts[first];
    for (std::size_t o = from; o < until; ++o) {
        const auto [place, added] =
            places.emplace(batch.slots[o], static_cast<std::int32_t>(part.distinct.size()));
        if (added) part.distinct.push_back(batch.slots[o]);
        slots.push_back(place->second);
    }
    Arena arena(memory);
    const auto put = [&](auto values) {
        using T = std::remove_const_t<typename decltype(values)::element_type>;
        T* const to = arena.take<T>(values.size());
        part.stream.give(to, std::span<const T>(values));
        return to;
    };
    const auto of_queries = [&](const std::vector<double>& all) {
        return put(std::span(all).subspan(first, n));
    };
    part.queries = {put(std::span(starts)),
                    put(std::span(slots)),
                    put(batch.weights.subspan(from, until - from)),
                    put(batch.absents.subspan(from, until - from)),
                    put(std::span(scaled.weights).subspan(from, until - from)),
                    of_queries(scaled.scales),
                    of_queries(scaled.absent_sums),
                    of_queries(scaled.relatives),
                    of_queries(scaled.slacks),
                    put(batch.at_ends.subspan(first, n))};
    int ranges = 0;
    std::size_t words = 0;
    for (const Segment& segment : segments_) {
        ranges = std::max(ranges, segment.ranges(range_docs_));
        words = std::max(words, static_cast<std::size_t>(segment.n_docs + 63) / 64);
    }
    part.terms = arena.take<std::int32_t>(part.distinct.size());
    part.cuts = arena.take<std::int64_t>(part.distinct.size() * (static_cast<std::size_t>(ranges) + 1));
    part.allowed = reinterpret_cast<std::uint32_t*>(arena.take<std::uint64_t>(words));
    part.found.capacity = static_cast<int>(capacity);
    part.found.rows = arena.take<std::uint32_t>(n * capacity);
    part.found.scores = arena.take<double>(n * capacity);
    part.found.counts = arena.take<int>(n + 2);
    part.found.overflow = part.found.counts + n;
    part.not_a_number = part.found.counts + n + 1;
    const std::size_t hits = n * static_cast<std::size_t>(k);
    for (Best& one : part.best) {
        one.scores = arena.take<double>(hits);
        one.rows = arena.take<std::uint32_t>(hits);
        one.counts = arena.take<int>(n);
        one.taus = arena.take<double>(n);
    }
    std::size_t room = 2;
    while (room < static_cast<std::size_t>(k)) room *= 2;
    part.scratch = arena.take<char>(room <= kSortShared ? 0 : n * room * 12);
    launch_fill(part.best[0].taus, static_cast<std::int64_t>(n), -std::numeric_limits<double>::infinity(),
                part.stream);
    part.stream.clear(part.best[0].counts, n * sizeof(int));
    part.stream.clear(part.found.counts, (n + 2) * sizeof(int));
    for (const Segment& segment : segments_)
        if (segment.n_docs > 0 && !part.distinct.empty() && !search_segment(segment, part, did)) return false;
    launch_sort(part.best[0], static_cast<int>(n), k, part.scratch, part.stream);
    check_launches();
    part.stream.copy(found.counts.data() + first, part.best[0].counts, n * sizeof(int));
    part.stream.copy(found.scores.data() + first * found.k, part.best[0].scores, hits * sizeof(double));
    part.stream.copy(found.rows.data() + first * found.k, part.best[0].rows, hits * sizeof(std::uint32_t));
    part.stream.wait();
    return true;
}

bool Bm25Corpus::search_segment(const Segment& segment, Part& part, Did& did) const {
    const std::span<const std::int32_t> numbers = part.batch->terms[segment.number];
    std::vector<std::int32_t> terms;
    for (const std::int32_t slot : part.distinct) terms.push_back(numbers[static_cast<std::size_t>(slot)]);
    part.stream.give(part.terms, std::span<const std::int32_t>(terms));
    const std::uint64_t* const allowed = part.batch->allowed[segment.number];
    if (allowed != nullptr)
        part.stream.copy(part.allowed, allowed, static_cast<std::size_t>(segment.n_docs + 63) / 64 * 8);
    const int n_ranges = segment.ranges(range_docs_);
    launch_cuts(segment.docs, segment.starts, part.terms, static_cast<int>(terms.size()), n_ranges,
                range_docs_, part.cuts, part.stream);
    Bm25Block block{segment.lists(),
                    part.queries,
                    part.cuts,
                    allowed != nullptr ? part.allowed : nullptr,
                    segment.base,
                    n_ranges,
                    0,
                    1,
                    range_docs_,
                    segment.n_docs,
                    static_cast<int>(part.n),
                    part.k,
                    part.best[0],
                    part.found};
    const int usual =
        std::max(1, part.found.capacity / (2 * part.k + 32));  // so many surely fit, but for ties
    std::vector<int> counts(part.n + 2);
    for (int at = 0; at < n_ranges;) {
        block.first_range = at;
        block.ranges = std::min(block.ranges, n_ranges - at);
        block.best = part.best[0];
        part.stream.clear(part.found.counts, (part.n + 1) * sizeof(int));
        launch_bm25(block, part.stream);
        launch_bm25_settle(block, rule_of(formula_), segment.constants, part.stream);
        launch_merge({block.n_queries, part.k, -std::numeric_limits<double>::infinity(), part.found,
                      part.best[0], part.best[1], part.not_a_number},
                     {}, nullptr, part.stream);
        check_launches();
        part.stream.fetch(std::span(counts), part.found.counts);
        if (counts[part.n] != 0) {
            if (block.ranges == 1) return false;
            ++did.repeated;
            block.ranges = (block.ranges + 1) / 2;
            continue;
        }
        for (std::size_t q = 0; q < part.n; ++q) did.settled += static_cast<std::uint64_t>(counts[q]);
        std::swap(part.best[0], part.best[1]);
        ++did.waves;
        at += block.ranges;
        block.ranges = std::max(usual, 2 * block.ranges);
    }
    if (counts[part.n + 1] != 0) throw CorruptIndex("bm25: a score is not a number; build the index again");
    return true;
}

}  // namespace gnomon::cuda
