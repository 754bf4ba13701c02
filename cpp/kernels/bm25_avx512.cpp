// BM25 kernels, x86-64-v4: eight documents at a time; the last ones under a mask, so there is no scalar tail.
#include <immintrin.h>

#include "bm25_blocks.hpp"
#include "kernels.hpp"

namespace gnomon::avx512 {

void bm25_add(const std::uint32_t* docs, const std::uint8_t* tfs, std::size_t n, std::uint32_t base,
              const double* norms, double idf, double k1_plus_1, double* scores) noexcept {
    const __m256i bases = _mm256_set1_epi32(static_cast<int>(base));
    const __m512d idfs = _mm512_set1_pd(idf);
    const __m512d factor = _mm512_set1_pd(k1_plus_1);
    const __m512d zero = _mm512_setzero_pd();
    for (std::size_t i = 0; i < n; i += 8) {
        const std::size_t left = n - i;
        const __mmask8 mask = left >= 8 ? 0xFF : static_cast<__mmask8>((1u << left) - 1u);
        const __m256i offsets = _mm256_sub_epi32(_mm256_maskz_loadu_epi32(mask, docs + i), bases);
        const __m128i bytes = _mm_maskz_loadu_epi8(mask, tfs + i);
        const __m512d tf = _mm512_cvtepu32_pd(_mm256_cvtepu8_epi32(bytes));
        const __m512d norm = _mm512_add_pd(tf, _mm512_mask_i32gather_pd(zero, mask, offsets, norms, 8));
        const __m512d weight = _mm512_div_pd(_mm512_mul_pd(_mm512_mul_pd(idfs, tf), factor), norm);
        const __m512d old = _mm512_mask_i32gather_pd(zero, mask, offsets, scores, 8);
        _mm512_mask_i32scatter_pd(scores, mask, offsets, _mm512_add_pd(old, weight), 8);
    }
}

std::size_t bm25_select(const double* scores, std::size_t n, double threshold, std::uint32_t* out) noexcept {
    const __m512d limit = _mm512_set1_pd(threshold);
    const __m512i untouched = _mm512_set1_epi64(static_cast<long long>(0x8000000000000000u));
    const __m256i eight = _mm256_set1_epi32(8);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 8) {
        const std::size_t left = n - i;
        const __mmask8 inside = left >= 8 ? 0xFF : static_cast<__mmask8>((1u << left) - 1u);
        const __m512d values = _mm512_maskz_loadu_pd(inside, scores + i);
        const __mmask8 touched =
            _mm512_mask_cmpneq_epi64_mask(inside, _mm512_castpd_si512(values), untouched);
        const __mmask8 mask = _mm512_mask_cmp_pd_mask(touched, values, limit, _CMP_GE_OQ);
        if (mask != 0) {
            // Compress to a register, then store: vpcompressd to memory is microcoded on Zen 4.
            const unsigned found = static_cast<unsigned>(__builtin_popcount(mask));
            _mm256_mask_storeu_epi32(out + count, static_cast<__mmask8>((1u << found) - 1u),
                                     _mm256_maskz_compress_epi32(mask, index));
            count += found;
        }
        index = _mm256_add_epi32(index, eight);
    }
    return count;
}

void bm25_row(const float* row, std::size_t n, float weight, float* sums) noexcept {
    const __m512 weights = _mm512_set1_ps(weight);
    for (std::size_t i = 0; i < n; i += 16) {
        const __m512 parts = _mm512_mul_ps(weights, _mm512_loadu_ps(row + i));
        _mm512_storeu_ps(sums + i, _mm512_add_ps(_mm512_loadu_ps(sums + i), parts));
    }
}

// Looks at 32 sums at once: most hold none that is wanted.
std::size_t bm25_pick(float* sums, std::size_t n, float threshold, std::uint32_t* out,
                      float* out_sums) noexcept {
    // A positive sum of at least the threshold is one of at least the greater of it and the least float.
    const __m512 limit = _mm512_max_ps(_mm512_set1_ps(threshold), _mm512_castsi512_ps(_mm512_set1_epi32(1)));
    const __m512 zero = _mm512_setzero_ps();
    const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 32) {
        const __m512 values[2] = {_mm512_loadu_ps(sums + i), _mm512_loadu_ps(sums + i + 16)};
        _mm512_storeu_ps(sums + i, zero);
        _mm512_storeu_ps(sums + i + 16, zero);
        if (_mm512_cmp_ps_mask(_mm512_max_ps(values[0], values[1]), limit, _CMP_GE_OQ) == 0) continue;
        for (int half = 0; half < 2; ++half) {
            const __mmask16 mask = _mm512_cmp_ps_mask(values[half], limit, _CMP_GE_OQ);
            const unsigned found = static_cast<unsigned>(__builtin_popcount(mask));
            const __mmask16 front = static_cast<__mmask16>((1u << found) - 1u);
            const __m512i index =
                _mm512_add_epi32(places, _mm512_set1_epi32(static_cast<int>(i) + 16 * half));
            _mm512_mask_storeu_epi32(out + count, front, _mm512_maskz_compress_epi32(mask, index));
            _mm512_mask_storeu_ps(out_sums + count, front, _mm512_maskz_compress_ps(mask, values[half]));
            count += found;
        }
    }
    return count;
}

void bm25_find(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
               const std::uint32_t* docs, std::size_t n, double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        ask_ahead(list, starts, tfs, docs, i, n);
        const std::uint32_t first = starts[docs[i] / 32];
        const std::uint32_t held = starts[docs[i] / 32 + 1] - first;
        const __m512i wanted = _mm512_set1_epi32(static_cast<int>(docs[i]));
        const __mmask16 inside = static_cast<__mmask16>(held >= 16 ? 0xFFFFu : (1u << held) - 1u);
        unsigned equal =
            _mm512_mask_cmpeq_epi32_mask(inside, _mm512_maskz_loadu_epi32(inside, list + first), wanted);
        if (held > 16) {
            const __mmask16 rest = static_cast<__mmask16>((1u << (held - 16)) - 1u);
            equal |= static_cast<unsigned>(_mm512_mask_cmpeq_epi32_mask(
                         rest, _mm512_maskz_loadu_epi32(rest, list + first + 16), wanted))
                     << 16;
        }
        const unsigned at = first + static_cast<unsigned>(__builtin_ctz(equal | 1u << 31));
        out[i] = equal == 0 ? 0.0 : static_cast<double>(tfs[equal == 0 ? 0 : at]);
    }
}

void bm25_settle(const double* tfs, const double* norms, std::size_t n, double idf, double k1_plus_1,
                 double* scores) noexcept {
    settle_each(tfs, norms, n, idf, k1_plus_1, scores);
}

void bm25_bound(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                std::uint16_t* bounds) noexcept {
    const __m512i weights = _mm512_set1_epi16(static_cast<short>(weight));
    const __m512i one = _mm512_set1_epi16(1);
    for (std::size_t i = 0; i < n; i += 32) {
        // The byte goes into the upper half of its word, so that the high product is byte * weight >> 8.
        const __m512i bytes = _mm512_cvtepu8_epi16(_mm256_loadu_epi8(maxima + i));
        __m512i bound = _mm512_add_epi16(_mm512_mulhi_epu16(_mm512_slli_epi16(bytes, 8), weights), one);
        if (add) bound = _mm512_add_epi16(bound, _mm512_loadu_epi16(bounds + i));
        _mm512_storeu_epi16(bounds + i, bound);
    }
}

// Up to eight rows in one pass: more streams than that are not read ahead. The bytes of even and of odd
// places stand in words of their own, each in its upper half: a shift and a mask instead of two widenings.
void bm25_levels(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t n_rows,
                 std::size_t n, std::uint16_t* sums) noexcept {
    constexpr std::size_t kAtOnce = 8;
    for (std::size_t first = 0; first < n_rows; first += kAtOnce) {
        const std::size_t count = n_rows - first < kAtOnce ? n_rows - first : kAtOnce;
        __m512i factors[kAtOnce];
        for (std::size_t r = 0; r < count; ++r)
            factors[r] = _mm512_set1_epi16(static_cast<short>(weights[first + r]));
        const __m512i upper = _mm512_set1_epi16(static_cast<short>(0xFF00));
        const __m512i ones = _mm512_set1_epi16(static_cast<short>(count));
        for (std::size_t i = 0; i < n; i += 64) {
            __m512i even = ones;
            __m512i odd = ones;
            for (std::size_t r = 0; r < count; ++r) {
                const __m512i bytes = _mm512_loadu_epi8(rows[first + r] + i);
                even = _mm512_add_epi16(even, _mm512_mulhi_epu16(_mm512_slli_epi16(bytes, 8), factors[r]));
                odd = _mm512_add_epi16(odd, _mm512_mulhi_epu16(_mm512_and_si512(bytes, upper), factors[r]));
            }
            const __m512i low = _mm512_unpacklo_epi16(even, odd);
            const __m512i high = _mm512_unpackhi_epi16(even, odd);
            __m512i front = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high);
            __m512i back =
                _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
            if (first > 0) {
                front = _mm512_add_epi16(front, _mm512_loadu_epi16(sums + i));
                back = _mm512_add_epi16(back, _mm512_loadu_epi16(sums + i + 32));
            }
            _mm512_storeu_epi16(sums + i, front);
            _mm512_storeu_epi16(sums + i + 32, back);
        }
    }
}

std::size_t bm25_blocks(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                        std::uint32_t* out) noexcept {
    const __m512i limit = _mm512_set1_epi16(static_cast<short>(threshold));
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 64) {  // n is a multiple of 64
        const __mmask32 low = _mm512_cmpge_epu16_mask(_mm512_loadu_epi16(bounds + i), limit);
        const __mmask32 high = _mm512_cmpge_epu16_mask(_mm512_loadu_epi16(bounds + i + 32), limit);
        std::uint64_t mask = static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);
        for (; mask != 0; mask &= mask - 1)
            out[count++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctzll(mask));
    }
    return count;
}

std::size_t bm25_above(const float* impacts, std::size_t n, float least, std::uint32_t* out) noexcept {
    const __m512 limit = _mm512_set1_ps(least);
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        std::uint64_t mask = 0;
        for (unsigned part = 0; part < 64; part += 16)
            mask |= static_cast<std::uint64_t>(
                        _mm512_cmp_ps_mask(_mm512_loadu_ps(impacts + i + part), limit, _CMP_GE_OQ))
                    << part;
        for (; mask != 0; mask &= mask - 1)
            out[count++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctzll(mask));
    }
    return above_each(impacts, i, n, least, out, count);
}

}  // namespace gnomon::avx512
