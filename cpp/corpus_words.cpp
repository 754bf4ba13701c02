#include "corpus_words.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "corpus_names.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::int64_t kCopied = -1;

// What str.split() parts at: White_Space of Unicode, and the separators 1C to 1F.
constexpr bool is_space(std::uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint32_t c) { return (hash ^ c) * 0x9E3779B97F4A7C15; }

constexpr std::int64_t utf8_width(std::uint32_t c) {
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

template <class Fn>
auto with_units(TextView text, const Fn& fn) {
    if (text.width == 1) return fn(std::span(static_cast<const std::uint8_t*>(text.data), text.length));
    if (text.width == 2) return fn(std::span(static_cast<const std::uint16_t*>(text.data), text.length));
    return fn(std::span(static_cast<const std::uint32_t*>(text.data), text.length));
}

// Spans of code points as spans of bytes in UTF-8.
template <class Unit>
void in_bytes(std::span<const Unit> text, std::span<RawSpan> spans) {
    std::int64_t at = 0, size = 0;
    const auto bytes = [&](std::int64_t begin, std::int64_t end) {
        std::int64_t sum = 0;
        const auto last = std::min(end, static_cast<std::int64_t>(text.size()));
        for (std::int64_t i = begin; i < last; ++i) sum += utf8_width(text[static_cast<std::size_t>(i)]);
        return sum;
    };
    for (RawSpan& span : spans) {
        size = span.start >= at ? size + bytes(at, span.start) : bytes(0, span.start);
        at = span.start;
        span = {size, size + bytes(span.start, span.end)};
    }
}

// Two letters of words, and which patterns (Near) have such words.
struct Pair {
    std::string_view letters;
    unsigned near;
};
constexpr Pair kNounBegins[] = {{"fu", kNearFunction},
                                {"me", kNearFunction},
                                {"UD", kNearFunction},
                                {"co", kNearFunction | kNearOption},
                                {"pr", kNearFunction | kNearOption},
                                {"er", kNearError},
                                {"ex", kNearError},
                                {"wa", kNearError | kNearOption},
                                {"sy", kNearOption},
                                {"se", kNearOption},
                                {"st", kNearOption},
                                {"gl", kNearOption},
                                {"cl", kNearOption},
                                {"dy", kNearOption},
                                {"dr", kNearOption},
                                {"po", kNearOption},
                                {"SQ", kNearOption},
                                {"ta", kNearOption},
                                {"va", kNearOption},
                                {"op", kNearOption},
                                {"pa", kNearOption},
                                {"is", kNearOption},
                                {"ar", kNearOption},
                                {"we", kNearOption},
                                {"be", kNearOption},
                                {"no", kNearOption},
                                {"en", kNearOption},
                                {"di", kNearOption},
                                {"de", kNearOption}};
constexpr Pair kWordEnds[] = {{"ge", kNearPackage},
                              {"ce", kNearPackage | kNearClass},
                              {"le", kNearPackage | kNearNoun},
                              {"on", kNearClass | kNearNoun},
                              {"ss", kNearClass | kNearNoun},
                              {"ts", kNearClass | kNearNoun},
                              {"um", kNearClass},
                              {"ew", kNearClass},
                              {"ct", kNearClass},
                              {"te", kNearClass},
                              {"ds", kNearClass},
                              {"ow", kNearClass},
                              {"ws", kNearClass},
                              {"ch", kNearClass},
                              {"es", kNearNoun},
                              {"ns", kNearNoun},
                              {"er", kNearNoun},
                              {"rs", kNearNoun},
                              {"ty", kNearNoun},
                              {"ys", kNearNoun},
                              {"ng", kNearNoun},
                              {"gs", kNearNoun},
                              {"is", kNearNoun},
                              {"re", kNearNoun},
                              {"ed", kNearNoun},
                              {"of", kNearNoun},
                              {"et", kNearNoun},
                              {"se", kNearNoun},
                              {"he", kNearNoun},
                              {"or", kNearNoun}};

template <class Unit>
bool is_between(Unit c) {
    return c == ' ' || c == ':' || c == '`' || c == '\'' || c == '"' || c == '(' || c == '[' || c == '\n' ||
           c == 0xA0;  // a no-break space
}

template <class Unit, std::size_t N>
unsigned near_pair(Unit first, Unit second, const Pair (&pairs)[N]) {
    for (const Pair& pair : pairs)
        if (first == static_cast<Unit>(pair.letters[0]) && second == static_cast<Unit>(pair.letters[1]))
            return pair.near;
    return 0;
}

template <class Unit>
unsigned near_units(std::span<const Unit> text, std::size_t begin, std::size_t end) {
    unsigned near = 0;
    std::size_t at = end;
    const auto sign = [&](std::string_view some) {
        if (at >= text.size() || text[at] >= 0x80) return false;
        return some.find(static_cast<char>(text[at])) != std::string_view::npos;
    };
    if (sign("(=.")) near |= kNearSign;
    if (sign("`'\"]")) ++at;
    if (sign("(") && at + 1 < text.size() && text[at + 1] == ')') at += 2;
    if (sign(",")) ++at;
    if (sign(" ")) ++at;
    if (at + 1 < text.size()) near |= near_pair(text[at], text[at + 1], kNounBegins);
    at = begin;
    while (at > 0 && is_between(text[at - 1])) --at;
    if (at >= 2) near |= near_pair(text[at - 2], text[at - 1], kWordEnds);
    return near;
}

}  // namespace

WordScanner::WordScanner(std::vector<std::string> parts) : parts_(std::move(parts)), slots_(1024) {}

std::uint32_t WordScanner::scan(TextView text, const Unknown& unknown, std::vector<WordHit>& hits) {
    return with_units(text, [&](auto units) { return scan_units(units, unknown, hits); });
}

template <class Unit>
std::vector<WordScanner::Word> WordScanner::words_of(std::span<const Unit> text) const {
    std::vector<Word> words;
    words.reserve(text.size() / 5);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < text.size();) {
        if (is_space(text[i])) {
            ++i;
            continue;
        }
        const std::size_t begin = i;
        std::uint64_t hash = 0;
        for (; i < text.size() && !is_space(text[i]); ++i) hash = mixed(hash, text[i]);
        hash ^= hash >> 32;  // the low bits of a product know the low bits only
        __builtin_prefetch(&slots_[hash & mask]);
        words.push_back({begin, i, hash});
    }
    for (const Word& word : words)
        if (const std::uint32_t slot = slots_[word.hash & mask]) __builtin_prefetch(&entries_[slot - 1]);
    return words;
}

template <class Unit>
std::uint32_t WordScanner::scan_units(std::span<const Unit> text, const Unknown& unknown,
                                      std::vector<WordHit>& hits) {
    std::uint32_t flags = 0;
    const auto add = [&](std::span<const WordHit> found, std::size_t begin) {
        const auto base = static_cast<std::uint32_t>(begin);
        for (const WordHit& hit : found) hits.push_back({base + hit.begin, base + hit.end, hit.group});
    };
    for (const auto [begin, end, hash] : words_of(text)) {
        const auto word = text.subspan(begin, end - begin);
        if (const Entry* known = find(word, hash)) {
            flags |= known->flags;
            if (known->n_hits > 0) add(std::span(known_).subspan(known->first_hit, known->n_hits), begin);
            continue;
        }
        const WordFacts facts = nothing_in(word) ? WordFacts{} : unknown(begin, end);
        flags |= facts.flags;
        add(facts.hits, begin);
        if (word.size() <= kLongest) keep(word, hash, facts);
    }
    return flags;
}

template <class Unit>
bool WordScanner::is(const Entry& entry, std::span<const Unit> word, const std::vector<char32_t>& letters) {
    if (entry.length != word.size()) return false;
    if (entry.here) return std::equal(word.begin(), word.end(), entry.own);
    return std::equal(word.begin(), word.end(), letters.begin() + static_cast<std::ptrdiff_t>(entry.at));
}

template <class Unit>
const WordScanner::Entry* WordScanner::find(std::span<const Unit> word, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
        const Entry& entry = entries_[slots_[slot] - 1];
        if (entry.hash == hash && is(entry, word, letters_)) return &entry;
    }
    return nullptr;
}

template <class Unit>
bool WordScanner::nothing_in(std::span<const Unit> word) const {
    if (parts_.empty() || word.size() > kLongest) return false;
    char text[kLongest];
    bool letter = false;  // of the unit before
    for (std::size_t i = 0; i < word.size(); ++i) {
        if (word[i] >= 0x80) return false;
        const char c = text[i] = static_cast<char>(word[i]);
        const bool capital = c >= 'A' && c <= 'Z';
        if ((c >= '0' && c <= '9') || c == '_' || c == '$' || c == '@') return false;
        if (letter && (capital || c == '(')) return false;
        if (c == '-' && i > 0 && text[i - 1] == '-') return false;
        letter = capital || (c >= 'a' && c <= 'z');
    }
    const std::string_view whole(text, word.size());
    return std::none_of(parts_.begin(), parts_.end(),
                        [&](const std::string& part) { return whole.find(part) != std::string_view::npos; });
}

template <class Unit>
void WordScanner::keep(std::span<const Unit> word, std::uint64_t hash, const WordFacts& facts) {
    if (find(word, hash) != nullptr) return;  // found out meanwhile, by another scan
    if (entries_.size() >= kMostWords) *this = WordScanner(std::move(parts_));
    if (2 * (entries_.size() + 1) > slots_.size()) {
        std::vector<std::uint32_t> wider(2 * slots_.size());
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            std::size_t slot = entries_[i].hash & (wider.size() - 1);
            while (wider[slot] != 0) slot = (slot + 1) & (wider.size() - 1);
            wider[slot] = static_cast<std::uint32_t>(i + 1);
        }
        slots_.swap(wider);
    }
    Entry entry{hash,
                letters_.size(),
                facts.flags,
                static_cast<std::uint32_t>(known_.size()),
                static_cast<std::uint32_t>(facts.hits.size()),
                static_cast<std::uint8_t>(word.size()),
                word.size() <= Entry::kOwn &&
                    std::all_of(word.begin(), word.end(), [](Unit letter) { return letter <= 0xFF; }),
                {}};
    if (entry.here)
        std::transform(word.begin(), word.end(), entry.own,
                       [](Unit letter) { return static_cast<std::uint8_t>(letter); });
    else
        letters_.insert(letters_.end(), word.begin(), word.end());
    entries_.push_back(entry);
    known_.insert(known_.end(), facts.hits.begin(), facts.hits.end());
    std::size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<std::uint32_t>(entries_.size());
}

void locate_spans(TextView text, std::span<const std::int64_t> marks, std::span<RawSpan> spans) {
    with_units(text, [&](auto units) { in_bytes(units, spans); });
    if (marks.empty()) return;
    struct Run {
        std::int64_t text_start, text_end, raw_start, raw_end;
        bool copied;
    };
    std::vector<Run> runs;
    runs.reserve(marks.size() / 3);
    std::int64_t raw = 0, shown = 0;
    for (std::size_t i = 0; i + 2 < marks.size(); i += 3) {
        const bool copied = marks[i + 2] == kCopied;
        const std::int64_t start = raw + marks[i], begin = shown;
        raw = start + marks[i + 1];
        shown += copied ? marks[i + 1] : marks[i + 2];
        runs.push_back({begin, shown, start, raw, copied});
    }
    std::size_t first = 0;
    const auto run_at = [&](std::size_t i) -> const Run& {
        if (i >= runs.size()) throw InvalidInput("a span lies behind the end of the text's map");
        return runs[i];
    };
    for (RawSpan& span : spans) {
        while (run_at(first).text_end <= span.start) ++first;
        const Run& opening = runs[first];
        std::size_t last = first;
        while (run_at(last).text_end < span.end) ++last;
        const Run& closing = runs[last];
        span = {opening.raw_start + (opening.copied ? span.start - opening.text_start : 0),
                closing.raw_end - (closing.copied ? closing.text_end - span.end : 0)};
    }
}

unsigned near_of(TextView text, RawSpan span) {
    return with_units(text, [&](auto units) {
        const auto end = std::min(static_cast<std::size_t>(span.end), units.size());
        return near_units(units, std::min(static_cast<std::size_t>(span.start), end), end);
    });
}

bool stands_plain(TextView text, RawSpan span) { return near_of(text, span) == 0; }

}  // namespace gnomon
