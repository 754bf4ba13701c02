// All kernels and their launches: the only file that nvcc compiles. Drivers are plain C++ (dense.cpp,
// bm25_device.cpp, mmr_device.cpp), which spares nvcc a pass over their headers for each architecture.
#include "bm25.cuh"
#include "dense_code.cuh"
#include "dense_screen.cuh"
#include "dense_screen90.cuh"
#include "dense_settle.cuh"
#include "mmr.cuh"
#include "topk.cuh"

namespace gnomon::cuda {
namespace {

constexpr unsigned kThreads = 256;

dim3 blocks_for(int64_t threads, unsigned each = kThreads) {
    return dim3(static_cast<unsigned>((threads + each - 1) / each));
}

template <class Acc, int PLANES>
void screen_by(const ScreenArgs& args, Family family, cudaStream_t stream) {
    const int columns = args.n_queries * PLANES;
    if (columns <= 16)
        start_screen<Acc, PLANES, 16, 32, 16, 4>(args, stream);
    else if (columns <= 64)
        start_screen<Acc, PLANES, 64, 32, 32, 3>(args, stream);
    else if (family == Family::wgmma)
        start_screen90<Acc, PLANES, 4>(args, stream);
    else
        start_screen<Acc, PLANES, 128, 64, 32, 3>(args, stream);
}

__global__ void widen_double(const double* from, int64_t n, float* to) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) to[i] = __double2float_rn(from[i]);
}

// Binary16 by hand: exact, and the same code runs emulated.
__global__ void widen_half(const uint16_t* from, int64_t n, float* to) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const uint32_t bits = from[i];
    const uint32_t sign = (bits & 0x8000U) << 16;
    const uint32_t exponent = bits >> 10 & 31U;
    const uint32_t fraction = bits & 0x3ffU;
    if (exponent == 31U)
        to[i] = __uint_as_float(sign | 0x7f800000U | fraction << 13);
    else if (exponent != 0U)
        to[i] = __uint_as_float(sign | (exponent + 112U) << 23 | fraction << 13);
    else  // a whole number of 2^-24
        to[i] = __uint_as_float(sign | __float_as_uint(static_cast<float>(fraction) * 0x1p-24F));
}

__global__ void widen_bf16(const uint16_t* from, int64_t n, float* to) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) to[i] = __uint_as_float(static_cast<uint32_t>(from[i]) << 16);
}

}  // namespace

void launch_squares(const float* rows, int64_t n, int dim, int64_t first, double* squares,
                    unsigned long long* bad, unsigned long long* zero, cudaStream_t stream) {
    GNOMON_LAUNCH(dense_squares, blocks_for(n * kLanes), dim3(kThreads), 0, stream, rows, n, dim, first,
                  squares, bad, zero);
}

void launch_code_rows(const float* rows, int64_t n, int dim, bool cosine, bool bf16, const CodedRows& out,
                      cudaStream_t stream) {
    GNOMON_LAUNCH(dense_code_rows, blocks_for(n * kLanes), dim3(kThreads), 0, stream, rows, n, dim, cosine,
                  bf16, out);
}

void launch_code_queries(const float* queries, int n, int dim, bool cosine, bool bf16, int planes,
                         const CodedQueries& out, cudaStream_t stream) {
    GNOMON_LAUNCH(dense_code_queries, blocks_for(static_cast<int64_t>(n) * kLanes), dim3(kThreads), 0, stream,
                  queries, n, dim, cosine, bf16, planes, out);
}

void launch_limits(const LimitRule& rule, int n, const double* taus, float* limits, cudaStream_t stream) {
    GNOMON_LAUNCH(dense_limits, blocks_for(n), dim3(kThreads), 0, stream, rule, n, taus, limits);
}

void launch_screen(const ScreenArgs& args, bool bf16, int planes, Family family, cudaStream_t stream) {
    if (bf16)
        screen_by<float, 1>(args, family, stream);
    else if (planes == 2)
        screen_by<int, 2>(args, family, stream);
    else
        screen_by<int, 1>(args, family, stream);
}

void launch_settle(const SettleArgs& args, cudaStream_t stream) {
    const int groups = 128 / kLanes;
    const int wanted = (args.found.capacity + groups - 1) / groups;
    const dim3 grid(static_cast<unsigned>(wanted < 32 ? wanted : 32), static_cast<unsigned>(args.n_queries));
    GNOMON_LAUNCH(dense_settle, grid, dim3(128), 0, stream, args);
}

void launch_merge(const MergeArgs& args, const LimitRule& rule, float* limits, cudaStream_t stream) {
    GNOMON_LAUNCH(topk_merge, dim3(static_cast<unsigned>(args.n_queries)), dim3(kMergeThreads),
                  sizeof(MergeShared), stream, args, rule, limits);
}

void launch_sort(const Best& best, int n_queries, int k, void* scratch, cudaStream_t stream) {
    int width = 2;
    while (width < k) width <<= 1;
    const bool inside = width <= kSortShared;
    GNOMON_LAUNCH(topk_sort, dim3(static_cast<unsigned>(n_queries)), dim3(kMergeThreads),
                  inside ? static_cast<std::size_t>(width) * 12 : 0, stream, best, k, width,
                  inside ? nullptr : static_cast<char*>(scratch));
}

void launch_rows64(const Best& best, int n_queries, int k, int64_t* rows, cudaStream_t stream) {
    const int64_t n = static_cast<int64_t>(n_queries) * k;
    GNOMON_LAUNCH(topk_rows64, blocks_for(n), dim3(kThreads), 0, stream, best, n, k, rows);
}

void launch_fill(double* values, int64_t n, double value, cudaStream_t stream) {
    GNOMON_LAUNCH(fill, blocks_for(n), dim3(kThreads), 0, stream, values, n, value);
}

void launch_widen(const void* from, int kind, int64_t n, float* to, cudaStream_t stream) {
    if (kind == 0)
        GNOMON_LAUNCH(widen_double, blocks_for(n), dim3(kThreads), 0, stream,
                      static_cast<const double*>(from), n, to);
    else if (kind == 1)
        GNOMON_LAUNCH(widen_half, blocks_for(n), dim3(kThreads), 0, stream,
                      static_cast<const uint16_t*>(from), n, to);
    else
        GNOMON_LAUNCH(widen_bf16, blocks_for(n), dim3(kThreads), 0, stream,
                      static_cast<const uint16_t*>(from), n, to);
}

void launch_impacts(const Bm25Lists& lists, int64_t n, const double* constants, const Bm25Rule& rule,
                    float* impacts, cudaStream_t stream) {
    GNOMON_LAUNCH(bm25_impacts, blocks_for(n), dim3(kThreads), 0, stream, lists, n, constants, rule, impacts);
}

void launch_impact_range(const int64_t* starts, const float* impacts, int64_t n_terms, float* greatest,
                         float* least, cudaStream_t stream) {
    GNOMON_LAUNCH(bm25_impact_range, blocks_for(n_terms * 32), dim3(kThreads), 0, stream, starts, impacts,
                  n_terms, greatest, least);
}

void launch_cuts(const uint32_t* docs, const int64_t* starts, const int* terms, int n_terms, int n_ranges,
                 int range_docs, int64_t* cuts, cudaStream_t stream) {
    const int64_t n = static_cast<int64_t>(n_terms) * (n_ranges + 1);
    GNOMON_LAUNCH(bm25_cuts, blocks_for(n), dim3(kThreads), 0, stream, docs, starts, terms, n_terms, n_ranges,
                  range_docs, cuts);
}

void launch_bm25(const Bm25Block& block, cudaStream_t stream) {
    const auto shared = static_cast<int>(sizeof(Bm25Shared) + static_cast<std::size_t>(block.range_docs) * 4);
    cudaFuncSetAttribute(bm25_block, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    const dim3 grid(static_cast<unsigned>(block.ranges), static_cast<unsigned>(block.n_queries));
    GNOMON_LAUNCH(bm25_block, grid, dim3(kBm25Threads), static_cast<std::size_t>(shared), stream, block);
}

void launch_bm25_settle(const Bm25Block& block, const Bm25Rule& rule, const double* constants,
                        cudaStream_t stream) {
    const int wanted = (block.found.capacity + 127) / 128;
    const dim3 grid(static_cast<unsigned>(wanted < 32 ? wanted : 32), static_cast<unsigned>(block.n_queries));
    GNOMON_LAUNCH(bm25_settle, grid, dim3(128), 0, stream, block, rule, constants);
}

void launch_cosines(const float* rows, const double* squares, int64_t n, const float* queries,
                    const double* query_squares, int m, int dim, double* cosines, cudaStream_t stream) {
    const dim3 grid(blocks_for(n * kLanes).x, static_cast<unsigned>(m));
    GNOMON_LAUNCH(mmr_cosines, grid, dim3(kThreads), 0, stream, rows, squares, n, queries, query_squares, dim,
                  cosines);
}

void launch_mmr(const MmrArgs& args, cudaStream_t stream) {
    GNOMON_LAUNCH(mmr_greedy, dim3(static_cast<unsigned>(args.n_queries)), dim3(kMmrThreads),
                  sizeof(MmrShared), stream, args);
}

}  // namespace gnomon::cuda
