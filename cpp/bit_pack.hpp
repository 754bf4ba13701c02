// Numbers of equal width, end to end, the lowest bit first. Independent of one another, so that a compiler
// overlaps the loads; a reader may look at kBehind bytes behind the last number's, which must be there.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace gnomon {

constexpr std::size_t kBehind = 8;

constexpr std::size_t packed_bytes(std::size_t n, unsigned width) { return (n * width + 7) / 8; }

// Bits that the greatest of the values needs, 0 where all are 0.
inline unsigned width_of(std::span<const std::uint32_t> values) {
    std::uint32_t all = 0;
    for (const std::uint32_t value : values) all |= value;
    return static_cast<unsigned>(std::bit_width(all));
}

inline void pack_bits(std::span<const std::uint32_t> values, unsigned width, std::vector<std::uint8_t>& out) {
    std::uint64_t word = 0;
    unsigned filled = 0;
    for (const std::uint32_t value : values) {
        word |= static_cast<std::uint64_t>(value) << filled;
        for (filled += width; filled >= 8; filled -= 8, word >>= 8)
            out.push_back(static_cast<std::uint8_t>(word));
    }
    if (filled != 0) out.push_back(static_cast<std::uint8_t>(word));
}

// width <= 32.
inline std::uint32_t packed_at(const std::uint8_t* data, std::size_t i, unsigned width) {
    std::uint64_t word;
    std::memcpy(&word, data + i * width / 8, sizeof word);
    return static_cast<std::uint32_t>(word >> (i * width % 8) & ((std::uint64_t{1} << width) - 1));
}

inline void unpack_bits(const std::uint8_t* data, std::size_t n, unsigned width, std::uint32_t* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = packed_at(data, i, width);
}

}  // namespace gnomon
