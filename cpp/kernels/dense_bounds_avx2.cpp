// Bounds and codes of the screen, x86-64-v3: the loops of screen_bounds.hpp with this level's flags; coding
// is written out, since the compiler leaves its eight lanes scalar.
#include <immintrin.h>

#include "screen_bounds.hpp"

namespace gnomon::avx2 {

void screen_limits(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                   std::int32_t* limits) noexcept {
    bounds::limits(panel, queries, n, limits);
}

// Squares of the eight rows that `bits` names; there may be no memory behind the others.
static __m256 squares_of(const double* squares, unsigned bits) noexcept {
    double some[8] = {};
    if (bits != 0xFF) {
        for (std::size_t r = 0; r < 8; ++r)
            if (((bits >> r) & 1) != 0) some[r] = squares[r];
        squares = some;
    }
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(squares + 4)),
                           _mm256_cvtpd_ps(_mm256_loadu_pd(squares)));
}

// Eight rows at a time where many are taken; where few are, one by one is faster.
std::size_t screen_take(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                        const float* residuals, const float* tails, const double* squares,
                        std::uint32_t first_row, float* lower, float* upper, std::uint32_t* rows) noexcept {
    constexpr int kFew = 12;
    if (__builtin_popcountll(mask) < kFew)
        return bounds::take(acc, mask, bounds, residuals, tails, squares, first_row, lower, upper, rows);
    const __m256 infinity = _mm256_set1_ps(__builtin_inff());
    std::size_t n = 0;
    for (std::size_t r = 0; r < kPanelRows; r += 8) {
        const auto bits = static_cast<unsigned>(mask >> r & 0xFF);
        if (bits == 0) continue;
        const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(acc + r));
        __m256 middle = _mm256_mul_ps(_mm256_set1_ps(bounds.scale), _mm256_cvtepi32_ps(sums));
        middle = _mm256_add_ps(middle, _mm256_set1_ps(bounds.base));
        if (squares != nullptr) middle = _mm256_sub_ps(middle, squares_of(squares + r, bits));
        __m256 width = _mm256_mul_ps(_mm256_set1_ps(bounds.slope), _mm256_loadu_ps(residuals + r));
        width = _mm256_add_ps(_mm256_set1_ps(bounds.fixed), width);
        if (tails != nullptr)
            width = _mm256_add_ps(
                width, _mm256_mul_ps(_mm256_set1_ps(bounds.tail_slope), _mm256_loadu_ps(tails + r)));
        // Of a pair with a NaN these two take the second.
        const __m256 low =
            _mm256_max_ps(_mm256_sub_ps(middle, width), _mm256_sub_ps(_mm256_setzero_ps(), infinity));
        const __m256 high = _mm256_min_ps(_mm256_add_ps(middle, width), infinity);
        // The places of the bits, in bytes.
        const std::uint64_t bytes = _pdep_u64(bits, 0x0101010101010101u) * 0xFF;
        const std::uint64_t places = _pext_u64(0x0706050403020100u, bytes);
        const __m256i order = _mm256_cvtepu8_epi32(
            _mm_cvtsi64_si128(static_cast<long long>(places)));  // the rows that are taken first
        _mm256_storeu_ps(lower + n, _mm256_permutevar8x32_ps(low, order));
        _mm256_storeu_ps(upper + n, _mm256_permutevar8x32_ps(high, order));
        const __m256i first = _mm256_set1_epi32(static_cast<int>(first_row + static_cast<std::uint32_t>(r)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + n), _mm256_add_epi32(first, order));
        n += static_cast<std::size_t>(__builtin_popcount(bits));
    }
    return n;
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

void screen_untangle(const std::uint8_t* panel, std::size_t head, std::size_t steps,
                     std::uint8_t* out) noexcept {
    bounds::untangle(panel, head, steps, out);
}

void screen_tails(const std::uint8_t* tails, std::size_t bytes, std::uint64_t mask, const std::int8_t* query,
                  int shift, std::int32_t init, std::int32_t* acc) noexcept {
    bounds::tails(tails, bytes, mask, query, shift, init, acc);
}

std::uint64_t screen_reach(const std::int32_t* acc, std::int32_t limit) noexcept {
    return bounds::reach(acc, limit);
}

float screen_quick(const float* x, std::size_t dim, float factor, float scale, float inverse,
                   std::uint8_t* codes) noexcept {
    const auto code_of = [&](__m256 y) {
        const __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(y, _mm256_set1_ps(inverse)));
        return _mm256_min_epi32(_mm256_max_epi32(code, _mm256_set1_epi32(-127)), _mm256_set1_epi32(127));
    };
    const auto rest_of = [&](__m256 y, __m256i code) {
        return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(code), _mm256_set1_ps(scale), y);
    };
    __m256 first = _mm256_setzero_ps();
    __m256 second = _mm256_setzero_ps();
    const std::size_t whole = dim & ~std::size_t{15};
    for (std::size_t d = 0; d < whole; d += 16) {
        const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(x + d), _mm256_set1_ps(factor));
        const __m256 high = _mm256_mul_ps(_mm256_loadu_ps(x + d + 8), _mm256_set1_ps(factor));
        const __m256i low_code = code_of(low);
        const __m256i high_code = code_of(high);
        const __m256 low_rest = rest_of(low, low_code);
        const __m256 high_rest = rest_of(high, high_code);
        first = _mm256_fmadd_ps(low_rest, low_rest, first);
        second = _mm256_fmadd_ps(high_rest, high_rest, second);
        const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(low_code, high_code), 0xD8);
        const __m128i bytes =
            _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + d), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
    }
    alignas(32) float lane[8];
    _mm256_store_ps(lane, _mm256_add_ps(first, second));
    for (std::size_t width = 4; width > 0; width /= 2)
        for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0] + (whole < dim
                          ? bounds::quick(x + whole, dim - whole, factor, scale, inverse, codes + whole)
                          : 0.0F);
}

float screen_greatest(const float* x, std::size_t dim) noexcept { return bounds::greatest(x, dim); }

float screen_kth(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept {
    return bounds::kth(values, n, k, keys);
}

}  // namespace gnomon::avx2
