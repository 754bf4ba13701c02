// Settling: canonical float64 scores of the rows that the screen left, eight threads a row, in the order of
// additions of cpp/kernels/kernels.hpp. Rounded products and sums throughout; a product of two float32 is
// exact in float64, so that these are the CPU's bits.
#pragma once
#include "arguments.hpp"
#include "device.cuh"

namespace gnomon::cuda {

__global__ void __launch_bounds__(128) dense_settle(SettleArgs args) {
    if (*args.found.overflow != 0) return;  // the wave is done again
    const int q = static_cast<int>(blockIdx.y);
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int groups = static_cast<int>(blockDim.x / kLanes * gridDim.x);
    const int group = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kLanes);
    const int count = args.found.counts[q];
    const float* const query = args.queries + static_cast<int64_t>(q) * args.dim;
    const int64_t first = static_cast<int64_t>(q) * args.found.capacity;
    // All lanes of a warp stay together for the exchange, also those that have no row left.
    const int rounds = (count + groups - 1) / groups;
    for (int round = 0; round < rounds; ++round) {
        const int i = round * groups + group;
        const bool on = i < count;
        const int64_t row = on ? static_cast<int64_t>(args.found.rows[first + i]) - args.first_row : 0;
        const float* const x = args.rows + row * args.dim;
        const int dim = on ? args.dim : 0;
        const double sum =
            lanes_sum(args.metric == kL2 ? l2_lane(query, x, dim, lane) : dot_lane(query, x, dim, lane));
        if (!on || lane != 0) continue;
        double score = sum;
        if (args.metric == kCosine) score = cosine_of(sum, args.query_squares[q], args.squares[row]);
        if (args.metric == kL2) score = __dadd_rn(0.0, -sum);
        args.found.scores[first + i] = score;
    }
}

}  // namespace gnomon::cuda
