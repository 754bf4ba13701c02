// Every kernel over the smallest arrays that pass each of its barriers and buffers, without the drivers: for
// ThreadSanitizer. Built with -DGNOMON_EMULATED_THREADS each CUDA thread is one of the system's, so that two
// that meet in memory without a barrier between them are reported. Prints a line for each kind; wrong answers
// are other tests' business.
//
// races [KIND [FILE LINE]]: all kinds or one, with the barrier that stands there left out.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "../../cuda/memory.hpp"
#include "emulator.hpp"

using namespace gnomon::cuda;

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> numbers(std::size_t n) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<T> values(n);
    for (T& one : values) one = static_cast<T>(normal(random));
    return values;
}

// The lists of a query's best, and its candidates.
struct Hits {
    Hits(int queries, int k_, int capacity)
        : n(queries),
          k(k_),
          scores(numbers<double>(size(k_))),
          rows(size(k_)),
          counts(size(1), k_),
          taus(size(1), kNone),
          found(size(capacity)),
          found_scores(numbers<double>(size(capacity))),
          found_counts(size(1) + 2, 0) {
        candidates = {found.data(), found_scores.data(), found_counts.data(), capacity,
                      found_counts.data() + queries};
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
    }
    std::size_t size(int each) const { return static_cast<std::size_t>(n) * static_cast<std::size_t>(each); }
    Best best() { return {scores.data(), rows.data(), counts.data(), taus.data()}; }

    int n, k;
    std::vector<double> scores;
    std::vector<std::uint32_t> rows;
    std::vector<int> counts;
    std::vector<double> taus;
    std::vector<std::uint32_t> found;
    std::vector<double> found_scores;
    std::vector<int> found_counts;
    Candidates candidates{};
};

// One tile of a screen that lets every row pass. Five chunks: the three or four buffers come round.
void screen(bool bf16, int planes, Family family, int n_queries) {
    constexpr int kRows = 9;
    constexpr std::int64_t kBytes = 5 * kRowBytes;
    const auto n = static_cast<std::size_t>(n_queries);
    const std::vector<char> rows(kRows * kBytes, 1);
    const std::vector<char> queries(n * static_cast<std::size_t>(planes) * kBytes, 1);
    const std::vector<float> ones(std::max<std::size_t>(n, kRows), 1.0F);
    const std::vector<float> limits(n, -std::numeric_limits<float>::infinity());
    Hits hits(n_queries, 1, kRows);
    const Stream stream;
    launch_screen(
        {rows.data(), queries.data(), kBytes, ones.data(), ones.data(), ones.data(), nullptr, nullptr, 0,
         kRows, n_queries, ones.data(), ones.data(), ones.data(), limits.data(), hits.candidates},
        bf16, planes, family, stream);
    stream.wait();
    std::printf("screen of %d: %d rows\n", n_queries, hits.found_counts[0]);
}

// Codes, settling, and lists of the best that overflow.
void topk() {
    constexpr int kRows = 20;
    constexpr int kDim = 9;
    constexpr int kQueries = 3;
    constexpr int kBest = 5;
    const std::vector<float> rows = numbers<float>(kRows * kDim);
    std::vector<double> squares(kRows);
    std::vector<double> norms(kQueries);
    std::vector<char> codes(kRows * kRowBytes);
    std::vector<float> sides(4 * kRows);
    std::vector<float> limits(kQueries);
    unsigned greatest = 0;
    unsigned long long flags[2] = {~0ULL, ~0ULL};
    Hits hits(kQueries, kBest, kRows);
    Hits after(kQueries, kBest, kRows);
    std::vector<std::int64_t> rows64(kQueries * kBest);
    int not_a_number = 0;
    for (int q = 0; q < kQueries; ++q) hits.found_counts[static_cast<std::size_t>(q)] = kRows;
    for (std::size_t i = 0; i < hits.found.size(); ++i) hits.found[i] = static_cast<std::uint32_t>(i % kRows);
    const Stream stream;
    launch_squares(rows.data(), kRows, kDim, 0, squares.data(), flags, flags + 1, stream);
    float* const side = sides.data();
    launch_code_rows(rows.data(), kRows, kDim, true, false,
                     {codes.data(), kRowBytes, squares.data(), side, side + kRows, side + 2 * kRows,
                      side + 3 * kRows, &greatest},
                     stream);
    launch_code_queries(
        rows.data(), kQueries, kDim, true, false, 2,
        {codes.data(), kRowBytes, squares.data(), side, side + kRows, side + 2 * kRows, norms.data()},
        stream);
    const LimitRule rule{kCosine, false, squares.data(), norms.data(), &greatest};
    launch_limits(rule, kQueries, hits.taus.data(), limits.data(), stream);
    launch_settle({rows.data(), squares.data(), 0, rows.data(), squares.data(), kDim, kCosine, kQueries,
                   hits.candidates},
                  stream);
    launch_merge({kQueries, kBest, kNone, hits.candidates, hits.best(), after.best(), &not_a_number}, rule,
                 limits.data(), stream);
    launch_sort(after.best(), kQueries, kBest, nullptr, stream);
    launch_rows64(after.best(), kQueries, kBest, rows64.data(), stream);
    stream.wait();
    std::printf("topk: %d of %d\n", after.counts[0], static_cast<int>(rows64[0]));
}

void bm25() {
    constexpr int kDocs = 64;
    constexpr int kRange = 48;
    const std::vector<std::int64_t> starts = {0, 60, 90, 91};
    std::vector<std::uint32_t> docs;
    for (std::uint32_t d = 0; d < 60; ++d) docs.push_back(d);
    for (std::uint32_t d = 0; d < 30; ++d) docs.push_back(2 * d);
    docs.push_back(63);
    const std::vector<std::uint32_t> tfs(docs.size(), 2);
    const std::vector<double> constants(kDocs, 1.1);
    std::vector<float> impacts(docs.size());
    std::vector<float> ends(6);
    std::vector<std::int64_t> cuts(9);
    const std::vector<int> query_starts = {0, 2, 3};
    const std::vector<int> slots = {0, 1, 2};
    const std::vector<double> ones(3, 1.0);
    const std::vector<double> zeros(3, 0.0);
    const std::vector<float> scaled(3, 0.4F);
    const Bm25Rule rule{0, 1.2, 0.5, false, false};
    const Bm25Lists lists{docs.data(), tfs.data(), nullptr, impacts.data()};
    Hits hits(2, 1, kRange);
    hits.counts.assign(2, 0);
    const Stream stream;
    launch_impacts(lists, static_cast<std::int64_t>(docs.size()), constants.data(), rule, impacts.data(),
                   stream);
    launch_impact_range(starts.data(), impacts.data(), 3, ends.data(), ends.data() + 3, stream);
    launch_cuts(docs.data(), starts.data(), slots.data(), 3, 2, kRange, cuts.data(), stream);
    const Bm25Block block{lists,
                          {query_starts.data(), slots.data(), ones.data(), zeros.data(), scaled.data(),
                           ones.data(), zeros.data(), zeros.data(), zeros.data(), zeros.data()},
                          cuts.data(),
                          nullptr,
                          0,
                          2,
                          0,
                          2,
                          kRange,
                          kDocs,
                          2,
                          1,
                          hits.best(),
                          hits.candidates};
    launch_bm25(block, stream);
    launch_bm25_settle(block, rule, constants.data(), stream);
    stream.wait();
    std::printf("bm25: %d and %d candidates\n", hits.found_counts[0], hits.found_counts[1]);
}

void mmr() {
    constexpr int kRows = 70;
    constexpr int kDim = 9;
    constexpr int kPicks = 7;
    const std::vector<float> rows = numbers<float>(kRows * kDim);
    std::vector<double> squares(kRows);
    std::vector<double> relevance(kRows);
    std::vector<double> redundancy(kRows);
    std::vector<unsigned char> taken(kRows);
    const std::vector<int> selected = {1, 2};
    const std::vector<int> starts = {0, 2};
    taken[1] = taken[2] = 1;
    std::vector<int> picks(kPicks);
    std::vector<double> scores(kPicks);
    unsigned long long flags[2] = {~0ULL, ~0ULL};
    const Stream stream;
    launch_squares(rows.data(), kRows, kDim, 0, squares.data(), flags, flags + 1, stream);
    launch_cosines(rows.data(), squares.data(), kRows, rows.data(), squares.data(), 1, kDim, relevance.data(),
                   stream);
    launch_mmr({rows.data(), squares.data(), kRows, kDim, relevance.data(), redundancy.data(), taken.data(),
                selected.data(), starts.data(), kPicks, 0.5, false, 1, picks.data(), scores.data()},
               stream);
    stream.wait();
    std::printf("mmr: %d and %d first\n", picks[0], picks[1]);
}

const std::map<std::string, std::function<void()>> kKinds = {
    {"narrow", [] { screen(false, 2, Family::mma, 1); }},
    {"middle", [] { screen(true, 1, Family::mma, 17); }},
    {"wide", [] { screen(false, 1, Family::mma, 65); }},
    {"wgmma", [] { screen(false, 1, Family::wgmma, 65); }},
    {"wgmma_bf16", [] { screen(true, 1, Family::wgmma, 65); }},
    {"topk", topk},
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
