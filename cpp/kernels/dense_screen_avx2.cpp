// The integer screen, x86-64-v3: eight rows at a time, bytes widened to 16 bits, so that vpmaddwd is exact
// (the faster vpmaddubsw saturates: 2 * 255 * 127 > 32,767). Each row's four products lie in two 32-bit
// lanes.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx2 {

template <int kQueries>
static void eight_rows(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                       const std::int32_t* init, std::int32_t* acc) noexcept {
    __m256i low[kQueries];
    __m256i high[kQueries];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) low[q] = high[q] = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128(shape.shift);
    for (std::size_t s = 0; s < shape.steps; ++s) {
        if (s == shape.head) {
#pragma GCC unroll 6
            for (int q = 0; q < kQueries; ++q) {
                low[q] = _mm256_sll_epi32(low[q], shift);
                high[q] = _mm256_sll_epi32(high[q], shift);
            }
        }
        const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + s * kPanelRows * 4));
        const __m256i first = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(rows));
        const __m256i second = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(rows, 1));
#pragma GCC unroll 6
        for (int q = 0; q < kQueries; ++q) {
            std::int32_t word;
            __builtin_memcpy(&word, queries + (s * kTileQueries + static_cast<std::size_t>(q)) * 4, 4);
            const __m256i query = _mm256_cvtepi8_epi16(_mm_set1_epi32(word));
            low[q] = _mm256_add_epi32(low[q], _mm256_madd_epi16(first, query));
            high[q] = _mm256_add_epi32(high[q], _mm256_madd_epi16(second, query));
        }
    }
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
        // hadd pairs within 128-bit halves: rows 0 1 4 5 | 2 3 6 7; the permutation restores the order.
        const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[q], high[q]), 0xD8);
        const __m256i sums = _mm256_add_epi32(pairs, _mm256_set1_epi32(init[q]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(acc + static_cast<std::size_t>(q) * kPanelRows), sums);
    }
}

template <int kQueries>
static void panel_dots(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                       const std::int32_t* init, std::int32_t* acc) noexcept {
    for (std::size_t row = 0; row < kPanelRows; row += 8)
        eight_rows<kQueries>(panel + row * 4, queries, shape, init, acc + row);
}

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    switch (n) {
        case 1:
            panel_dots<1>(panel, queries, shape, init, acc);
            break;
        case 2:
            panel_dots<2>(panel, queries, shape, init, acc);
            break;
        case 3:
            panel_dots<3>(panel, queries, shape, init, acc);
            break;
        case 4:
            panel_dots<4>(panel, queries, shape, init, acc);
            break;
        case 5:
            panel_dots<5>(panel, queries, shape, init, acc);
            break;
        default:
            panel_dots<6>(panel, queries, shape, init, acc);
    }
    for (std::size_t q = 0; q < n; ++q) {
        const __m256i limit = _mm256_set1_epi32(thresholds[q]);
        masks[q] = 0;
        for (std::size_t row = 0; row < kPanelRows; row += 8) {
            const __m256i sums =
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(acc + q * kPanelRows + row));
            const int below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, sums)));
            masks[q] |= static_cast<std::uint64_t>(static_cast<unsigned>(~below & 0xFF)) << row;
        }
    }
}

}  // namespace gnomon::avx2
