// Where the terms of one field stand: the token positions of every posting, counted from 0 within the field
// of a document, in the order in which the analyzer gives the tokens.
//
// A posting's positions ascend and are LEB128 numbers: the first, then the distance of each from the one
// before. They depend on nothing but the posting, so that a merge copies their bytes. A term's data are its
// skips, a u32 for each kSkip postings after the first kSkip: where the bytes of that posting start, counted
// from the end of the skips; then the bytes of its postings. Sections: "F.pos_starts" u64 by term, one more
// than terms, in a packed segment the directory "F.pos_blocks", "F.pos_sizes"; "F.pos_bytes" u8. As with
// postings, a mapped term is checked when it is first used: afterwards every posting is known to hold as many
// positions as its frequency says, ascending, below the length.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "chunked.hpp"
#include "packed_directory.hpp"
#include "storage.hpp"

namespace gnomon {

struct Postings;

// Reads one term's positions; the segment must outlive it. Ascending postings are read fastest.
class PositionsCursor {
  public:
    PositionsCursor(const Postings& list, std::span<const std::uint8_t> data);
    // The positions of posting i, into out.
    void read(std::size_t i, std::vector<std::uint32_t>& out);
    // The same as stored.
    std::span<const std::uint8_t> raw(std::size_t i);

  private:
    void seek(std::size_t i);
    std::uint32_t tf(std::size_t i) const { return wide_ == nullptr ? tfs_[i] : wide_[i]; }

    const std::uint8_t* tfs_;
    const std::uint32_t* wide_;
    const std::uint8_t* skips_;
    const std::uint8_t* bytes_;
    const std::uint8_t* end_;
    std::size_t next_ = 0;  // the posting whose bytes start at at_
    const std::uint8_t* at_;
    std::shared_ptr<const void> owner_;  // of the frequencies
};

class Bm25Positions {
  public:
    static constexpr std::size_t kSkip = 16;

    // Arrays that the caller made and vouches for.
    Bm25Positions(Column<std::uint64_t> starts, Column<std::uint8_t> bytes);

    // lengths: of the field, by document. Throws CorruptIndex when the term's part of a file is damaged.
    PositionsCursor term(std::uint64_t term, const Postings& list,
                         const Column<std::uint32_t>& lengths) const;

    std::uint64_t memory() const { return bytes_.size() + starts_.size() * 8 + directory_.memory(); }
    void write(ContainerWriter& writer, std::size_t field, bool packed) const;
    static std::shared_ptr<const Bm25Positions> open(const Container& container, std::size_t field,
                                                     std::uint64_t n_terms, bool packed);
    // That the terms follow one another without a gap. Terms are checked by term().
    void verify_starts() const;

  private:
    Bm25Positions() = default;
    void check(std::uint64_t term, const Postings& list, const Column<std::uint32_t>& lengths) const;
    PackedDirectory::Range range(std::uint64_t term) const;

    Column<std::uint64_t> starts_;  // empty where there is a directory
    PackedDirectory directory_;
    bool packed_ = false;
    Column<std::uint8_t> bytes_;
    std::unique_ptr<std::atomic<bool>[]> checked_;  // by term; null when the arrays can be trusted
};

// Makes the data of term after term, for building and for merging.
class PositionsEncoder {
  public:
    // The next posting of the present term: ascending positions, or those of another segment as stored there.
    void add(std::span<const std::uint32_t> positions);
    void add_raw(std::span<const std::uint8_t> raw);
    // Every term ends once, also one without postings. Throws InvalidInput when it has 4 GiB of positions.
    void end_term();
    // What is complete so far and was not drained before, for a caller who streams it to a file.
    std::vector<std::uint8_t> drain();
    std::size_t pending() const { return done_.size(); }  // what drain() would give
    std::vector<std::uint64_t> take_starts();
    // All of it, when nothing was drained.
    std::shared_ptr<const Bm25Positions> finish();

  private:
    void skip();
    std::vector<std::uint64_t> starts_{0};
    std::vector<std::uint8_t> done_;
    std::vector<std::uint8_t> bytes_;  // of the present term
    std::vector<std::uint32_t> skips_;
    std::size_t postings_ = 0;
};

// The tokens of one field in the order of the documents, until the postings are sorted by term.
class PositionsBuilder {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;  // a token without a posting keeps its place
    void add(std::uint32_t term) { order_.push(term); }
    std::uint64_t memory() const { return order_.size() * 10; }  // that finish() will need, about
    // postings(term): as the segment will have them. The builder is empty afterwards.
    using PostingsOf = std::function<Postings(std::size_t)>;
    std::shared_ptr<const Bm25Positions> finish(std::span<const std::uint32_t> lengths,
                                                const PostingsOf& postings, std::size_t n_terms);

  private:
    Chunked<std::uint32_t> order_;
};

}  // namespace gnomon
