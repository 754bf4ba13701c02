// Tensor-core products and asynchronous copies, one PTX instruction each (sm_80 and up). The emulated twins
// are written from the same tables of the PTX ISA; tests/device.sh compares both on random fragments.
#pragma once
#include "device.cuh"

#ifdef GNOMON_EMULATED
#include "emulator_tensor.hpp"
#else
namespace gnomon::cuda {

// d[16 x 8] += a[16 x 32 bytes] * b[8 x 32 bytes]^T of a warp: bfloat16 with float sums, or int8 with int32.
__device__ __forceinline__ void mma(float* d, const uint32_t* a, const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma(int* d, const uint32_t* a, const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 16-byte matrices; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(uint32_t* to, const char* from) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// 16 bytes to shared memory, zeros where not `on`.
__device__ __forceinline__ void copy_async16(char* to, const char* from, bool on) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = on ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace gnomon::cuda
#endif
