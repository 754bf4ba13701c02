// Bounds and codes of the screen, x86-64-v3: the loops of screen_bounds.hpp with this level's flags; coding
// is written out, since the compiler leaves its eight lanes scalar.
#include <immintrin.h>

#include "screen_bounds.hpp"

namespace gnomon::avx2 {

void screen_limits(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                   std::int32_t* limits) noexcept {
    bounds::limits(panel, queries, n, limits);
}

std::size_t screen_take(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                        const float* residuals, const float* tails, const double* squares,
                        std::uint32_t first_row, float* lower, float* upper, std::uint32_t* rows) noexcept {
    return bounds::take(acc, mask, bounds, residuals, tails, squares, first_row, lower, upper, rows);
}

double screen_code(const float* x, std::size_t dim, double factor, double scale, double inverse,
                   std::int8_t* codes) noexcept {
    const __m256d round = _mm256_set1_pd(bounds::kRound);
    __m256d error[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    const std::size_t whole_dims = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole_dims; d += 4) {
        const __m256d y = _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + d)), _mm256_set1_pd(factor));
        __m256d whole = _mm256_mul_pd(y, _mm256_set1_pd(inverse));
        whole = _mm256_min_pd(_mm256_max_pd(whole, _mm256_set1_pd(-127.0)), _mm256_set1_pd(127.0));
        whole = _mm256_sub_pd(_mm256_add_pd(whole, round), round);
        const __m256d rest = _mm256_sub_pd(y, _mm256_mul_pd(_mm256_set1_pd(scale), whole));
        __m256d& sum = error[d / 4 % 2];
        sum = _mm256_add_pd(sum, _mm256_mul_pd(rest, rest));
        const __m128i words = _mm256_cvtpd_epi32(whole);
        const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(words, words), words);
        const int four = _mm_cvtsi128_si32(bytes);
        __builtin_memcpy(codes + d, &four, 4);
    }
    alignas(32) double lane[8];
    _mm256_store_pd(lane, error[0]);
    _mm256_store_pd(lane + 4, error[1]);
    for (std::size_t l = 0; whole_dims + l < dim; ++l)
        bounds::code_lane(x[whole_dims + l], factor, scale, inverse, lane[l], codes[whole_dims + l]);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

float screen_greatest(const float* x, std::size_t dim) noexcept { return bounds::greatest(x, dim); }

}  // namespace gnomon::avx2
