#include "dense.hpp"

#include <algorithm>
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

// One chunk of rows against a group of queries; hits go to this worker's collections.
void scan_chunk(Matrix rows, const double* squares, const double* queries, const double* query_squares,
                std::size_t n_queries, Metric metric, std::size_t first, const Kernels& kernels, TopK* best) {
    DenseDot* const kernel = metric == Metric::l2 ? kernels.dense_l2 : kernels.dense_dot;
    const std::size_t last = std::min(first + kChunk, rows.rows);
    double scores[kBlock];
    for (std::size_t row = first; row < last; row += kBlock) {
        const std::size_t n = std::min(kBlock, last - row);
        for (std::size_t q = 0; q < n_queries; ++q) {
            kernel(queries + q * rows.dim, rows.data + row * rows.dim, nullptr, n, rows.dim, rows.dim,
                   scores);
            finish_scores(metric, query_squares[q], squares + row, n, scores);
            for (std::size_t i = 0; i < n; ++i)
                if (scores[i] >= best[q].threshold())
                    best[q].push({scores[i], static_cast<std::uint32_t>(row + i)});
        }
    }
}

}  // namespace

void finish_scores(Metric metric, double query_square, const double* squares, std::size_t n, double* scores) {
    if (metric == Metric::l2) {
        for (std::size_t i = 0; i < n; ++i) scores[i] = 0.0 - scores[i];
        return;
    }
    if (metric == Metric::ip) return;
    for (std::size_t i = 0; i < n; ++i) {
        const double norms = std::sqrt(query_square * squares[i]);
        const double cosine = norms > 0.0 ? scores[i] / norms : 0.0;
        scores[i] = std::min(1.0, std::max(-1.0, cosine));
    }
}

void require_hits(const std::vector<Hit>& hits, std::size_t k) {
    if (hits.size() != k)
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
    for (std::size_t row = 0; row < matrix.rows; ++row) {
        if (!std::isfinite(squares[row]))
            throw InvalidInput(std::string(what) + ": row " + std::to_string(row) +
                               " holds a NaN or a value that is infinite as float32; remove or replace it");
        if (on_zero == OnZero::refuse && metric == Metric::cosine && squares[row] == 0.0)
            throw InvalidInput(
                std::string(what) + ": row " + std::to_string(row) +
                " is a zero vector, which has no direction; remove it or pass on_zero=\"zero\"");
    }
    return squares;
}

std::vector<std::vector<Hit>> dense_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric, std::size_t k,
                                          std::size_t threads, const Kernels& kernels) {
    if (rows.dim != queries.dim)
        throw InvalidInput("queries have " + std::to_string(queries.dim) +
                           " dimensions but the vectors have " + std::to_string(rows.dim));
    k = std::min(k, rows.rows);
    std::vector<std::vector<Hit>> results(queries.rows);
    const std::size_t chunks = chunks_of(rows.rows);
    if (k == 0 || chunks == 0) return results;
    const std::size_t workers = std::min(thread_count(threads), chunks);
    const std::size_t affordable = std::max<std::size_t>(1, kHitBytes / (2 * k * sizeof(Hit) * workers));
    const std::size_t group = std::min({kQueryGroup, affordable, queries.rows});
    std::vector<double> wide(group * queries.dim);
    for (std::size_t first = 0; first < queries.rows; first += group) {
        const std::size_t n = std::min(group, queries.rows - first);
        std::copy_n(queries.data + first * queries.dim, n * queries.dim, wide.begin());
        std::vector<std::vector<TopK>> best(workers, std::vector<TopK>(n, TopK(k)));
        parallel_for(workers, chunks, [&](std::size_t worker, std::size_t chunk) {
            scan_chunk(rows, squares, wide.data(), query_squares + first, n, metric, chunk * kChunk, kernels,
                       best[worker].data());
        });
        for (std::size_t q = 0; q < n; ++q) {
            for (std::size_t worker = 1; worker < workers; ++worker) best[0][q].merge(best[worker][q]);
            results[first + q] = best[0][q].take();
            require_hits(results[first + q], k);
        }
    }
    return results;
}

}  // namespace gnomon
