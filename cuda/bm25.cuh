// BM25 over the CPU index's own postings. A block scores one range of documents for one query: the sums lie
// in shared memory, and terms are added one after the other with a barrier between them. A term has a
// document once, so that no addition meets another and none needs to be atomic.
//
// These sums are a float32 screen, as on the CPU (bm25_screen.hpp): of weight * impact, scaled so that none
// exceeds 1; they differ from the exact sum by the relative error e = (terms + 6) 2^-23, and the canonical
// score, divided by the scale and without what absent terms give, from the exact sum by at most `slack`. A
// document is dropped only when its sum is below the cut of the k-th best canonical score so far, or of the
// k-th greatest sum of its range (k documents of the range then surely score better). The others are settled
// in the formula's float64 operations, in query-term order. A query that no screen serves (a weight that is
// not positive) has weights 0: every document that holds a term is settled.
#pragma once
#include "../cpp/bm25.hpp"
#include "arguments.hpp"
#include "device.cuh"
#include "topk.cuh"

namespace gnomon::cuda {

constexpr int kBm25Threads = 512;

// BM25F is the default formula over tf~ with k1 for the document's constant, operation by operation
// (bm25::field_part and bm25::weight).
__device__ inline double frequency_at(const Bm25Lists& lists, int64_t i) {
    return lists.tildes != nullptr ? lists.tildes[i] : static_cast<double>(lists.tfs[i]);
}

__global__ void bm25_impacts(Bm25Lists lists, int64_t n, const double* constants, Bm25Rule rule,
                             float* impacts) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double constant = constants != nullptr ? constants[lists.docs[i]] : rule.k1;
    impacts[i] = __double2float_rn(bm25::impact(static_cast<bm25::Formula>(rule.formula),
                                                frequency_at(lists, i), constant, rule.k1, rule.delta));
}

// One warp a term.
__global__ void bm25_impact_range(const int64_t* starts, const float* impacts, int64_t n_terms,
                                  float* greatest, float* least) {
    const int64_t term = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    if (term >= n_terms) return;  // whole warps
    float most = 0.0F;
    float small = __uint_as_float(0x7f800000U);
    for (int64_t i = starts[term] + lane; i < starts[term + 1]; i += 32) {
        const float x = impacts[i];
        most = x > most || !(x == x) ? x : most;
        small = x > 0.0F && x < small ? x : small;
    }
    for (unsigned bits = 16; bits != 0; bits >>= 1) {
        const float other = __shfl_xor_sync(kAll, most, bits);
        const float low = __shfl_xor_sync(kAll, small, bits);
        most = other > most || !(other == other) ? other : most;
        small = low < small ? low : small;
    }
    if (lane != 0) return;
    greatest[term] = most;
    least[term] = small;
}

// cuts[t * (ranges + 1) + r] = the first posting of the batch's term t with a document >= r * range_docs;
// terms[t] < 0: the segment does not hold it.
__global__ void bm25_cuts(const uint32_t* docs, const int64_t* starts, const int* terms, int n_terms,
                          int n_ranges, int range_docs, int64_t* cuts) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= static_cast<int64_t>(n_terms) * (n_ranges + 1)) return;
    const int term = terms[i / (n_ranges + 1)];
    int64_t low = 0;
    if (term >= 0) {
        const int64_t wanted = i % (n_ranges + 1) * range_docs;
        low = starts[term];
        int64_t high = starts[term + 1];
        while (low < high) {
            const int64_t middle = (low + high) >> 1;
            if (static_cast<int64_t>(docs[middle]) < wanted)
                low = middle + 1;
            else
                high = middle;
        }
    }
    cuts[i] = low;
}

// No document whose sum is below this can score at least `tau`.
__device__ inline float bm25_cut(const Bm25Queries& queries, int q, double reached) {
    const double cut = reached * (1.0 - 2.0 * queries.relatives[q]) - 2.0 * queries.slacks[q];
    return cut > 0.0 ? __double2float_rd(cut * (1.0 - 1e-7)) : 0.0F;
}

struct Bm25Shared {
    unsigned counts[256];
    unsigned pivot;
    int missing;
    int total;
};

// The k-th greatest of n sums (their bits are in order, as none is negative but the untouched), of which more
// than k are at least `cut`.
__device__ inline float kth_sum(const float* sums, int n, float cut, int k, Bm25Shared& shared) {
    const int t = static_cast<int>(threadIdx.x);
    if (t == 0) {
        shared.pivot = 0;
        shared.missing = k;
    }
    for (int place = 0; place < 4; ++place) {
        for (int i = t; i < 256; i += kBm25Threads) shared.counts[i] = 0;
        __syncthreads();
        const unsigned pivot = shared.pivot;
        const int shift = 24 - 8 * place;
        for (int i = t; i < n; i += kBm25Threads) {
            if (!(sums[i] >= cut)) continue;
            const unsigned bits = __float_as_uint(sums[i]);
            if (place == 0 || (bits ^ pivot) >> (shift + 8) == 0)
                atomicAdd(&shared.counts[bits >> shift & 255U], 1U);
        }
        __syncthreads();
        if (t == 0) {
            int missing = shared.missing;
            int byte = 255;
            for (; byte > 0 && static_cast<int>(shared.counts[byte]) < missing; --byte)
                missing -= static_cast<int>(shared.counts[byte]);
            shared.pivot |= static_cast<unsigned>(byte) << shift;
            shared.missing = missing;
        }
        __syncthreads();
    }
    return __uint_as_float(shared.pivot);
}

__global__ void __launch_bounds__(kBm25Threads) bm25_block(Bm25Block block) {
    GNOMON_SHARED(raw);
    Bm25Shared& shared = *reinterpret_cast<Bm25Shared*>(raw);
    auto* const sums = reinterpret_cast<float*>(raw + sizeof(Bm25Shared));
    const int t = static_cast<int>(threadIdx.x);
    const int lane = t & 31;
    const int q = static_cast<int>(blockIdx.y);
    const int range = block.first_range + static_cast<int>(blockIdx.x);
    const int64_t base = static_cast<int64_t>(range) * block.range_docs;
    const int64_t left = block.n_docs - base;
    const int n = left < block.range_docs ? static_cast<int>(left) : block.range_docs;
    for (int i = t; i < block.range_docs; i += kBm25Threads) sums[i] = -1.0F;  // untouched
    if (t == 0) shared.total = 0;
    __syncthreads();
    const int64_t stride = block.n_ranges + 1;
    for (int o = block.queries.starts[q]; o < block.queries.starts[q + 1]; ++o) {
        const int64_t* const cut = block.cuts + block.queries.slots[o] * stride + range;
        const float weight = block.queries.scaled[o];
        for (int64_t i = cut[0] + t; i < cut[1]; i += kBm25Threads) {
            const auto doc = static_cast<int>(block.lists.docs[i] - base);
            const float sum = sums[doc];
            GNOMON_PAUSE();
            sums[doc] = (sum < 0.0F ? 0.0F : sum) + (weight > 0.0F ? weight * block.lists.impacts[i] : 0.0F);
        }
        __syncthreads();
    }
    const double scale = block.queries.scales[q];
    float cut = 0.0F;
    if (scale > 0.0) {
        const double reached = (block.best.taus[q] - block.queries.absent_sums[q]) / scale;
        cut = bm25_cut(block.queries, q, reached);
    }
    int own = 0;
    for (int i = t; i < n; i += kBm25Threads) {
        if (!is_allowed(block.allowed, base + i)) sums[i] = -1.0F;
        own += sums[i] >= cut ? 1 : 0;
    }
    atomicAdd(&shared.total, own);
    __syncthreads();
    if (scale > 0.0 && shared.total > 2 * block.k + 32) {
        const float kth = kth_sum(sums, n, cut, block.k, shared);
        const float higher = bm25_cut(block.queries, q, static_cast<double>(kth));
        cut = higher > cut ? higher : cut;
    }
    for (int first = 0; first < n; first += kBm25Threads) {
        const int i = first + t;
        const bool pass = i < n && sums[i] >= cut;
        const unsigned votes = __ballot_sync(kAll, pass);
        if (votes == 0) continue;
        int place = 0;
        if (lane == 0) place = atomicAdd(block.found.counts + q, __popc(votes));
        place = __shfl_sync(kAll, place, 0) + __popc(votes & ((1U << lane) - 1U));
        if (!pass) continue;
        if (place < block.found.capacity)
            block.found.rows[static_cast<int64_t>(q) * block.found.capacity + place] =
                block.base + static_cast<uint32_t>(base + i);
        else
            atomicOr(block.found.overflow, 1);
    }
}

// Canonical scores of the candidates, a thread each: the frequency of each term by a search in its part of
// the range, then settle() of cpp/bm25_settle.cpp. Four blocks at once: ptxas takes 128 threads alone for a
// wish to have twelve, and spills.
__global__ void __launch_bounds__(128, 4)
    bm25_settle(Bm25Block block, Bm25Rule rule, const double* constants) {
    if (*block.found.overflow != 0) return;
    const int q = static_cast<int>(blockIdx.y);
    const int64_t first = static_cast<int64_t>(q) * block.found.capacity;
    const int count = block.found.counts[q];
    const auto formula = static_cast<bm25::Formula>(rule.formula);
    const int64_t stride = block.n_ranges + 1;
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
         i += static_cast<int>(blockDim.x * gridDim.x)) {
        const uint32_t doc = block.found.rows[first + i] - block.base;
        const int64_t range = doc / static_cast<uint32_t>(block.range_docs);
        const double constant = constants != nullptr ? constants[doc] : rule.k1;
        double score = 0.0;
        for (int o = block.queries.starts[q]; o < block.queries.starts[q + 1]; ++o) {
            const int64_t* const cut = block.cuts + block.queries.slots[o] * stride + range;
            int64_t low = cut[0];
            int64_t high = cut[1];
            const int64_t end = high;
            while (low < high) {
                const int64_t middle = (low + high) >> 1;
                if (block.lists.docs[middle] < doc)
                    low = middle + 1;
                else
                    high = middle;
            }
            if (low < end && block.lists.docs[low] == doc)
                score = score + bm25::part(formula, block.queries.weights[o], frequency_at(block.lists, low),
                                           constant, rule.k1, rule.delta);
            else if (rule.in_order)
                score = score + block.queries.absents[o];
        }
        if (rule.at_end) score = score + block.queries.at_ends[q];
        block.found.scores[first + i] = score;
    }
}

}  // namespace gnomon::cuda
