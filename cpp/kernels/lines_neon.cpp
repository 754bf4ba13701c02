// Windows of byte classes in a text, aarch64: as lines_avx512.cpp, in four quarters of 16 bytes.
#include <arm_neon.h>

#include "kernels.hpp"

namespace gnomon::neon {

// All bits of a byte that is in the class.
static uint8x16_t members(const std::uint8_t* data, uint8x16_t rows, uint8x16_t bits,
                          uint8x16_t high) noexcept {
    const uint8x16_t bytes = vld1q_u8(data);
    // A place beyond the table looks up 0.
    const uint8x16_t row = vqtbl1q_u8(rows, vandq_u8(bytes, vdupq_n_u8(0x8F)));
    const uint8x16_t bit = vqtbl1q_u8(bits, vandq_u8(vshrq_n_u8(bytes, 4), vdupq_n_u8(0x07)));
    const uint8x16_t beyond = vandq_u8(vcgeq_u8(bytes, vdupq_n_u8(0x80)), high);
    return vorrq_u8(vtstq_u8(row, bit), beyond);
}

static std::uint64_t gathered(const uint8x16_t* quarters) noexcept {
    static const std::uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vld1q_u8(kBits);
    const uint8x16_t first = vpaddq_u8(vandq_u8(quarters[0], bits), vandq_u8(quarters[1], bits));
    const uint8x16_t last = vpaddq_u8(vandq_u8(quarters[2], bits), vandq_u8(quarters[3], bits));
    const uint8x16_t half = vpaddq_u8(first, last);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(half, half)), 0);
}

void lines_window(const std::uint8_t* data, std::size_t n_blocks, const ByteWindow& window,
                  std::uint64_t* masks) noexcept {
    static const std::uint8_t kPlaces[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vld1q_u8(kPlaces);
    for (std::size_t b = 0; b < n_blocks; ++b) {
        std::uint64_t mask = ~std::uint64_t{0};
        for (std::size_t j = 0; j < window.width && mask != 0; ++j) {
            const std::size_t k = window.order[j];
            const uint8x16_t rows = vld1q_u8(window.rows[k]);
            const uint8x16_t high = vdupq_n_u8(window.high[k] ? 0xFF : 0);
            uint8x16_t quarters[4];
            for (std::size_t q = 0; q < 4; ++q)
                quarters[q] = members(data + b * 64 + q * 16 + k, rows, bits, high);
            mask &= gathered(quarters);
        }
        masks[b] = mask;
    }
}

}  // namespace gnomon::neon
