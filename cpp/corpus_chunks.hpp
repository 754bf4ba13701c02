// What a segment keeps of a chunk: its parts of one kind, its text outside and inside of code, its record.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon {

using ChunkSpan = std::pair<std::int64_t, std::int64_t>;

// gnomon.corpus.builder.Atom, as far as it is needed.
struct AtomView {
    std::int64_t start;
    std::string_view kind;
    std::string_view info;
};

// gnomon.corpus.model.Block
struct ChunkBlock {
    std::string_view kind;
    std::int64_t start;
    std::int64_t end;
    std::string_view info;
};

struct ChunkBlocks {
    std::vector<ChunkBlock> blocks;
    std::string_view kind;  // of most of the chunk's bytes
};

// As gnomon.corpus.finish.blocks_of for a chunk [start, end) of these atoms.
ChunkBlocks blocks_of(std::span<const AtomView> atoms, std::int64_t start, std::int64_t end);

// The text outside and inside of the blocks of code, as gnomon.corpus.prepare_model.split_text parts a chunk
// that has both. `marks` as in gnomon.corpus.rawmap; none: the text is the raw bytes.
std::pair<std::string, std::string> split_code(std::string_view text, std::span<const ChunkBlock> blocks,
                                               std::span<const std::int32_t> marks, std::int64_t start);

// gnomon.corpus.stored.StoredChunk
struct ChunkRecord {
    std::int64_t section;
    ChunkSpan span;
    ChunkSpan chars;
    ChunkSpan lines;
    std::string_view text;  // where there are no pieces
    std::optional<std::string> pieces;
    std::string map;
    bool continued;
    std::optional<ChunkSpan> header;
};

// The record in MessagePack, as msgspec encodes it.
std::string encode_chunk(const ChunkRecord& record, const ChunkBlocks& parts);

}  // namespace gnomon
