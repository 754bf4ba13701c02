#include "dense64.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "error.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr double kRounding = 1.0 / (1 << 21);
constexpr int kMostExponent = 500;          // of l2's scale
constexpr int kPlainExponent = 1000;        // of a factor that is one normal number
constexpr float kMostNear = 1.0995116e12F;  // 2^40
constexpr std::size_t kChunk = 2048;        // rows that one thread takes at a time
constexpr std::size_t kBlock = 32;          // rows scored for one query after the other
constexpr std::size_t kGroup = 64;          // queries that share a pass over the rows
constexpr std::size_t kAhead = 8;           // rows that are asked for while as many are scored
constexpr std::size_t kHitBytes = std::size_t{256} << 20;

// frexp's exponent of the greatest magnitude; throws for a component that is not finite.
int exponent_of(const double* values, std::size_t dim, const char* what, std::size_t row) {
    double greatest = 0.0;
    bool finite = true;
    for (std::size_t d = 0; d < dim; ++d) {
        const double magnitude = std::fabs(values[d]);
        greatest = magnitude > greatest ? magnitude : greatest;
        finite = finite && magnitude <= std::numeric_limits<double>::max();
    }
    if (!finite)
        throw InvalidInput(std::string(what) + ": row " + std::to_string(row) +
                           " holds a NaN or an infinite value; remove or replace it");
    int exponent = 0;
    std::frexp(greatest, &exponent);
    return exponent;
}

void scale(const double* values, std::size_t dim, int exponent, double* out) {
    for (std::size_t d = 0; d < dim; ++d) out[d] = std::ldexp(values[d], -exponent);
}

}  // namespace

// The queries of one search.
class Dense64::Asked final : public ExactRows {
  public:
    Asked(const Dense64& index, const double* queries, std::size_t n, const DenseWanted& wanted,
          std::size_t threads, const Kernels& kernels)
        : index_(index), wanted_(wanted), threads_(threads), kernels_(kernels) {
        const std::size_t dim = index.dim_;
        values_.assign(queries, queries + n * dim);
        squares_.assign(n, 0.0);
        for (std::size_t q = 0; q < n; ++q) {
            double* const own = values_.data() + q * dim;
            const int exponent = exponent_of(own, dim, "queries", q);
            if (index.metric_ == Metric::l2) continue;
            scale(own, dim, exponent, own);
            kernels.dense_dot_64(own, own, nullptr, nullptr, 1, dim, &squares_[q]);
        }
    }

    void score(std::size_t query, std::span<const std::uint32_t> rows, double* scores) const override {
        prefetch(rows.first(std::min(kAhead, rows.size())));
        for (std::size_t first = 0; first < rows.size(); first += kAhead) {
            const auto part = rows.subspan(first, std::min(kAhead, rows.size() - first));
            const std::size_t next = first + part.size();
            prefetch(rows.subspan(next, std::min(kAhead, rows.size() - next)));
            score_some(query, part.data(), 0, part.size(), scores + first);
        }
    }

    void scan(const std::vector<std::size_t>& queries,
              std::vector<std::vector<Hit>>& results) const override {
        const std::size_t k = std::min(wanted_.k, index_.rows_);
        const std::size_t chunks = (index_.rows_ + kChunk - 1) / kChunk;
        const std::size_t workers = std::max<std::size_t>(1, std::min(thread_count(threads_), chunks));
        const std::size_t affordable =
            std::max<std::size_t>(1, kHitBytes / (2 * std::max<std::size_t>(k, 1) * sizeof(Hit) * workers));
        const std::size_t group = std::min(kGroup, affordable);
        for (std::size_t first = 0; first < queries.size(); first += group) {
            const std::span<const std::size_t> some =
                std::span(queries).subspan(first, std::min(group, queries.size() - first));
            TopK none(k);
            none.raise(wanted_.min_score);
            std::vector<std::vector<TopK>> best(workers, std::vector<TopK>(some.size(), none));
            parallel_for(workers, chunks, [&](std::size_t worker, std::size_t chunk) {
                scan_chunk(some, chunk * kChunk, best[worker]);
            });
            for (std::size_t i = 0; i < some.size(); ++i) {
                for (std::size_t worker = 1; worker < workers; ++worker) best[0][i].merge(best[worker][i]);
                results[some[i]] = best[0][i].take();
            }
        }
    }

    double coded(double score) const override {
        return index_.metric_ == Metric::l2 ? std::ldexp(score, 2 * index_.exponent_) : score;
    }

  private:
    void prefetch(std::span<const std::uint32_t> rows) const {
        for (const std::uint32_t row : rows) {
            const char* const first = reinterpret_cast<const char*>(index_.row(row));
            for (std::size_t byte = 0; byte < index_.dim_ * sizeof(double); byte += 64)
                __builtin_prefetch(first + byte);
        }
    }

    // Of the rows `ids`, or of those from `start` on where ids is null.
    void score_some(std::size_t query, const std::uint32_t* ids, std::size_t start, std::size_t n,
                    double* scores) const {
        const std::size_t dim = index_.dim_;
        const double* const own = values_.data() + query * dim;
        if (index_.metric_ == Metric::l2) {
            kernels_.dense_l2_64(own, index_.row(start), nullptr, ids, n, dim, scores);
            for (std::size_t i = 0; i < n; ++i) scores[i] = 0.0 - scores[i];
            return;
        }
        kernels_.dense_dot_64(own, index_.row(start), index_.factors_.data() + start, ids, n, dim, scores);
        double squares[kBlock];
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t row = ids != nullptr ? ids[i] : start + i;
            squares[i] = index_.squares_[row];
            if (index_.factors_[row] == 0.0) scores[i] = far_dot(own, row);
        }
        kernels_.dense_cosines(squares_[query], squares, n, scores);
    }

    // With a row whose factor is no normal number.
    double far_dot(const double* query, std::size_t row) const {
        std::vector<double> scaled(index_.dim_);
        scale(index_.row(row), index_.dim_, exponent_of(index_.row(row), index_.dim_, "vectors", row),
              scaled.data());
        double dot = 0.0;
        kernels_.dense_dot_64(query, scaled.data(), nullptr, nullptr, 1, index_.dim_, &dot);
        return dot;
    }

    void scan_chunk(std::span<const std::size_t> queries, std::size_t first, std::vector<TopK>& best) const {
        const std::size_t last = std::min(first + kChunk, index_.rows_);
        double scores[kBlock];
        for (std::size_t row = first; row < last; row += kBlock) {
            const std::size_t n = std::min(kBlock, last - row);
            for (std::size_t i = 0; i < queries.size(); ++i) {
                score_some(queries[i], nullptr, row, n, scores);
                for (std::size_t r = 0; r < n; ++r) {
                    if (scores[r] != scores[r]) throw_not_a_number();
                    best[i].push({scores[r], static_cast<std::uint32_t>(row + r)});
                }
            }
        }
    }

    const Dense64& index_;
    const DenseWanted& wanted_;
    std::size_t threads_;
    const Kernels& kernels_;
    std::vector<double> values_;   // scaled for cosine
    std::vector<double> squares_;  // cosine
};

Dense64::Dense64(const double* data, std::size_t rows, std::size_t dim, std::shared_ptr<const void> owner,
                 Metric metric, std::vector<double> centre, int exponent, bool screened, std::size_t threads,
                 const Kernels& kernels)
    : data_(data),
      rows_(rows),
      dim_(dim),
      owner_(std::move(owner)),
      metric_(metric),
      centre_(std::move(centre)),
      exponent_(exponent) {
    if (metric == Metric::ip) throw InvalidInput("metric must be 'cosine' or 'l2', got 'ip'");
    if (metric == Metric::l2 && centre_.size() != dim)
        throw InvalidInput("centre has " + std::to_string(centre_.size()) + " components, the rows have " +
                           std::to_string(dim));
    if (rows >= UINT32_MAX) throw InvalidInput("vectors: too many rows for one index; shard them");
    if (metric == Metric::cosine) {
        factors_.resize(rows);
        squares_.resize(rows);
    }
    near_squares_.resize(rows);
    // A row's factor and square, and its place in a panel.
    const auto read = [&](std::size_t number, std::vector<double>& scaled) {
        const int own = exponent_of(row(number), dim, "vectors", number);
        if (metric_ == Metric::l2) return;
        factors_[number] = std::abs(own) <= kPlainExponent ? std::ldexp(1.0, -own) : 0.0;
        scaled.resize(dim);
        for (std::size_t d = 0; d < dim; ++d)
            scaled[d] = factors_[number] != 0.0 ? row(number)[d] * factors_[number]
                                                : std::ldexp(row(number)[d], -own);
        kernels.dense_dot_64(scaled.data(), scaled.data(), nullptr, nullptr, 1, dim, &squares_[number]);
    };
    const bool bounded = metric == Metric::cosine || std::abs(exponent) <= kMostExponent;
    if (screened && bounded && rows > 0 && DenseScreen::possible(dim)) {
        const auto panel = [&](std::size_t first, std::size_t n, std::vector<float>& memory) {
            std::vector<double> scaled;
            memory.resize(kPanelRows * dim);
            for (std::size_t r = 0; r < n; ++r) {
                read(first + r, scaled);
                if (metric_ == Metric::cosine)
                    std::copy(scaled.begin(), scaled.end(),
                              memory.begin() + static_cast<std::ptrdiff_t>(r * dim));
                else
                    near(row(first + r), memory.data() + r * dim);
            }
            kernels.dense_square(memory.data(), n, dim, dim, near_squares_.data() + first);
            return static_cast<const float*>(memory.data());
        };
        screen_ = DenseScreen::build(rows, dim, panel, near_squares_.data(), metric, Rotation(), kRounding,
                                     threads, kernels);
        return;
    }
    parallel_for(thread_count(threads), (rows + kChunk - 1) / kChunk, [&](std::size_t, std::size_t chunk) {
        std::vector<double> scaled;
        for (std::size_t r = chunk * kChunk; r < std::min(rows, (chunk + 1) * kChunk); ++r) read(r, scaled);
    });
}

// The coded vector, before coding.
void Dense64::near(const double* values, float* out) const {
    if (metric_ == Metric::l2) {
        const double factor = std::ldexp(1.0, exponent_);
        for (std::size_t d = 0; d < dim_; ++d) out[d] = static_cast<float>((values[d] - centre_[d]) * factor);
        return;
    }
    for (std::size_t d = 0; d < dim_; ++d) out[d] = static_cast<float>(values[d]);
}

std::vector<std::vector<Hit>> Dense64::search(const double* queries, std::size_t n, const DenseWanted& wanted,
                                              std::size_t threads, const Kernels& kernels) const {
    const Asked asked(*this, queries, n, wanted, threads, kernels);
    std::vector<std::vector<Hit>> results(n);
    if (wanted.k == 0 || rows_ == 0) return results;
    std::vector<std::size_t> plain;
    if (screen_.empty()) {
        for (std::size_t q = 0; q < n; ++q) plain.push_back(q);
        asked.scan(plain, results);
        return results;
    }
    std::vector<float> coded(n * dim_);
    std::vector<double> scaled(dim_);
    for (std::size_t q = 0; q < n; ++q) {
        const double* values = queries + q * dim_;
        if (metric_ == Metric::cosine) {
            scale(values, dim_, exponent_of(values, dim_, "queries", q), scaled.data());
            values = scaled.data();
        }
        float* const own = coded.data() + q * dim_;
        near(values, own);
        const bool far = std::any_of(own, own + dim_, [](float x) { return !(std::fabs(x) < kMostNear); });
        if (!far) continue;
        std::fill(own, own + dim_, 0.0F);
        plain.push_back(q);
    }
    const Matrix given{coded.data(), n, dim_};
    const std::vector<double> squares = squares_of(given, threads, kernels);
    DenseStats stats;
    results = screened_top_k({nullptr, rows_, dim_}, near_squares_.data(), screen_, given, squares.data(),
                             metric_, wanted, Heads::never, threads, kernels, stats, &asked);
    asked.scan(plain, results);
    return results;
}

}  // namespace gnomon
