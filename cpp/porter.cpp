#include "porter.hpp"

#include <algorithm>
#include <span>

namespace gnomon {
namespace {

// UTF-16 units, in which the algorithm counts. All suffixes are ASCII, so no pair is ever torn.
using Units = std::u16string;

Units to_units(std::string_view utf8) {
    Units units;
    units.reserve(utf8.size());
    for (std::size_t at = 0; at < utf8.size();) {
        const auto lead = static_cast<unsigned char>(utf8[at]);
        const int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        char32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
        for (int i = 1; i <= more && at + static_cast<std::size_t>(i) < utf8.size(); ++i)
            code = (code << 6) | (static_cast<unsigned char>(utf8[at + static_cast<std::size_t>(i)]) & 0x3F);
        at += static_cast<std::size_t>(more) + 1;
        if (code < 0x10000) {
            units.push_back(static_cast<char16_t>(code));
        } else {
            units.push_back(static_cast<char16_t>(0xD800 + ((code - 0x10000) >> 10)));
            units.push_back(static_cast<char16_t>(0xDC00 + (code & 0x3FF)));
        }
    }
    return units;
}

// How many bytes of the word's UTF-8 its first units take.
std::size_t bytes_of(std::u16string_view units) {
    std::size_t bytes = 0;
    for (const char16_t unit : units)  // either half of a pair counts for two of the four bytes
        bytes += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xF800) == 0xD800 ? 2 : 3;
    return bytes;
}

class Word {
  public:
    explicit Word(Units units) : units_(std::move(units)) {}

    const Units& stemmed() {
        if (units_.size() > 2) {
            step_1();
            replace(kStep2);
            replace(kStep3);
            step_4();
            step_5();
        }
        return units_;
    }

  private:
    struct Rule {
        std::u16string_view suffix;
        std::u16string_view with;
    };
    static constexpr Rule kStep2[] = {
        {u"ational", u"ate"}, {u"tional", u"tion"}, {u"enci", u"ence"},   {u"anci", u"ance"},
        {u"izer", u"ize"},    {u"bli", u"ble"},     {u"alli", u"al"},     {u"entli", u"ent"},
        {u"eli", u"e"},       {u"ousli", u"ous"},   {u"ization", u"ize"}, {u"ation", u"ate"},
        {u"ator", u"ate"},    {u"alism", u"al"},    {u"iveness", u"ive"}, {u"fulness", u"ful"},
        {u"ousness", u"ous"}, {u"aliti", u"al"},    {u"iviti", u"ive"},   {u"biliti", u"ble"},
        {u"logi", u"log"},
    };
    static constexpr Rule kStep3[] = {
        {u"icate", u"ic"}, {u"ative", u""}, {u"alize", u"al"}, {u"iciti", u"ic"},
        {u"ical", u"ic"},  {u"ful", u""},   {u"ness", u""},
    };
    static constexpr std::u16string_view kStep4[] = {
        u"al",  u"ance", u"ence", u"er",  u"ic",  u"able", u"ible", u"ant", u"ement", u"ment",
        u"ent", u"ion",  u"ou",   u"ism", u"ate", u"iti",  u"ous",  u"ive", u"ize",
    };

    // What is true of the first `length` units.
    struct Shape {
        int measure = 0;  // Porter's m
        bool has_vowel = false;
        bool last[3] = {};  // whether the last ones are consonants, the last one first
    };
    Shape shape(std::size_t length) const {
        Shape found;
        bool consonant = false;
        for (std::size_t at = 0; at < length; ++at) {
            const char16_t c = units_[at];
            const bool before = consonant;
            consonant = c == u'y' ? at == 0 || !before
                                  : c != u'a' && c != u'e' && c != u'i' && c != u'o' && c != u'u';
            found.measure += at > 0 && consonant && !before;
            found.has_vowel |= !consonant;
            found.last[2] = found.last[1];
            found.last[1] = found.last[0];
            found.last[0] = consonant;
        }
        return found;
    }
    bool ends(std::u16string_view suffix) const {
        return units_.size() >= suffix.size() &&
               std::u16string_view(units_).substr(units_.size() - suffix.size()) == suffix;
    }
    void cut(std::size_t count) { units_.erase(units_.size() - count); }
    bool ends_double(const Shape& all) const {
        const std::size_t n = units_.size();
        return n >= 2 && units_[n - 1] == units_[n - 2] && all.last[0];
    }
    static bool ends_cvc(std::u16string_view units, const Shape& all) {
        const std::size_t n = units.size();
        return n >= 3 && all.last[0] && !all.last[1] && all.last[2] && units[n - 1] != u'w' &&
               units[n - 1] != u'x' && units[n - 1] != u'y';
    }

    void step_1() {
        if (ends(u"sses") || ends(u"ies")) {
            cut(2);
        } else if (ends(u"s") && units_[units_.size() - 2] != u's') {
            cut(1);
        }
        if (ends(u"eed")) {
            if (shape(units_.size() - 3).measure > 0) cut(1);
        } else {
            const std::size_t suffix = ends(u"ed") ? 2 : ends(u"ing") ? 3 : 0;
            if (suffix != 0 && shape(units_.size() - suffix).has_vowel) {
                cut(suffix);
                repair();
            }
        }
        if (ends(u"y") && shape(units_.size() - 1).has_vowel) units_.back() = u'i';
    }

    // What is left after -ed or -ing gets the e, or loses the double letter, that it had before.
    void repair() {
        const Shape all = shape(units_.size());
        if (ends(u"at") || ends(u"bl") || ends(u"iz")) {
            units_.push_back(u'e');
        } else if (ends_double(all)) {
            const char16_t last = units_.back();
            if (last != u'l' && last != u's' && last != u'z') cut(1);
        } else if (all.measure == 1 && ends_cvc(units_, all)) {
            units_.push_back(u'e');
        }
    }

    void replace(std::span<const Rule> rules) {
        for (const Rule& rule : rules) {
            if (!ends(rule.suffix)) continue;
            if (shape(units_.size() - rule.suffix.size()).measure > 0) {
                cut(rule.suffix.size());
                units_.append(rule.with);
            }
            return;
        }
    }

    void step_4() {
        for (const std::u16string_view suffix : kStep4) {
            if (!ends(suffix)) continue;
            const std::size_t left = units_.size() - suffix.size();
            if (suffix == u"ion" && !(left > 0 && (units_[left - 1] == u's' || units_[left - 1] == u't')))
                continue;
            if (shape(left).measure > 1) cut(suffix.size());
            return;
        }
    }

    void step_5() {
        const int size = shape(units_.size()).measure;
        if (ends(u"e")) {
            const std::size_t left = units_.size() - 1;
            if (size > 1 ||
                (size == 1 && !ends_cvc(std::u16string_view(units_).substr(0, left), shape(left))))
                cut(1);
        }
        if (ends(u"l") && size > 1 && ends_double(shape(units_.size()))) cut(1);
    }

    Units units_;
};

}  // namespace

// Only the end of a word ever changes, and only into ASCII: its front is taken from the word itself.
std::string porter_stem(std::string_view word) {
    const Units before = to_units(word);
    Word stemmer(before);
    const Units& after = stemmer.stemmed();
    const auto kept = static_cast<std::size_t>(
        std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first - before.begin());
    std::string stem(word.substr(0, bytes_of(std::u16string_view(before).substr(0, kept))));
    for (const char16_t unit : std::u16string_view(after).substr(kept))
        stem.push_back(static_cast<char>(unit));
    return stem;
}

}  // namespace gnomon
