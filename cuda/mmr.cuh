// Greedy MMR (cpp/mmr.hpp), one block a query: each pick updates the redundancy of every candidate with the
// canonical cosine, eight threads a row, and the next pick is the greatest score, ties to the lower row. The
// full loop, not the CPU's lazy one: float rounding is monotone, so that both pick the same.
#pragma once
#include "arguments.hpp"
#include "device.cuh"
#include "topk.cuh"

namespace gnomon::cuda {

constexpr int kMmrThreads = 512;

struct MmrShared {
    uint64_t scores[kMmrThreads / 32];
    long long rows[kMmrThreads / 32];
    long long pick;
};

// Eight threads a row and query.
__global__ void mmr_cosines(const float* rows, const double* squares, int64_t n, const float* queries,
                            const double* query_squares, int dim, double* cosines) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int64_t q = blockIdx.y;
    const bool on = row < n;
    const float* const x = rows + (on ? row : 0) * dim;
    const double dot = lanes_sum(dot_lane(queries + q * dim, x, on ? dim : 0, lane));
    if (on && lane == 0) cosines[q * n + row] = cosine_of(dot, query_squares[q], squares[row]);
}

// redundancy[i] = max(redundancy[i], cosine(i, pick)), or the cosine alone.
__device__ inline void see_pick(const MmrArgs& args, double* redundancy, int64_t pick, bool only) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int64_t group = threadIdx.x / kLanes;
    constexpr int64_t groups = kMmrThreads / kLanes;
    const float* const chosen = args.rows + pick * args.dim;
    for (int64_t first = 0; first < args.n; first += groups) {
        const int64_t row = first + group;
        const bool on = row < args.n;
        const float* const x = args.rows + (on ? row : 0) * args.dim;
        const double dot = lanes_sum(dot_lane(chosen, x, on ? args.dim : 0, lane));
        if (!on || lane != 0) continue;
        const double cosine = cosine_of(dot, args.squares[pick], args.squares[row]);
        redundancy[row] = only || redundancy[row] < cosine ? cosine : redundancy[row];
    }
}

// The row of the greatest value among those that are not taken, the lowest of equal ones; -1: all are.
template <class Value>
__device__ inline int64_t greatest_row(const MmrArgs& args, const unsigned char* taken, Value value,
                                       MmrShared& shared) {
    const int t = static_cast<int>(threadIdx.x);
    uint64_t best = 0;
    long long row = -1;
    for (int64_t i = t; i < args.n; i += kMmrThreads) {
        if (taken[i] != 0) continue;
        const uint64_t bits = order_bits(value(i));
        if (row < 0 || bits > best) {
            best = bits;
            row = i;
        }
    }
    for (unsigned bits = 16; bits != 0; bits >>= 1) {
        const uint64_t other = __shfl_xor_sync(kAll, best, bits);
        const long long other_row = __shfl_xor_sync(kAll, row, bits);
        const bool better = other_row >= 0 && (row < 0 || other > best || (other == best && other_row < row));
        best = better ? other : best;
        row = better ? other_row : row;
    }
    if ((t & 31) == 0) {
        shared.scores[t >> 5] = best;
        shared.rows[t >> 5] = row;
    }
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < kMmrThreads / 32; ++w) {
            const uint64_t other = shared.scores[w];
            const long long other_row = shared.rows[w];
            if (other_row >= 0 && (row < 0 || other > best || (other == best && other_row < row))) {
                best = other;
                row = other_row;
            }
        }
        shared.pick = row;
    }
    __syncthreads();
    return shared.pick;
}

__global__ void __launch_bounds__(kMmrThreads, 1) mmr_greedy(MmrArgs args) {
    GNOMON_SHARED(raw);
    MmrShared& shared = *reinterpret_cast<MmrShared*>(raw);
    const int t = static_cast<int>(threadIdx.x);
    const int64_t q = blockIdx.x;
    const double* const relevance = args.relevance + q * args.n;
    double* const redundancy = args.redundancy + q * args.n;
    unsigned char* const taken = args.taken + q * args.n;
    const int first = args.selected_starts[q];
    const int end = args.selected_starts[q + 1];
    for (int64_t i = t; i < args.n; i += kMmrThreads) redundancy[i] = -__longlong_as_double(0x7ffLL << 52);
    __syncthreads();
    for (int s = args.last_only && end > first ? end - 1 : first; s < end; ++s) {
        see_pick(args, redundancy, args.selected[s], args.last_only);
        __syncthreads();
    }
    for (int step = 0; step < args.limit; ++step) {
        const bool by_relevance = step == 0 && end == first;
        const auto score = [&](int64_t i) {
            if (by_relevance) return relevance[i];
            return __dadd_rn(__dmul_rn(args.diversity, relevance[i]),
                             -__dmul_rn(__dadd_rn(1.0, -args.diversity), redundancy[i]));
        };
        const int64_t pick = greatest_row(args, taken, score, shared);
        if (pick < 0) break;  // all are taken; the same for the whole block
        if (t == 0) {
            args.picks[q * args.limit + step] = static_cast<int>(pick);
            args.scores[q * args.limit + step] = score(pick);
            taken[pick] = 1;
        }
        __syncthreads();
        if (step + 1 == args.limit) break;
        see_pick(args, redundancy, pick, args.last_only);
        __syncthreads();
    }
}

}  // namespace gnomon::cuda
