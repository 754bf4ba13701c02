// Inside of analyze.cpp: the character classes, and how a stretch of the text becomes a token in UTF-8.
#pragma once
#include <cstring>

#include "analyze.hpp"

namespace gnomon {
namespace {

#include "unicode_tables.inc"

constexpr std::uint16_t kIdentifier = kWord | kUnderscore;
constexpr std::uint16_t kBigrams = kCjk | kExtra;

template <class Unit>
inline std::uint16_t class_of(Unit code) {
    if constexpr (sizeof(Unit) == 1) {
        return kClassBlocks[code];  // block 0 is Latin-1
    } else {
        return kClassBlocks[(std::size_t{kClassIndex[code >> 8]} << 8) | (code & 0xFF)];
    }
}

// The lower case of one character, where that is one character and does not depend on others.
template <class Unit>
inline char32_t folded(Unit code) {
    const char32_t c = code;
    if (c < 0x80) return c - U'A' < 26 ? c | 0x20 : c;
    const std::int32_t step = sizeof(Unit) == 1
                                  ? kLoweredBlocks[c]
                                  : kLoweredBlocks[(std::size_t{kLoweredIndex[c >> 8]} << 8) | (c & 0xFF)];
    return c + static_cast<char32_t>(step);
}

inline char* put_utf8(char* out, char32_t c) {
    if (c < 0x80) {
        *out++ = static_cast<char>(c);
    } else if (c < 0x800) {
        *out++ = static_cast<char>(0xC0 | (c >> 6));
        *out++ = static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = static_cast<char>(0xE0 | (c >> 12));
        *out++ = static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        *out++ = static_cast<char>(0x80 | (c & 0x3F));
    } else {
        *out++ = static_cast<char>(0xF0 | (c >> 18));
        *out++ = static_cast<char>(0x80 | ((c >> 12) & 0x3F));
        *out++ = static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        *out++ = static_cast<char>(0x80 | (c & 0x3F));
    }
    return out;
}

// Both views have the same width here. Character classes are read from `cased` alone: a character and its
// lower case separate words alike (unicode_tables.py checks it), and only `cased` shows aHump.
template <class Unit>
class Emitter {
  public:
    Emitter(TextView cased, TextView lowered, TokenSink sink, void* context)
        : cased_(static_cast<const Unit*>(cased.data)),
          lowered_(static_cast<const Unit*>(lowered.data)),
          length_(cased.length),
          sink_(sink),
          context_(context) {}

  protected:
    void emit(std::size_t start, std::size_t end, bool whole = false) { emit_as(end, start, end, whole); }

    // Emits the text of [start, text_end) with the span [start, end).
    void emit_as(std::size_t text_end, std::size_t start, std::size_t end, bool whole = false) {
        constexpr std::size_t kBytesMax = sizeof(Unit) == 1 ? 2 : sizeof(Unit) == 2 ? 3 : 4;
        const std::size_t needed = (text_end - start) * kBytesMax + Token::kPadding;
        if (buffer_.size() < needed) buffer_.resize(2 * needed);
        char* out = buffer_.data();
        for (std::size_t at = start; at < text_end; ++at) out = put_utf8(out, folded(lowered_[at]));
        std::memset(out, 0, Token::kPadding);
        sink_(context_,
              Token{{buffer_.data(), static_cast<std::size_t>(out - buffer_.data())}, start, end, whole});
    }

    const Unit* cased_;
    const Unit* lowered_;
    std::size_t length_;
    TokenSink sink_;
    void* context_;

  private:
    std::string buffer_;
};

}  // namespace
}  // namespace gnomon
