// The screen: codes of a tile of rows against those of a tile of queries on the tensor cores. Only rows that
// may still be among a query's best leave the chip (the bound: dense_code.cuh), so that neither a score is
// written nor a heap kept, and k has no limit.
//
// Tiles of 128 rows x BN queries; chunks of 128 bytes of each row come by cp.async into STAGES buffers, their
// 16-byte pieces swizzled by (row & 7) so that ldmatrix meets no bank twice. Blocks that run at the same time
// share rows and differ in queries, whose codes stay in L2.
#pragma once
#include "arguments.hpp"
#include "tensor.cuh"

namespace gnomon::cuda {

constexpr int kTileRows = 128;
constexpr int kChunk = 128;  // bytes of a row in one buffer

__device__ inline int swizzled(int row, int piece) { return row * kChunk + ((piece ^ (row & 7)) << 4); }

// Starts the copies of one chunk of a tile. Rows beyond the ends are zeros.
template <int BN, int THREADS>
__device__ inline void load_chunk(const ScreenArgs& args, int planes, int row0, int column0, int chunk,
                                  char* to) {
    for (int c = static_cast<int>(threadIdx.x); c < (kTileRows + BN) * 8; c += THREADS) {
        const int r = c >> 3;
        const int piece = c & 7;
        const bool is_row = r < kTileRows;
        const int place = is_row ? row0 + r : column0 + r - kTileRows;
        const bool on = place < (is_row ? args.n_rows : args.n_queries * planes);
        const char* from = (is_row ? args.codes : args.queries) +
                           static_cast<int64_t>(on ? place : 0) * args.row_bytes + chunk * kChunk +
                           piece * 16;
        copy_async16(to + swizzled(r, piece), from, on);
    }
}

__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(int x) { return __int2float_rn(x); }

// What a row brings to the comparison.
struct RowSide {
    bool on;
    float scale, residual, norm, half;
};
__device__ inline RowSide row_side(const ScreenArgs& args, int row) {
    if (row >= args.n_rows || !is_allowed(args.allowed, args.first_row + row)) return {};
    return {true, args.scales[row], args.residuals[row], args.norms[row],
            args.halves != nullptr ? args.halves[row] : 0.0F};
}

// Two neighbouring columns of a row: two queries, or two planes of one. ROWS rows at `row_of`.
template <int PLANES, int ROWS, class Acc, class RowOf>
__device__ inline void take_columns(const ScreenArgs& args, int column, const RowSide* rows,
                                    const Acc (*acc)[2], RowOf row_of) {
#pragma unroll
    for (int e = 0; e < 3 - PLANES; ++e) {
        const int q = PLANES == 2 ? column / 2 : column + e;
        if (q >= args.n_queries) return;
        const float scale = args.query_scales[q];
        const float per_residual = args.per_residual[q];
        const float per_norm = args.per_norm[q];
        const float limit = args.limits[q];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            if (!rows[i].on) continue;
            float dot = as_float(acc[i][e]);
            if (PLANES == 2) dot += as_float(acc[i][1]) * (1.0F / 254.0F);
            const float upper =
                dot * scale * rows[i].scale + (per_residual * rows[i].residual + per_norm * rows[i].norm);
            if (upper < limit + rows[i].half) continue;  // NaN goes on
            const int place = atomicAdd(args.found.counts + q, 1);
            if (place < args.found.capacity)
                args.found.rows[static_cast<int64_t>(q) * args.found.capacity + place] =
                    static_cast<uint32_t>(args.first_row + row_of(i));
            else
                atomicOr(args.found.overflow, 1);
        }
    }
}

template <class Acc, int PLANES, int BN, int WM, int WN, int STAGES>
__global__ void __launch_bounds__((kTileRows / WM) * (BN / WN) * 32) dense_screen(ScreenArgs args) {
    constexpr int THREADS = (kTileRows / WM) * (BN / WN) * 32;
    constexpr int MT = WM / 16;
    constexpr int NT = WN / 8;
    constexpr int STAGE = (kTileRows + BN) * kChunk;
    GNOMON_SHARED(shared);
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int warp = static_cast<int>(threadIdx.x) >> 5;
    const int wm = (warp % (kTileRows / WM)) * WM;
    const int wn = (warp / (kTileRows / WM)) * WN;
    const int tiles = (args.n_queries * PLANES + BN - 1) / BN;
    const int row0 = static_cast<int>(blockIdx.x) / tiles * kTileRows;
    const int column0 = static_cast<int>(blockIdx.x) % tiles * BN;
    const int chunks = static_cast<int>(args.row_bytes / kChunk);

    Acc acc[NT][MT * 2][2];
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
        for (int i = 0; i < MT * 2; ++i) acc[j][i][0] = acc[j][i][1] = 0;

    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < chunks) load_chunk<BN, THREADS>(args, PLANES, row0, column0, s, shared + s * STAGE);
        copy_async_commit();
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        const int next = chunk + STAGES - 1;  // into the buffer that the step before has read
        if (next < chunks)
            load_chunk<BN, THREADS>(args, PLANES, row0, column0, next, shared + next % STAGES * STAGE);
        copy_async_commit();
        const char* const tile = shared + chunk % STAGES * STAGE;
#pragma unroll
        for (int step = 0; step < kChunk / 32; ++step) {
            uint32_t a[MT][4];
            uint32_t b[NT][2];
#pragma unroll
            for (int i = 0; i < MT; ++i)
                ldmatrix_x4(a[i], tile + swizzled(wm + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < NT; j += 2) {
                uint32_t two[4];
                const int r = kTileRows + wn + j * 8 + (lane & 7) + ((lane >> 4) << 3);
                ldmatrix_x4(two, tile + swizzled(r, step * 2 + ((lane >> 3) & 1)));
                b[j][0] = two[0];
                b[j][1] = two[1];
                b[j + 1][0] = two[2];
                b[j + 1][1] = two[3];
            }
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int j = 0; j < NT; ++j) {
                    Acc d[4] = {acc[j][2 * i][0], acc[j][2 * i][1], acc[j][2 * i + 1][0],
                                acc[j][2 * i + 1][1]};
                    mma(d, a[i], b[j]);
                    acc[j][2 * i][0] = d[0];
                    acc[j][2 * i][1] = d[1];
                    acc[j][2 * i + 1][0] = d[2];
                    acc[j][2 * i + 1][1] = d[3];
                }
        }
    }
    const auto row_of = [&](int i) { return row0 + wm + (i >> 1) * 16 + (lane >> 2) + 8 * (i & 1); };
    RowSide rows[MT * 2];
#pragma unroll
    for (int i = 0; i < MT * 2; ++i) rows[i] = row_side(args, row_of(i));
#pragma unroll
    for (int j = 0; j < NT; ++j)
        take_columns<PLANES, MT * 2>(args, column0 + wn + j * 8 + (lane & 3) * 2, rows, acc[j], row_of);
}

template <class Acc, int PLANES, int BN, int WM, int WN, int STAGES>
void start_screen(const ScreenArgs& args, cudaStream_t stream) {
    constexpr int shared = STAGES * (kTileRows + BN) * kChunk;
    const int tiles = (args.n_queries * PLANES + BN - 1) / BN;
    const auto blocks = static_cast<unsigned>((args.n_rows + kTileRows - 1) / kTileRows * tiles);
    cudaFuncSetAttribute(dense_screen<Acc, PLANES, BN, WM, WN, STAGES>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    GNOMON_LAUNCH((dense_screen<Acc, PLANES, BN, WM, WN, STAGES>), dim3(blocks),
                  dim3((kTileRows / WM) * (BN / WN) * 32), shared, stream, args);
}

}  // namespace gnomon::cuda
