// Dense kernels, x86-64-v3: lanes 0-3 and 4-7 in two registers a row, four rows at a time.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx2 {

// ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))
static double reduce(__m256d low, __m256d high) noexcept {
    const __m256d sums = _mm256_add_pd(low, high);
    const __m128d pairs = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pairs, _mm_unpackhi_pd(pairs, pairs)));
}

struct Lanes {
    __m256d low, high;
};

static Lanes zero() noexcept { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }

static Lanes widen(const float* row) noexcept {
    return {_mm256_cvtps_pd(_mm_loadu_ps(row)), _mm256_cvtps_pd(_mm_loadu_ps(row + 4))};
}

static Lanes load(const double* query) noexcept {
    return {_mm256_loadu_pd(query), _mm256_loadu_pd(query + 4)};
}

namespace {  // else its constructor is a weak symbol at -O0

// The last dim % 8 elements, padded with zeros: they add +0.0 or -0.0 to lanes that are never -0.0.
struct Tail {
    double query[8] = {};
    float row[8] = {};
    Tail(const double* q, const float* x, std::size_t n) noexcept {
        for (std::size_t l = 0; l < n; ++l) {
            if (q != nullptr) query[l] = q[l];
            row[l] = x[l];
        }
    }
};

enum Operation { kDot, kL2, kSquare };

}  // namespace

template <Operation op>
static Lanes step(Lanes sum, Lanes q, Lanes x) noexcept {
    if (op == kL2) {
        const __m256d low = _mm256_sub_pd(q.low, x.low);
        const __m256d high = _mm256_sub_pd(q.high, x.high);
        return {_mm256_add_pd(sum.low, _mm256_mul_pd(low, low)),
                _mm256_add_pd(sum.high, _mm256_mul_pd(high, high))};
    }
    if (op == kSquare) q = x;
    return {_mm256_fmadd_pd(q.low, x.low, sum.low), _mm256_fmadd_pd(q.high, x.high, sum.high)};
}

template <Operation op, int kRows>
static void block(const double* query, const float* rows, const std::uint32_t* ids, std::size_t stride,
                  std::size_t dim, double* out) noexcept {
    const float* row[kRows];
    for (std::size_t r = 0; r < kRows; ++r) row[r] = rows + (ids != nullptr ? ids[r] : r) * stride;
    Lanes sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = zero();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        const Lanes q = op == kSquare ? zero() : load(query + d);
        for (int r = 0; r < kRows; ++r) sum[r] = step<op>(sum[r], q, widen(row[r] + d));
    }
    for (int r = 0; r < kRows; ++r) {
        if (whole < dim) {
            const Tail tail(op == kSquare ? nullptr : query + whole, row[r] + whole, dim - whole);
            sum[r] = step<op>(sum[r], load(tail.query), widen(tail.row));
        }
        out[r] = reduce(sum[r].low, sum[r].high);
    }
}

template <Operation op>
static void scan(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                 std::size_t stride, std::size_t dim, double* out) noexcept {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        block<op, 4>(query, ids != nullptr ? rows : rows + i * stride, ids != nullptr ? ids + i : nullptr,
                     stride, dim, out + i);
    }
    for (; i < n; ++i)
        block<op, 1>(query, ids != nullptr ? rows : rows + i * stride, ids != nullptr ? ids + i : nullptr,
                     stride, dim, out + i);
}

void dense_dot(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
               std::size_t stride, std::size_t dim, double* out) noexcept {
    scan<kDot>(query, rows, ids, n, stride, dim, out);
}

void dense_l2(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
              std::size_t stride, std::size_t dim, double* out) noexcept {
    scan<kL2>(query, rows, ids, n, stride, dim, out);
}

void dense_square(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    scan<kSquare>(nullptr, rows, nullptr, n, stride, dim, out);
}

void dense_dot_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                    std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_dot(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

void dense_l2_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                   std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_l2(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

}  // namespace gnomon::avx2
