// What a kernel file starts with. Three things are not plain CUDA C++: a launch, dynamic shared memory, and
// PTX (tensor.cuh); the rest of cuda/ compiles unchanged under nvcc and, for tests, under g++ with
// tests/cuda/emulator.hpp in the place of a GPU.
//
// All shared memory is dynamic: the emulator poisons it before each block, which a static array would not
// show. Canonical float64 code spells its roundings (__dmul_rn, __dadd_rn) and is compiled with -fmad=false.
#pragma once
#ifdef GNOMON_EMULATED
#include "emulator.hpp"
#include "emulator_math.hpp"
#include "emulator_runtime.hpp"
#else
#include <cuda_runtime.h>

#include <cstdint>
#define GNOMON_LAUNCH(kernel, grid, threads, shared, stream, ...) \
    kernel<<<grid, threads, shared, stream>>>(__VA_ARGS__)
// Between a read and the write that belongs to it: there the emulator lets other threads run.
#define GNOMON_PAUSE()
#define GNOMON_SHARED(name) extern __shared__ __align__(1024) char name[]
__device__ __forceinline__ double rint_even(double x) { return rint(x); }
#endif

namespace gnomon::cuda {

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

constexpr unsigned kAll = 0xffffffffU;  // every lane of a warp
constexpr int kLanes = 8;               // of a canonical sum (kernels.hpp): so many threads share a row

// ((lane0 + lane4) + (lane2 + lane6)) + ((lane1 + lane5) + (lane3 + lane7)), given to all eight threads: in
// each step both partners add the same two numbers.
__device__ inline double lanes_sum(double lane) {
    lane = __dadd_rn(lane, __shfl_xor_sync(kAll, lane, 4));
    lane = __dadd_rn(lane, __shfl_xor_sync(kAll, lane, 2));
    return __dadd_rn(lane, __shfl_xor_sync(kAll, lane, 1));
}

// One lane of the canonical dot of kernels.hpp; lanes_sum() makes the dot of eight.
__device__ inline double dot_lane(const float* a, const float* b, int dim, int lane) {
    double sum = 0.0;
    for (int d = lane; d < dim; d += kLanes)
        sum = __dadd_rn(sum, __dmul_rn(static_cast<double>(a[d]), static_cast<double>(b[d])));
    return sum;
}

// The same of the squared differences.
__device__ inline double l2_lane(const float* a, const float* b, int dim, int lane) {
    double sum = 0.0;
    for (int d = lane; d < dim; d += kLanes) {
        const double t = __dadd_rn(static_cast<double>(a[d]), -static_cast<double>(b[d]));
        sum = __dadd_rn(sum, __dmul_rn(t, t));
    }
    return sum;
}

// finish_scores() of dense.cpp.
__device__ inline double cosine_of(double dot, double square_a, double square_b) {
    const double norms = __dsqrt_rn(__dmul_rn(square_a, square_b));
    const double cosine = norms > 0.0 ? __ddiv_rn(dot, norms) : 0.0;
    const double above = -1.0 < cosine ? cosine : -1.0;
    return above < 1.0 ? above : 1.0;
}

// Doubles in the order of their values as integers; the zeros are one.
__device__ inline uint64_t order_bits(double x) {
    const auto bits = static_cast<uint64_t>(__double_as_longlong(x + 0.0));
    return (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
}

__device__ inline bool is_allowed(const uint32_t* allowed, int64_t row) {
    return allowed == nullptr || (allowed[row >> 5] >> (row & 31) & 1U) != 0;
}

}  // namespace gnomon::cuda
