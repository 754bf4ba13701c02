// A rendered text kept as what its raw bytes do not say: the map, packed, and the pieces that were not
// copied.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace gnomon {

// `map` is the triples (skip, length, width + 1) as varints, 0 for a copied run; empty: the text is the raw
// bytes. `pieces` are the texts of the runs that were not copied, end to end.
struct PackedText {
    std::string map;
    std::string pieces;
};

struct RenderedText {
    std::string marks;  // little-endian int32 triples, as in gnomon.corpus.rawmap
    std::string text;   // UTF-8
};

// `marks` are little-endian int32 triples. Nothing when `unpack_text` would not give `marks` and `text` back:
// the copied bytes are not those of `raw`, or the marks are none of a text.
std::optional<PackedText> pack_text(std::string_view raw, std::string_view marks, std::string_view text);

// Throws CorruptIndex when the map does not fit the raw bytes or the pieces.
RenderedText unpack_text(std::string_view raw, std::string_view map, std::string_view pieces);

}  // namespace gnomon
