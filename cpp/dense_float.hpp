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
// bfloat16 was weighed and left out. Where int8 decides it has nothing to win: of 20,000 real embeddings
// int8's bounds (1.7e-2 wide) leave 25 rows for k = 10, bfloat16's (3.3e-3) 11, and it multiplies half as
// fast as int8 (vdpbf16ps and vpdpbusd start at the same rate: 4.0 and 3.9 a nanosecond on a Zen 5 core).
// Where int8 cannot decide, bfloat16 mostly cannot either: rows that differ by 1e-2 or 1e-3 of their length,
// by an ulp, or beside one huge dimension are all left by both; float32 leaves 11, 27, and what nothing but
// the canonical dots decides. Between lies a band (rows that differ by a tenth: int8 leaves 19,931, bfloat16
// 476, float32 10) where it would at best halve a pass that float32 makes without any memory; its rows would
// take half of the vectors' memory, and a screen may take 0.3 of it. A few dimensions of large offset, or
// heavy tails, are int8's to decide (576 and 130 rows; rotated 54 and 18).
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
