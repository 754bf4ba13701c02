// Bounds and codes of the screen, x86-64-v4: the loops of screen_bounds.hpp, and a take that compresses
// sixteen rows at a time (to a register first: a compressing store is microcoded on Zen 4).
#include <immintrin.h>

#include "screen_bounds.hpp"

namespace gnomon::avx512 {

void screen_limits(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                   std::int32_t* limits) noexcept {
    bounds::limits(panel, queries, n, limits);
}

// Only the wanted values are read: the squares end with the last row, not with its panel.
static __m512 narrow(const double* values, __mmask16 wanted) noexcept {
    const __m256 low =
        _mm512_maskz_cvtpd_ps(0xFF, _mm512_maskz_loadu_pd(static_cast<__mmask8>(wanted), values));
    const __m256 high =
        _mm512_maskz_cvtpd_ps(0xFF, _mm512_maskz_loadu_pd(static_cast<__mmask8>(wanted >> 8), values + 8));
    return _mm512_maskz_insertf32x8(0xFFFF, _mm512_castps256_ps512(low), high, 1);
}

std::size_t screen_take(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                        const float* residuals, const float* tails, const double* squares,
                        std::uint32_t first_row, float* lower, float* upper, std::uint32_t* rows) noexcept {
    const __m512 infinity = _mm512_set1_ps(__builtin_inff());
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::size_t n = 0;
    for (std::size_t r = 0; r < kPanelRows; r += 16) {
        const auto wanted = static_cast<__mmask16>(mask >> r);
        if (wanted == 0) continue;
        const __m512 sums = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_loadu_si512(acc + r));
        __m512 middle =
            _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(bounds.scale), sums), _mm512_set1_ps(bounds.base));
        if (squares != nullptr) middle = _mm512_sub_ps(middle, narrow(squares + r, wanted));
        __m512 width =
            _mm512_add_ps(_mm512_set1_ps(bounds.fixed),
                          _mm512_mul_ps(_mm512_set1_ps(bounds.slope), _mm512_loadu_ps(residuals + r)));
        if (tails != nullptr)
            width = _mm512_add_ps(
                width, _mm512_mul_ps(_mm512_set1_ps(bounds.tail_slope), _mm512_loadu_ps(tails + r)));
        // max and min give their second operand for NaN.
        const __m512 low =
            _mm512_maskz_max_ps(0xFFFF, _mm512_sub_ps(middle, width), _mm512_set1_ps(-__builtin_inff()));
        const __m512 high = _mm512_maskz_min_ps(0xFFFF, _mm512_add_ps(middle, width), infinity);
        const __m512i places = _mm512_add_epi32(
            _mm512_set1_epi32(static_cast<int>(first_row + static_cast<std::uint32_t>(r))), lanes);
        _mm512_storeu_ps(lower + n, _mm512_maskz_compress_ps(wanted, low));
        _mm512_storeu_ps(upper + n, _mm512_maskz_compress_ps(wanted, high));
        _mm512_storeu_si512(rows + n, _mm512_maskz_compress_epi32(wanted, places));
        n += static_cast<std::size_t>(__builtin_popcount(wanted));
    }
    return n;
}

double screen_code(const float* x, std::size_t dim, double factor, double scale, double inverse,
                   std::int8_t* codes) noexcept {
    const __m512d round = _mm512_set1_pd(bounds::kRound);
    __m512d error = _mm512_setzero_pd();
    for (std::size_t d = 0; d < dim; d += 8) {
        const std::size_t left = dim - d;
        const auto lanes = static_cast<__mmask8>(left >= 8 ? 0xFFu : (1u << left) - 1u);
        const __m512d y = _mm512_mul_pd(_mm512_maskz_cvtps_pd(0xFF, _mm256_maskz_loadu_ps(lanes, x + d)),
                                        _mm512_set1_pd(factor));
        __m512d whole = _mm512_mul_pd(y, _mm512_set1_pd(inverse));
        whole = _mm512_maskz_max_pd(0xFF, whole, _mm512_set1_pd(-127.0));
        whole = _mm512_maskz_min_pd(0xFF, whole, _mm512_set1_pd(127.0));
        whole = _mm512_sub_pd(_mm512_add_pd(whole, round), round);
        const __m512d rest = _mm512_sub_pd(y, _mm512_mul_pd(_mm512_set1_pd(scale), whole));
        error = _mm512_add_pd(error, _mm512_mul_pd(rest, rest));  // + 0.0 in lanes beyond the end
        const __m128i bytes = _mm256_maskz_cvtepi32_epi8(0xFF, _mm512_maskz_cvtpd_epi32(0xFF, whole));
        _mm_mask_storeu_epi8(codes + d, lanes, bytes);
    }
    alignas(64) double lane[8];
    _mm512_store_pd(lane, error);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

float screen_greatest(const float* x, std::size_t dim) noexcept { return bounds::greatest(x, dim); }

float screen_kth(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept {
    return bounds::kth(values, n, k, keys);
}

}  // namespace gnomon::avx512
