// dense_screen.cuh with Hopper's warpgroup products: two warpgroups, 128 rows x 128 columns.
#pragma once
#include "dense_screen.cuh"
#include "tensor90.cuh"

namespace gnomon::cuda {

template <class Acc, int PLANES, int STAGES>
__global__ void __launch_bounds__(256) dense_screen90(ScreenArgs args) {
#if defined(GNOMON_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int BN = 128;
    constexpr int STAGE = (kTileRows + BN) * kChunk;
    GNOMON_SHARED(shared);
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int group = static_cast<int>(threadIdx.x) >> 7;
    const int warp = (static_cast<int>(threadIdx.x) >> 5) & 3;
    const int tiles = (args.n_queries * PLANES + BN - 1) / BN;
    const int row0 = static_cast<int>(blockIdx.x) / tiles * kTileRows;
    const int column0 = static_cast<int>(blockIdx.x) % tiles * BN;
    const int chunks = static_cast<int>(args.row_bytes / kChunk);
    Acc acc[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) acc[i] = 0;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < chunks) load_chunk<BN, 256>(args, PLANES, row0, column0, s, shared + s * STAGE);
        copy_async_commit();
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
        copy_async_wait<STAGES - 2>();
        fence_async();
        __syncthreads();
        const char* const tile = shared + chunk % STAGES * STAGE;
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kChunk / 32; ++step)
            wgmma(acc, tile + group * 64 * kChunk, tile + kTileRows * kChunk, step);
        wgmma_commit();
        const int next = chunk + STAGES - 1;  // its buffer's products were waited for a step ago
        if (next < chunks)
            load_chunk<BN, 256>(args, PLANES, row0, column0, next, shared + next % STAGES * STAGE);
        copy_async_commit();
        wgmma_wait(acc);
    }
    const auto row_of = [&](int i) { return row0 + group * 64 + warp * 16 + (lane >> 2) + 8 * i; };
    const RowSide rows[2] = {row_side(args, row_of(0)), row_side(args, row_of(1))};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const Acc pair[2][2] = {{acc[j * 4], acc[j * 4 + 1]}, {acc[j * 4 + 2], acc[j * 4 + 3]}};
        take_columns<PLANES, 2>(args, column0 + j * 8 + (lane & 3) * 2, rows, pair, row_of);
    }
#endif
}

template <class Acc, int PLANES, int STAGES>
void start_screen90(const ScreenArgs& args, cudaStream_t stream) {
    constexpr int shared = STAGES * 2 * kTileRows * kChunk;
    const int tiles = (args.n_queries * PLANES + 127) / 128;
    const auto blocks = static_cast<unsigned>((args.n_rows + kTileRows - 1) / kTileRows * tiles);
    cudaFuncSetAttribute(dense_screen90<Acc, PLANES, STAGES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         shared);
    GNOMON_LAUNCH((dense_screen90<Acc, PLANES, STAGES>), dim3(blocks), dim3(256), shared, stream, args);
}

}  // namespace gnomon::cuda
