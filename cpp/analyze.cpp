#include "analyze.hpp"

#include <type_traits>

#include "analyze_lucene.hpp"
#include "analyze_words.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

template <class Unit>
void run(Preset preset, TextView cased, TextView lowered, TokenSink sink, void* context) {
    if (preset == Preset::lucene_english) return LuceneWords<Unit>(cased, lowered, sink, context).run();
    Words<Unit> words(cased, lowered, sink, context);
    switch (preset) {
        case Preset::basic_v1:
            return words.basic();
        case Preset::standard_v1:
            return words.standard();
        case Preset::bm25s:
            return words.bm25s();
        case Preset::lucene_english:
            break;
    }
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
    if (name == "bm25s") return Preset::bm25s;
    if (name == "lucene-english") return Preset::lucene_english;
    throw InvalidInput("analyzer preset must be one of basic-v1, standard-v1, bm25s, lucene-english, got '" +
                       std::string(name) + "'");
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
