// The integer screen, x86-64-v3: eight rows at a time, bytes widened to 16 bits, so that vpmaddwd is exact
// (the faster vpmaddubsw saturates: 2 * 255 * 127 > 32,767). Each row's four products lie in two 32-bit
// lanes. A tile's codes are widened once for the eight times they are read: 1.6 times as fast as each time.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx2 {

constexpr std::size_t kAtOnce = 128;  // steps whose widened codes, 6 KiB, lie beside a panel's in a cache

// Adds steps [0, n) of eight times kGroups rows to acc; `wide` holds four 16-bit codes for each step and
// query. Asks for what lies `ahead` bytes on, if that is not 0.
template <int kQueries, int kGroups>
static void some_rows(const std::uint8_t* panel, const std::int64_t* wide, std::size_t n, std::size_t ahead,
                      std::int32_t* acc) noexcept {
    __m256i low[kGroups][kQueries];
    __m256i high[kGroups][kQueries];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 6
        for (int q = 0; q < kQueries; ++q) low[g][q] = high[g][q] = _mm256_setzero_si256();
    for (std::size_t s = 0; s < n; ++s) {
        const std::uint8_t* const step = panel + s * kPanelRows * 4;
        if (kGroups > 1 && ahead != 0)
            for (std::size_t byte = 0; byte < kGroups * 32; byte += 64)
                _mm_prefetch(reinterpret_cast<const char*>(step + ahead + byte), _MM_HINT_T0);
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
            const auto* const rows = reinterpret_cast<const __m128i*>(step) + 2 * g;
            const __m256i first = _mm256_cvtepu8_epi16(_mm_loadu_si128(rows));
            const __m256i second = _mm256_cvtepu8_epi16(_mm_loadu_si128(rows + 1));
#pragma GCC unroll 6
            for (int q = 0; q < kQueries; ++q) {
                const __m256i query = _mm256_set1_epi64x(wide[s * kQueries + static_cast<std::size_t>(q)]);
                low[g][q] = _mm256_add_epi32(low[g][q], _mm256_madd_epi16(first, query));
                high[g][q] = _mm256_add_epi32(high[g][q], _mm256_madd_epi16(second, query));
            }
        }
    }
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g)
#pragma GCC unroll 6
        for (std::size_t q = 0; q < kQueries; ++q) {
            // hadd pairs within 128-bit halves: rows 0 1 4 5 | 2 3 6 7; the permutation restores the order.
            const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[g][q], high[g][q]), 0xD8);
            auto* const sums = reinterpret_cast<__m256i*>(acc + q * kPanelRows + g * 8);
            _mm256_storeu_si256(sums, _mm256_add_epi32(_mm256_loadu_si256(sums), pairs));
        }
}

// Few queries leave registers for more rows: whole cache lines are then read one after the other, which
// memory delivers faster than every fourth.
template <int kQueries>
static void add_steps(const std::uint8_t* panel, const std::int8_t* queries, std::size_t first,
                      std::size_t last, std::size_t ahead, std::int32_t* acc) noexcept {
    constexpr int kGroups = kQueries == 1 ? 4 : kQueries <= 3 ? 2 : 1;
    alignas(16) std::int64_t wide[kAtOnce * kQueries];
    for (std::size_t start = first; start < last; start += kAtOnce) {
        const std::size_t n = last - start < kAtOnce ? last - start : kAtOnce;
        for (std::size_t s = 0; s < n; ++s)
            for (std::size_t q = 0; q < kQueries; ++q) {
                std::int32_t word;
                __builtin_memcpy(&word, queries + ((start + s) * kTileQueries + q) * 4, 4);
                wide[s * kQueries + q] = _mm_cvtsi128_si64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(word)));
            }
        for (std::size_t row = 0; row < kPanelRows; row += 8 * kGroups)
            some_rows<kQueries, kGroups>(panel + (start * kPanelRows + row) * 4, wide, n, ahead, acc + row);
    }
}

template <int kQueries>
static void panel_dots(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                       const std::int32_t* init, std::int32_t* acc) noexcept {
    __builtin_memset(acc, 0, kQueries * kPanelRows * sizeof *acc);
    const std::size_t ahead = shape.ahead ? shape.stride * kPanelRows * 4 : 0;
    add_steps<kQueries>(panel, queries, 0, shape.head, ahead, acc);
    const __m128i shift = _mm_cvtsi32_si128(shape.shift);
    for (std::size_t i = 0; shape.head > 0 && i < kQueries * kPanelRows; i += 8) {
        auto* const sums = reinterpret_cast<__m256i*>(acc + i);
        _mm256_storeu_si256(sums, _mm256_sll_epi32(_mm256_loadu_si256(sums), shift));
    }
    add_steps<kQueries>(panel, queries, shape.head, shape.steps, ahead, acc);
    for (std::size_t i = 0; i < kQueries * kPanelRows; i += 8) {
        auto* const sums = reinterpret_cast<__m256i*>(acc + i);
        const __m256i start = _mm256_set1_epi32(init[i / kPanelRows]);
        _mm256_storeu_si256(sums, _mm256_add_epi32(_mm256_loadu_si256(sums), start));
    }
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
