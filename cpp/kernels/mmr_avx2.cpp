// One greedy MMR step, x86-64-v3: each of four lanes keeps its own best, the lowest index on ties; the lanes
// are compared at the end under the same rule.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx2 {

std::size_t mmr_step(const double* relevance, const double* similarity, double* redundancy,
                     const std::uint8_t* taken, std::size_t n, double diversity) noexcept {
    const double penalty = 1.0 - diversity;
    const __m256d lambda = _mm256_set1_pd(diversity);
    const __m256d penalties = _mm256_set1_pd(penalty);
    __m256d best = _mm256_set1_pd(-__builtin_inf());
    __m256i best_index = _mm256_set1_epi64x(static_cast<long long>(n));
    __m256i index = _mm256_setr_epi64x(0, 1, 2, 3);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d worst = _mm256_max_pd(_mm256_loadu_pd(similarity + i), _mm256_loadu_pd(redundancy + i));
        _mm256_storeu_pd(redundancy + i, worst);
        const __m256d score = _mm256_sub_pd(_mm256_mul_pd(lambda, _mm256_loadu_pd(relevance + i)),
                                            _mm256_mul_pd(penalties, worst));
        int flags;
        __builtin_memcpy(&flags, taken + i, sizeof flags);
        const __m256i open =
            _mm256_cmpeq_epi64(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(flags)), _mm256_setzero_si256());
        const __m256d wins = _mm256_and_pd(_mm256_cmp_pd(score, best, _CMP_GT_OQ), _mm256_castsi256_pd(open));
        best = _mm256_blendv_pd(best, score, wins);
        best_index = _mm256_blendv_epi8(best_index, index, _mm256_castpd_si256(wins));
        index = _mm256_add_epi64(index, _mm256_set1_epi64x(4));
    }
    alignas(32) double scores[4];
    alignas(32) std::uint64_t indices[4];
    _mm256_store_pd(scores, best);
    _mm256_store_si256(reinterpret_cast<__m256i*>(indices), best_index);
    std::size_t winner = n;
    double winning = 0.0;
    for (int lane = 0; lane < 4; ++lane) {
        if (indices[lane] == n) continue;
        if (winner == n || scores[lane] > winning || (scores[lane] == winning && indices[lane] < winner)) {
            winner = indices[lane];
            winning = scores[lane];
        }
    }
    for (; i < n; ++i) {
        if (similarity[i] > redundancy[i]) redundancy[i] = similarity[i];
        if (taken[i] != 0) continue;
        const double score = diversity * relevance[i] - penalty * redundancy[i];
        if (winner == n || score > winning) {
            winner = i;
            winning = score;
        }
    }
    return winner;
}

}  // namespace gnomon::avx2
