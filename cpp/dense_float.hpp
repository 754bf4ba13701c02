// The float32 screen: for rows that int8 codes cannot tell apart, and whose float64 dots are not all needed.
// It reads the vectors themselves, so it takes no memory.
//
// A kernel's dot s of q and x has at most m = D / 4 + 8 roundings from a product to the sum (kernels.hpp),
// each of relative error u = 2^-24 at most. So (Higham, Accuracy and Stability, section 3.1)
//   |s - q.x| <= m u / (1 - m u) sum |q_i x_i| <= 1.01 m u |q| |x|          (m u < 0.001, Cauchy-Schwarz)
// while nothing over- or underflows: rows and queries whose norms lie outside [1e-12, 1e18] get no bounds,
// but zero rows, whose s is exactly 0; what falls below 2^-126 errs by 2^-126 at most, u |q| |x| / 30 in all.
// The score's bounds follow in float32:
//   cosine  s / (|q| |x|)             +- E
//   ip      s                         +- E |q| |x|
//   l2      2 s - |q|^2 - |x|^2       +- E (|q|^2 + |x|^2)
// with E = 1.01 (m + 20) u. The 20 u cover a dozen roundings of these expressions, each at most u times the
// magnitude that E is multiplied with (twice that for l2, where 2 |s| <= |q|^2 + |x|^2), and the canonical
// score's own distance from the real number (dense_screen.hpp: 1e-9). A row is dropped only when its upper
// bound is below the k-th best lower bound; the others are settled in canonical arithmetic.
//
// bfloat16 was weighed and left out: rows rounded to it need half of the vectors' memory again, their bounds
// are 2^-9 |q| |x| wide, hardly tighter than int8's, and only some processors multiply them faster.
#pragma once
#include <vector>

#include "dense_screen.hpp"

namespace gnomon {

// As dense_top_k; queries that have no bounds, or whose bounds leave too many rows, are scanned plainly.
std::vector<std::vector<Hit>> float_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric,
                                          const DenseWanted& wanted, std::size_t threads,
                                          const Kernels& kernels, DenseStats& stats);

}  // namespace gnomon
