// The core checks itself without Python: every kernel of every usable level, and the engines above them,
// against loops written out here, bit for bit. It runs where Python does not: cross-compiled for aarch64, and
// on an emulated CPU without AVX. Prints one line a check; the exit code is 0 when all hold.
#include "selfcheck.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "analyze.hpp"
#include "bm25.hpp"
#include "cpu.hpp"
#include "crc32c.hpp"
#include "dense_index.hpp"
#include "error.hpp"
#include "mmr.hpp"
#include "parallel.hpp"
#include "porter.hpp"
#include "storage.hpp"
#include "topk.hpp"

using namespace gnomon;  // the program is one file and the names are its subject

namespace {

int checks = 0;
int failures = 0;

void check(const std::string& name, bool holds) {
    ++checks;
    failures += holds ? 0 : 1;
    std::printf("%-6s %s\n", holds ? "ok" : "FAILED", name.c_str());
}

template <class Error, class Fn>
bool throws(const Fn& fn) {
    try {
        fn();
    } catch (const Error&) {
        return true;
    }
    return false;
}

enum class Term { product, squared_difference };

double eight_lanes(const double* query, const float* row, std::size_t dim, Term term) {
    double lane[8] = {};
    for (std::size_t d = 0; d < dim; ++d) {
        const double x = static_cast<double>(row[d]);
        const double t = query[d] - x;
        lane[d % 8] += term == Term::product ? query[d] * x : t * t;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void check_formula() {
    const double idf = bm25::idf(3, 1);
    check("bm25: idf(N=3, df=1) = log(1 + 2.5 / 1.5)", idf == std::log(1.0 + 2.5 / 1.5));
    // k1 = 1.5 and b = 0.5 have exact products: 1.5 * (1 - 0.5 + 0.5 * 4 / 2) = 2.25.
    const double norm = bm25::length_norm({1.5, 0.5}, 4.0, 2.0);
    check("bm25: norm by hand", norm == 2.25);
    check("bm25: weight by hand", bm25::weight(2.0, 3.0, 2.5, norm) == 15.0 / 5.25);
    check("bm25: avgdl 0 divides nothing by zero", bm25::length_norm({1.2, 0.75}, 0.0, 0.0) == 1.2 * 0.25);
    check("crc32c of 123456789", crc32c("123456789", 9) == 0xE3069283u);
    check("crc32c in two parts", crc32c("56789", 5, crc32c("1234", 4)) == 0xE3069283u);
}

void check_order() {
    Random random;
    bool holds = true;
    for (std::size_t n : {0, 1, 2, 63, 64, 65, 500}) {
        for (std::size_t k : {0, 1, 2, 31, 64, 600}) {
            std::vector<Hit> all;
            TopK left(k), right(k);
            for (std::size_t i = 0; i < n; ++i) {
                all.push_back({static_cast<double>(random.below(9)) / 4.0, static_cast<std::uint32_t>(i)});
                (random.below(2) == 0 ? left : right).push(all.back());
            }
            left.merge(right);
            holds = holds && same_hits(left.take(), first_k(all, k));
        }
    }
    check("topk: merged parts are the first k of the sorted whole", holds);
}

void check_dense_kernels(const Kernels& kernels) {
    Random random;
    bool dot = true, l2 = true, square = true;
    for (std::size_t dim = 0; dim <= 130; ++dim) {
        for (std::size_t shift = 0; shift < 4; ++shift) {  // rows off every natural alignment
            const std::size_t n = dim % 5, stride = dim + shift;
            std::vector<float> rows(shift + n * stride);
            std::vector<double> query(dim), self(dim), got(n), want(n);
            for (float& x : rows) x = random.value();
            for (double& x : query) x = static_cast<double>(random.value());
            const float* first = rows.data() + shift;
            const auto expect = [&](Term term) {
                for (std::size_t i = 0; i < n; ++i)
                    want[i] = eight_lanes(query.data(), first + i * stride, dim, term);
            };
            kernels.dense_dot(query.data(), first, nullptr, n, stride, dim, got.data());
            expect(Term::product);
            dot = dot && same_bits(got.data(), want.data(), n);
            kernels.dense_l2(query.data(), first, nullptr, n, stride, dim, got.data());
            expect(Term::squared_difference);
            l2 = l2 && same_bits(got.data(), want.data(), n);
            kernels.dense_square(first, n, stride, dim, got.data());
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t d = 0; d < dim; ++d) self[d] = static_cast<double>(first[i * stride + d]);
                want[i] = eight_lanes(self.data(), first + i * stride, dim, Term::product);
            }
            square = square && same_bits(got.data(), want.data(), n);
        }
    }
    check(std::string(kernels.level) + ": dense_dot, dimensions 0..130, misaligned", dot);
    check(std::string(kernels.level) + ": dense_l2", l2);
    check(std::string(kernels.level) + ": dense_square", square);
}

std::vector<std::int64_t> plain_mmr(const std::vector<double>& relevance,
                                    const std::vector<double>& similarity, std::size_t limit,
                                    double diversity) {
    const std::size_t n = relevance.size();
    std::vector<std::int64_t> picks;
    while (picks.size() < std::min(limit, n)) {
        std::size_t best = n;
        double best_score = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            if (std::find(picks.begin(), picks.end(), static_cast<std::int64_t>(i)) != picks.end()) continue;
            double score = relevance[i];
            if (!picks.empty()) {
                double most = -std::numeric_limits<double>::infinity();
                for (const std::int64_t j : picks)
                    most = std::max(most, similarity[i * n + static_cast<std::size_t>(j)]);
                score = diversity * relevance[i] - (1.0 - diversity) * most;
            }
            if (best == n || score > best_score) {
                best = i;
                best_score = score;
            }
        }
        picks.push_back(static_cast<std::int64_t>(best));
    }
    return picks;
}

void check_mmr(const Kernels& kernels) {
    Random random;
    bool holds = true;
    for (const std::size_t n : {0, 1, 2, 7, 8, 9, 31, 32, 33, 65}) {
        for (const double diversity : {0.0, 0.3, 0.5, 1.0}) {
            std::vector<double> relevance(n), similarity(n * n);
            for (double& x : relevance) x = static_cast<double>(random.below(8)) / 4.0 - 1.0;
            for (double& x : similarity) x = static_cast<double>(random.below(8)) / 4.0 - 1.0;
            const auto got = mmr(relevance.data(), similarity.data(), n, n / 2 + 1, diversity, kernels);
            holds = holds && got == plain_mmr(relevance, similarity, n / 2 + 1, diversity);
        }
    }
    check(std::string(kernels.level) + ": mmr equals the greedy loop, ties included", holds);
}

void check_damage(const std::string& folder) {
    const std::string path = folder + "/damage.gno";
    {
        ContainerWriter writer(path);
        const std::vector<double> values(1000, 1.5);
        writer.section("values", std::span<const double>(values));
        writer.finish();
    }
    bool found = true;
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
    for (std::streamoff at = 0; at < size; at += 61) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        const auto flip = [&] {
            file.seekg(at);
            const char byte = static_cast<char>(file.get() ^ 0x10);
            file.seekp(at);
            file.put(byte);
            file.flush();
        };
        flip();
        found = found && throws<CorruptIndex>([&] { Container::open(path)->verify(); });
        flip();
    }
    Container::open(path)->verify();
    check("storage: a flipped bit anywhere is found", found);
}

void check_dense(const Kernels& kernels) {
    Random random;
    const std::size_t n = 333, dim = 37, n_queries = 5;
    std::vector<float> rows(n * dim), queries(n_queries * dim);
    for (float& x : rows) x = random.value();
    for (float& x : queries) x = random.value();
    std::fill_n(rows.begin() + 40 * static_cast<std::ptrdiff_t>(dim), dim, 0.0f);
    std::copy_n(rows.begin(), dim, rows.begin() + 200 * static_cast<std::ptrdiff_t>(dim));  // a tie
    std::copy_n(rows.begin(), dim, queries.begin());
    for (const Metric metric : {Metric::cosine, Metric::ip, Metric::l2}) {
        const DenseIndex index(Column<float>::of(rows), n, dim, metric, OnZero::score_zero, ScreenUse::whole,
                               1, kernels);
        // Norms beyond float32 have no screen: inner products of such rows are scanned.
        const ScreenUse screened = index.screen_bytes() == 0 ? ScreenUse::automatic : ScreenUse::whole;
        bool holds = true;
        for (const std::size_t threads : {1, 3, 101, 103}) {  // from 100: by the screen
            DenseStats stats;
            const auto got =
                index.search({queries.data(), n_queries, dim}, {50}, OnZero::score_zero,
                             threads < 100 ? ScreenUse::never : screened, threads % 100, kernels, stats);
            for (std::size_t q = 0; q < n_queries; ++q) {
                const std::vector<double> query(queries.begin() + static_cast<std::ptrdiff_t>(q * dim),
                                                queries.begin() + static_cast<std::ptrdiff_t>((q + 1) * dim));
                std::vector<Hit> hits;
                for (std::size_t i = 0; i < n; ++i) {
                    const float* row = rows.data() + i * dim;
                    const std::vector<double> wide(row, row + dim);
                    double score = eight_lanes(query.data(), row, dim, Term::product);
                    if (metric == Metric::l2)
                        score = 0.0 - eight_lanes(query.data(), row, dim, Term::squared_difference);
                    if (metric == Metric::cosine) {
                        const double qq =
                            eight_lanes(query.data(), queries.data() + q * dim, dim, Term::product);
                        const double xx = eight_lanes(wide.data(), row, dim, Term::product);
                        score =
                            qq == 0.0 || xx == 0.0 ? 0.0 : std::clamp(score / std::sqrt(qq * xx), -1.0, 1.0);
                    }
                    hits.push_back({score, static_cast<std::uint32_t>(i)});
                }
                holds = holds && same_hits(got[q], first_k(hits, 50));
            }
        }
        check(std::string(kernels.level) + ": dense search by " + std::string(metric_name(metric)), holds);
    }
}

template <class Unit>
std::vector<std::string> tokens_of(Preset preset, const std::basic_string<Unit>& cased,
                                   const std::basic_string<Unit>& lowered) {
    std::vector<std::string> tokens;
    const auto sink = [](void* context, const Token& token) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(token.text);
    };
    tokenize(preset, {cased.data(), cased.size(), sizeof(Unit)},
             {lowered.data(), lowered.size(), sizeof(Unit)}, sink, &tokens);
    return tokens;
}

void check_analyzer() {
    using Strings = std::vector<std::string>;
    const std::string ascii = "The HTTPServer, foo_bar: x1 __";
    check("analyze: basic-v1 over ASCII",
          tokens_of(Preset::basic_v1, ascii, ascii) == Strings{"the", "httpserver", "foo", "bar", "x1"});
    const Strings whole_and_parts = {"the", "httpserver", "http", "server", "foo_bar", "foo", "bar", "x1"};
    check("analyze: standard-v1 adds an identifier's parts",
          tokens_of(Preset::standard_v1, ascii, ascii) == whole_and_parts);
    check("analyze: bm25s drops single characters and keeps identifiers",
          tokens_of(Preset::bm25s, ascii, ascii) == Strings{"the", "httpserver", "foo_bar", "x1", "__"});
    const std::string dotted = "The dog's U.S.A. 3,14.5 a:1";
    const Strings lucene = {"the", "dog", "u.s.a", "3,14.5", "a", "1"};
    check("analyze: words as Lucene cuts them", tokens_of(Preset::lucene_english, dotted, dotted) == lucene);
    const std::u32string wide(dotted.begin(), dotted.end());
    std::u32string low = wide;
    for (char32_t& c : low)
        if (c >= U'A' && c <= U'Z') c += 32;
    check("analyze: four bytes a code point, same words",
          tokens_of(Preset::lucene_english, wide, low) == lucene);
    check("porter: hopping, relational, sky", porter_stem("hopping") == "hop" &&
                                                  porter_stem("relational") == "relat" &&
                                                  porter_stem("sky") == "sky");
    const std::u16string cased(ascii.begin(), ascii.end());
    std::u16string lowered = cased;
    for (char16_t& c : lowered)
        if (c >= u'A' && c <= u'Z') c = static_cast<char16_t>(c + 32);
    check("analyze: two bytes a code point, same tokens",
          tokens_of(Preset::standard_v1, cased, lowered) == whole_and_parts);
    const std::u16string cjk = u"\u65e5\u6677\u4eea a";
    check("analyze: bigrams of CJK",
          tokens_of(Preset::basic_v1, cjk, cjk) == Strings{"\u65e5\u6677", "\u6677\u4eea", "a"});
}

void check_threads() {
    bool holds = true;
    for (const std::size_t threads : {1, 2, 5, 16}) {
        std::vector<int> visits(1000, 0);
        parallel_for(threads, visits.size(), [&](std::size_t, std::size_t item) { ++visits[item]; });
        holds = holds && std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; });
    }
    check("parallel: every item once, whatever the thread count", holds);
    check("parallel: the first error reaches the caller", throws<InvalidInput>([] {
              parallel_for(4, 100, [](std::size_t, std::size_t item) { require(item != 50, "item 50"); });
          }));
    check("parallel: thread_count(3) is 3", thread_count(3) == 3);
    setenv("GNOMON_THREADS", "5", 1);
    check("parallel: GNOMON_THREADS counts where the caller does not",
          thread_count(0) == 5 && thread_count(2) == 2);
    setenv("GNOMON_THREADS", "five", 1);
    check("parallel: a bad GNOMON_THREADS is refused", throws<InvalidInput>([] { thread_count(0); }));
    unsetenv("GNOMON_THREADS");
    check("levels: an unknown one is refused", throws<InvalidInput>([] { kernels_named("fast"); }));
}

int run(const std::string& folder) {
    std::string levels;
    for (const std::string& level : usable_levels()) levels += " " + level;
    std::printf("levels:%s\n", levels.c_str());
    check_formula();
    check_order();
    check_threads();
    check_analyzer();
    check_damage(folder);
    for (const std::string& level : usable_levels()) {
        const Kernels& kernels = kernels_named(level);
        check_dense_kernels(kernels);
        check_bm25_kernels(kernels, check);
        check_mmr(kernels);
        check_dense(kernels);
        check_dense_screen(kernels, check);
    }
    check_bm25_index(folder, check);
    check_bm25_offsets(check);
    check_bm25_threads(check);
    std::printf("selfcheck: %d checks, %d failed\n", checks, failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
    std::string folder = (std::filesystem::temp_directory_path() / "gnomon-selfcheck-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
        std::perror("selfcheck: no temporary folder");
        return EXIT_FAILURE;
    }
    int status = EXIT_FAILURE;
    try {
        status = run(folder);
    } catch (const std::exception& error) {
        std::printf("FAILED by an exception: %s\n", error.what());
    }
    std::filesystem::remove_all(folder);
    return status;
}
