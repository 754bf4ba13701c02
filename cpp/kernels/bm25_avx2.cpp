// BM25 kernels, x86-64-v3: four documents at a time. AVX2 gathers but does not scatter.
#include <immintrin.h>

#include "../bm25.hpp"
#include "bm25_blocks.hpp"
#include "kernels.hpp"

namespace gnomon::avx2 {

// Exact for all 32 bits: the value goes into the low mantissa of 2^52, which is then subtracted.
static __m256d to_double(__m128i values) noexcept {
    const __m256i magic = _mm256_set1_epi64x(0x4330000000000000);
    const __m256i bits = _mm256_or_si256(_mm256_cvtepu32_epi64(values), magic);
    return _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_castsi256_pd(magic));
}

void bm25_add(const std::uint32_t* docs, const std::uint8_t* tfs, std::size_t n, std::uint32_t base,
              const double* norms, double idf, double k1_plus_1, double* scores) noexcept {
    const __m128i bases = _mm_set1_epi32(static_cast<int>(base));
    const __m256d idfs = _mm256_set1_pd(idf);
    const __m256d factor = _mm256_set1_pd(k1_plus_1);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128i offsets =
            _mm_sub_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(docs + i)), bases);
        int four;
        __builtin_memcpy(&four, tfs + i, sizeof four);
        const __m256d tf = to_double(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
        const __m256d norm = _mm256_add_pd(tf, _mm256_i32gather_pd(norms, offsets, 8));
        const __m256d weight = _mm256_div_pd(_mm256_mul_pd(_mm256_mul_pd(idfs, tf), factor), norm);
        const __m256d sums = _mm256_add_pd(_mm256_i32gather_pd(scores, offsets, 8), weight);
        alignas(16) std::uint32_t to[4];
        alignas(32) double sum[4];
        _mm_store_si128(reinterpret_cast<__m128i*>(to), offsets);
        _mm256_store_pd(sum, sums);
        for (int lane = 0; lane < 4; ++lane) scores[to[lane]] = sum[lane];
    }
    for (; i < n; ++i) {
        const std::uint32_t offset = docs[i] - base;
        scores[offset] += bm25::weight(idf, static_cast<double>(tfs[i]), k1_plus_1, norms[offset]);
    }
}

std::size_t bm25_select(const double* scores, std::size_t n, double threshold, std::uint32_t* out) noexcept {
    const __m256d limit = _mm256_set1_pd(threshold);
    const __m256i untouched = _mm256_set1_epi64x(static_cast<long long>(0x8000000000000000u));
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d four = _mm256_loadu_pd(scores + i);
        const __m256i same = _mm256_cmpeq_epi64(_mm256_castpd_si256(four), untouched);
        int mask = _mm256_movemask_pd(_mm256_cmp_pd(four, limit, _CMP_GE_OQ)) &
                   ~_mm256_movemask_pd(_mm256_castsi256_pd(same));
        while (mask != 0) {  // rare once the threshold has risen
            out[count++] = static_cast<std::uint32_t>(i) +
                           static_cast<std::uint32_t>(__builtin_ctz(static_cast<unsigned>(mask)));
            mask &= mask - 1;
        }
    }
    for (; i < n; ++i) {
        std::uint64_t bits;
        __builtin_memcpy(&bits, scores + i, sizeof bits);
        if (scores[i] >= threshold && bits != 0x8000000000000000u)
            out[count++] = static_cast<std::uint32_t>(i);
    }
    return count;
}

void bm25_row(const float* row, std::size_t n, float weight, float* sums) noexcept {
    const __m256 weights = _mm256_set1_ps(weight);
    for (std::size_t i = 0; i < n; i += 8) {
        const __m256 parts = _mm256_mul_ps(weights, _mm256_loadu_ps(row + i));
        _mm256_storeu_ps(sums + i, _mm256_add_ps(_mm256_loadu_ps(sums + i), parts));
    }
}

std::size_t bm25_pick(float* sums, std::size_t n, float threshold, std::uint32_t* out,
                      float* out_sums) noexcept {
    const __m256 limit = _mm256_set1_ps(threshold);
    const __m256 zero = _mm256_setzero_ps();
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 8) {
        const __m256 eight = _mm256_loadu_ps(sums + i);
        int mask = _mm256_movemask_ps(
            _mm256_and_ps(_mm256_cmp_ps(eight, limit, _CMP_GE_OQ), _mm256_cmp_ps(eight, zero, _CMP_GT_OQ)));
        while (mask != 0) {
            const std::size_t at = i + static_cast<std::size_t>(__builtin_ctz(static_cast<unsigned>(mask)));
            out[count] = static_cast<std::uint32_t>(at);
            out_sums[count++] = sums[at];
            mask &= mask - 1;
        }
        _mm256_storeu_ps(sums + i, zero);
    }
    return count;
}

void bm25_find(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
               const std::uint32_t* docs, std::size_t n, double* out) noexcept {
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (std::size_t i = 0; i < n; ++i) {
        ask_ahead(list, starts, tfs, docs, i, n);
        const std::uint32_t first = starts[docs[i] / 32];
        const std::uint32_t held = starts[docs[i] / 32 + 1] - first;
        const __m256i wanted = _mm256_set1_epi32(static_cast<int>(docs[i]));
        // Eight at a time and no way out before the end: where the document stands is not foreseeable.
        std::uint64_t equal = 0;
        for (std::uint32_t at = 0; at < held; at += 8) {
            const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(held - at)), places);
            const __m256i eight =
                _mm256_maskload_epi32(reinterpret_cast<const int*>(list + first + at), inside);
            const __m256i same = _mm256_and_si256(_mm256_cmpeq_epi32(eight, wanted), inside);
            equal |= static_cast<std::uint64_t>(_mm256_movemask_ps(_mm256_castsi256_ps(same))) << at;
        }
        const std::uint32_t place =
            equal == 0 ? 0 : first + static_cast<std::uint32_t>(__builtin_ctzll(equal));
        out[i] = static_cast<double>(equal == 0 ? 0 : tfs[place]);
    }
}

void bm25_settle(const double* tfs, const double* norms, std::size_t n, double idf, double k1_plus_1,
                 double* scores) noexcept {
    settle_each(tfs, norms, n, idf, k1_plus_1, scores);
}

void bm25_bound(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                std::uint16_t* bounds) noexcept {
    const __m256i weights = _mm256_set1_epi16(static_cast<short>(weight));
    const __m256i one = _mm256_set1_epi16(1);
    for (std::size_t i = 0; i < n; i += 16) {
        // The byte goes into the upper half of its word, so that the high product is byte * weight >> 8.
        const __m256i bytes =
            _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(maxima + i)));
        __m256i bound = _mm256_add_epi16(_mm256_mulhi_epu16(_mm256_slli_epi16(bytes, 8), weights), one);
        if (add)
            bound = _mm256_add_epi16(bound, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bounds + i)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(bounds + i), bound);
    }
}

// Up to eight rows in one pass: more streams than that are not read ahead. The bytes of even and of odd
// places stand in words of their own, each in its upper half: a shift and a mask instead of two widenings.
void bm25_levels(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t n_rows,
                 std::size_t n, std::uint16_t* sums) noexcept {
    constexpr std::size_t kAtOnce = 8;
    for (std::size_t first = 0; first < n_rows; first += kAtOnce) {
        const std::size_t count = n_rows - first < kAtOnce ? n_rows - first : kAtOnce;
        __m256i factors[kAtOnce];
        for (std::size_t r = 0; r < count; ++r)
            factors[r] = _mm256_set1_epi16(static_cast<short>(weights[first + r]));
        const __m256i upper = _mm256_set1_epi16(static_cast<short>(0xFF00));
        const __m256i ones = _mm256_set1_epi16(static_cast<short>(count));
        for (std::size_t i = 0; i < n; i += 32) {
            __m256i even = ones;
            __m256i odd = ones;
            for (std::size_t r = 0; r < count; ++r) {
                const __m256i bytes =
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[first + r] + i));
                even = _mm256_add_epi16(even, _mm256_mulhi_epu16(_mm256_slli_epi16(bytes, 8), factors[r]));
                odd = _mm256_add_epi16(odd, _mm256_mulhi_epu16(_mm256_and_si256(bytes, upper), factors[r]));
            }
            const __m256i low = _mm256_unpacklo_epi16(even, odd);
            const __m256i high = _mm256_unpackhi_epi16(even, odd);
            __m256i front = _mm256_permute2x128_si256(low, high, 0x20);
            __m256i back = _mm256_permute2x128_si256(low, high, 0x31);
            if (first > 0) {
                front =
                    _mm256_add_epi16(front, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + i)));
                back = _mm256_add_epi16(back,
                                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + i + 16)));
            }
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i), front);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i + 16), back);
        }
    }
}

std::size_t bm25_blocks(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                        std::uint32_t* out) noexcept {
    const __m256i limit = _mm256_set1_epi16(static_cast<short>(threshold));
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 16) {
        const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bounds + i));
        unsigned mask = static_cast<unsigned>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(values, limit), values)));
        while (mask != 0) {  // two bits a value
            const unsigned bit = static_cast<unsigned>(__builtin_ctz(mask));
            out[count++] = static_cast<std::uint32_t>(i) + bit / 2;
            mask &= ~(3U << bit);
        }
    }
    return count;
}

std::size_t bm25_above(const float* impacts, std::size_t n, float least, std::uint32_t* out) noexcept {
    const __m256 limit = _mm256_set1_ps(least);
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        unsigned mask = 0;
        for (unsigned part = 0; part < 32; part += 8)
            mask |= static_cast<unsigned>(_mm256_movemask_ps(
                        _mm256_cmp_ps(_mm256_loadu_ps(impacts + i + part), limit, _CMP_GE_OQ)))
                    << part;
        for (; mask != 0; mask &= mask - 1)
            out[count++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctz(mask));
    }
    return above_each(impacts, i, n, least, out, count);
}

}  // namespace gnomon::avx2
