// A batch of coded queries on its way through the screen: what the scan, the head scan and the settling
// share.
#pragma once
#include <limits>
#include <span>
#include <vector>

#include "dense_candidates.hpp"
#include "dense_screen.hpp"

namespace gnomon {

constexpr float kNoThreshold = -std::numeric_limits<float>::infinity();

float float_above(double value);
float float_below(double value);

struct ScreenBatch {
    const DenseScreen& screen;
    const CodedQueries& queries;
    Matrix rows;
    const double* squares;
    const float* raw;  // the queries themselves, [n, dim]
    Metric metric;
    const DenseWanted& wanted;
    std::size_t k;  // at most the rows
    std::size_t threads;
    const Kernels& kernels;
    const ExactRows* exact = nullptr;      // instead of `rows`
    const std::size_t* numbers = nullptr;  // of the queries in the whole search

    std::size_t base = 0;  // panels of the rows before the screen's first

    double coded(double score) const { return exact == nullptr ? score : exact->coded(score); }
    std::size_t n() const { return queries.n; }
    // Whether float32 bounds can hold the query's magnitudes.
    bool representable(std::size_t q) const;
    // A threshold on scores as one on v.y, without the panel's share; what no query needs is infinite.
    double needed(std::size_t q, float threshold) const;
};

// Which part of the codes a scan reads.
enum class Extent { whole, head };

// A panel's share of the limits; `bare` for limits on the coded product itself instead of its upper bound.
PanelLimits panel_limits(const ScreenBatch& batch, std::size_t panel, Extent extent, bool bare);
QueryLimits query_limits(const ScreenBatch& batch, const double* needed, std::size_t first);
TakeBounds take_bounds(const ScreenBatch& batch, std::size_t q, std::size_t panel, Extent extent, bool bare);
// The first tile asks for the next panel.
ScreenShape shape_of(const ScreenBatch& batch, Extent extent, std::size_t tile);

// Of the rows in mask, whose sums are of their heads: those whose upper bound reaches the threshold, each
// with its own residual and tail.
std::uint64_t reach_by_head(const ScreenBatch& batch, std::size_t q, std::size_t panel, std::uint64_t mask,
                            const std::int32_t* sums, float threshold);
void prefetch_tails(const DenseScreen& screen, std::size_t panel, std::uint64_t mask);

// What is left of one query: rows that may be wanted, ascending, with their upper bounds.
struct Remaining {
    std::vector<std::uint32_t> rows;
    std::vector<float> upper;
};

struct Settled {
    std::vector<Hit> hits;
    std::size_t rows = 0;  // how many were scored
};

// Canonical scores of the remaining rows of each query; the best k that reach min_score, best first. Throws
// CorruptIndex where a score is not a number.
std::vector<Settled> settle(const ScreenBatch& batch, std::span<const std::size_t> queries,
                            std::vector<Remaining> remaining);

// Where rows lie: those in a cache need no prefetch.
enum class Reach { near, far };

// The canonical scores of these rows of one query.
void score_rows(const ScreenBatch& batch, std::size_t q, const double* query,
                std::span<const std::uint32_t> rows, Reach reach, double* scores);

// Searches these queries, which no bound decided, in one scan.
void scan_plainly(Matrix rows, const double* squares, Matrix queries, const double* query_squares,
                  Metric metric, const DenseWanted& wanted, std::size_t threads, const Kernels& kernels,
                  const std::vector<std::size_t>& numbers, std::vector<std::vector<Hit>>& results);

// The search by heads, for few queries (dense_head.cpp). False where the bounds left too many rows: the query
// goes on to the whole codes.
std::vector<std::uint8_t> search_heads(const ScreenBatch& batch, std::vector<std::vector<Hit>>& results,
                                       DenseStats& stats);

}  // namespace gnomon
