// Inside of analyze.cpp: the presets basic-v1, standard-v1 and bm25s.
#pragma once
#include "analyze_ascii.hpp"
#include "analyze_emit.hpp"

namespace gnomon {
namespace {

template <class Unit>
class Words : Emitter<Unit> {
    using Emitter<Unit>::cased_, Emitter<Unit>::lowered_, Emitter<Unit>::length_;
    using Emitter<Unit>::sink_, Emitter<Unit>::context_, Emitter<Unit>::emit;

  public:
    using Emitter<Unit>::Emitter;

    void basic() {
        for (std::size_t at = 0; at < length_;) {
            const std::uint16_t bits = class_of(cased_[at]);
            if (bits & kCjk) {
                at = bigrams<kCjk>(at);
            } else if (bits & kWord) {
                const std::size_t end = plain_word<false>(at);
                at = end != at ? end : word(at);
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
                const std::size_t end = plain_word<true>(at);
                at = end != at ? end : identifier(at);
            } else {
                ++at;
            }
        }
    }

    void bm25s() {
        for (std::size_t at = 0; at < length_;) {
            if (!(class_of(cased_[at]) & kInBm25s)) {
                ++at;
                continue;
            }
            const PlainWord<true> found(cased_, at, length_);
            std::size_t end = at + found.length;
            const bool plain = end == length_ || !(class_of(cased_[end]) & kInBm25s);
            if (!plain)
                while (end < length_ && (class_of(cased_[end]) & kInBm25s)) ++end;
            if (end - at >= 2) {
                if (plain)
                    sink_(context_, Token{{found.bytes(), found.length}, at, end, false});
                else
                    emit(at, end);
            }
            at = end + 1;
        }
    }

  private:
    static constexpr std::uint16_t kInBm25s = kAlnum | kUnderscore;
    static bool in_identifier(std::uint16_t bits) { return (bits & kIdentifier) && !(bits & kBigrams); }

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

    // The end of the word at `start`, emitted, or `start` when it may be anything but a short word of ASCII
    // letters and digits that has no parts.
    template <bool kWithParts>
    std::size_t plain_word(std::size_t start) {
        const PlainWord<> found(cased_, start, length_);
        const std::size_t end = start + found.length;
        const bool more = end < length_ && ((class_of(cased_[end]) & kWord) ||
                                            (kWithParts && (cased_[end] == '_' || cased_[end] == ':')));
        if (found.length == 0 || more || (kWithParts && found.humps)) return start;
        sink_(context_, Token{{found.bytes(), found.length}, start, end, false});
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
        const bool humps = (rest & kUpper) && (all & kLower);
        const bool whole = scoped || humps || (all & kUnderscore);
        emit(start, end, whole);
        if (whole) parts(start, end);
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
};

}  // namespace
}  // namespace gnomon
