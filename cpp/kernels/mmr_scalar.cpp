// One greedy MMR step, portable level.
#include "kernels.hpp"

namespace gnomon::scalar {

std::size_t mmr_step(const double* relevance, const double* similarity, double* redundancy,
                     const std::uint8_t* taken, std::size_t n, double diversity) noexcept {
    const double penalty = 1.0 - diversity;
    std::size_t best = n;
    double best_score = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        if (similarity[i] > redundancy[i]) redundancy[i] = similarity[i];
        if (taken[i] != 0) continue;
        const double score = diversity * relevance[i] - penalty * redundancy[i];
        if (best == n || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

}  // namespace gnomon::scalar
