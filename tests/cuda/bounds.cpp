// Small searches of every kind through the drivers, for AddressSanitizer and UndefinedBehaviorSanitizer.
// Prints a line for each; wrong answers are other tests' business.
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "../../cuda/bm25_device.hpp"
#include "../../cuda/dense.hpp"
#include "../../cuda/mmr_device.hpp"

using namespace gnomon::cuda;

namespace {

constexpr std::size_t kWorkspace = 100'000;  // of three chunks of streamed rows

std::vector<float> numbers(std::size_t n) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& one : values) one = normal(random);
    return values;
}

// A search as a whole: codes, the narrow screen, settling, and lists of the best that overflow.
void dense(int n_rows, int n_queries, std::size_t k, std::size_t resident, const char* family) {
    constexpr int kDim = 8;
    const std::vector<float> rows = numbers(static_cast<std::size_t>(n_rows) * kDim);
    const DenseCorpus corpus(0, {rows.data(), false, n_rows, kDim, 1}, Format::int8, resident, kWorkspace);
    DenseOptions options;
    options.k = k;
    options.family = family;
    options.min_score = -std::numeric_limits<double>::infinity();
    options.capacity = 16;
    options.workspace_bytes = kWorkspace;
    const auto n = static_cast<std::size_t>(n_queries);
    std::vector<double> scores(n * k);
    std::vector<std::int64_t> found(n * k);
    std::vector<int> counts(n);
    Did did;
    corpus.search(rows.data(), false, n_queries, options, {scores.data(), found.data(), counts.data()}, did);
    std::printf("dense: %d hits, %d waves, %d chunks\n", counts[0], static_cast<int>(did.waves),
                static_cast<int>(did.chunks));
}

void bm25(std::size_t resident) {
    const std::vector<std::int64_t> starts = {0, 60, 90, 91};
    std::vector<std::uint32_t> docs;
    for (std::uint32_t d = 0; d < 60; ++d) docs.push_back(d);
    for (std::uint32_t d = 0; d < 30; ++d) docs.push_back(2 * d);
    docs.push_back(63);
    const std::vector<std::uint32_t> tfs(docs.size(), 2);
    const std::vector<double> constants(64, 1.1);
    const Bm25Corpus corpus(0, {{starts, docs, tfs, {}, constants, 64, 0}}, {0, 1.2, 0.5, false, false}, 48,
                            resident);
    const std::vector<std::int32_t> query_starts = {0, 2, 3};
    const std::vector<std::int32_t> slots = {0, 1, 2};
    const std::vector<double> weights = {0.5, 1.0, 2.0};
    const std::vector<double> absents(3, 0.0);
    const std::vector<double> at_ends(2, 0.0);
    const std::vector<std::int32_t> terms = {0, 1, 2};
    Did did;
    const Found found = corpus.search({query_starts, slots, weights, absents, at_ends, {terms}, {nullptr}},
                                      {1, kWorkspaceBytes, 0}, did);
    std::printf("bm25: %d and %d hits\n", found.counts[0], found.counts[1]);
}

void mmr() {
    const std::vector<float> rows = numbers(70 * 9);
    const std::vector<std::vector<std::int32_t>> selected = {{1, 2}};
    const MmrPicks picks = mmr_on_device(
        0, {rows.data(), false, 70, 9, rows.data(), false, nullptr, 1, &selected, 7, 0.5, false});
    std::printf("mmr: %d and %d first\n", picks.picks[0], picks.picks[1]);
}

}  // namespace

int main() {
    dense(40, 3, 5, 0, "mma");
    dense(40, 40, 5, 0, "wgmma");
    dense(300, 1, 4, 1, "mma");
    bm25(0);
    bm25(1);
    mmr();
    return 0;
}
