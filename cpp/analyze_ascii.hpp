// Inside of analyze.cpp: eight characters at a time, in a 64-bit register.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

namespace gnomon {
namespace {

// The first character lies in the lowest byte.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kEach = 0x0101010101010101u;
constexpr std::uint64_t kHigh = 0x8080808080808080u;

// The high bit of each byte that lies in [first, last]; bytes must be below 128.
constexpr std::uint64_t bytes_within(std::uint64_t bytes, unsigned char first, unsigned char last) {
    return (bytes + kEach * (0x80u - first)) & ~(bytes + kEach * (0x7Fu - last)) & kHigh;
}

// All bits of the first n bytes, n from 0 to 8.
constexpr std::uint64_t first_bytes(std::size_t n) {
    return n >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * n)) - 1;
}

// Up to eight characters of a word, looked at together.
template <bool kUnderscores>
struct EightBytes {
    std::uint64_t folded;  // ASCII capitals in lower case
    std::uint64_t upper;   // high bits; letters and digits of ASCII only
    std::uint64_t lower;
    std::size_t length;  // how many from the first on are ASCII letters and digits, or underscores if wanted

    explicit EightBytes(std::uint64_t text) {
        const std::uint64_t seven = text & ~kHigh;
        const std::uint64_t ascii = ~text & kHigh;
        upper = bytes_within(seven, 'A', 'Z') & ascii;
        lower = bytes_within(seven, 'a', 'z') & ascii;
        std::uint64_t word = upper | lower | (bytes_within(seven, '0', '9') & ascii);
        if constexpr (kUnderscores) word |= bytes_within(seven, '_', '_') & ascii;
        length = static_cast<std::size_t>(std::countr_zero(~word & kHigh)) / 8;  // 64 / 8 when all are
        folded = text | (upper >> 2);  // 0x80 >> 2 is the bit of the case
    }
};

// Four characters of two bytes in four bytes: those from 128 on become 128.
constexpr std::uint64_t narrowed(std::uint64_t four) {
    constexpr std::uint64_t kLanes = 0x0001000100010001u;
    const std::uint64_t beyond = (four >> 7) & (kLanes * 0x1FF);  // not zero where it is no ASCII
    const std::uint64_t marks = ((beyond + kLanes * 0x1FF) >> 2) & (kLanes * 0x80);
    std::uint64_t bytes = (four & (kLanes * 0x7F)) | marks;
    bytes = (bytes | (bytes >> 8)) & 0x0000FFFF0000FFFFu;
    return (bytes | (bytes >> 16)) & 0xFFFFFFFFu;
}

// The eight characters from data[at] on, a byte each, zeros after the end. What is no ASCII has its high bit
// set; the other bits of that byte mean something in text of one byte a character only.
template <class Unit>
inline std::uint64_t load_eight(const Unit* data, std::size_t at, std::size_t length) {
    Unit units[8] = {};
    if (length - at >= 8)
        std::memcpy(units, data + at, sizeof units);
    else
        std::memcpy(units, data + at, (length - at) * sizeof(Unit));
    if constexpr (sizeof(Unit) == 1) {
        return std::bit_cast<std::uint64_t>(units);
    } else if constexpr (sizeof(Unit) == 2) {
        std::uint64_t halves[2];
        std::memcpy(halves, units, sizeof halves);
        return narrowed(halves[0]) | (narrowed(halves[1]) << 32);
    } else {
        std::uint64_t text = 0;
        for (std::size_t i = 0; i < 8; ++i)
            text |= static_cast<std::uint64_t>(units[i] < 0x80 ? units[i] : 0x80) << (8 * i);
        return text;
    }
}

// The ASCII letters and digits (and underscores) from `start` on, at most 16 of them, in lower case and
// padded with zeros as Token promises. What stands after them is for the caller to judge.
template <bool kUnderscores = false>
struct PlainWord {
    std::uint64_t key[2];
    std::size_t length;
    bool humps;  // a capital after the first character, and a lower-case letter

    template <class Unit>
    PlainWord(const Unit* data, std::size_t start, std::size_t size) {
        const EightBytes<kUnderscores> first(load_eight(data, start, size));
        length = first.length;
        key[0] = first.folded & first_bytes(length);
        key[1] = 0;
        std::uint64_t upper = first.upper & first_bytes(length) & ~std::uint64_t{0xFF};
        std::uint64_t lower = first.lower & first_bytes(length);
        if (length == 8 && start + 8 < size) {
            const EightBytes<kUnderscores> second(load_eight(data, start + 8, size));
            key[1] = second.folded & first_bytes(second.length);
            upper |= second.upper & first_bytes(second.length);
            lower |= second.lower & first_bytes(second.length);
            length += second.length;
        }
        humps = upper != 0 && lower != 0;
    }

    const char* bytes() const { return reinterpret_cast<const char*>(key); }
};

}  // namespace
}  // namespace gnomon
