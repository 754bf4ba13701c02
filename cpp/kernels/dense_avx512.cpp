// Dense kernels, x86-64-v4: the eight lanes are one register; eight rows at a time, since an FMA takes four
// cycles and two start each cycle. Loads of the last dim % 8 elements are masked to zero.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512 {

// ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)); _mm512_reduce_add_pd promises no order.
// The maskz forms, because GCC 12 warns of an uninitialised value inside its own header for the plain ones.
static double reduce(__m512d lanes) noexcept {
    const __m256d sums = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xFF, lanes, 0),
                                       _mm512_maskz_extractf64x4_pd(0xFF, lanes, 1));
    const __m128d pairs = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pairs, _mm_unpackhi_pd(pairs, pairs)));
}

enum Operation { kDot, kL2, kSquare };

template <Operation op>
static __m512d step(__m512d sum, __m512d q, __m512d x) noexcept {
    if (op == kL2) {
        const __m512d t = _mm512_sub_pd(q, x);
        return _mm512_add_pd(sum, _mm512_mul_pd(t, t));
    }
    return _mm512_fmadd_pd(op == kSquare ? x : q, x, sum);
}

template <Operation op, int kRows>
static void block(const double* query, const float* rows, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    __m512d sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r] = _mm512_setzero_pd();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        const __m512d q = op == kSquare ? _mm512_setzero_pd() : _mm512_loadu_pd(query + d);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const __m256 x = _mm256_loadu_ps(rows + static_cast<std::size_t>(r) * stride + d);
            sum[r] = step<op>(sum[r], q, _mm512_cvtps_pd(x));
        }
    }
    if (whole < dim) {
        const __mmask8 mask = static_cast<__mmask8>((1u << (dim - whole)) - 1u);
        const __m512d q = op == kSquare ? _mm512_setzero_pd() : _mm512_maskz_loadu_pd(mask, query + whole);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const __m256 x = _mm256_maskz_loadu_ps(mask, rows + static_cast<std::size_t>(r) * stride + whole);
            sum[r] = step<op>(sum[r], q, _mm512_cvtps_pd(x));
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) out[r] = reduce(sum[r]);
}

template <Operation op>
static void scan(const double* query, const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                 double* out) noexcept {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) block<op, 8>(query, rows + i * stride, stride, dim, out + i);
    for (; i < n; ++i) block<op, 1>(query, rows + i * stride, stride, dim, out + i);
}

void dense_dot(const double* query, const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
               double* out) noexcept {
    scan<kDot>(query, rows, n, stride, dim, out);
}

void dense_l2(const double* query, const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
              double* out) noexcept {
    scan<kL2>(query, rows, n, stride, dim, out);
}

void dense_square(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    scan<kSquare>(nullptr, rows, n, stride, dim, out);
}

}  // namespace gnomon::avx512
