// The integer screen, x86-64-v4 without VNNI: sixteen rows at a time, bytes widened to 16 bits for an exact
// vpmaddwd; each row's four products lie in two 32-bit lanes until the end.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512 {

template <int kQueries>
static void sixteen_rows(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                         const std::int32_t* init, std::int32_t* acc) noexcept {
    __m512i low[kQueries];
    __m512i high[kQueries];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) low[q] = high[q] = _mm512_setzero_si512();
    const __m128i shift = _mm_cvtsi32_si128(shape.shift);
    for (std::size_t s = 0; s < shape.steps; ++s) {
        if (s == shape.head) {
#pragma GCC unroll 6
            for (int q = 0; q < kQueries; ++q) {
                low[q] = _mm512_maskz_sll_epi32(0xFFFF, low[q], shift);
                high[q] = _mm512_maskz_sll_epi32(0xFFFF, high[q], shift);
            }
        }
        const std::uint8_t* const rows = panel + s * kPanelRows * 4;
        const __m512i first =
            _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows)));
        const __m512i second =
            _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + 32)));
#pragma GCC unroll 6
        for (int q = 0; q < kQueries; ++q) {
            std::int32_t word;
            __builtin_memcpy(&word, queries + (s * kTileQueries + static_cast<std::size_t>(q)) * 4, 4);
            const __m512i query = _mm512_cvtepi8_epi16(_mm256_set1_epi32(word));
            low[q] = _mm512_add_epi32(low[q], _mm512_madd_epi16(first, query));
            high[q] = _mm512_add_epi32(high[q], _mm512_madd_epi16(second, query));
        }
    }
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
        const __m512i pairs = _mm512_add_epi32(_mm512_permutex2var_epi32(low[q], even, high[q]),
                                               _mm512_permutex2var_epi32(low[q], odd, high[q]));
        _mm512_storeu_si512(acc + static_cast<std::size_t>(q) * kPanelRows,
                            _mm512_add_epi32(pairs, _mm512_set1_epi32(init[q])));
    }
}

template <int kQueries>
static void screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                   const std::int32_t* init, const std::int32_t* thresholds, std::int32_t* acc,
                   std::uint64_t* masks) noexcept {
    for (std::size_t row = 0; row < kPanelRows; row += 16)
        sixteen_rows<kQueries>(panel + row * 4, queries, shape, init, acc + row);
    for (std::size_t q = 0; q < kQueries; ++q) {
        const __m512i limit = _mm512_set1_epi32(thresholds[q]);
        masks[q] = 0;
        for (std::size_t row = 0; row < kPanelRows; row += 16) {
            const __m512i sums = _mm512_loadu_si512(acc + q * kPanelRows + row);
            masks[q] |= static_cast<std::uint64_t>(_mm512_cmpge_epi32_mask(sums, limit)) << row;
        }
    }
}

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    switch (n) {
        case 1:
            return screen<1>(panel, queries, shape, init, thresholds, acc, masks);
        case 2:
            return screen<2>(panel, queries, shape, init, thresholds, acc, masks);
        case 3:
            return screen<3>(panel, queries, shape, init, thresholds, acc, masks);
        case 4:
            return screen<4>(panel, queries, shape, init, thresholds, acc, masks);
        case 5:
            return screen<5>(panel, queries, shape, init, thresholds, acc, masks);
        default:
            return screen<6>(panel, queries, shape, init, thresholds, acc, masks);
    }
}

}  // namespace gnomon::avx512
