// Greedy maximal marginal relevance (Carbonell & Goldstein 1998) over given similarities: first the most
// relevant candidate, then again and again the greatest
//   diversity * relevance[i] - (1 - diversity) * max over selected j of similarity[i, j]
// ties to the lower index. O(limit * n): each pick updates one running maximum a candidate.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu.hpp"

namespace gnomon {

// similarity is n x n, row-major. Throws InvalidInput for a value that is not finite (naming its place) and
// for diversity outside [0, 1].
std::vector<std::int64_t> mmr(const double* relevance, const double* similarity, std::size_t n,
                              std::size_t limit, double diversity, const Kernels& kernels);

}  // namespace gnomon
