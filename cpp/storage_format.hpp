// The bytes of header and footer (storage.hpp describes them), shared by the writer and the reader only.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gnomon::format {

static_assert(std::endian::native == std::endian::little,
              "gnomon files are little-endian and mapped as they are");
static_assert(sizeof(std::size_t) == 8, "gnomon maps whole files: it needs a 64-bit address space");

constexpr std::uint32_t kVersion = 1;
constexpr char kMagic[8] = {'G', 'N', 'O', 'M', 'O', 'N', '\0', '\1'};
constexpr std::size_t kAlign = 64;
constexpr std::size_t kBlock = 64 * 1024;
constexpr std::size_t kNameBytes = 32;
constexpr std::size_t kSectionsMax = 65536;
static_assert(kBlock % kAlign == 0, "padding must never open a block of its own");

struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t flags;
    std::uint64_t footer_offset;
    std::uint64_t footer_bytes;
    std::uint32_t footer_crc;
    std::uint8_t zeros[24];
    std::uint32_t crc;  // of the bytes before it
};
static_assert(sizeof(Header) == 64 && offsetof(Header, crc) == 60);

struct FooterHead {
    std::uint32_t count;
    std::uint32_t zero;
};

struct Entry {
    char name[kNameBytes];
    std::uint32_t dtype;
    std::uint32_t zero;
    std::uint64_t count;
    std::uint64_t offset;
};
static_assert(sizeof(FooterHead) == 8 && sizeof(Entry) == 56);

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
constexpr std::uint64_t blocks(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock; }

constexpr bool printable(char c) { return c > ' ' && c <= '~'; }

}  // namespace gnomon::format
