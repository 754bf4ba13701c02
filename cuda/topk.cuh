// The k best of two lists, and their order: higher score first, then the lower row (cpp/order.hpp), for any
// k.
//
// A block selects for one query by radix: histograms of one byte after the other, from the highest, of what
// ranks a hit: the score's bits in order, then the row, lower first. No list is sorted before the end, and
// nothing depends on the order in which threads append.
#pragma once
#include "arguments.hpp"
#include "dense_code.cuh"
#include "device.cuh"

namespace gnomon::cuda {

constexpr int kMergeThreads = 256;
constexpr int kBytes = 12;  // eight of the score, four of the row

struct Rank {
    uint64_t score;
    uint32_t row;  // complemented: greater is better
};
__device__ inline Rank rank_of(double score, uint32_t row) { return {order_bits(score), ~row}; }
__device__ inline unsigned byte_of(Rank rank, int place) {
    return place < 8 ? static_cast<unsigned>(rank.score >> (56 - 8 * place)) & 255U
                     : rank.row >> (24 - 8 * (place - 8)) & 255U;
}
__device__ inline bool above(Rank a, Rank b) {
    return a.score != b.score ? a.score > b.score : a.row > b.row;
}
// Whether the first `places` bytes agree.
__device__ inline bool agrees(Rank a, Rank b, int places) {
    if (places == 0) return true;
    if (places <= 8) return (a.score ^ b.score) >> (64 - 8 * places) == 0;
    return a.score == b.score && (places == 8 || (a.row ^ b.row) >> (32 - 8 * (places - 8)) == 0);
}

struct MergeShared {
    unsigned counts[256];
    Rank pivot;
    int missing;  // still to be taken among those that agree with the pivot
    int place;    // bytes of the pivot that are known
    int total;
    int kept;
    unsigned long long worst;
};

// The hits of a query: those so far, then the candidates that reach `least`.
struct Hits {
    const double* scores;
    const uint32_t* rows;
    int n;
    const double* more_scores;
    const uint32_t* more_rows;
    int more;
    double least;

    __device__ bool get(int i, double& score, uint32_t& row) const {
        const bool old = i < n;
        score = old ? scores[i] : more_scores[i - n];
        row = old ? rows[i] : more_rows[i - n];
        return old || score >= least;
    }
};

// The rank of the k-th best of more than k hits, as far as it is needed: bytes behind `place` are 0, and all
// that agree up to there are taken.
__device__ inline void find_pivot(const Hits& hits, int k, MergeShared& shared) {
    const int t = static_cast<int>(threadIdx.x);
    if (t == 0) {
        shared.pivot = {0, 0};
        shared.missing = k;
        shared.place = 0;
    }
    for (int place = 0; place < kBytes; ++place) {
        for (int i = t; i < 256; i += kMergeThreads) shared.counts[i] = 0;
        __syncthreads();
        const Rank pivot = shared.pivot;
        for (int i = t; i < hits.n + hits.more; i += kMergeThreads) {
            double score;
            uint32_t row;
            if (!hits.get(i, score, row)) continue;
            const Rank rank = rank_of(score, row);
            if (agrees(rank, pivot, place)) atomicAdd(&shared.counts[byte_of(rank, place)], 1U);
        }
        __syncthreads();
        if (t == 0) {
            int missing = shared.missing;
            int byte = 255;
            for (; byte > 0 && static_cast<int>(shared.counts[byte]) < missing; --byte)
                missing -= static_cast<int>(shared.counts[byte]);
            if (place < 8)
                shared.pivot.score |= static_cast<uint64_t>(byte) << (56 - 8 * place);
            else
                shared.pivot.row |= static_cast<uint32_t>(byte) << (24 - 8 * (place - 8));
            // All of the class are wanted: no closer look is needed.
            shared.missing = static_cast<int>(shared.counts[byte]) == missing ? 0 : missing;
            shared.place = place + 1;
        }
        __syncthreads();
        if (shared.missing == 0) break;
    }
}

__global__ void __launch_bounds__(kMergeThreads, 1)
    topk_merge(MergeArgs args, LimitRule rule, float* limits) {
    if (*args.found.overflow != 0) return;
    GNOMON_SHARED(raw);
    MergeShared& shared = *reinterpret_cast<MergeShared*>(raw);
    const int q = static_cast<int>(blockIdx.x);
    const int t = static_cast<int>(threadIdx.x);
    const int64_t best = static_cast<int64_t>(q) * args.k;
    const int64_t first = static_cast<int64_t>(q) * args.found.capacity;
    const Hits hits{args.before.scores + best,
                    args.before.rows + best,
                    args.before.counts[q],
                    args.found.scores + first,
                    args.found.rows + first,
                    args.found.counts[q],
                    args.least};
    if (t == 0) {
        shared.total = 0;
        shared.kept = 0;
        shared.worst = ~0ULL;
    }
    __syncthreads();
    int own = 0;
    for (int i = t; i < hits.n + hits.more; i += kMergeThreads) {
        double score;
        uint32_t row;
        own += hits.get(i, score, row) ? 1 : 0;
        if (!(score == score)) atomicOr(args.not_a_number, 1);
    }
    atomicAdd(&shared.total, own);
    __syncthreads();
    const bool all = shared.total <= args.k;
    if (!all) find_pivot(hits, args.k, shared);
    const Rank pivot = shared.pivot;
    const int place = shared.place;
    for (int i = t; i < hits.n + hits.more; i += kMergeThreads) {
        double score;
        uint32_t row;
        if (!hits.get(i, score, row)) continue;
        const Rank rank = rank_of(score, row);
        if (!all && !agrees(rank, pivot, place) && !above(rank, pivot)) continue;
        const int at = atomicAdd(&shared.kept, 1);
        args.after.scores[best + at] = score;
        args.after.rows[best + at] = row;
        atomicMin(&shared.worst, static_cast<unsigned long long>(rank.score));
    }
    __syncthreads();
    if (t != 0) return;
    args.after.counts[q] = shared.kept;
    double tau = args.before.taus[q];
    if (shared.kept == args.k) {
        const uint64_t bits = shared.worst;
        const uint64_t value = (bits >> 63) != 0 ? bits ^ (uint64_t{1} << 63) : ~bits;
        const double kth = __longlong_as_double(static_cast<long long>(value));
        tau = kth > tau ? kth : tau;
    }
    args.after.taus[q] = tau;
    if (limits != nullptr) limits[q] = limit_of(rule, q, tau);
}

__device__ inline bool follows(double a, uint32_t row_a, double b, uint32_t row_b) {
    return above(rank_of(b, row_b), rank_of(a, row_a));
}

// One block a query: bitonic, best first. Room for `width`, a power of two, in shared memory or in scratch.
__global__ void __launch_bounds__(kMergeThreads) topk_sort(Best best, int k, int width, char* scratch) {
    GNOMON_SHARED(raw);
    const int q = static_cast<int>(blockIdx.x);
    const int t = static_cast<int>(threadIdx.x);
    const int n = best.counts[q];
    char* const room = scratch != nullptr ? scratch + static_cast<int64_t>(q) * width * 12 : raw;
    auto* const scores = reinterpret_cast<double*>(room);
    auto* const rows = reinterpret_cast<uint32_t*>(room + static_cast<int64_t>(width) * 8);
    double* const out_scores = best.scores + static_cast<int64_t>(q) * k;
    uint32_t* const out_rows = best.rows + static_cast<int64_t>(q) * k;
    int used = 2;  // what this query needs of the width
    while (used < n) used <<= 1;
    for (int i = t; i < used; i += kMergeThreads) {  // what pads it follows every hit
        scores[i] = i < n ? out_scores[i] : -__longlong_as_double(0x7ffLL << 52);
        rows[i] = i < n ? out_rows[i] : 0xffffffffU;
    }
    __syncthreads();
    for (int size = 2; size <= used; size <<= 1)
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            for (int p = t; p < used / 2; p += kMergeThreads) {
                const int i = 2 * p - (p & (stride - 1));
                const int j = i + stride;
                const double a = scores[i];
                const double b = scores[j];
                const uint32_t row_a = rows[i];
                const uint32_t row_b = rows[j];
                const bool swap = (i & size) == 0 ? follows(a, row_a, b, row_b) : follows(b, row_b, a, row_a);
                if (!swap) continue;
                scores[i] = b;
                scores[j] = a;
                rows[i] = row_b;
                rows[j] = row_a;
            }
            __syncthreads();
        }
    for (int i = t; i < n; i += kMergeThreads) {
        out_scores[i] = scores[i];
        out_rows[i] = rows[i];
    }
}

__global__ void topk_rows64(Best best, int64_t n, int k, int64_t* rows) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const bool on = static_cast<int>(i % k) < best.counts[i / k];
    rows[i] = on ? static_cast<int64_t>(best.rows[i]) : -1;
    if (!on) best.scores[i] = -__longlong_as_double(0x7ffLL << 52);
}

__global__ void fill(double* values, int64_t n, double value) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) values[i] = value;
}

}  // namespace gnomon::cuda
