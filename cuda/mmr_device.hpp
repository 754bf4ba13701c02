// Batched greedy MMR on a device (mmr.cuh): the CPU's picks and scores.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device.hpp"

namespace gnomon::cuda {

struct MmrWanted {
    const float* rows;  // [n, dim]
    bool rows_on_device;
    std::int64_t n;
    int dim;
    const float* queries;  // [n_queries, dim]; null where relevance is given
    bool queries_on_device;
    const double* relevance;  // [n_queries, n] in host memory, or null
    std::int64_t n_queries;
    const std::vector<std::vector<std::int32_t>>* selected;  // picks before, of each query
    int limit;
    double diversity;
    bool last_only;
    std::size_t workspace_bytes = kWorkspaceBytes;
};

// Picks of each query, -1 behind the last, and their scores: [n_queries, limit].
struct MmrPicks {
    std::vector<std::int32_t> picks;
    std::vector<double> scores;
};

// Throws InvalidInput naming a row that is not finite, DeviceError when the workspace is too small.
MmrPicks mmr_on_device(int device, const MmrWanted& wanted);

}  // namespace gnomon::cuda
