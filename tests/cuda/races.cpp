// Small searches of every kind, for ThreadSanitizer: built with -DGNOMON_EMULATED_THREADS each CUDA thread is
// one of the system's, so that two that meet in memory without a barrier between them are reported. Prints a
// line for each kind; wrong answers are other tests' business.
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "../../cuda/bm25_device.hpp"
#include "../../cuda/dense.hpp"
#include "../../cuda/mmr_device.hpp"

using namespace gnomon::cuda;

namespace {

std::vector<float> numbers(std::size_t n) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& one : values) one = normal(random);
    return values;
}

void dense(Format format, const char* family, int n_queries, std::size_t resident) {
    constexpr int kRows = 140;
    constexpr int kDim = 136;  // two chunks of int8
    const std::vector<float> rows = numbers(kRows * kDim);
    const DenseCorpus corpus(0, {rows.data(), false, kRows, kDim, 1}, format, resident, 1 << 20);
    DenseOptions options;
    options.k = 4;
    options.min_score = -std::numeric_limits<double>::infinity();
    options.family = family;
    options.capacity = 100;
    options.workspace_bytes = 1 << 20;
    const auto n = static_cast<std::size_t>(n_queries);
    std::vector<double> scores(n * 4);
    std::vector<std::int64_t> found(n * 4);
    std::vector<int> counts(n);
    Did did;
    corpus.search(rows.data(), false, n_queries, options, {scores.data(), found.data(), counts.data()}, did);
    std::printf("dense %s %s %d: %d hits\n", did.format.c_str(), family, n_queries, counts[0]);
}

void bm25() {
    const std::vector<std::int64_t> starts = {0, 60, 90, 91};
    std::vector<std::uint32_t> docs;
    for (std::uint32_t d = 0; d < 60; ++d) docs.push_back(d);
    for (std::uint32_t d = 0; d < 30; ++d) docs.push_back(2 * d);
    docs.push_back(63);
    const std::vector<std::uint32_t> tfs(docs.size(), 2);
    const std::vector<double> constants(64, 1.1);
    const Bm25Corpus corpus(0, {{starts, docs, tfs, constants, 0}}, {0, 1.2, 0.5, false, false}, 48);
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
        0, {rows.data(), false, 70, 9, rows.data(), false, nullptr, 1, &selected, 3, 0.5, false});
    std::printf("mmr: %d first\n", picks.picks[0]);
}

}  // namespace

int main() {
    dense(Format::int8, "mma", 2, 0);
    dense(Format::bf16, "mma", 40, 0);
    dense(Format::int8, "wgmma", 65, 0);
    dense(Format::int8, "mma", 1, 1);
    bm25();
    mmr();
    return 0;
}
