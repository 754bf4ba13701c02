// BM25 kernels, x86-64-v4: eight documents at a time; the last ones under a mask, so there is no scalar tail.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512 {

void bm25_add(const std::uint32_t* docs, const std::uint32_t* tfs, std::size_t n, std::uint32_t base,
              const double* norms, double idf, double k1_plus_1, double* scores) noexcept {
    const __m256i bases = _mm256_set1_epi32(static_cast<int>(base));
    const __m512d idfs = _mm512_set1_pd(idf);
    const __m512d factor = _mm512_set1_pd(k1_plus_1);
    const __m512d zero = _mm512_setzero_pd();
    for (std::size_t i = 0; i < n; i += 8) {
        const std::size_t left = n - i;
        const __mmask8 mask = left >= 8 ? 0xFF : static_cast<__mmask8>((1u << left) - 1u);
        const __m256i offsets = _mm256_sub_epi32(_mm256_maskz_loadu_epi32(mask, docs + i), bases);
        const __m512d tf = _mm512_cvtepu32_pd(_mm256_maskz_loadu_epi32(mask, tfs + i));
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

}  // namespace gnomon::avx512
