// Words of a text, each different one looked at once; and spans of a rendered text as raw bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analyze.hpp"

namespace gnomon {

// What stands in a word, or in a text: code points [begin, end), and what it is, a number that the caller
// knows the sense of.
struct WordHit {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t group;
};

struct WordFacts {
    std::uint32_t flags = 0;
    std::vector<WordHit> hits;
};

// Remembers the facts of words (the runs between white space, as Python's str.split() parts a text), so that
// a pattern reads each word once.
class WordScanner {
  public:
    // The facts of the word [begin, end) of the text. May throw; may scan other texts meanwhile.
    using Unknown = std::function<WordFacts(std::size_t begin, std::size_t end)>;
    static constexpr std::size_t kLongest = 80;         // code points of a word that is remembered
    static constexpr std::size_t kMostWords = 200'000;  // then all are forgotten

    // A word of ASCII is nothing, and is not asked for, when it has no digit, "_", "$", "@", "--", a "("
    // behind a letter or a capital behind a letter, and none of the parts; every other word is asked for.
    explicit WordScanner(std::vector<std::string> parts = {});
    // Appends the hits of all words, in order; returns the flags of all words, or-ed.
    std::uint32_t scan(TextView text, const Unknown& unknown, std::vector<WordHit>& hits);
    std::size_t size() const { return entries_.size(); }

  private:
    struct Entry {
        static constexpr std::size_t kOwn = 24;  // bytes of a word that lie here: one cache line for most
        std::uint64_t hash;
        std::size_t at;  // in letters_, of a word that is not here
        std::uint32_t flags;
        std::uint32_t first_hit;
        std::uint32_t n_hits;
        std::uint8_t length;
        bool here;
        std::uint8_t own[kOwn];
    };
    struct Word {
        std::size_t begin;
        std::size_t end;
        std::uint64_t hash;
    };
    template <class Unit>
    std::uint32_t scan_units(std::span<const Unit> text, const Unknown& unknown, std::vector<WordHit>& hits);
    // The words of a text; what the table has of them is on its way to the cache.
    template <class Unit>
    std::vector<Word> words_of(std::span<const Unit> text) const;
    template <class Unit>
    static bool is(const Entry& entry, std::span<const Unit> word, const std::vector<char32_t>& letters);
    template <class Unit>
    const Entry* find(std::span<const Unit> word, std::uint64_t hash) const;
    template <class Unit>
    bool nothing_in(std::span<const Unit> word) const;
    template <class Unit>
    void keep(std::span<const Unit> word, std::uint64_t hash, const WordFacts& facts);

    std::vector<std::string> parts_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> slots_;  // of an open table: place in entries_ plus 1, 0 for none
    std::vector<char32_t> letters_;
    std::vector<WordHit> known_;
};

struct RawSpan {
    std::int64_t start;
    std::int64_t end;
};

// Replaces code point spans of `text`, whose starts rise, by the raw bytes that show them, counted from the
// text's start. `marks` are the triples of gnomon.corpus.rawmap; none: the text is the raw bytes. A piece
// that was not copied is taken whole. Throws InvalidInput for a span behind the end of the map.
void locate_spans(TextView text, std::span<const std::int64_t> marks, std::span<RawSpan> spans);

// Whether nothing that stands beside the name [span.start, span.end) can say what it is: false where one of
// the patterns of gnomon.corpus.names that look at what is near a name may match, true only where none does.
//
// Proof. Behind a name FUNCTION_NOUN, ERROR_NOUN and OPTION_NOUN match, each at once: at most one quote,
// "()", a comma and a space, each optional and none of them a letter, then a word; its first two letters are
// in kNounBegins. Before a name PACKAGE_BEFORE, CLASS_BEFORE and NOUN_BEFORE match up to `$`: a word whose
// last two letters are in kWordEnds, then signs that `is_between` strips, at most a line feed among them. The
// signs "(", "=" and "." are looked at by themselves.
bool stands_plain(TextView text, RawSpan span);

}  // namespace gnomon
