// Search over rows that are not kept: one pass over memory makes their squares and, for a batch, codes that
// are screened and forgotten while they lie in a cache.
#pragma once
#include <vector>

#include "dense.hpp"

namespace gnomon {

// The best k rows for each query. Throws InvalidInput as checked_squares() does, for documents first.
std::vector<std::vector<Hit>> once_top_k(Matrix rows, Matrix queries, Metric metric, OnZero on_zero,
                                         std::size_t k, std::size_t threads, const Kernels& kernels);

}  // namespace gnomon
