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

// Sixteen rows' words of 64 bytes to sixteen steps' words of those rows.
static void transpose(const std::uint8_t* from, std::size_t stride, std::uint8_t* out) noexcept {
    __m512i row[16];
    __m512i turned[16];
    const auto at = [&](std::size_t r) { return _mm512_loadu_si512(from + r * stride); };
#pragma GCC unroll 8
    for (std::size_t r = 0; r < 16; r += 2) {
        row[r] = _mm512_maskz_unpacklo_epi32(0xFFFF, at(r), at(r + 1));
        row[r + 1] = _mm512_maskz_unpackhi_epi32(0xFFFF, at(r), at(r + 1));
    }
    // turned[4 g + c]: column c of each quarter, rows 4 g to 4 g + 3.
#pragma GCC unroll 4
    for (std::size_t g = 0; g < 16; g += 4) {
        turned[g] = _mm512_maskz_unpacklo_epi64(0xFF, row[g], row[g + 2]);
        turned[g + 1] = _mm512_maskz_unpackhi_epi64(0xFF, row[g], row[g + 2]);
        turned[g + 2] = _mm512_maskz_unpacklo_epi64(0xFF, row[g + 1], row[g + 3]);
        turned[g + 3] = _mm512_maskz_unpackhi_epi64(0xFF, row[g + 1], row[g + 3]);
    }
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) {
        const __m512i low01 = _mm512_maskz_shuffle_i32x4(0xFFFF, turned[c], turned[4 + c], 0x88);
        const __m512i high01 = _mm512_maskz_shuffle_i32x4(0xFFFF, turned[c], turned[4 + c], 0xDD);
        const __m512i low23 = _mm512_maskz_shuffle_i32x4(0xFFFF, turned[8 + c], turned[12 + c], 0x88);
        const __m512i high23 = _mm512_maskz_shuffle_i32x4(0xFFFF, turned[8 + c], turned[12 + c], 0xDD);
        constexpr std::size_t kStep = kPanelRows * 4;
        _mm512_storeu_si512(out + c * kStep, _mm512_maskz_shuffle_i32x4(0xFFFF, low01, low23, 0x88));
        _mm512_storeu_si512(out + (4 + c) * kStep, _mm512_maskz_shuffle_i32x4(0xFFFF, high01, high23, 0x88));
        _mm512_storeu_si512(out + (8 + c) * kStep, _mm512_maskz_shuffle_i32x4(0xFFFF, low01, low23, 0xDD));
        _mm512_storeu_si512(out + (12 + c) * kStep, _mm512_maskz_shuffle_i32x4(0xFFFF, high01, high23, 0xDD));
    }
}

void screen_untangle(const std::uint8_t* panel, std::size_t head, std::size_t steps,
                     std::uint8_t* out) noexcept {
    constexpr std::size_t kStep = kPanelRows * 4;
    if ((steps - head) % 16 != 0) return bounds::untangle(panel, head, steps, out);
    const std::size_t bytes = (steps - head) * 4;
    const char* const next = reinterpret_cast<const char*>(panel + steps * kStep);
    for (std::size_t i = 0; i < head * kStep; i += 64) {
        _mm_prefetch(next + i, _MM_HINT_T1);
        _mm512_storeu_si512(out + i, _mm512_loadu_si512(panel + i));
    }
    const std::uint8_t* const tails = panel + head * kStep;
    for (std::size_t r = 0; r < kPanelRows; r += 16)
        for (std::size_t i = 0; i < bytes; i += 64) {
            for (std::size_t line = 0; line < 16; ++line)
                _mm_prefetch(next + head * kStep + r * bytes + i * 16 + line * 64, _MM_HINT_T1);
            transpose(tails + r * bytes + i, bytes, out + (head + i / 4) * kStep + r * 4);
        }
}

void screen_tails(const std::uint8_t* tails, std::size_t bytes, std::uint64_t mask, const std::int8_t* query,
                  int shift, std::int32_t init, std::int32_t* acc) noexcept {
    bounds::tails(tails, bytes, mask, query, shift, init, acc);
}

std::uint64_t screen_reach(const std::int32_t* acc, std::int32_t limit) noexcept {
    std::uint64_t mask = 0;
    for (std::size_t r = 0; r < kPanelRows; r += 16)
        mask |= static_cast<std::uint64_t>(
                    _mm512_cmpge_epi32_mask(_mm512_loadu_si512(acc + r), _mm512_set1_epi32(limit)))
                << r;
    return mask;
}

float screen_quick(const float* x, std::size_t dim, float factor, float scale, float inverse,
                   std::uint8_t* codes) noexcept {
    __m512 sum = _mm512_setzero_ps();
    for (std::size_t d = 0; d < dim; d += 16) {
        const std::size_t left = dim - d;
        const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFFu : (1u << left) - 1u);
        const __m512 y = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + d), _mm512_set1_ps(factor));
        __m512i code = _mm512_maskz_cvtps_epi32(0xFFFF, _mm512_mul_ps(y, _mm512_set1_ps(inverse)));
        code = _mm512_maskz_max_epi32(0xFFFF, code, _mm512_set1_epi32(-127));
        code = _mm512_maskz_min_epi32(0xFFFF, code, _mm512_set1_epi32(127));
        const __m512 whole = _mm512_maskz_cvtepi32_ps(0xFFFF, code);
        const __m512 rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(scale), y);
        sum = _mm512_fmadd_ps(rest, rest, sum);
        const __m128i bytes = _mm_xor_si128(_mm512_maskz_cvtepi32_epi8(0xFFFF, code), _mm_set1_epi8(-128));
        _mm_mask_storeu_epi8(codes + d, lanes, bytes);
    }
    alignas(64) float lane[16];
    _mm512_store_ps(lane, sum);
    for (std::size_t width = 8; width > 0; width /= 2)
        for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

float screen_greatest(const float* x, std::size_t dim) noexcept { return bounds::greatest(x, dim); }

float screen_kth(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept {
    return bounds::kth(values, n, k, keys);
}

}  // namespace gnomon::avx512
