#include "analyze.hpp"

#include <type_traits>

#include "error.hpp"

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

// Folds ASCII: of other characters the caller's `lowered` view has the lower case already.
template <class Unit>
inline char32_t folded(Unit code) {
    const char32_t c = code;
    return c - U'A' < 26 ? c | 0x20 : c;
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
class Tokenizer {
  public:
    Tokenizer(const Unit* cased, const Unit* lowered, std::size_t length, TokenSink sink, void* context)
        : cased_(cased), lowered_(lowered), length_(length), sink_(sink), context_(context) {}

    void basic() {
        for (std::size_t at = 0; at < length_;) {
            const std::uint16_t bits = class_of(cased_[at]);
            if (bits & kCjk) {
                at = bigrams<kCjk>(at);
            } else if (bits & kWord) {
                at = word(at);
            } else {
                ++at;
            }
        }
    }

    void standard() {
        for (std::size_t at = 0; at < length_;) {
            const std::uint16_t bits = class_of(cased_[at]);
            if (bits & kBigrams) {
                at = bigrams<kBigrams>(at);
            } else if (bits & kIdentifier) {
                at = identifier(at);
            } else {
                ++at;
            }
        }
    }

  private:
    static bool in_identifier(std::uint16_t bits) { return (bits & kIdentifier) && !(bits & kBigrams); }

    void emit(std::size_t start, std::size_t end) {
        constexpr std::size_t kBytesMax = sizeof(Unit) == 1 ? 2 : sizeof(Unit) == 2 ? 3 : 4;
        const std::size_t needed = (end - start) * kBytesMax;
        if (buffer_.size() < needed) buffer_.resize(2 * needed);
        char* out = buffer_.data();
        for (std::size_t at = start; at < end; ++at) out = put_utf8(out, folded(lowered_[at]));
        sink_(context_, Token{{buffer_.data(), static_cast<std::size_t>(out - buffer_.data())}, start, end});
    }

    template <std::uint16_t kScripts>
    std::size_t bigrams(std::size_t start) {
        std::size_t end = start + 1;
        for (; end < length_ && (class_of(cased_[end]) & kScripts); ++end) {
            emit(end - 1, end + 1);
        }
        if (end == start + 1) emit(start, end);
        return end;
    }

    std::size_t word(std::size_t start) {
        std::size_t end = start + 1;
        while (end < length_ && (class_of(cased_[end]) & (kWord | kCjk)) == kWord) ++end;
        emit(start, end);
        return end;
    }

    // The whole, then its parts. `rest` gathers the classes after the first character: most words show there
    // that they have no parts, and are done in this one pass.
    std::size_t identifier(std::size_t start) {
        const std::uint16_t first = class_of(cased_[start]);
        std::uint16_t rest = 0;
        bool scoped = false;
        std::size_t end = start + 1;
        for (;;) {
            std::uint16_t bits = 0;
            while (end < length_ && in_identifier(bits = class_of(cased_[end]))) {
                rest |= bits;
                ++end;
            }
            if (!scope_at(end)) break;
            scoped = true;
            end += 2;
        }
        const std::uint16_t all = first | rest;
        if (!(all & kAlnum)) return end;
        emit(start, end);
        const bool humps = (rest & kUpper) && (all & kLower);
        if (scoped || humps || (all & kUnderscore)) parts(start, end);
        return end;
    }

    // "::" that an identifier goes on after; the character before it belongs to the identifier.
    bool scope_at(std::size_t at) const {
        return at + 2 < length_ && cased_[at] == ':' && cased_[at + 1] == ':' &&
               in_identifier(class_of(cased_[at + 2]));
    }

    // Splits at '_' and "::", between aB, and before the last capital of ABc. A mark carries the case of the
    // letter that it stands on. The split of ABc is made late, when c is seen: no looking ahead.
    void parts(std::size_t start, std::size_t end) {
        enum class Case { none, lower, upper };
        Case before = Case::none;
        Case last = Case::none;
        std::size_t last_at = start;
        std::size_t part = start;
        bool has_alnum = false;
        auto close = [&](std::size_t stop) {
            // A part that is the whole was emitted as the whole.
            if (has_alnum && !(part == start && stop == end)) emit(part, stop);
            part = stop;
        };
        for (std::size_t at = start; at < end; ++at) {
            const std::uint16_t bits = class_of(cased_[at]);
            if (!(bits & kWord)) {  // '_' or ':'
                close(at);
                part = at + 1;
                before = last = Case::none;
                has_alnum = false;
            } else if (bits & kAlnum) {
                const Case now = bits & kUpper ? Case::upper : bits & kLower ? Case::lower : Case::none;
                if (now == Case::upper && last == Case::lower) close(at);
                if (now == Case::lower && last == Case::upper && before == Case::upper) close(last_at);
                before = last;
                last = now;
                last_at = at;
                has_alnum = true;
            }
        }
        close(end);
    }

    const Unit* cased_;
    const Unit* lowered_;
    std::size_t length_;
    TokenSink sink_;
    void* context_;
    std::string buffer_;
};

template <class Unit>
void run(Preset preset, TextView cased, TextView lowered, TokenSink sink, void* context) {
    Tokenizer<Unit> tokenizer(static_cast<const Unit*>(cased.data), static_cast<const Unit*>(lowered.data),
                              cased.length, sink, context);
    preset == Preset::basic_v1 ? tokenizer.basic() : tokenizer.standard();
}

// Calls fn with a typed pointer to the code units.
template <class Fn>
auto with_units(TextView text, const Fn& fn) {
    switch (text.width) {
        case 1:
            return fn(static_cast<const std::uint8_t*>(text.data));
        case 2:
            return fn(static_cast<const std::uint16_t*>(text.data));
        case 4:
            return fn(static_cast<const std::uint32_t*>(text.data));
        default:
            throw InvalidInput("text width must be 1, 2 or 4, got " + std::to_string(text.width));
    }
}

std::vector<std::uint32_t> widened(TextView text) {
    return with_units(
        text, [&](const auto* units) { return std::vector<std::uint32_t>(units, units + text.length); });
}

TextView view_of(const std::vector<std::uint32_t>& units) { return {units.data(), units.size(), 4}; }

}  // namespace

Preset preset_named(std::string_view name) {
    if (name == "basic-v1") return Preset::basic_v1;
    if (name == "standard-v1") return Preset::standard_v1;
    throw InvalidInput("analyzer preset must be one of basic-v1, standard-v1, got '" + std::string(name) +
                       "'");
}

void tokenize(Preset preset, TextView cased, TextView lowered, TokenSink sink, void* context) {
    if (cased.length != lowered.length) {
        throw InvalidInput("cased and lowered must have the same length, got " +
                           std::to_string(cased.length) + " and " + std::to_string(lowered.length) +
                           "; take both from Analyzer.views");
    }
    if (cased.width != lowered.width) {
        // Rare: the one character that needs the wider unit changes it in the other case, as in U+1E9E.
        const std::vector<std::uint32_t> wide_cased = widened(cased);
        const std::vector<std::uint32_t> wide_lowered = widened(lowered);
        run<std::uint32_t>(preset, view_of(wide_cased), view_of(wide_lowered), sink, context);
        return;
    }
    with_units(cased, [&](const auto* units) {
        run<std::remove_cvref_t<decltype(*units)>>(preset, cased, lowered, sink, context);
    });
}

std::vector<Segment> unstable_segments(TextView text) {
    return with_units(text, [&](const auto* units) {
        std::vector<Segment> found;
        for (std::size_t start = 0, end; start < text.length; start = end) {
            const bool changes = class_of(units[start]) & kChanges;
            for (end = start + 1; end < text.length && (class_of(units[end]) & kJoins); ++end) {
            }
            if (changes || end - start > 1 || (class_of(units[start]) & kJoins))
                found.push_back({start, end});
        }
        return found;
    });
}

std::string_view unicode_version() { return kUnicodeVersion; }

}  // namespace gnomon
