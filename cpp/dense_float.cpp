#include "dense_float.hpp"

#include <algorithm>
#include <cmath>

#include "dense_batch.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kChunk = 4096;  // rows that one thread takes at a time
constexpr std::size_t kBlock = kPanelRows;
constexpr std::size_t kGroup = 64;                     // queries that share a pass over the rows
constexpr std::size_t kHeld = std::size_t{256} << 20;  // bytes of candidates
constexpr std::size_t kSettled = 16;                   // rows scored at a time
constexpr double kLeastSquare = 1e-24;                 // of norms that have bounds
constexpr double kMostSquare = 1e36;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// E of the header, a little more for its own rounding to float32.
double error_of(std::size_t dim) {
    return 1.0101 * (static_cast<double>(dim) / 4 + 28) * std::ldexp(1.0, -24);
}

bool bounded(double square) { return square >= kLeastSquare && square <= kMostSquare; }

// What rows of a block contribute: bounds are s * factor * query.factor + base + query.base, plus and minus
// magnitude * query.slope + query.fixed.
struct BlockRows {
    float factor[kBlock];
    float base[kBlock];
    float magnitude[kBlock];
};

struct QueryTerms {
    float factor = 1.0F;
    float base = 0.0F;
    float slope = 0.0F;
    float fixed = 0.0F;
};

void fill(Metric metric, const double* squares, std::size_t n, BlockRows& block) {
    for (std::size_t r = 0; r < n; ++r) {
        const double square = squares[r];
        const double norm = std::sqrt(square);
        const bool zero = square == 0.0;
        block.base[r] = 0.0F;
        block.factor[r] = 1.0F;
        block.magnitude[r] = static_cast<float>(norm);
        if (metric == Metric::cosine) {
            block.factor[r] = zero ? 0.0F : static_cast<float>(1.0 / norm);
            block.magnitude[r] = 1.0F;
        } else if (metric == Metric::l2) {
            block.factor[r] = 2.0F;
            block.base[r] = static_cast<float>(-square);
            block.magnitude[r] = static_cast<float>(square);
        }
        if (!zero && !bounded(square)) {
            block.factor[r] = block.base[r] = 0.0F;
            block.magnitude[r] = kInfinity;
        }
    }
}

QueryTerms terms_of(Metric metric, double square, std::size_t dim) {
    const double error = error_of(dim);
    QueryTerms terms;
    if (metric == Metric::cosine) {
        terms.factor = static_cast<float>(1.0 / std::sqrt(square));
        terms.slope = static_cast<float>(error);
    } else if (metric == Metric::ip) {
        terms.slope = static_cast<float>(error * std::sqrt(square));
    } else {
        terms.base = static_cast<float>(-square);
        terms.slope = static_cast<float>(error);
        terms.fixed = static_cast<float>(error * square);
    }
    return terms;
}

struct Search {
    Matrix rows;
    const double* squares;
    Matrix queries;  // those of the group
    Metric metric;
    const DenseWanted& wanted;
    const Kernels& kernels;
    std::vector<QueryTerms> terms;
};

struct Worker {
    std::vector<Candidates> found;
    Selection selection{};
};

void take_block(const BlockRows& block, const QueryTerms& terms, const float* sums, std::size_t n,
                std::uint64_t allowed, std::size_t first, Worker& worker, Candidates& found) {
    float low[kBlock];
    float high[kBlock];
    for (std::size_t r = 0; r < n; ++r) {
        const float middle = sums[r] * block.factor[r] * terms.factor + (block.base[r] + terms.base);
        const float width = block.magnitude[r] * terms.slope + terms.fixed;
        low[r] = middle - width;
        high[r] = middle + width;
    }
    std::size_t taken = 0;
    const float threshold = found.threshold();
    for (std::size_t r = 0; r < n; ++r) {
        if (high[r] < threshold || ((allowed >> r) & 1) == 0) continue;
        found.lower_end()[taken] = low[r] > -kInfinity ? low[r] : -kInfinity;  // also for what is no number
        found.upper_end()[taken] = high[r] < kInfinity ? high[r] : kInfinity;
        found.rows_end()[taken] = static_cast<std::uint32_t>(first + r);
        ++taken;
    }
    found.grow(taken, worker.selection);
}

void scan_chunk(const Search& search, std::size_t first, Worker& worker) {
    const std::size_t n = search.queries.rows;
    const std::size_t dim = search.rows.dim;
    const std::size_t last = std::min(first + kChunk, search.rows.rows);
    std::vector<float> sums(n * kBlock);
    BlockRows block;
    for (std::size_t row = first; row < last; row += kBlock) {
        const std::size_t count = std::min(kBlock, last - row);
        const std::uint64_t allowed = search.wanted.word(row / kBlock, search.rows.rows);
        if (allowed == 0) continue;
        fill(search.metric, search.squares + row, count, block);
        search.kernels.dense_float(search.queries.data, n, search.rows.data + row * dim, count, dim,
                                   sums.data(), kBlock);
        for (std::size_t q = 0; q < n; ++q)
            if (!worker.found[q].gave_up())
                take_block(block, search.terms[q], &sums[q * kBlock], count, allowed, row, worker,
                           worker.found[q]);
    }
}

// The canonical scores of what is left of query q; the best k that reach min_score, best first.
std::vector<Hit> settle_rows(const Search& search, std::size_t q, double square, std::size_t k,
                             std::vector<std::uint32_t> rows) {
    std::sort(rows.begin(), rows.end());  // threads took chunks in turn
    const std::size_t dim = search.rows.dim;
    const float* const raw = search.queries.data + q * dim;
    const std::vector<double> query(raw, raw + dim);
    DenseDot* const kernel = search.metric == Metric::l2 ? search.kernels.dense_l2 : search.kernels.dense_dot;
    TopK best(k);
    best.raise(search.wanted.min_score);
    double scores[kSettled];
    double squares[kSettled];
    const std::span<const std::uint32_t> all(rows);
    for (std::size_t first = 0; first < all.size(); first += kSettled) {
        const auto part = all.subspan(first, std::min(kSettled, all.size() - first));
        const std::size_t next = first + part.size();
        prefetch_rows(search.rows, all.subspan(next, std::min(kSettled, all.size() - next)));
        kernel(query.data(), search.rows.data, part.data(), part.size(), dim, dim, scores);
        for (std::size_t i = 0; i < part.size(); ++i) squares[i] = search.squares[part[i]];
        finish_scores(search.metric, square, squares, part.size(), search.kernels, scores);
        for (std::size_t i = 0; i < part.size(); ++i) {
            if (scores[i] != scores[i]) throw_not_a_number();
            best.push({scores[i], part[i]});
        }
    }
    return best.take();
}

// One group of queries that have bounds. Says which gave up.
std::vector<std::uint8_t> search_group(const Search& search, const double* query_squares, std::size_t k,
                                       std::size_t threads, std::vector<Hit>* results, DenseStats& stats) {
    const std::size_t n = search.queries.rows;
    const std::size_t chunks = (search.rows.rows + kChunk - 1) / kChunk;
    const std::size_t workers = std::min(thread_count(threads), chunks);
    const std::size_t most =
        std::max(k > search.rows.rows / 16 ? search.rows.rows : 8 * k + 1024, search.rows.rows / 8);
    Worker first;
    first.selection.kernels = &search.kernels;
    first.found.assign(n, Candidates(k, most, float_below(search.wanted.min_score)));
    std::vector<Worker> parts(workers, first);
    parallel_for(workers, chunks, [&](std::size_t worker, std::size_t chunk) {
        scan_chunk(search, chunk * kChunk, parts[worker]);
    });
    std::vector<std::uint8_t> plain(n, 0);
    std::vector<std::vector<std::uint32_t>> rows(n);
    for (std::size_t q = 0; q < n; ++q) {
        Candidates& all = parts[0].found[q];
        for (std::size_t worker = 1; worker < workers; ++worker) all.append(parts[worker].found[q]);
        stats.screened += search.rows.rows;
        plain[q] = all.gave_up() ? 1 : 0;
        if (plain[q] != 0) continue;
        if (all.size() >= k) all.raise(parts[0].selection.kth_greatest(all.lower(), all.size(), k));
        all.drop();
        for (std::size_t i = 0; i < all.size(); ++i)
            stats.slack = std::max(stats.slack, static_cast<double>(all.upper()[i] - all.lower()[i]) / 2);
        rows[q].assign(all.rows(), all.rows() + all.size());
        stats.candidates += all.size();
        stats.settled += all.size();
    }
    parallel_for(workers, n, [&](std::size_t, std::size_t q) {
        if (plain[q] == 0) results[q] = settle_rows(search, q, query_squares[q], k, std::move(rows[q]));
    });
    return plain;
}

}  // namespace

std::vector<std::vector<Hit>> float_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric,
                                          const DenseWanted& wanted, std::size_t threads,
                                          const Kernels& kernels, DenseStats& stats) {
    const std::size_t k = std::min(wanted.k, rows.rows);
    std::vector<std::vector<Hit>> results(queries.rows);
    if (k == 0) return results;
    const std::size_t affordable = std::max<std::size_t>(1, kHeld / (4 * k * 12 * thread_count(threads)));
    const std::size_t group = std::min(kGroup, affordable);
    std::vector<std::size_t> plain;
    for (std::size_t first = 0; first < queries.rows; first += group) {
        const std::size_t n = std::min(group, queries.rows - first);
        const Matrix part{queries.data + first * queries.dim, n, queries.dim};
        Search search{rows, squares, part, metric, wanted, kernels, {}};
        bool all_bounded = queries.dim <= kScreenDims;
        for (std::size_t q = 0; q < n; ++q) {
            all_bounded = all_bounded && bounded(query_squares[first + q]);
            search.terms.push_back(terms_of(metric, query_squares[first + q], queries.dim));
        }
        // One query without bounds is rare: its group goes the plain way.
        std::vector<std::uint8_t> left(n, 1);
        if (all_bounded)
            left = search_group(search, query_squares + first, k, threads, &results[first], stats);
        for (std::size_t q = 0; q < n; ++q)
            if (left[q] != 0) plain.push_back(first + q);
    }
    stats.plain += plain.size();
    scan_plainly(rows, squares, queries, query_squares, metric, wanted, threads, kernels, plain, results);
    return results;
}

}  // namespace gnomon
