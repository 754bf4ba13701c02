// Inside of analyze.cpp: the words of the preset lucene-english. The grammar as an automaton, and where it
// departs from UAX #29, is spelled out in python/gnomon/reference/lucene.py.
#pragma once
#include <algorithm>

#include "analyze_ascii.hpp"
#include "analyze_emit.hpp"

namespace gnomon {
namespace {

enum class Break : std::uint8_t {  // in the order of CLASSES in word_break.py
    other,
    mark,
    letter,
    hebrew,
    number,
    katakana,
    joiner,
    mid_letter,
    mid_number,
    mid_both,
    quote,
    double_quote,
    asian,
    asian_mark,
    han,
    hiragana,
};

enum class State : std::uint8_t {
    start,
    letter,
    letter_mid,
    hebrew,
    hebrew_quote,
    hebrew_double,
    hebrew_done,
    number,
    number_mid,
    katakana,
    joiner,
    none,
};

constexpr bool may_end(State state) {
    return state != State::start && state != State::letter_mid && state != State::hebrew_double &&
           state != State::number_mid;
}

constexpr State next_content(Break kind) {
    switch (kind) {
        case Break::letter:
            return State::letter;
        case Break::hebrew:
            return State::hebrew;
        case Break::number:
            return State::number;
        case Break::joiner:
            return State::joiner;
        default:
            return State::none;
    }
}

constexpr bool joins_letters(Break kind) {
    return kind == Break::mid_letter || kind == Break::mid_both || kind == Break::quote;
}

// The state after a character that is no mark; none when the word cannot go on with it.
constexpr State next_state(State state, Break kind) {
    switch (state) {
        case State::start:
            if (kind == Break::joiner) return State::start;
            return kind == Break::katakana ? State::katakana : next_content(kind);
        case State::letter:
            return joins_letters(kind) ? State::letter_mid : next_content(kind);
        case State::letter_mid:
            return kind == Break::letter || kind == Break::hebrew ? State::letter : State::none;
        case State::hebrew:
            if (kind == Break::quote) return State::hebrew_quote;
            if (kind == Break::double_quote) return State::hebrew_double;
            return joins_letters(kind) ? State::letter_mid : next_content(kind);
        case State::hebrew_double:
            return kind == Break::hebrew ? State::hebrew_done : State::none;
        case State::hebrew_quote:
        case State::hebrew_done:
            return next_content(kind);
        case State::number:
            if (kind == Break::mid_number || kind == Break::mid_both || kind == Break::quote)
                return State::number_mid;
            return next_content(kind);
        case State::number_mid:
            return kind == Break::number ? State::number : State::none;
        case State::katakana:
            if (kind == Break::katakana) return State::katakana;
            return kind == Break::joiner ? State::joiner : State::none;
        case State::joiner:
            return kind == Break::katakana ? State::katakana : next_content(kind);
        case State::none:
            break;
    }
    return State::none;
}

template <class Unit>
class LuceneWords : Emitter<Unit> {
    using Emitter<Unit>::cased_, Emitter<Unit>::length_, Emitter<Unit>::sink_, Emitter<Unit>::context_;
    using Emitter<Unit>::emit_as;

  public:
    using Emitter<Unit>::Emitter;

    void run() {
        for (std::size_t at = 0; at < length_;) {
            const std::uint8_t bits = bits_of(at);
            if (kind_of(bits) == Break::other && bits < kPictograph && !key_cap_base(at)) {
                ++at;
                continue;
            }
            if (const std::size_t end = plain(at); end != at) {
                at = end;
                continue;
            }
            const std::size_t limit = limit_of(at);
            const std::size_t end = std::max({word(at, limit), run_of(at, limit), emoji(at, limit)});
            if (end > at) emit_as(possessive(at, end) ? end - 2 : end, at, end);
            at = std::max(end, at + 1);
        }
    }

  private:
    static constexpr std::size_t kUnitsMost = 255;  // of UTF-16
    static constexpr char32_t kJoiner = 0x200D;
    static constexpr char32_t kTextSelector = 0xFE0E;
    static constexpr char32_t kEmojiSelector = 0xFE0F;
    static constexpr char32_t kKeyCap = 0x20E3;

    std::uint8_t bits_of(std::size_t at) const {
        if constexpr (sizeof(Unit) == 1) {
            return kBreakBlocks[cased_[at]];
        } else {
            return kBreakBlocks[(std::size_t{kBreakIndex[cased_[at] >> 8]} << 8) | (cased_[at] & 0xFF)];
        }
    }
    static Break kind_of(std::uint8_t bits) { return static_cast<Break>(bits & 0xF); }
    static bool is_mark(Break kind) { return kind == Break::mark || kind == Break::asian_mark; }
    bool key_cap_base(std::size_t at) const { return cased_[at] == '#' || cased_[at] == '*'; }
    bool is(std::size_t at, std::size_t limit, char32_t code) const {
        return at < limit && cased_[at] == code;
    }

    // As Words::plain_word: the end of a short word of ASCII letters and digits that certainly ends there.
    std::size_t plain(std::size_t start) {
        const PlainWord<> found(cased_, start, length_);
        const std::size_t end = start + found.length;
        if (found.length == 0 || !ends_plainly(end)) return start;
        sink_(context_, Token{{found.bytes(), found.length}, start, end, false});
        return end;
    }

    // A mark that may join needs another letter or digit after it.
    bool ends_plainly(std::size_t end) const {
        if (end == length_) return true;
        const Break kind = kind_of(bits_of(end));
        if (kind == Break::other || kind == Break::double_quote) return true;
        if (kind < Break::mid_letter || is_mark(kind)) return false;
        return end + 1 == length_ || kind_of(bits_of(end + 1)) == Break::other;
    }

    std::size_t limit_of(std::size_t start) const {
        const std::size_t most = std::min(length_, start + kUnitsMost);
        if constexpr (sizeof(Unit) == 4) {
            std::size_t units = 0;
            for (std::size_t at = start; at < most; ++at)
                if ((units += cased_[at] < 0x10000 ? 1 : 2) > kUnitsMost) return at;
        }
        return most;
    }

    std::size_t word(std::size_t start, std::size_t limit) const {
        State state = State::start;
        std::size_t end = start;
        for (std::size_t at = start; at < limit; ++at) {
            const Break kind = kind_of(bits_of(at));
            if (is_mark(kind)) {
                if (at == start) return start;
            } else {
                state = next_state(state, kind);
                if (state == State::none) break;
            }
            if (may_end(state)) end = at + 1;
        }
        return end;
    }

    // One Han or Hiragana character with its marks, or a run of a script without spaces.
    std::size_t run_of(std::size_t start, std::size_t limit) const {
        const Break first = kind_of(bits_of(start));
        const bool single = first == Break::han || first == Break::hiragana;
        if (!single && first != Break::asian && first != Break::asian_mark) return start;
        std::size_t end = start + 1;
        for (; end < limit; ++end) {
            const Break kind = kind_of(bits_of(end));
            if (!is_mark(kind) && (single || kind != Break::asian)) break;
        }
        return end;
    }

    std::size_t emoji(std::size_t start, std::size_t limit) const {
        if (key_cap_base(start)) return key_cap(start, limit);
        if (bits_of(start) & kRegional) {
            const std::size_t at = marks(start + 1, limit, true);
            return at < limit && (bits_of(at) & kRegional) ? marks(at + 1, limit, true) : start;
        }
        std::size_t at = start;
        while (is(at, limit, kJoiner)) ++at;
        if (at == limit || !(bits_of(at) & (at == start ? kPictograph | kSkinTone : kPictograph)))
            return start;
        for (;;) {
            bool presented = false;
            at = element(at, limit, presented);
            if (presented) {
                if (const std::size_t tagged = tags(at, limit); tagged > at) return tagged;
            }
            std::size_t joined = at;
            while (presented && is(joined, limit, kJoiner)) ++joined;
            if (joined == limit || cased_[joined - 1] != kJoiner) return at;
            const bool tone = (bits_of(joined) & kSkinTone) && (!presented || joined == at + 1);
            if (!(bits_of(joined) & kPictograph) && !tone) return at;
            at = joined;
        }
    }

    // One emoji with its marks; `presented` when a presentation selector ended it.
    std::size_t element(std::size_t start, std::size_t limit, bool& presented) const {
        const std::size_t at = marks(start + 1, limit, false);
        presented = !(bits_of(start) & kSkinTone) && is(at, limit, kEmojiSelector);
        return presented ? at + 1 : at;
    }

    std::size_t key_cap(std::size_t start, std::size_t limit) const {
        const std::size_t at = marks(start + 1, limit, false);
        const bool capped = std::find(cased_ + start, cased_ + at, kKeyCap) != cased_ + at;
        if (is(at, limit, kEmojiSelector) && is(at + 1, limit, kKeyCap)) return marks(at + 2, limit, false);
        return capped ? at : start;
    }

    std::size_t tags(std::size_t start, std::size_t limit) const {
        std::size_t at = start;
        while (at < limit && cased_[at] >= 0xE0020u && cased_[at] <= 0xE007Eu) ++at;
        return at > start && is(at, limit, 0xE007F) ? at + 1 : start;
    }

    std::size_t marks(std::size_t at, std::size_t limit, bool selectors) const {
        while (at < limit && is_mark(kind_of(bits_of(at))) &&
               (selectors || (cased_[at] != kTextSelector && cased_[at] != kEmojiSelector)))
            ++at;
        return at;
    }

    bool possessive(std::size_t start, std::size_t end) const {
        if (end - start < 2 || (cased_[end - 1] | 0x20) != 's') return false;
        const char32_t quote = cased_[end - 2];
        return quote == '\'' || quote == 0x2019 || quote == 0xFF07;
    }
};

}  // namespace
}  // namespace gnomon
