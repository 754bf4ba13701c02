// Slicing by 16 (Kounavis and Berry 2008): sixteen table look-ups consume sixteen bytes at once, with no
// instruction that only some machines have.
#include "crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace gnomon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "gnomon files and their checksums are little-endian");

constexpr std::size_t kSlices = 16;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

consteval Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
        tables[0][byte] = crc;
    }
    for (std::size_t slice = 1; slice < kSlices; ++slice) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t crc = tables[slice - 1][byte];
            tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

// The four bytes of `word`, the first of which has `slice` + 3 bytes after it in the step.
inline std::uint32_t look_up(std::uint32_t word, std::size_t slice) noexcept {
    return kTables[slice + 3][word & 0xFF] ^ kTables[slice + 2][(word >> 8) & 0xFF] ^
           kTables[slice + 1][(word >> 16) & 0xFF] ^ kTables[slice][word >> 24];
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed) noexcept {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint32_t crc = ~seed;
    for (; bytes >= kSlices; bytes -= kSlices, at += kSlices) {
        std::uint32_t words[4];
        std::memcpy(words, at, kSlices);
        // Later words do not depend on crc: their look-ups overlap with the step before.
        crc =
            look_up(words[3], 0) ^ look_up(words[2], 4) ^ look_up(words[1], 8) ^ look_up(words[0] ^ crc, 12);
    }
    for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}

}  // namespace gnomon
