// The smallest searches that pass each barrier, wait and buffer of the kernels, for sanitizers: built with
// -DGNOMON_EMULATED_THREADS each CUDA thread is one of the system's, so that ThreadSanitizer reports two that
// meet in memory without a barrier between them. Prints a line for each kind; wrong answers are other tests'
// business.
//
// races [KIND [FILE LINE]]: all kinds or one, with the barrier that stands there left out.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "../../cuda/bm25_device.hpp"
#include "../../cuda/dense.hpp"
#include "../../cuda/memory.hpp"
#include "../../cuda/mmr_device.hpp"
#include "emulator.hpp"

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
void dense(int n_rows, int n_queries, std::size_t k, std::size_t resident) {
    constexpr int kDim = 8;
    const std::vector<float> rows = numbers(static_cast<std::size_t>(n_rows) * kDim);
    const DenseCorpus corpus(0, {rows.data(), false, n_rows, kDim, 1}, Format::int8, resident, kWorkspace);
    DenseOptions options;
    options.k = k;
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

// One tile of a screen that lets every row pass. Five chunks: the three or four buffers come round.
void screen(bool bf16, int planes, Family family, int n_queries) {
    constexpr int kRows = 9;
    constexpr std::int64_t kBytes = 5 * kRowBytes;
    const auto n = static_cast<std::size_t>(n_queries);
    const std::vector<char> rows(kRows * kBytes, 1);
    const std::vector<char> queries(n * static_cast<std::size_t>(planes) * kBytes, 1);
    const std::vector<float> ones(std::max<std::size_t>(n, kRows), 1.0F);
    const std::vector<float> limits(n, -std::numeric_limits<float>::infinity());
    std::vector<std::uint32_t> found(n * kRows);
    std::vector<int> counts(n + 1);
    const Candidates candidates{found.data(), nullptr, counts.data(), kRows, counts.data() + n};
    const Stream stream;
    launch_screen(
        {rows.data(), queries.data(), kBytes, ones.data(), ones.data(), ones.data(), nullptr, nullptr, 0,
         kRows, n_queries, ones.data(), ones.data(), ones.data(), limits.data(), candidates},
        bf16, planes, family, stream);
    stream.wait();
    std::printf("screen of %d: %d rows\n", n_queries, counts[0]);
}

void bm25() {
    const std::vector<std::int64_t> starts = {0, 60, 90, 91};
    std::vector<std::uint32_t> docs;
    for (std::uint32_t d = 0; d < 60; ++d) docs.push_back(d);
    for (std::uint32_t d = 0; d < 30; ++d) docs.push_back(2 * d);
    docs.push_back(63);
    const std::vector<std::uint32_t> tfs(docs.size(), 2);
    const std::vector<double> constants(64, 1.1);
    const Bm25Corpus corpus(0, {{starts, docs, tfs, {}, constants, 64, 0}}, {0, 1.2, 0.5, false, false}, 48);
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

const std::map<std::string, std::function<void()>> kKinds = {
    {"dense", [] { dense(40, 3, 5, 0); }},
    {"streamed", [] { dense(300, 1, 4, 1); }},
    {"narrow", [] { screen(false, 2, Family::mma, 1); }},
    {"middle", [] { screen(true, 1, Family::mma, 17); }},
    {"wide", [] { screen(false, 1, Family::mma, 65); }},
    {"wgmma", [] { screen(false, 1, Family::wgmma, 65); }},
    {"wgmma_bf16", [] { screen(true, 1, Family::wgmma, 65); }},
    {"bm25", bm25},
    {"mmr", mmr},
};

}  // namespace

int main(int argc, char** argv) {
    if (argc > 3) {
        emulator::config.skip_file = argv[2];
        emulator::config.skip_line = static_cast<unsigned>(std::atoi(argv[3]));
    }
    for (const auto& [name, run] : kKinds)
        if (argc < 2 || name == argv[1]) run();
    return 0;
}
