#include "dense.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>

#include "error.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kChunk = 4096;  // rows that one thread takes at a time
constexpr std::size_t kBlock = 128;   // rows scored per kernel call: 192 KiB at 384 dimensions, stays in L2
constexpr std::size_t kQueryGroup = 64;  // queries that share one pass over the rows, at most
constexpr std::size_t kHitBytes = std::size_t{256} << 20;  // for the hits of one group on all threads

std::size_t chunks_of(std::size_t rows) { return (rows + kChunk - 1) / kChunk; }

// Rows of one block that are wanted: ids when they are not all.
struct Block {
    std::size_t first;
    std::size_t n;  // scores of each query
    bool whole;
    std::uint32_t ids[kBlock];
};

Block block_of(const DenseWanted& wanted, std::size_t first, std::size_t last, std::size_t rows) {
    Block block{first, 0, wanted.allowed == nullptr, {}};
    if (block.whole) {
        block.n = last - first;
        return block;
    }
    for (std::size_t panel = first / 64; panel * 64 < last; ++panel)
        for (std::uint64_t word = wanted.word(panel, rows); word != 0; word &= word - 1)
            block.ids[block.n++] =
                static_cast<std::uint32_t>(panel * 64) + static_cast<std::uint32_t>(std::countr_zero(word));
    block.whole = block.n == last - first;
    return block;
}

// A group of queries that shares passes over the rows.
struct Group {
    Matrix rows;
    const double* squares;
    std::vector<double> queries;
    const double* query_squares;
    std::size_t n;
    Metric metric;
    const Kernels& kernels;
    double* fresh = nullptr;  // where squares that are not known yet are written
    std::atomic<bool>* finite = nullptr;
};

// The squares of a block's rows; says whether they are finite.
bool fresh_squares(const Group& group, std::size_t first, std::size_t last) {
    double* const squares = group.fresh + first;
    group.kernels.dense_square(group.rows.data + first * group.rows.dim, last - first, group.rows.dim,
                               group.rows.dim, squares);
    return std::all_of(squares, squares + (last - first), [](double x) { return std::isfinite(x); });
}

void score_block(const Group& group, const Block& block, double* scores) {
    const std::size_t dim = group.rows.dim;
    const bool l2 = group.metric == Metric::l2;
    if (block.whole) {
        DenseTile* const tile = l2 ? group.kernels.dense_l2_tile : group.kernels.dense_dot_tile;
        tile(group.queries.data(), group.n, group.rows.data + block.first * dim, block.n, dim, scores,
             kBlock);
        return;
    }
    DenseDot* const dot = l2 ? group.kernels.dense_l2 : group.kernels.dense_dot;
    for (std::size_t q = 0; q < group.n; ++q)
        dot(group.queries.data() + q * dim, group.rows.data, block.ids, block.n, dim, dim,
            scores + q * kBlock);
}

// As score_block for a whole block, while the rows from `next` on are on their way: memory would be idle as
// long as rows are scored that lie in a cache. So many lines are asked for as arrive meanwhile.
void score_ahead(const Group& group, const Block& block, std::size_t next, double* scores) {
    constexpr std::size_t kRows = 8;
    constexpr std::size_t kLines = 48;  // for a query's dots with as many rows, 384 dims
    const std::size_t dim = group.rows.dim;
    const char* ahead = reinterpret_cast<const char*>(group.rows.data + next * dim);
    const char* const end =
        reinterpret_cast<const char*>(group.rows.data + std::min(next + kBlock, group.rows.rows) * dim);
    DenseTile* const tile =
        group.metric == Metric::l2 ? group.kernels.dense_l2_tile : group.kernels.dense_dot_tile;
    for (std::size_t r = 0; r < block.n; r += kRows) {
        for (std::size_t line = 0; line < kLines * group.n && ahead < end; ++line, ahead += 64)
            __builtin_prefetch(ahead, 0, 2);
        tile(group.queries.data(), group.n, group.rows.data + (block.first + r) * dim,
             std::min(kRows, block.n - r), dim, scores + r, kBlock);
    }
}

// Dots to scores, and those that reach the threshold to the query's collection. A cosine takes a root and a
// division; a dot that is below the threshold by more than their rounding (some 2^-52, here 1e-12) needs
// neither. What is no number passes every comparison and is found.
void keep_scores(const Group& group, const Block& block, std::size_t q, const double* squares,
                 const double* roots, double* scores, TopK& best) {
    const bool every = best.threshold() == -std::numeric_limits<double>::infinity();
    if (every) finish_scores(group.metric, group.query_squares[q], squares, block.n, group.kernels, scores);
    if (every && best.room() >= block.n) {  // no threshold will rise within the block
        for (std::size_t i = 0; i < block.n; ++i) {
            if (scores[i] != scores[i]) throw_not_a_number();
            best.add({scores[i], block.whole ? static_cast<std::uint32_t>(block.first + i) : block.ids[i]});
        }
        best.cut_if_full();
        return;
    }
    const bool cosine = group.metric == Metric::cosine && !every;
    if (group.metric != Metric::cosine && !every)
        finish_scores(group.metric, 0.0, nullptr, block.n, group.kernels, scores);
    const double root = std::sqrt(group.query_squares[q]);
    double bar = best.threshold() * root;
    bar -= std::fabs(bar) * 1e-12;
    for (std::size_t i = 0; i < block.n; ++i) {
        if (scores[i] < (cosine ? bar * roots[i] : best.threshold())) continue;
        double score = scores[i];
        if (cosine)
            finish_scores(group.metric, group.query_squares[q], squares + i, 1, group.kernels, &score);
        if (score != score) throw_not_a_number();
        best.push({score, block.whole ? static_cast<std::uint32_t>(block.first + i) : block.ids[i]});
        if (cosine) {
            bar = best.threshold() * root;
            bar -= std::fabs(bar) * 1e-12;
        }
    }
}

// One chunk of rows against a group of queries; hits go to this worker's collections.
void scan_chunk(const Group& group, const DenseWanted& wanted, std::size_t first, TopK* best) {
    const std::size_t last = std::min(first + kChunk, group.rows.rows);
    std::vector<double> scores(kBlock * group.n);
    double squares[kBlock];
    double roots[kBlock];
    for (std::size_t row = first; row < last; row += kBlock) {
        const std::size_t end = std::min(row + kBlock, last);
        if (group.fresh != nullptr && !fresh_squares(group, row, end)) {
            group.finite->store(false);
            return;
        }
        const Block block = block_of(wanted, row, end, group.rows.rows);
        if (block.n == 0) continue;
        if (group.fresh != nullptr && block.whole)
            score_ahead(group, block, end, scores.data());
        else
            score_block(group, block, scores.data());
        for (std::size_t i = 0; i < block.n; ++i) {
            squares[i] = group.squares[block.whole ? row + i : block.ids[i]];
            roots[i] = std::sqrt(squares[i]);
        }
        for (std::size_t q = 0; q < group.n; ++q)
            keep_scores(group, block, q, squares, roots, scores.data() + q * kBlock, best[q]);
    }
}

}  // namespace

void finish_scores(Metric metric, double query_square, const double* squares, std::size_t n,
                   const Kernels& kernels, double* scores) {
    if (metric == Metric::cosine) kernels.dense_cosines(query_square, squares, n, scores);
    if (metric != Metric::l2) return;
    for (std::size_t i = 0; i < n; ++i) scores[i] = 0.0 - scores[i];
}

void throw_not_a_number() {
    throw CorruptIndex(
        "dense: a score is not a number: the vectors are damaged, or were written to during the search; "
        "build the index again");
}

std::vector<double> squares_of(Matrix matrix, std::size_t threads, const Kernels& kernels) {
    std::vector<double> squares(matrix.rows);
    const std::size_t chunks = chunks_of(matrix.rows);
    parallel_for(thread_count(threads), chunks, [&](std::size_t, std::size_t chunk) {
        const std::size_t first = chunk * kChunk;
        const std::size_t n = std::min(kChunk, matrix.rows - first);
        kernels.dense_square(matrix.data + first * matrix.dim, n, matrix.dim, matrix.dim,
                             squares.data() + first);
    });
    return squares;
}

Metric metric_named(std::string_view name) {
    for (const Metric metric : {Metric::cosine, Metric::ip, Metric::l2})
        if (metric_name(metric) == name) return metric;
    throw InvalidInput("metric must be 'cosine', 'ip' or 'l2', got '" + std::string(name) + "'");
}

std::string_view metric_name(Metric metric) {
    return metric == Metric::cosine ? "cosine" : metric == Metric::ip ? "ip" : "l2";
}

std::vector<double> checked_squares(Matrix matrix, const char* what, Metric metric, OnZero on_zero,
                                    std::size_t threads, const Kernels& kernels) {
    if (matrix.rows >= UINT32_MAX)
        throw InvalidInput(std::string(what) + " has " + std::to_string(matrix.rows) +
                           " rows; at most 4,294,967,294 fit one index, so shard it");
    std::vector<double> squares = squares_of(matrix, threads, kernels);
    check_squares(squares, what, metric, on_zero);
    return squares;
}

void check_squares(std::span<const double> squares, const char* what, Metric metric, OnZero on_zero) {
    for (std::size_t row = 0; row < squares.size(); ++row) {
        if (!std::isfinite(squares[row]))
            throw InvalidInput(std::string(what) + ": row " + std::to_string(row) +
                               " holds a NaN or a value that is infinite as float32; remove or replace it");
        if (on_zero == OnZero::refuse && metric == Metric::cosine && squares[row] == 0.0)
            throw InvalidInput(
                std::string(what) + ": row " + std::to_string(row) +
                " is a zero vector, which has no direction; remove it or pass on_zero=\"zero\"");
    }
}

namespace {

std::vector<std::vector<Hit>> top_k(Matrix rows, const double* squares, double* fresh,
                                    std::atomic<bool>* finite, Matrix queries, const double* query_squares,
                                    Metric metric, const DenseWanted& wanted, std::size_t threads,
                                    const Kernels& kernels) {
    if (rows.dim != queries.dim)
        throw InvalidInput("queries have " + std::to_string(queries.dim) +
                           " dimensions but the vectors have " + std::to_string(rows.dim));
    const std::size_t k = std::min(wanted.k, rows.rows);
    std::vector<std::vector<Hit>> results(queries.rows);
    const std::size_t chunks = chunks_of(rows.rows);
    if (k == 0 || chunks == 0) return results;
    const std::size_t workers = std::min(thread_count(threads), chunks);
    const std::size_t affordable = std::max<std::size_t>(1, kHitBytes / (2 * k * sizeof(Hit) * workers));
    const std::size_t most = std::min({kQueryGroup, affordable, queries.rows});
    for (std::size_t first = 0; first < queries.rows; first += most) {
        const std::size_t n = std::min(most, queries.rows - first);
        const float* const part = queries.data + first * queries.dim;
        const Group group{rows,
                          squares,
                          {part, part + n * queries.dim},
                          query_squares + first,
                          n,
                          metric,
                          kernels,
                          first == 0 ? fresh : nullptr,
                          finite};
        TopK none(k);
        none.raise(wanted.min_score);
        std::vector<std::vector<TopK>> best(workers, std::vector<TopK>(n, none));
        parallel_for(workers, chunks, [&](std::size_t worker, std::size_t chunk) {
            scan_chunk(group, wanted, chunk * kChunk, best[worker].data());
        });
        if (finite != nullptr && !finite->load()) return {};
        parallel_for(workers, n, [&](std::size_t, std::size_t q) {
            for (std::size_t worker = 1; worker < workers; ++worker) best[0][q].merge(best[worker][q]);
            results[first + q] = best[0][q].take();
        });
    }
    return results;
}

}  // namespace

bool dense_top_k_once(Matrix rows, double* squares, Matrix queries, const double* query_squares,
                      Metric metric, const DenseWanted& wanted, std::size_t threads, const Kernels& kernels,
                      std::vector<std::vector<Hit>>& results) {
    std::atomic<bool> finite{true};
    results =
        top_k(rows, squares, squares, &finite, queries, query_squares, metric, wanted, threads, kernels);
    return finite.load();
}

std::vector<std::vector<Hit>> dense_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric,
                                          const DenseWanted& wanted, std::size_t threads,
                                          const Kernels& kernels) {
    return top_k(rows, squares, nullptr, nullptr, queries, query_squares, metric, wanted, threads, kernels);
}

}  // namespace gnomon
