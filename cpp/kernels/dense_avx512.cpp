// Dense kernels, x86-64-v4: the eight lanes are one register; eight rows at a time, since an FMA takes four
// cycles and two start each cycle. Loads of the last dim % 8 elements are masked to zero.
#include <immintrin.h>

#include "dense_common.hpp"

namespace gnomon::avx512 {

// ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)); _mm512_reduce_add_pd promises no order.
// The maskz forms, because GCC 12 warns of an uninitialised value inside its own header for the plain ones.
static double reduce(__m512d lanes) noexcept {
    const __m256d sums = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xFF, lanes, 0),
                                       _mm512_maskz_extractf64x4_pd(0xFF, lanes, 1));
    const __m128d pairs = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pairs, _mm_unpackhi_pd(pairs, pairs)));
}

// The same of eight rows' lanes at once, in a third of the instructions.
static __m512d reduce(const __m512d (&rows)[8]) noexcept {
    __m512d pairs[4];  // l0 + l4, l1 + l5, l2 + l6, l3 + l7 of two rows
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        pairs[i] = _mm512_add_pd(_mm512_maskz_shuffle_f64x2(0xFF, rows[2 * i], rows[2 * i + 1], 0x44),
                                 _mm512_maskz_shuffle_f64x2(0xFF, rows[2 * i], rows[2 * i + 1], 0xEE));
    __m512d halves[2];  // even and odd lanes' sums of four rows
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
        halves[i] = _mm512_add_pd(_mm512_maskz_shuffle_f64x2(0xFF, pairs[2 * i], pairs[2 * i + 1], 0x88),
                                  _mm512_maskz_shuffle_f64x2(0xFF, pairs[2 * i], pairs[2 * i + 1], 0xDD));
    const __m512d sums = _mm512_add_pd(_mm512_maskz_unpacklo_pd(0xFF, halves[0], halves[1]),
                                       _mm512_maskz_unpackhi_pd(0xFF, halves[0], halves[1]));
    return _mm512_maskz_permutexvar_pd(0xFF, _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), sums);
}

enum Operation { kDot, kL2, kSquare };

static __m512d widen(const float* row) noexcept { return _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(row)); }
static __m512d widen_some(__mmask8 mask, const float* row) noexcept {
    return _mm512_maskz_cvtps_pd(0xFF, _mm256_maskz_loadu_ps(mask, row));
}
template <Operation op>
static __m512d step(__m512d sum, __m512d q, __m512d x) noexcept {
    if (op == kL2) {
        const __m512d t = _mm512_sub_pd(q, x);
        return _mm512_add_pd(sum, _mm512_mul_pd(t, t));
    }
    return _mm512_fmadd_pd(op == kSquare ? x : q, x, sum);
}

namespace {

template <int n>
struct Rows {
    static constexpr int value = n;
};

}  // namespace

template <Operation op, int kRows>
static void block(const double* query, const float* rows, const std::uint32_t* ids, std::size_t stride,
                  std::size_t dim, double* out) noexcept {
    const float* row[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) row[r] = rows + (ids != nullptr ? ids[r] : r) * stride;
    __m512d sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r] = _mm512_setzero_pd();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        const __m512d q = op == kSquare ? _mm512_setzero_pd() : _mm512_loadu_pd(query + d);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            sum[r] = step<op>(sum[r], q, widen(row[r] + d));
        }
    }
    if (whole < dim) {
        const __mmask8 mask = static_cast<__mmask8>((1u << (dim - whole)) - 1u);
        const __m512d q = op == kSquare ? _mm512_setzero_pd() : _mm512_maskz_loadu_pd(mask, query + whole);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            sum[r] = step<op>(sum[r], q, widen_some(mask, row[r] + whole));
        }
    }
    if constexpr (kRows == 8) {
        _mm512_storeu_pd(out, reduce(sum));
    } else {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) out[r] = reduce(sum[r]);
    }
}

template <Operation op>
static void scan(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                 std::size_t stride, std::size_t dim, double* out) noexcept {
    std::size_t i = 0;
    const auto some = [&](auto rows_of_block) {
        constexpr int kRows = decltype(rows_of_block)::value;
        block<op, kRows>(query, ids != nullptr ? rows : rows + i * stride, ids != nullptr ? ids + i : nullptr,
                         stride, dim, out + i);
        i += kRows;
    };
    while (i + 8 <= n) some(Rows<8>());
    if (i + 4 <= n) some(Rows<4>());
    if (i + 2 <= n) some(Rows<2>());
    if (i < n) some(Rows<1>());
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

// Six queries by four rows: a row is widened once for six queries, a query loaded once for four rows.
template <Operation op, int kQueries, int kRows>
static void tile(const double* queries, const float* rows, std::size_t dim, double* out,
                 std::size_t out_stride) noexcept {
    __m512d sum[kQueries][kRows];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[q][r] = _mm512_setzero_pd();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        __m512d x[kRows];
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) x[r] = widen(rows + r * dim + d);
#pragma GCC unroll 6
        for (std::size_t q = 0; q < kQueries; ++q) {
            const __m512d value = _mm512_loadu_pd(queries + q * dim + d);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kRows; ++r) sum[q][r] = step<op>(sum[q][r], value, x[r]);
        }
    }
    if (whole < dim) {
        const __mmask8 mask = static_cast<__mmask8>((1u << (dim - whole)) - 1u);
        __m512d x[kRows];
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) x[r] = widen_some(mask, rows + r * dim + whole);
#pragma GCC unroll 6
        for (std::size_t q = 0; q < kQueries; ++q) {
            const __m512d value = _mm512_maskz_loadu_pd(mask, queries + q * dim + whole);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kRows; ++r) sum[q][r] = step<op>(sum[q][r], value, x[r]);
        }
    }
    if constexpr (kQueries % 2 == 0 && kRows == 4) {
#pragma GCC unroll 3
        for (std::size_t q = 0; q < kQueries; q += 2) {
            const __m512d eight[8] = {sum[q][0],     sum[q][1],     sum[q][2],     sum[q][3],
                                      sum[q + 1][0], sum[q + 1][1], sum[q + 1][2], sum[q + 1][3]};
            const __m512d sums = reduce(eight);
            _mm256_storeu_pd(out + q * out_stride, _mm512_maskz_extractf64x4_pd(0xFF, sums, 0));
            _mm256_storeu_pd(out + (q + 1) * out_stride, _mm512_maskz_extractf64x4_pd(0xFF, sums, 1));
        }
    } else {
#pragma GCC unroll 6
        for (std::size_t q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kRows; ++r) out[q * out_stride + r] = reduce(sum[q][r]);
    }
}

template <Operation op>
static void tiles(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                  std::size_t dim, double* out, std::size_t out_stride) noexcept {
    std::size_t q = 0;
    for (; q + 6 <= n_queries; q += 6) {
        std::size_t r = 0;
        for (; r + 4 <= n_rows; r += 4)
            tile<op, 6, 4>(queries + q * dim, rows + r * dim, dim, out + q * out_stride + r, out_stride);
        for (; r < n_rows; ++r)
            tile<op, 6, 1>(queries + q * dim, rows + r * dim, dim, out + q * out_stride + r, out_stride);
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

// The sums of the lanes of four rows.
static __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) noexcept {
    const __m512 ab =
        _mm512_add_ps(_mm512_maskz_unpacklo_ps(0xFFFF, a, b), _mm512_maskz_unpackhi_ps(0xFFFF, a, b));
    const __m512 cd =
        _mm512_add_ps(_mm512_maskz_unpacklo_ps(0xFFFF, c, d), _mm512_maskz_unpackhi_ps(0xFFFF, c, d));
    const __m512d x = _mm512_castps_pd(ab);
    const __m512d y = _mm512_castps_pd(cd);
    const __m512d lanes =
        _mm512_castps_pd(_mm512_add_ps(_mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xFF, x, y)),
                                       _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xFF, x, y))));
    const __m256 eight = _mm256_add_ps(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xFF, lanes, 0)),
                                       _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xFF, lanes, 1)));
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

// Six queries by four rows in float32.
template <int kQueries, int kRows>
static void float_tile(const float* queries, const float* rows, std::size_t dim, float* out,
                       std::size_t out_stride) noexcept {
    __m512 sum[kQueries][kRows];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[q][r] = _mm512_setzero_ps();
    for (std::size_t d = 0; d < dim; d += 16) {
        const std::size_t left = dim - d;
        const auto mask = static_cast<__mmask16>(left < 16 ? (1u << left) - 1u : 0xFFFFu);
        __m512 x[kRows];
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) x[r] = _mm512_maskz_loadu_ps(mask, rows + r * dim + d);
#pragma GCC unroll 6
        for (std::size_t q = 0; q < kQueries; ++q) {
            const __m512 value = _mm512_maskz_loadu_ps(mask, queries + q * dim + d);
#pragma GCC unroll 4
            for (std::size_t r = 0; r < kRows; ++r) sum[q][r] = _mm512_fmadd_ps(value, x[r], sum[q][r]);
        }
    }
#pragma GCC unroll 6
    for (std::size_t q = 0; q < kQueries; ++q)
        if constexpr (kRows == 4)
            _mm_storeu_ps(out + q * out_stride, sums_of(sum[q][0], sum[q][1], sum[q][2], sum[q][3]));
        else
            out[q * out_stride] = _mm_cvtss_f32(sums_of(sum[q][0], sum[q][0], sum[q][0], sum[q][0]));
}

namespace {

struct FloatTile {
    static constexpr int kQueries = 6;
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

}  // namespace gnomon::avx512
