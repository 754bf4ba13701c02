#include "vocabulary_sorted.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "error.hpp"
#include "vocabulary.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kMostCommon = 65535;

// The first eight bytes as a number that compares as they do.
std::uint64_t head(std::string_view term) {
    std::uint64_t word = 0;
    std::memcpy(&word, term.data(), std::min<std::size_t>(term.size(), 8));
    return __builtin_bswap64(word);
}

// A code point and how many bytes it takes. A byte that starts none stands for itself, beyond Unicode: a file
// may hold any bytes.
struct CodePoint {
    std::uint32_t value;
    std::uint32_t bytes;
};

CodePoint code_point(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::uint32_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC0 || first > 0xF7 || text.size() < bytes) return {0x110000 + first, 1};
    std::uint32_t value = first & (0x7Fu >> bytes);
    for (std::uint32_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return {0x110000 + first, 1};
        value = value << 6 | (byte(i) & 0x3Fu);
    }
    return {value, bytes};
}

std::vector<std::uint32_t> code_points(std::string_view text) {
    std::vector<std::uint32_t> points;
    while (!text.empty()) {
        const CodePoint point = code_point(text);
        points.push_back(point.value);
        text.remove_prefix(point.bytes);
    }
    return points;
}

// The first place from `first` on, and before `last`, with a value below the limit; or `last`. Most of a
// fuzzy search is this, so it looks at many at a time.
std::size_t next_below(const std::vector<std::uint16_t>& values, std::size_t first, std::size_t last,
                       std::uint16_t limit) {
    constexpr std::size_t kStep = 32;
    for (; last - first >= kStep; first += kStep) {
        const std::uint16_t* const some = values.data() + first;
        std::uint16_t below = 0;
        for (std::size_t i = 0; i < kStep; ++i) below = static_cast<std::uint16_t>(below | (some[i] < limit));
        if (below != 0) break;
    }
    while (first < last && values[first] >= limit) ++first;
    return first;
}

// The distance table of one text against terms that are walked in order, as a path in their trie: a row for
// each code point of the present term. Only cells at most `edits` off the diagonal can hold a distance that
// counts; the others are `over`.
class Distances {
  public:
    Distances(std::vector<std::uint32_t> text, unsigned edits, bool swaps)
        : text_(std::move(text)), edits_(edits), swaps_(swaps), width_(text_.size() + 1) {
        rows_.assign((text_.size() + edits + 3) * width_, over());
        term_.resize(text_.size() + edits + 3);
        for (std::size_t j = 0; j < width_ && j <= edits; ++j) rows_[j] = static_cast<std::uint8_t>(j);
    }

    // The row of a term that continues the present path behind `depth` code points with `point`.
    // False when no term that goes on so comes within reach.
    bool push(std::size_t depth, std::uint32_t point) {
        if (depth >= text_.size() + edits_) return false;
        term_[depth] = point;
        const std::size_t d = depth + 1;
        const std::uint8_t* const above = &rows_[depth * width_];
        std::uint8_t* const row = &rows_[d * width_];
        const std::size_t first = d > edits_ ? d - edits_ : 0;
        const std::size_t last = std::min(text_.size(), d + edits_);
        std::uint8_t least = over();
        for (std::size_t j = first; j <= last; ++j) {
            unsigned best = over();
            if (j <= depth + edits_) best = std::min(best, above[j] + 1u);
            if (j > 0) {
                best = std::min(best, above[j - 1] + (text_[j - 1] == point ? 0u : 1u));
                if (j > first) best = std::min(best, row[j - 1] + 1u);
            }
            if (swaps_ && d > 1 && j > 1 && text_[j - 2] == point && text_[j - 1] == term_[d - 2])
                best = std::min(best, rows_[(d - 2) * width_ + j - 2] + 1u);
            row[j] = static_cast<std::uint8_t>(std::min(best, unsigned{over()}));
            least = std::min(least, row[j]);
        }
        return least <= edits_;
    }

    bool reached(std::size_t depth) const {
        return depth + edits_ >= text_.size() && rows_[depth * width_ + text_.size()] <= edits_;
    }

  private:
    std::uint8_t over() const { return static_cast<std::uint8_t>(edits_ + 1); }

    std::vector<std::uint32_t> text_;
    unsigned edits_;
    bool swaps_;
    std::size_t width_;
    std::vector<std::uint8_t> rows_;
    std::vector<std::uint32_t> term_;
};

}  // namespace

SortedTerms::SortedTerms(const Vocabulary& vocabulary) : starts_{0} {
    struct Entry {
        std::uint64_t head;
        std::uint32_t id;
    };
    std::vector<Entry> entries(vocabulary.size());
    std::size_t bytes = 0;
    for (std::uint32_t id = 0; id < vocabulary.size(); ++id) {
        const std::string_view text = vocabulary.term(id);
        entries[id] = {head(text), id};
        bytes += text.size();
    }
    std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
        return a.head != b.head ? a.head < b.head : vocabulary.term(a.id) < vocabulary.term(b.id);
    });
    ids_.reserve(entries.size());
    bytes_.reserve(bytes);
    std::string_view before;
    for (const Entry& entry : entries) {
        const std::string_view text = vocabulary.term(entry.id);
        const std::size_t most = std::min({text.size(), before.size(), kMostCommon});
        const auto end =
            std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most), before.begin())
                .first;
        common_.push_back(static_cast<std::uint16_t>(end - text.begin()));
        ids_.push_back(entry.id);
        bytes_.insert(bytes_.end(), text.begin(), text.end());
        starts_.push_back(bytes_.size());
        before = text;
    }
}

SortedTerms::Range SortedTerms::range_of(std::string_view prefix) const {
    const auto split = [&](auto goes_before) {
        std::size_t low = 0;
        for (std::size_t high = size(); low < high;) {
            const std::size_t middle = low + (high - low) / 2;
            if (goes_before(term(middle)))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    };
    return {split([&](std::string_view text) { return text < prefix; }),
            split([&](std::string_view text) { return text.substr(0, prefix.size()) <= prefix; })};
}

std::vector<std::uint32_t> SortedTerms::with_prefix(std::string_view prefix) const {
    const Range range = range_of(prefix);
    return {ids_.begin() + static_cast<std::ptrdiff_t>(range.first),
            ids_.begin() + static_cast<std::ptrdiff_t>(range.last)};
}

std::vector<std::uint32_t> SortedTerms::within(std::string_view text, unsigned edits, std::size_t exact,
                                               bool swaps) const {
    std::vector<std::uint32_t> points = code_points(text);
    if (edits > kMostEdits) throw InvalidInput("edits must be 0, 1 or 2, got " + std::to_string(edits));
    if (points.size() > kLongest)
        throw InvalidInput("a fuzzy term has at most 255 characters, got " + std::to_string(points.size()));
    std::size_t same = 0;
    for (std::size_t i = 0; i < exact && same < text.size(); ++i) same += code_point(text.substr(same)).bytes;
    if (exact > points.size()) return {};
    const Range range = range_of(text.substr(0, same));
    Distances distances(std::move(points), edits, swaps);
    std::vector<std::uint32_t> found;
    std::vector<std::size_t> ends;    // of the code points on the present path, in bytes
    std::size_t hopeless = SIZE_MAX;  // no term that shares so many bytes with the last one is in reach
    for (std::size_t place = range.first; place < range.last; ++place) {
        if (hopeless <= kMostCommon && place != range.first) {
            place = next_below(common_, place, range.last, static_cast<std::uint16_t>(hopeless));
            if (place == range.last) break;
        }
        const std::size_t common = place == range.first ? 0 : common_[place];
        hopeless = SIZE_MAX;
        while (!ends.empty() && ends.back() > common) ends.pop_back();
        const std::string_view now = term(place);
        std::size_t at = ends.empty() ? 0 : ends.back();
        while (at < now.size()) {
            const CodePoint point = code_point(now.substr(at));
            at += point.bytes;
            if (!distances.push(ends.size(), point.value)) {
                hopeless = at;
                break;
            }
            ends.push_back(at);
        }
        if (hopeless == SIZE_MAX && distances.reached(ends.size())) found.push_back(ids_[place]);
    }
    return found;
}

}  // namespace gnomon
