// Text -> tokens. The specification is python/gnomon/reference/analysis.py; this file gives the same tokens
// and the same spans, token by token, without Unicode case mapping or normalisation: those belong to the
// caller (Python's unicodedata), which passes two aligned views of one text, `cased` and `lowered`.
// Lower case of single characters is made here: both views are the same unless the text holds U+0130 or
// U+03A3.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon {

// A Python str as it lies in memory: 1, 2 or 4 bytes a code point. Not owned.
struct TextView {
    const void* data = nullptr;
    std::size_t length = 0;  // code points
    int width = 1;
};

enum class Preset { basic_v1, standard_v1, bm25s, lucene_english };

// Throws InvalidInput listing the known names.
Preset preset_named(std::string_view name);

struct Token {
    // As many bytes after the start of `text` can be read; those after its end are zero.
    static constexpr std::size_t kPadding = 16;
    std::string_view text;  // UTF-8 (lone surrogates as three bytes); valid until the next token
    std::size_t start;      // code points, half open
    std::size_t end;
    bool whole;  // an identifier whose parts follow
};

// Calls sink(const Token&) for each token in order. `sink` is a plain function pointer with a context so
// that one compiled tokenizer serves the builder, the query side and the tests.
using TokenSink = void (*)(void* context, const Token& token);
// Throws InvalidInput when the two views differ in length. Linear in the text, whatever its longest token.
void tokenize(Preset preset, TextView cased, TextView lowered, TokenSink sink, void* context);

struct Segment {
    std::size_t start;  // code points, half open
    std::size_t end;
};

// The stretches of a text that the caller's `cased` view may change (NFKC, and U+0130), ascending. Each is
// changed for itself, and what is between them stays as it is: so only they need the slow normalisation, and
// spans can be mapped back to the original.
std::vector<Segment> unstable_segments(TextView text);

// Of the tables that this build was generated from.
std::string_view unicode_version();

}  // namespace gnomon
