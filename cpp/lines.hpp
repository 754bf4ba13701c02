// Complete search for lines: a window of byte classes that every match holds says where to look, a
// backtracking matcher looks.
//
// Lines are what stands between line feeds; a match never spans one, so a line is searched without regard to
// the others. A program works on bytes below 0x80. Where one of its sets may stand for a character beyond
// ASCII (`wide`), a line with a higher byte is left unsure: the caller asks RE2 about it (settle()).
// Otherwise a higher byte is in the sets that name it and is no word character, as in RE2.
//
// The first match is that of the leftmost start, and of the alternatives of one start the one preferred, as
// in Perl and RE2; the next one is looked for from its end on, or one byte behind an empty one. The matcher
// notes every (split, place) from which it has failed, and that is so whatever the start: a line takes time
// in proportion to its length times the splits (Kuehlmann's memoised search, as in RE2's BitState). A match
// unmarks its end, the only place of its path at which a later one can begin.
//
// Steps: kSet takes a byte of sets[x]; kJump goes to x; kSplit prefers x to y; kBegin, kEnd, kWord and
// kNotWord hold at ends of the line, at ends of ASCII words, and elsewhere; kMatch is the end. Repeated parts
// that can be empty are not for this: what they mean is RE2's to say.
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"
#include "storage.hpp"

namespace gnomon {

class LineProgram {
  public:
    enum class Op : std::uint8_t { kSet, kJump, kSplit, kBegin, kEnd, kWord, kNotWord, kMatch };
    struct Step {
        Op op;
        std::uint32_t x;
        std::uint32_t y;
        std::uint32_t number = 0;  // of a split among the splits; the program gives it
        bool run = false;          // of a split: it prefers to take one more byte of a set, and to come back
    };
    using Set = std::bitset<256>;  // of bytes
    using Table = std::array<std::uint8_t, 256>;

    // edges: classes of the window stand for a line feed that the first or last line may lack. anchor: the
    // place in the window of a byte of the line, or of the line feed behind it; no match begins behind it.
    // offset: how far from the begin of every match that byte lies, or kAnywhere. lead: sets that hold the
    // first bytes of every match, as many as all have. Throws InvalidInput.
    LineProgram(std::vector<Step> steps, const std::vector<Set>& sets, bool wide, const ByteWindow& window,
                std::size_t anchor, std::size_t offset, bool edges, const std::vector<Set>& lead);
    static constexpr std::size_t kAnywhere = SIZE_MAX;
    static constexpr std::size_t kMostLead = 8;

    const std::vector<Step>& steps() const { return steps_; }
    bool in(std::uint32_t set, std::uint8_t byte) const { return sets_[set][byte] != 0; }
    bool wide() const { return wide_; }
    const ByteWindow& window() const { return window_; }
    std::size_t anchor() const { return anchor_; }
    std::size_t offset() const { return offset_; }
    bool edges() const { return edges_; }
    std::uint32_t n_splits() const { return n_splits_; }
    // Whether the program is X+ (or X+?) and something more.
    bool begins_with_run() const { return begins_with_run_; }
    // Whether a match can begin at a place of a line, by its first bytes.
    bool may_begin(std::span<const std::uint8_t> line, std::size_t place) const {
        if (n_lead_ > line.size() - place) return false;
        for (std::size_t k = 0; k < n_lead_; ++k)
            if ((lead_[line[place + k]] >> k & 1) == 0) return false;
        return true;
    }

  private:
    bool is_run(std::uint32_t split) const;
    Set first_bytes(bool& may_be_empty) const;

    std::vector<Step> steps_;
    std::vector<Table> sets_;
    bool wide_;
    ByteWindow window_;
    std::size_t anchor_;
    std::size_t offset_;
    bool edges_;
    std::uint32_t n_splits_ = 0;
    bool begins_with_run_ = false;
    std::size_t n_lead_ = 0;
    Table lead_{};  // bit k: the byte may be number k of a match
};

// Finds the matches of a program in a line; one thread's.
class LineMatcher {
  public:
    explicit LineMatcher(const LineProgram& program) : program_(program) {}
    // Appends the matches in a line, as places in it; it is known that none begins before `from` or behind
    // `last`. False, with nothing appended, for a line that is too long for the marks.
    bool find(std::span<const std::uint8_t> line, std::size_t from, std::size_t last,
              std::vector<std::pair<std::uint32_t, std::uint32_t>>& matches);

  private:
    static constexpr std::size_t kMostMarks = std::size_t{1} << 22;
    struct Waiting {  // to be tried: a step at `place`, then at the places before it, down to `least`
        std::uint32_t at;
        std::size_t place;
        std::size_t least;
    };
    bool match_at(std::span<const std::uint8_t> line, std::size_t start, std::size_t& end);
    void enter_run(const LineProgram::Step& step, std::span<const std::uint8_t> line, std::size_t place);
    bool mark(std::size_t place, std::uint32_t number) {  // false when it is marked already
        const std::size_t bit = place * program_.n_splits() + number;
        std::uint64_t& word = marks_[bit / 64];
        const std::uint64_t one = std::uint64_t{1} << (bit % 64);
        const bool fresh = (word & one) == 0;
        word |= one;
        return fresh;
    }

    const LineProgram& program_;
    std::vector<std::uint64_t> marks_;
    std::vector<Waiting> waiting_;
};

struct LineDocument {
    std::uint32_t source = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

// The lines of documents that match, in the order of the documents.
class LineScan {
  public:
    struct Totals {
        std::uint64_t lines = 0;
        std::uint64_t matches = 0;
        std::uint64_t documents = 0;
    };
    struct Page {
        std::vector<std::uint64_t> owner, number, begin, end;  // by line; numbers count from 1
        std::vector<std::uint64_t> first{0};                   // of a line's matches, and the end
        std::vector<std::uint64_t> begins, stops;              // bytes of the document, as begin and end
    };

    // most: lines from this one on are counted, and are on no page. most_unsure: with more bytes of lines
    // that are left unsure the search ends early, and has_given_up(). A byte order mark is no part of a
    // document's first line. Throws CorruptIndex, InvalidInput.
    LineScan(const LineProgram& program, std::vector<Column<std::uint8_t>> sources,
             std::vector<LineDocument> documents, std::uint64_t most, std::uint64_t most_unsure,
             std::size_t threads, const Kernels& kernels);
    bool has_given_up() const { return has_given_up_; }

    // The lines that the program cannot judge, each closed by a line feed.
    std::string unsure() const;
    // What matches in that text, ascending; those at its end are none.
    void settle(std::span<const std::int64_t> begins, std::span<const std::int64_t> stops);

    Totals totals() const;                                          // all that is settled
    std::span<const std::uint8_t> matched() const { return hit_; }  // by document: 1 for a match
    // Lines [skip, stop) of those that match.
    Page page(std::uint64_t skip, std::uint64_t stop) const;

  private:
    struct Line {
        std::uint64_t begin, end;
        std::uint64_t first, last;  // matches
        std::uint32_t owner;
        bool unsure;
    };
    struct Part {  // what one task found
        std::vector<Line> lines;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> matches;  // places in the line
        std::uint64_t n_lines = 0;                                     // judged, whether kept or not
        std::uint64_t n_matches = 0;
        std::uint64_t unsure = 0;  // bytes
    };
    class Worker;

    std::span<const std::uint8_t> text(std::uint32_t owner) const;

    std::vector<Column<std::uint8_t>> sources_;
    std::vector<LineDocument> documents_;
    std::vector<Part> parts_;
    std::vector<std::uint8_t> hit_;  // by document
    bool has_given_up_ = false;
};

}  // namespace gnomon
