// Greedy maximal marginal relevance (Carbonell & Goldstein 1998) over given similarities: first the most
// relevant candidate, then again and again the greatest
//   diversity * relevance[i] - (1 - diversity) * max over selected j of similarity[i, j]
// ties to the lower index. O(limit * n): each pick updates one running maximum a candidate.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu.hpp"
#include "dense.hpp"

namespace gnomon {

// similarity is n x n, row-major. Throws InvalidInput for a value that is not finite (naming its place) and
// for diversity outside [0, 1].
std::vector<std::int64_t> mmr(const double* relevance, const double* similarity, std::size_t n,
                              std::size_t limit, double diversity, const Kernels& kernels);

// Which picks a candidate's similarity counts: all (the definition above), or only the latest one
// (LlamaIndex's).
enum class MmrPenalty { all, last };

struct MmrPick {
    std::size_t index;
    double score;  // the first pick's is its relevance, as that is what chose it
};

// The same picks from vectors, with the canonical cosine as similarity, without the n x n matrix. `selected`
// were picked before and are not picked again. Squares belong to the rows.
//
// Lazy greedy (Minoux 1978): a pick can only raise a candidate's redundancy, so an outdated score is an upper
// bound. The heap's top is brought up to date with the picks it has not seen; a top that is up to date wins.
// Float rounding is monotone, so the picks, ties included, are those of the full loop; 80-98 % of the dots
// are never computed.
// Outdated scores come from float32 cosines less their bound, which leaves a lower bound of the redundancy.
// Before a top wins, the few picks whose float32 cosines may be its greatest are seen in canonical
// arithmetic.
std::vector<MmrPick> mmr_vectors(Matrix rows, const double* squares, const double* relevance,
                                 const std::vector<std::uint32_t>& selected, std::size_t limit,
                                 double diversity, MmrPenalty penalty, const Kernels& kernels);

}  // namespace gnomon
