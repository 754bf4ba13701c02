// The self-check's share for BM25: kernels, and every path above them, against loops written out here.
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <memory>

#include "bm25.hpp"
#include "bm25_builder.hpp"
#include "bm25_index.hpp"
#include "bm25_merge.hpp"
#include "bm25_search.hpp"
#include "parallel.hpp"
#include "selfcheck.hpp"

using namespace gnomon;

namespace {

void check_sums(const Kernels& kernels, Check& check) {
    Random random;
    bool add = true, select = true;
    for (std::size_t n = 0; n <= 130; ++n) {
        const std::uint32_t base = n % 2 == 0 ? 0 : 3'000'000'000u;
        const std::size_t width = 3 * n + 1;
        std::vector<double> norms(width), got(width, -0.0), want(width, -0.0);
        for (double& norm : norms) norm = 0.3 + static_cast<double>(random.below(1000)) / 256.0;
        std::vector<std::uint32_t> docs(n + 1), out(width), expected;
        std::vector<std::uint8_t> tfs(n + 1);
        for (int term = 0; term < 3; ++term) {
            for (std::size_t i = 0; i < n; ++i) {
                docs[i + 1] = base + static_cast<std::uint32_t>(3 * i) + random.below(3);
                tfs[i + 1] = static_cast<std::uint8_t>(random.below(20) == 0 ? 255 : 1 + random.below(9));
            }
            kernels.bm25_add(docs.data() + 1, tfs.data() + 1, n, base, norms.data(), 1.7, 2.2, got.data());
            for (std::size_t i = 1; i <= n; ++i)
                want[docs[i] - base] +=
                    bm25::weight(1.7, static_cast<double>(tfs[i]), 2.2, norms[docs[i] - base]);
        }
        add = add && same_bits(got.data(), want.data(), width);
        for (const double threshold : {-std::numeric_limits<double>::infinity(), 0.0, want[n], 1e9}) {
            expected.clear();
            for (std::size_t i = 0; i < width; ++i)
                if (!(want[i] == 0.0 && std::signbit(want[i])) && want[i] >= threshold)
                    expected.push_back(static_cast<std::uint32_t>(i));
            const std::size_t count = kernels.bm25_select(want.data(), width, threshold, out.data());
            select = select && std::equal(expected.begin(), expected.end(), out.begin(),
                                          out.begin() + static_cast<std::ptrdiff_t>(count));
        }
    }
    check(std::string(kernels.level) + ": bm25_add, 0..130 postings, misaligned, 32-bit range", add);
    check(std::string(kernels.level) + ": bm25_select", select);
}

// Blocks of none to 32 postings, the last one at the end of the list.
bool finds_frequencies(const Kernels& kernels, Random& random) {
    bool same = true;
    for (std::uint32_t density = 1; density <= 8; ++density) {
        constexpr std::uint32_t kBlocks = 9;
        std::vector<std::uint32_t> list, docs, starts;
        std::vector<std::uint8_t> tfs;
        std::vector<double> want, got;
        for (std::uint32_t doc = 0; doc < kBlocks * 32; ++doc) {
            if (doc % 32 == 0) starts.push_back(static_cast<std::uint32_t>(list.size()));
            const bool held = random.below(8) < density;
            if (held) {
                list.push_back(doc);
                tfs.push_back(static_cast<std::uint8_t>(1 + random.below(255)));
            }
            if (random.below(3) == 0) continue;
            docs.push_back(doc);
            want.push_back(held ? static_cast<double>(tfs.back()) : 0.0);
        }
        starts.push_back(static_cast<std::uint32_t>(list.size()));
        list.shrink_to_fit();
        got.assign(docs.size(), -1.0);
        kernels.bm25_find(list.data(), starts.data(), tfs.data(), docs.data(), docs.size(), got.data());
        same = same && got == want;
    }
    return same;
}

void check_screens(const Kernels& kernels, Check& check) {
    const Kernels& scalar = kernels_named("scalar");
    Random random;
    bool row = true, pick = true, above = true, levels = true, bound = true, blocks = true, settles = true;
    for (std::size_t n = 64; n <= 448; n += 64) {
        std::vector<float> rows(n), sums(n), other(n), got_sums(n), want_sums(n);
        std::vector<std::uint8_t> maxima(n);
        std::vector<std::uint16_t> bounds(n), want_bounds(n);
        std::vector<std::uint32_t> got(n), want(n);
        for (std::size_t i = 0; i < n; ++i) {
            rows[i] = static_cast<float>(random.below(1000)) / 512.0F;
            sums[i] = other[i] = random.below(3) == 0 ? 0.0F : static_cast<float>(random.below(1000));
            maxima[i] = static_cast<std::uint8_t>(random.below(256));
        }
        std::vector<double> tfs(n - 3), norms(n - 3), scores(n - 3, 0.25), want_scores(n - 3, 0.25);
        for (std::size_t i = 0; i < tfs.size(); ++i) {
            tfs[i] = static_cast<double>(random.below(4));
            norms[i] = 0.3 + static_cast<double>(random.below(1000)) / 256.0;
            want_scores[i] = want_scores[i] + bm25::weight(1.7, tfs[i], 2.2, norms[i]);
        }
        kernels.bm25_settle(tfs.data(), norms.data(), tfs.size(), 1.7, 2.2, scores.data());
        settles = settles && same_bits(scores.data(), want_scores.data(), scores.size());
        kernels.bm25_row(rows.data(), n, 0.7F, sums.data());
        scalar.bm25_row(rows.data(), n, 0.7F, other.data());
        row = row && sums == other;
        for (const float threshold : {0.0F, 1.0F, other[n / 2], 1e9F}) {
            std::vector<float> a = other, b = other;
            const std::size_t count = kernels.bm25_pick(a.data(), n, threshold, got.data(), got_sums.data());
            pick = pick && count == scalar.bm25_pick(b.data(), n, threshold, want.data(), want_sums.data()) &&
                   std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(count), want.begin()) &&
                   std::equal(got_sums.begin(), got_sums.begin() + static_cast<std::ptrdiff_t>(count),
                              want_sums.begin()) &&
                   a == std::vector<float>(n, 0.0F);
        }
        for (const float least : {0.001F, 1.0F, rows[n / 2] + 0.001F, 1e9F}) {
            for (std::size_t left = 0; left < 3; ++left) {  // and what is no whole vector
                const std::size_t m = n - left * 13;
                const std::size_t count = kernels.bm25_above(rows.data(), m, least, got.data());
                above =
                    above && count == scalar.bm25_above(rows.data(), m, least, want.data()) &&
                    std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(count), want.begin());
            }
        }
        for (const std::size_t n_rows : {std::size_t{1}, std::size_t{3}, std::size_t{9}, std::size_t{20}}) {
            std::vector<std::vector<std::uint8_t>> bytes(n_rows, maxima);
            std::vector<const std::uint8_t*> places;
            std::vector<std::uint16_t> weights;
            for (std::vector<std::uint8_t>& one : bytes) {
                for (std::uint8_t& byte : one) byte = static_cast<std::uint8_t>(random.below(256));
                places.push_back(one.data());
                weights.push_back(static_cast<std::uint16_t>(random.below(60236)));
                scalar.bm25_bound(one.data(), n, weights.back(), places.size() > 1, want_bounds.data());
            }
            kernels.bm25_levels(places.data(), weights.data(), n_rows, n, bounds.data());
            levels = levels && bounds == want_bounds;
        }
        for (const std::uint16_t weight : {std::uint16_t{0}, std::uint16_t{777}, std::uint16_t{60235}}) {
            for (const bool add : {false, true}) {
                kernels.bm25_bound(maxima.data(), n, weight, add, bounds.data());
                scalar.bm25_bound(maxima.data(), n, weight, add, want_bounds.data());
                bound = bound && bounds == want_bounds;
            }
            for (const std::uint16_t least : {std::uint16_t{1}, want_bounds[3], std::uint16_t{65535}}) {
                const std::size_t count = kernels.bm25_blocks(bounds.data(), n, least, got.data());
                blocks =
                    blocks && count == scalar.bm25_blocks(bounds.data(), n, least, want.data()) &&
                    std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(count), want.begin());
            }
        }
    }
    check(std::string(kernels.level) + ": bm25_row", row);
    check(std::string(kernels.level) + ": bm25_settle", settles);
    check(std::string(kernels.level) + ": bm25_find", finds_frequencies(kernels, random));
    check(std::string(kernels.level) + ": bm25_pick", pick);
    check(std::string(kernels.level) + ": bm25_bound", bound);
    check(std::string(kernels.level) + ": bm25_blocks", blocks);
    check(std::string(kernels.level) + ": bm25_above", above);
    check(std::string(kernels.level) + ": bm25_levels", levels);
}

using Documents = std::vector<std::vector<std::uint32_t>>;

// More documents than one window of the search holds.
Documents some_documents() {
    Random random;
    Documents documents(40'000);
    for (auto& document : documents) {
        document.resize(random.below(8));
        for (std::uint32_t& term : document)
            term = random.below(1 + random.below(300));  // low ids are frequent
    }
    return documents;
}

std::vector<Hit> plain_bm25(const Documents& documents, const std::vector<std::uint32_t>& query) {
    std::uint64_t tokens = 0;
    for (const auto& document : documents) tokens += document.size();
    const double avgdl = bm25::average_length(tokens, documents.size());
    const bm25::Params params;
    std::vector<double> scores(documents.size(), 0.0);
    std::vector<char> found(documents.size(), 0);
    for (const std::uint32_t term : query) {
        std::vector<std::size_t> tfs(documents.size());
        for (std::size_t i = 0; i < documents.size(); ++i)
            tfs[i] = static_cast<std::size_t>(std::count(documents[i].begin(), documents[i].end(), term));
        const auto df =
            static_cast<std::uint64_t>(std::count_if(tfs.begin(), tfs.end(), [](auto tf) { return tf > 0; }));
        const double idf = bm25::idf(documents.size(), df);
        for (std::size_t i = 0; i < documents.size(); ++i) {
            if (tfs[i] == 0) continue;
            const double tf = static_cast<double>(tfs[i]), dl = static_cast<double>(documents[i].size());
            const double norm = tf + params.k1 * (1.0 - params.b + params.b * dl / avgdl);
            scores[i] += idf * tf * (params.k1 + 1.0) / norm;
            found[i] = 1;
        }
    }
    std::vector<Hit> hits;
    for (std::size_t i = 0; i < documents.size(); ++i)
        if (found[i] != 0) hits.push_back({scores[i], static_cast<std::uint32_t>(i)});
    return hits;
}

}  // namespace

void check_bm25_kernels(const Kernels& kernels, Check& check) {
    check_sums(kernels, check);
    check_screens(kernels, check);
}

void check_bm25_index(const std::string& folder, Check& check) {
    const Documents documents = some_documents();
    Bm25Builder builder(false);
    for (const auto& document : documents) {
        for (const std::uint32_t term : document) builder.add_term(term);
        builder.end_document();
    }
    const auto built = builder.finish();
    const std::string path = folder + "/postings.gno";
    {
        ContainerWriter writer(path);
        built->write(writer);
        writer.finish();
    }
    const auto opened = Bm25Index::open(Container::open(path));
    opened->verify();
    const std::vector<std::vector<std::uint32_t>> queries = {{0}, {299}, {5, 5, 0}, {250, 3, 17, 3, 120}, {}};
    const Bm25Scorer in_memory(Bm25Snapshot::of({SegmentView{built, nullptr}}), {});
    const Bm25Scorer in_file(Bm25Snapshot::of({SegmentView{opened, nullptr}}), {});
    for (const std::string& level : usable_levels()) {
        bool search = true, all = true, reopened = true;
        Bm25Search searcher(kernels_named(level));
        Bm25Search keeping(kernels_named(level), true);
        for (const auto& query : queries) {
            const std::vector<Hit> hits = plain_bm25(documents, query);
            Bm25Query terms, file_terms;
            for (const std::uint32_t term : query) {
                terms.push_back({in_memory.find(term)});
                file_terms.push_back({in_file.find(term)});
            }
            for (const std::size_t k : {1, 10, 1000, 50'000}) {
                const auto want = first_k(hits, k);
                for (const Path path : {Path::kAuto, Path::kPlain, Path::kWindows, Path::kIntegers,
                                        Path::kBlocks, Path::kEssential, Path::kDirect})
                    search = search && same_hits(searcher.top_k(in_memory, terms, k, {}, path), want) &&
                             same_hits(keeping.top_k(in_memory, terms, k, {}, path, 2), want);
                reopened = reopened && same_hits(searcher.top_k(in_file, file_terms, k), want);
            }
            std::vector<double> scores(documents.size()), want(documents.size(), 0.0);
            bm25_score_all(in_memory, terms, kernels_named(level), scores.data());
            for (const Hit& hit : hits) want[hit.position] = hit.score;
            all = all && same_bits(scores.data(), want.data(), want.size());
        }
        check(level + ": every path of bm25 search over 40,000 documents equals the plain loop", search);
        check(level + ": bm25 scores of all documents", all);
        check(level + ": bm25 search in the file opened again", reopened);
    }
}

// A segment of more than 2^32 postings, of which only the last pages are ever touched: the first term's are
// address space alone.
void check_bm25_offsets(Check& check) {
    constexpr std::size_t kFirst = (std::size_t{1} << 32) + 5;
    constexpr std::size_t kPostings = kFirst + 3;
    constexpr std::size_t kBytes = kPostings * 5;
    void* const space =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return check("bm25: 20 GiB of address space (not to be had here)", true);
    const std::shared_ptr<const void> owner(space, [](void* p) { munmap(p, kBytes); });
    auto* const docs = static_cast<std::uint32_t*>(space);
    auto* const tfs = reinterpret_cast<std::uint8_t*>(docs + kPostings);
    for (std::uint32_t i = 0; i < 3; ++i) {
        docs[kFirst + i] = 2 * i;
        tfs[kFirst + i] = static_cast<std::uint8_t>(i + 1);
    }
    Bm25Field field;
    field.n_tokens = 18;
    field.lengths = Column<std::uint32_t>::of(std::vector<std::uint32_t>(6, 3));
    field.starts = Column<std::uint64_t>::of(std::vector<std::uint64_t>{0, kFirst, kPostings});
    field.docs = Column<std::uint32_t>::of(docs, kPostings, owner);
    field.tfs = Column<std::uint8_t>::of(tfs, kPostings, owner);
    std::vector<Bm25Field> fields;
    fields.push_back(std::move(field));
    const auto index = Bm25Index::of(std::move(fields), std::nullopt);
    const Postings list = index->postings(1);
    check("bm25: postings beyond 2^32", index->n_postings() == kPostings && list.docs.size() == 3 &&
                                            list.docs.data() == docs + kFirst && list.tf(2) == 3);
    const Bm25Scorer scorer(Bm25Snapshot::of({SegmentView{index, nullptr}}), {});
    const Bm25Query query = {{scorer.find(std::uint32_t{1})}};
    std::vector<Hit> want;
    const double norm = bm25::length_norm({1.2, 0.75}, 3.0, 3.0);
    for (std::uint32_t i = 3; i-- > 0;)
        want.push_back({bm25::weight(bm25::idf(6, 3), i + 1.0, 2.2, norm), 2 * i});
    bool found = true;
    for (const Path path : {Path::kPlain, Path::kWindows, Path::kIntegers, Path::kBlocks, Path::kDirect})
        found = found && same_hits(Bm25Search(default_kernels()).top_k(scorer, query, 3, {}, path), want);
    check("bm25: search in postings beyond 2^32", found);
}

// Searches of several threads on one scorer, whose terms and screen lists are made and dropped meanwhile,
// while another thread deletes, merges and searches what comes of it. A build with -fsanitize=thread sees
// what equal answers may hide.
void check_bm25_threads(Check& check) {
    const auto segment = [](std::size_t first, std::size_t last) {
        const Documents documents = some_documents();
        Bm25Builder builder(false);
        for (std::size_t i = first; i < last; ++i) {
            for (const std::uint32_t term : documents[i]) builder.add_term(term);
            builder.end_document();
        }
        return builder.finish();
    };
    const std::vector<SegmentView> views = {{segment(0, 20'000), nullptr},
                                            {segment(20'000, 40'000), nullptr}};
    const auto answers = [](const Bm25Scorer& scorer, std::size_t first, bool keep) {
        std::vector<std::vector<Hit>> found(60);
        Bm25Search search(default_kernels(), keep);
        for (std::uint32_t i = 0; i < 60; ++i) {
            const auto q = static_cast<std::uint32_t>((first + i) % 60);
            found[q] = search.top_k(scorer, {{scorer.find(q)}, {scorer.find(4 * q)}, {scorer.find(2U)}}, 20);
        }
        return found;
    };
    constexpr std::size_t kCap = 400'000;  // of screen lists: a few terms' worth
    const Bm25Scorer alone(Bm25Snapshot::of(views), {});
    const auto want = answers(alone, 0, false);
    const Bm25Scorer shared(Bm25Snapshot::of(views), {}, kCap);
    std::vector<char> good(5, 1);
    parallel_for(5, 5, [&](std::size_t, std::size_t part) {
        const auto same = [&](const std::vector<std::vector<Hit>>& found) {
            return std::equal(want.begin(), want.end(), found.begin(), found.end(), same_hits);
        };
        if (part < 4) {
            good[part] = same(answers(shared, 15 * part, part % 2 == 0)) ? 1 : 0;
            return;
        }
        const auto merged = merge_segments(views, 2);
        good[part] =
            same(answers(Bm25Scorer(Bm25Snapshot::of({{merged, nullptr}}), {}, kCap), 7, true)) ? 1 : 0;
    });
    check("bm25: searches of several threads, with lists dropped and segments merged meanwhile",
          std::count(good.begin(), good.end(), 1) == 5 && shared.screen_bytes() <= kCap);
}
