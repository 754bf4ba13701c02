// Each primitive that the kernels rest on, against plain C++: on the emulated device in every test run, and
// on a GPU by tests/device.sh, compiled by nvcc from this same file. Prints a JSON object a line; exits with
// 1 when one of them is wrong. `float_sum` is the greatest error of a bfloat16 product on the tensor cores,
// in units of what dense_code.cuh assumes at most: D 2^-21 of the sum of magnitudes.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "../../cuda/dense_code.cuh"
#include "../../cuda/dense_screen.cuh"
#include "../../cuda/memory.hpp"
#include "../../cuda/tensor90.cuh"

using namespace gnomon::cuda;

namespace {

constexpr int kRows = 64;
constexpr int kColumns = 128;

// acc[64 x 128] of two tiles of 128-byte rows, by copies, ldmatrix and mma of four warps.
template <class Acc>
__global__ void by_mma(const char* a, const char* b, Acc* out) {
    GNOMON_SHARED(shared);
    const int t = static_cast<int>(threadIdx.x);
    const int lane = t & 31;
    const int warp = t >> 5;
    for (int c = t; c < (kRows + kColumns) * 8; c += 128) {
        const char* from = c < kRows * 8 ? a + c * 16 : b + (c - kRows * 8) * 16;
        copy_async16(shared + swizzled(c >> 3, c & 7), from, true);
    }
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    for (int j = 0; j < kColumns / 8; j += 2) {
        Acc d[2][4] = {};
        for (int step = 0; step < 4; ++step) {
            uint32_t x[4];
            uint32_t y[4];
            ldmatrix_x4(x, shared + swizzled(warp * 16 + (lane & 15), step * 2 + (lane >> 4)));
            const int r = kRows + j * 8 + (lane & 7) + ((lane >> 4) << 3);
            ldmatrix_x4(y, shared + swizzled(r, step * 2 + ((lane >> 3) & 1)));
            mma(d[0], x, y);
            mma(d[1], x, y + 2);
        }
        for (int half = 0; half < 2; ++half)
            for (int e = 0; e < 4; ++e)
                out[(warp * 16 + (lane >> 2) + 8 * (e >> 1)) * kColumns + (j + half) * 8 + (lane & 3) * 2 +
                    (e & 1)] = d[half][e];
    }
}

template <class Acc>
__global__ void __launch_bounds__(128) by_wgmma(const char* a, const char* b, Acc* out) {
#if defined(GNOMON_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    GNOMON_SHARED(shared);
    const int t = static_cast<int>(threadIdx.x);
    const int lane = t & 31;
    for (int c = t; c < (kRows + kColumns) * 8; c += 128) {
        const char* from = c < kRows * 8 ? a + c * 16 : b + (c - kRows * 8) * 16;
        copy_async16(shared + swizzled(c >> 3, c & 7), from, true);
    }
    copy_async_commit();
    copy_async_wait<0>();
    fence_async();
    __syncthreads();
    Acc d[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) d[i] = 0;
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) wgmma(d, shared, shared + kRows * 128, step);
    wgmma_commit();
    wgmma_wait(d);
    for (int j = 0; j < 16; ++j)
        for (int e = 0; e < 4; ++e)
            out[((t >> 5) * 16 + (lane >> 2) + 8 * (e >> 1)) * kColumns + j * 8 + (lane & 3) * 2 + (e & 1)] =
                d[j * 4 + e];
#endif
}

struct Small {
    unsigned ballot[32], shuffled[32], exchanged[32];
    double lanes[32];
    float up[32], down[32], near[32];
    double root[32], quotient[32];
    unsigned bf16[32];
};

__global__ void by_lane(const double* x, Small* out) {
    const unsigned lane = threadIdx.x;
    out->ballot[lane] = __ballot_sync(kAll, lane % 3 == 1);
    out->shuffled[lane] = __shfl_sync(kAll, lane * 7U, (lane + 5) & 31);
    out->exchanged[lane] = __shfl_xor_sync(kAll, lane * 3U, 9);
    out->lanes[lane] = lanes_sum(x[lane]);
    out->up[lane] = __double2float_ru(x[lane]);
    out->down[lane] = __double2float_rd(x[lane]);
    out->near[lane] = __double2float_rn(x[lane]);
    out->root[lane] = __dsqrt_rn(x[lane] < 0.0 ? -x[lane] : x[lane]);
    out->quotient[lane] = __ddiv_rn(1.0, x[lane]);
    out->bf16[lane] = bf16_bits(__double2float_rn(x[lane]));
}

int wrong = 0;

void report(const char* name, bool right, double float_sum = -1.0) {
    std::printf("{\"primitive\": \"%s\", \"right\": %s", name, right ? "true" : "false");
    if (float_sum >= 0.0) std::printf(", \"float_sum\": %.6f", float_sum);
    std::printf("}\n");
    wrong += !right;
}

template <class T>
struct OnCard {
    explicit OnCard(std::size_t n) : buffer(n * sizeof(T), "a test", "free some"), n(n) {}
    OnCard(const std::vector<T>& values, const Stream& stream) : OnCard(values.size()) {
        stream.give(get(), std::span<const T>(values));
    }
    T* get() const { return reinterpret_cast<T*>(buffer.data()); }
    std::vector<T> back(const Stream& stream) const {
        std::vector<T> values(n);
        stream.fetch(std::span(values), get());
        return values;
    }
    Buffer buffer;
    std::size_t n;
};

float element(const std::vector<char>& tile, int row, int k, float) {
    std::uint16_t half;
    std::memcpy(&half, tile.data() + row * 128 + k * 2, 2);
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}
int element(const std::vector<char>& tile, int row, int k, int) {
    return static_cast<signed char>(tile[static_cast<std::size_t>(row * 128 + k)]);
}

template <class Acc>
void check_products(const char* name, bool hopper, const Stream& stream, std::mt19937& random) {
    constexpr int K = sizeof(Acc) == sizeof(float) && std::is_same_v<Acc, float> ? 64 : 128;
    std::vector<char> a(kRows * 128);
    std::vector<char> b(kColumns * 128);
    for (std::vector<char>* tile : {&a, &b})
        for (std::size_t i = 0; i < tile->size(); i += 2) {
            std::uint16_t half = static_cast<std::uint16_t>(random());
            // Finite halves of many sizes: exponents 96 to 159 of 255.
            if (K == 64) half = static_cast<std::uint16_t>((half & 0x80ffU) | ((96U + random() % 64U) << 7));
            std::memcpy(tile->data() + i, &half, 2);
        }
    const OnCard<char> x(a, stream);
    const OnCard<char> y(b, stream);
    const OnCard<Acc> out(kRows * kColumns);
    constexpr int shared = (kRows + kColumns) * 128;
    if (hopper)
        GNOMON_LAUNCH((by_wgmma<Acc>), dim3(1), dim3(128), shared, stream, x.get(), y.get(), out.get());
    else
        GNOMON_LAUNCH((by_mma<Acc>), dim3(1), dim3(128), shared, stream, x.get(), y.get(), out.get());
    check_launches();
    const std::vector<Acc> found = out.back(stream);
    double worst = 0.0;
    bool right = true;
    for (int row = 0; row < kRows; ++row)
        for (int column = 0; column < kColumns; ++column) {
            double sum = 0.0;
            double sizes = 0.0;
            for (int k = 0; k < K; ++k) {
                const double product = static_cast<double>(element(a, row, k, Acc{})) *
                                       static_cast<double>(element(b, column, k, Acc{}));
                sum += product;
                sizes += std::fabs(product);
            }
            const double error = std::fabs(
                static_cast<double>(found[static_cast<std::size_t>(row * kColumns + column)]) - sum);
            worst = std::max(worst, error / (K * 0x1p-21 * sizes));
        }
    right = std::is_same_v<Acc, int> ? worst == 0.0 : worst <= 1.0;
    report(name, right, worst);
}

void check_lanes(const Stream& stream, std::mt19937& random) {
    std::vector<double> x(32);
    std::uniform_real_distribution<double> any(-2.0, 2.0);
    for (double& one : x) one = any(random) * std::ldexp(1.0, static_cast<int>(random() % 200U) - 100);
    const OnCard<double> given(x, stream);
    const OnCard<Small> out(1);
    GNOMON_LAUNCH(by_lane, dim3(1), dim3(32), 0, stream, given.get(), out.get());
    check_launches();
    const Small found = out.back(stream)[0];
    bool exchange = true;
    bool lanes = true;
    bool rounding = true;
    bool bf16 = true;
    for (unsigned i = 0; i < 32; ++i) {
        exchange = exchange && found.ballot[i] == 0x92492492U && found.shuffled[i] == ((i + 5) & 31) * 7U &&
                   found.exchanged[i] == (i ^ 9U) * 3U;
        const double* const l = x.data() + (i & 24U);
        lanes = lanes && found.lanes[i] == ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
        const auto near = static_cast<float>(x[i]);
        rounding = rounding && found.near[i] == near && static_cast<double>(found.up[i]) >= x[i] &&
                   static_cast<double>(found.down[i]) <= x[i] &&
                   (found.up[i] == near || found.down[i] == near) &&
                   found.up[i] <= std::nextafterf(found.down[i], INFINITY) &&
                   found.root[i] == std::sqrt(std::fabs(x[i])) && found.quotient[i] == 1.0 / x[i];
        const std::uint32_t bits = found.bf16[i] << 16;
        float half;
        std::memcpy(&half, &bits, 4);
        bf16 = bf16 && std::fabs(half - near) <= std::fabs(near) * 0x1p-8F;
    }
    report("shuffles and ballots", exchange);
    report("the sum of eight lanes", lanes);
    report("directed and correct rounding", rounding);
    report("bfloat16 rounding", bf16);
}

}  // namespace

int main() {
    std::mt19937 random(7);
    const Stream stream;
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "asking for the device");
    check(cudaGetDeviceProperties(&properties, device), "asking what it can do");
    check_lanes(stream, random);
    for (int round = 0; round < 4; ++round) {
        check_products<int>("mma int8", false, stream, random);
        check_products<float>("mma bf16", false, stream, random);
        if (properties.major != 9) continue;
        check_products<int>("wgmma int8", true, stream, random);
        check_products<float>("wgmma bf16", true, stream, random);
    }
    return wrong != 0;
}
