// One greedy MMR step, x86-64-v4: eight lanes, each with its own best; masked at the end of the arrays.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512 {

std::size_t mmr_step(const double* relevance, const double* similarity, double* redundancy,
                     const std::uint8_t* taken, std::size_t n, double diversity) noexcept {
    const __m512d lambda = _mm512_set1_pd(diversity);
    const __m512d penalties = _mm512_set1_pd(1.0 - diversity);
    __m512d best = _mm512_set1_pd(-__builtin_inf());
    __m512i best_index = _mm512_set1_epi64(static_cast<long long>(n));
    __m512i index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    for (std::size_t i = 0; i < n; i += 8) {
        const std::size_t left = n - i;
        const __mmask8 mask = left >= 8 ? 0xFF : static_cast<__mmask8>((1u << left) - 1u);
        const __m512d worst = _mm512_max_pd(_mm512_maskz_loadu_pd(mask, similarity + i),
                                            _mm512_maskz_loadu_pd(mask, redundancy + i));
        _mm512_mask_storeu_pd(redundancy + i, mask, worst);
        const __m512d score = _mm512_sub_pd(_mm512_mul_pd(lambda, _mm512_maskz_loadu_pd(mask, relevance + i)),
                                            _mm512_mul_pd(penalties, worst));
        const __m128i flags = _mm_maskz_loadu_epi8(mask, taken + i);
        const __mmask8 open =
            _mm512_mask_cmpeq_epi64_mask(mask, _mm512_cvtepu8_epi64(flags), _mm512_setzero_si512());
        const __mmask8 wins = _mm512_mask_cmp_pd_mask(open, score, best, _CMP_GT_OQ);
        best = _mm512_mask_mov_pd(best, wins, score);
        best_index = _mm512_mask_mov_epi64(best_index, wins, index);
        index = _mm512_add_epi64(index, _mm512_set1_epi64(8));
    }
    alignas(64) double scores[8];
    alignas(64) std::uint64_t indices[8];
    _mm512_store_pd(scores, best);
    _mm512_store_si512(indices, best_index);
    std::size_t winner = n;
    double winning = 0.0;
    for (int lane = 0; lane < 8; ++lane) {
        if (indices[lane] == n) continue;
        if (winner == n || scores[lane] > winning || (scores[lane] == winning && indices[lane] < winner)) {
            winner = indices[lane];
            winning = scores[lane];
        }
    }
    return winner;
}

}  // namespace gnomon::avx512
