#include "corpus_render.hpp"

#include <cstdint>
#include <limits>

#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::int64_t kCopied = -1;

std::int32_t mark_at(std::string_view marks, std::size_t number) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
        value |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(marks[4 * number + i])) << (8 * i);
    return static_cast<std::int32_t>(value);
}

void put_mark(std::string& out, std::int64_t value) {
    const auto bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
}

void put_varint(std::string& out, std::uint32_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}

[[noreturn]] void corrupt() { throw CorruptIndex("the map of a text does not fit it; index again"); }

class Varints {
  public:
    explicit Varints(std::string_view data) : data_(data) {}
    bool done() const { return at_ == data_.size(); }
    std::int64_t next() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 35; shift += 7) {
            if (done()) corrupt();
            const auto byte = static_cast<std::uint8_t>(data_[at_++]);
            value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
            if (byte < 0x80) {
                if (value > std::numeric_limits<std::int32_t>::max()) corrupt();
                return static_cast<std::int64_t>(value);
            }
        }
        corrupt();
    }

  private:
    std::string_view data_;
    std::size_t at_ = 0;
};

}  // namespace

std::optional<PackedText> pack_text(std::string_view raw, std::string_view marks, std::string_view text) {
    PackedText packed;
    if (marks.empty()) return raw == text ? std::optional(packed) : std::nullopt;
    if (marks.size() % 12 != 0) return std::nullopt;
    std::size_t at = 0, shown = 0;
    for (std::size_t i = 0; i < marks.size() / 4; i += 3) {
        const std::int64_t skip = mark_at(marks, i), length = mark_at(marks, i + 1),
                           width = mark_at(marks, i + 2);
        if (skip < 0 || length < 0 || width < kCopied || width == std::numeric_limits<std::int32_t>::max())
            return std::nullopt;
        const auto taken = static_cast<std::size_t>(length);
        const auto made = static_cast<std::size_t>(width == kCopied ? length : width);
        at += static_cast<std::size_t>(skip);
        if (at > raw.size() || taken > raw.size() - at || made > text.size() - shown) return std::nullopt;
        const std::string_view piece = text.substr(shown, made);
        if (width != kCopied)
            packed.pieces += piece;
        else if (piece != raw.substr(at, taken))
            return std::nullopt;
        at += taken;
        shown += made;
        put_varint(packed.map, static_cast<std::uint32_t>(skip));
        put_varint(packed.map, static_cast<std::uint32_t>(length));
        put_varint(packed.map, static_cast<std::uint32_t>(width + 1));
    }
    return shown == text.size() ? std::optional(packed) : std::nullopt;
}

RenderedText unpack_text(std::string_view raw, std::string_view map, std::string_view pieces) {
    RenderedText made;
    if (map.empty()) {
        if (!pieces.empty()) corrupt();
        made.text = raw;
        return made;
    }
    Varints numbers(map);
    std::size_t at = 0, used = 0;
    while (!numbers.done()) {
        const std::int64_t skip = numbers.next(), length = numbers.next(), width = numbers.next() - 1;
        const auto taken = static_cast<std::size_t>(length);
        at += static_cast<std::size_t>(skip);
        if (at > raw.size() || taken > raw.size() - at) corrupt();
        if (width == kCopied) {
            made.text += raw.substr(at, taken);
        } else {
            const auto size = static_cast<std::size_t>(width);
            if (size > pieces.size() - used) corrupt();
            made.text += pieces.substr(used, size);
            used += size;
        }
        at += taken;
        put_mark(made.marks, skip);
        put_mark(made.marks, length);
        put_mark(made.marks, width);
    }
    if (used != pieces.size()) corrupt();
    return made;
}

}  // namespace gnomon
