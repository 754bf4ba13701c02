// The integer screen, aarch64 with the dot product instructions: sixteen rows by six queries are 24
// accumulators, four row registers and one broadcast. sdot takes signed bytes, so rows lose their 128 by an
// exclusive or, and what that takes from a sum, 128 times the sum of the query's codes, is summed beside it.
#include <arm_neon.h>

#include "kernels.hpp"

namespace gnomon::neon {

template <int kQueries>
static void sixteen_rows(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                         const std::int32_t* init, std::int32_t* acc) noexcept {
    int32x4_t sum[kQueries][4];
    int32x4_t less[kQueries];  // -128 times the sum of the query's codes
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
        less[q] = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int z = 0; z < 4; ++z) sum[q][z] = vdupq_n_s32(0);
    }
    const int32x4_t shift = vdupq_n_s32(shape.shift);
    const uint8x16_t offset = vdupq_n_u8(0x80);
    const int8x16_t weight = vdupq_n_s8(-128);
    for (std::size_t s = 0; s < shape.steps; ++s) {
        if (s == shape.head && s != 0) {
#pragma GCC unroll 6
            for (int q = 0; q < kQueries; ++q) {
                less[q] = vshlq_s32(less[q], shift);
#pragma GCC unroll 4
                for (int z = 0; z < 4; ++z) sum[q][z] = vshlq_s32(sum[q][z], shift);
            }
        }
        const std::uint8_t* const rows = panel + s * kPanelRows * 4;
        int8x16_t x[4];
#pragma GCC unroll 4
        for (int z = 0; z < 4; ++z) x[z] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(rows + z * 16), offset));
#pragma GCC unroll 6
        for (int q = 0; q < kQueries; ++q) {
            std::int32_t word;
            __builtin_memcpy(&word, queries + (s * kTileQueries + static_cast<std::size_t>(q)) * 4, 4);
            const int8x16_t query = vreinterpretq_s8_s32(vdupq_n_s32(word));
            less[q] = vdotq_s32(less[q], query, weight);
#pragma GCC unroll 4
            for (int z = 0; z < 4; ++z) sum[q][z] = vdotq_s32(sum[q][z], x[z], query);
        }
    }
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q) {
        const int32x4_t start = vsubq_s32(vdupq_n_s32(init[q]), less[q]);
#pragma GCC unroll 4
        for (int z = 0; z < 4; ++z)
            vst1q_s32(acc + static_cast<std::size_t>(q) * kPanelRows + static_cast<std::size_t>(z) * 4,
                      vaddq_s32(sum[q][z], start));
    }
}

template <int kQueries>
static void screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                   const std::int32_t* init, const std::int32_t* thresholds, std::int32_t* acc,
                   std::uint64_t* masks) noexcept {
    for (std::size_t row = 0; row < kPanelRows; row += 16)
        sixteen_rows<kQueries>(panel + row * 4, queries, shape, init, acc + row);
    const std::uint32_t bits[4] = {1, 2, 4, 8};
    const uint32x4_t bit = vld1q_u32(bits);
    for (std::size_t q = 0; q < kQueries; ++q) {
        const int32x4_t limit = vdupq_n_s32(thresholds[q]);
        masks[q] = 0;
        for (std::size_t row = 0; row < kPanelRows; row += 4) {
            const uint32x4_t reach = vcgeq_s32(vld1q_s32(acc + q * kPanelRows + row), limit);
            masks[q] |= static_cast<std::uint64_t>(vaddvq_u32(vandq_u32(reach, bit))) << row;
        }
    }
}

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    switch (n) {
        case 1:
            return screen<1>(panel, queries, shape, init, thresholds, acc, masks);
        case 2:
            return screen<2>(panel, queries, shape, init, thresholds, acc, masks);
        case 3:
            return screen<3>(panel, queries, shape, init, thresholds, acc, masks);
        case 4:
            return screen<4>(panel, queries, shape, init, thresholds, acc, masks);
        case 5:
            return screen<5>(panel, queries, shape, init, thresholds, acc, masks);
        default:
            return screen<6>(panel, queries, shape, init, thresholds, acc, masks);
    }
}

}  // namespace gnomon::neon
