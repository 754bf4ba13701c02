// One immutable BM25 segment: for each field postings by term (CSR) and document lengths, and one vocabulary
// over all fields unless the terms are the caller's own ids. Nothing here depends on k1, b or idf, so those
// can change without a rebuild. An index without named fields has one field.
//
// Sections on disk: "version" u64; "counts" u64 {documents, terms, fields, then tokens and postings of each
// field}; for field F "F.lengths" u32 by document; "F.starts" u64 by term, one more than terms; "F.docs" u32
// ascending within a term; "F.tfs" u8, where 255 also stands for more. Terms with such a posting, the wide
// ones, keep all their frequencies in "F.wide_tfs" u32 as well, by "F.wide_terms" u32 ascending and
// "F.wide_starts" u64. Where positions were asked for, every field has those of bm25_positions.hpp.
// "vocabulary.*" is vocabulary.hpp's. A mapped term is checked once, when it is first
// used (blocks against their checksums, then the invariants that the kernels rely on), so that opening is
// instant and a hostile file still cannot make a kernel write outside.
//
// Version 3 is packed: the lists of bm25_packed.hpp stand for starts, docs, tfs and the wide ones, and the
// positions have a directory instead of "F.pos_starts". Version 2 is plain; both are read and written.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bm25.hpp"
#include "bm25_packed.hpp"
#include "bm25_positions.hpp"
#include "storage.hpp"
#include "vocabulary.hpp"

namespace gnomon {

struct Postings {
    std::span<const std::uint32_t> docs;
    std::span<const std::uint8_t> tfs;    // as many; 255 means at least 255 when the term is wide
    std::span<const std::uint32_t> wide;  // the frequencies of a wide term; empty for every other

    std::shared_ptr<const void> owner;  // of decoded arrays: they live as long; null: the segment's own

    std::uint32_t tf(std::size_t i) const { return wide.empty() ? tfs[i] : wide[i]; }
    std::size_t decoded_bytes() const { return owner == nullptr ? 0 : docs.size() * 5 + wide.size() * 4; }
};

// The arrays of one field. starts has one entry more than there are terms in the segment. Of a packed one
// only n_tokens, lengths, packed and positions are there.
struct Bm25Field {
    static constexpr std::uint32_t kWide = 255;  // the greatest frequency that the u8 array holds exactly

    std::uint64_t n_tokens = 0;
    Column<std::uint32_t> lengths;
    Column<std::uint64_t> starts;
    Column<std::uint32_t> docs;
    Column<std::uint8_t> tfs;
    Column<std::uint32_t> wide_terms;
    Column<std::uint64_t> wide_starts;
    Column<std::uint32_t> wide_tfs;
    std::shared_ptr<const Bm25Positions> positions;  // null when none were asked for
    std::shared_ptr<const PackedLists> packed;       // null when plain

    std::uint64_t n_terms() const { return packed ? packed->n_terms() : starts.size() - 1; }
    std::uint64_t n_postings() const { return packed ? packed->n_postings() : docs.size(); }
    Postings postings(std::uint64_t term) const;  // of a plain field, and a term that is known to be good
    std::span<const std::uint32_t> wide(std::uint64_t term) const;
};

class Bm25Index {
  public:
    static constexpr std::uint64_t kPlain = 2;  // versions of the format
    static constexpr std::uint64_t kPacked = 3;
    static constexpr std::size_t kFieldsMost = 255;

    // Arrays that the caller made and vouches for. At least one field; all of the same documents and terms.
    static std::shared_ptr<const Bm25Index> of(std::vector<Bm25Field> fields,
                                               std::optional<Vocabulary> vocabulary);

    std::uint64_t n_docs() const { return fields_[0].lengths.size(); }
    std::uint64_t n_terms() const { return fields_[0].n_terms(); }
    std::size_t n_fields() const { return fields_.size(); }
    std::uint64_t n_tokens(std::size_t field = 0) const { return fields_[field].n_tokens; }
    std::uint64_t n_postings(std::size_t field = 0) const { return fields_[field].n_postings(); }
    bool has_vocabulary() const { return vocabulary_.has_value(); }
    const Vocabulary& vocabulary() const { return *vocabulary_; }
    bool is_mapped() const { return checked_ != nullptr; }
    bool is_packed() const { return fields_[0].packed != nullptr; }
    std::size_t kept() const;      // bytes of decoded lists that a packed segment keeps
    std::uint64_t memory() const;  // bytes of its arrays, wherever they lie

    // Throws CorruptIndex when the term's part of a mapped file is damaged. Hold the result while its arrays
    // are used: those of a packed segment may be its own.
    Postings postings(std::uint64_t term, std::size_t field = 0) const;
    // How many they are, without decoding.
    std::uint64_t count(std::uint64_t term, std::size_t field = 0) const;
    // All fields have positions, or none has.
    bool has_positions() const { return fields_[0].positions != nullptr; }
    // Of an index with positions. Throws CorruptIndex as postings() does.
    PositionsCursor positions(std::uint64_t term, std::size_t field = 0) const {
        return positions(term, postings(term, field), field);
    }
    // list: of the same term and field.
    PositionsCursor positions(std::uint64_t term, const Postings& list, std::size_t field) const {
        return fields_[field].positions->term(term, list, fields_[field].lengths);
    }
    // Documents that hold the term in any field, in as many steps as it has postings.
    std::uint64_t df(std::uint64_t term) const;
    // Tokens of a document, which must be < n_docs(). Throws CorruptIndex when the file is damaged there.
    std::uint32_t length(std::uint32_t doc, std::size_t field = 0) const {
        fields_[field].lengths.ensure(doc, 1);
        return fields_[field].lengths.data()[doc];
    }
    // All lengths of a field, checked: they add up to n_tokens. Throws CorruptIndex.
    std::span<const std::uint32_t> lengths(std::size_t field = 0) const;

    // A packed segment is written as it is, another one packed when that is asked for.
    void write(ContainerWriter& writer, bool packed = false) const;
    // The sections before those of the fields; totals are the tokens and postings of each field.
    static void write_head(ContainerWriter& writer, std::uint64_t version, std::uint64_t n_docs,
                           std::uint64_t n_terms,
                           std::span<const std::pair<std::uint64_t, std::uint64_t>> totals);
    static std::shared_ptr<const Bm25Index> open(const std::shared_ptr<const Container>& container);
    // Every invariant of every term, on top of the container's checksums.
    void verify() const;

  private:
    void write_packed(ContainerWriter& writer, std::size_t field) const;
    void write_plain(ContainerWriter& writer, std::size_t field) const;
    void check_counts(const Container& container, const Column<std::uint64_t>& counts) const;
    void check_wide(std::size_t field) const;
    void check_term(std::uint64_t term, std::size_t field) const;
    void verify_field(std::size_t field) const;
    void verify_arrays(std::size_t field) const;

    std::vector<Bm25Field> fields_;
    std::optional<Vocabulary> vocabulary_;
    std::unique_ptr<std::atomic<bool>[]> checked_;  // by field, then term; null for an index in memory
};

// The names that the segment's sections of a field start with.
std::string field_section(std::size_t field, const char* name);

}  // namespace gnomon
