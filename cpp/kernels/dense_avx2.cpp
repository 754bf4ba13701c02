// Dense kernels, x86-64-v3: lanes 0-3 and 4-7 in two registers a row, four rows at a time.
#include <immintrin.h>

#include "dense_common.hpp"

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
static __m256d step(__m256d sum, __m256d q, __m256d x) noexcept {
    if (op == kL2) {
        const __m256d t = _mm256_sub_pd(q, x);
        return _mm256_add_pd(sum, _mm256_mul_pd(t, t));
    }
    return _mm256_fmadd_pd(op == kSquare ? x : q, x, sum);
}

template <Operation op>
static Lanes step(Lanes sum, Lanes q, Lanes x) noexcept {
    return {step<op>(sum.low, q.low, x.low), step<op>(sum.high, q.high, x.high)};
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

// Three queries by two rows, twelve registers of lanes: a row is widened once for three queries. Lanes 0-3 of
// all come before lanes 4-7, so that one row's and three queries' values are held at a time.
template <Operation op, int kQueries, int kRows>
static void tile(const double* queries, const float* rows, std::size_t dim, double* out,
                 std::size_t out_stride) noexcept {
    __m256d sum[2][kQueries][kRows];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
#pragma GCC unroll 3
        for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r) sum[half][q][r] = _mm256_setzero_pd();
    const auto add = [&](std::size_t half, const auto& query, const auto& row) {
        __m256d value[kQueries];
#pragma GCC unroll 3
        for (std::size_t q = 0; q < kQueries; ++q) {
            value[q] = _mm256_loadu_pd(query(q));
            asm("" : "+x"(value[q]));  // else GCC loads it for each row: 13 products a nanosecond, not 17
        }
#pragma GCC unroll 2
        for (std::size_t r = 0; r < kRows; ++r) {
            const __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(row(r)));
#pragma GCC unroll 3
            for (std::size_t q = 0; q < kQueries; ++q)
                sum[half][q][r] = step<op>(sum[half][q][r], value[q], x);
        }
    };
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
#pragma GCC unroll 2
        for (std::size_t half = 0; half < 2; ++half)
            add(
                half, [&](std::size_t q) { return queries + q * dim + d + half * 4; },
                [&](std::size_t r) { return rows + r * dim + d + half * 4; });
    }
    if (whole < dim) {
        double query[kQueries][8] = {};
        float row[kRows][8] = {};
        for (std::size_t d = whole; d < dim; ++d) {
            for (std::size_t q = 0; q < kQueries; ++q) query[q][d - whole] = queries[q * dim + d];
            for (std::size_t r = 0; r < kRows; ++r) row[r][d - whole] = rows[r * dim + d];
        }
#pragma GCC unroll 2
        for (std::size_t half = 0; half < 2; ++half)
            add(
                half, [&](std::size_t q) { return query[q] + half * 4; },
                [&](std::size_t r) { return row[r] + half * 4; });
    }
#pragma GCC unroll 3
    for (std::size_t q = 0; q < kQueries; ++q)
#pragma GCC unroll 2
        for (std::size_t r = 0; r < kRows; ++r) out[q * out_stride + r] = reduce(sum[0][q][r], sum[1][q][r]);
}

template <Operation op>
static void tiles(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                  std::size_t dim, double* out, std::size_t out_stride) noexcept {
    std::size_t q = 0;
    for (; q + 3 <= n_queries; q += 3) {
        std::size_t r = 0;
        for (; r + 2 <= n_rows; r += 2)
            tile<op, 3, 2>(queries + q * dim, rows + r * dim, dim, out + q * out_stride + r, out_stride);
        if (r < n_rows)
            tile<op, 3, 1>(queries + q * dim, rows + r * dim, dim, out + q * out_stride + r, out_stride);
    }
    for (; q < n_queries; ++q)
        scan<op>(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

void dense_cosines(double query_square, const double* squares, std::size_t n, double* scores) noexcept {
    common::cosines(query_square, squares, n, scores);
}

void dense_dot_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                    std::size_t dim, double* out, std::size_t out_stride) noexcept {
    tiles<kDot>(queries, n_queries, rows, n_rows, dim, out, out_stride);
}

void dense_l2_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                   std::size_t dim, double* out, std::size_t out_stride) noexcept {
    tiles<kL2>(queries, n_queries, rows, n_rows, dim, out, out_stride);
}

static float sum_of(__m256 lanes) noexcept {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Three queries by four rows in float32.
template <int kQueries, int kRows>
static void float_tile(const float* queries, const float* rows, std::size_t dim, float* out,
                       std::size_t out_stride) noexcept {
    __m256 sum[kQueries][kRows];
#pragma GCC unroll 3
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[q][r] = _mm256_setzero_ps();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        __m256 value[kQueries];
#pragma GCC unroll 3
        for (std::size_t q = 0; q < kQueries; ++q) {
            value[q] = _mm256_loadu_ps(queries + q * dim + d);
            asm("" : "+x"(value[q]));
        }
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) {
            const __m256 x = _mm256_loadu_ps(rows + r * dim + d);
#pragma GCC unroll 3
            for (std::size_t q = 0; q < kQueries; ++q) sum[q][r] = _mm256_fmadd_ps(value[q], x, sum[q][r]);
        }
    }
    for (std::size_t q = 0; q < kQueries; ++q)
        for (std::size_t r = 0; r < kRows; ++r) {
            float rest = 0.0F;
            for (std::size_t d = whole; d < dim; ++d) rest += queries[q * dim + d] * rows[r * dim + d];
            out[q * out_stride + r] = sum_of(sum[q][r]) + rest;
        }
}

namespace {

struct FloatTile {
    static constexpr int kQueries = 3;
    static constexpr int kRows = 4;
    template <int kSome, int kOf>
    static void run(const float* queries, const float* rows, std::size_t dim, float* out,
                    std::size_t out_stride) noexcept {
        float_tile<kSome, kOf>(queries, rows, dim, out, out_stride);
    }
};

}  // namespace

void dense_float(const float* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                 std::size_t dim, float* out, std::size_t out_stride) noexcept {
    common::walk<FloatTile>(queries, n_queries, rows, n_rows, dim, out, out_stride);
}

void dense_dot_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                  std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<false>(query, rows, factors, ids, n, dim, out);
}

void dense_l2_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                 std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<true>(query, rows, factors, ids, n, dim, out);
}

}  // namespace gnomon::avx2
