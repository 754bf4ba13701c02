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
#include "bm25_positions.hpp"
#include "storage.hpp"
#include "vocabulary.hpp"

namespace gnomon {

struct Postings {
    std::span<const std::uint32_t> docs;
    std::span<const std::uint8_t> tfs;    // as many; 255 means at least 255 when the term is wide
    std::span<const std::uint32_t> wide;  // the frequencies of a wide term; empty for every other

    std::uint32_t tf(std::size_t i) const { return wide.empty() ? tfs[i] : wide[i]; }
};

// The arrays of one field. starts has one entry more than there are terms in the segment.
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

    Postings postings(std::uint64_t term) const;  // of a term that is known to be good
    std::span<const std::uint32_t> wide(std::uint64_t term) const;
};

class Bm25Index {
  public:
    static constexpr std::uint64_t kVersion = 2;
    static constexpr std::size_t kFieldsMost = 255;

    // Arrays that the caller made and vouches for. At least one field; all of the same documents and terms.
    static std::shared_ptr<const Bm25Index> of(std::vector<Bm25Field> fields,
                                               std::optional<Vocabulary> vocabulary);

    std::uint64_t n_docs() const { return fields_[0].lengths.size(); }
    std::uint64_t n_terms() const { return fields_[0].starts.size() - 1; }
    std::size_t n_fields() const { return fields_.size(); }
    std::uint64_t n_tokens(std::size_t field = 0) const { return fields_[field].n_tokens; }
    std::uint64_t n_postings(std::size_t field = 0) const { return fields_[field].docs.size(); }
    bool has_vocabulary() const { return vocabulary_.has_value(); }
    const Vocabulary& vocabulary() const { return *vocabulary_; }
    bool is_mapped() const { return checked_ != nullptr; }
    std::uint64_t memory() const;  // bytes of its arrays, wherever they lie

    // Throws CorruptIndex when the term's part of a mapped file is damaged.
    Postings postings(std::uint64_t term, std::size_t field = 0) const;
    // All fields have positions, or none has.
    bool has_positions() const { return fields_[0].positions != nullptr; }
    // Of an index with positions. Throws CorruptIndex as postings() does.
    PositionsCursor positions(std::uint64_t term, std::size_t field = 0) const {
        return fields_[field].positions->term(term, postings(term, field), fields_[field].lengths);
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

    void write(ContainerWriter& writer) const;
    // The sections before those of the fields; totals are the tokens and postings of each field.
    static void write_head(ContainerWriter& writer, std::uint64_t n_docs, std::uint64_t n_terms,
                           std::span<const std::pair<std::uint64_t, std::uint64_t>> totals);
    static std::shared_ptr<const Bm25Index> open(const std::shared_ptr<const Container>& container);
    // Every invariant of every term, on top of the container's checksums.
    void verify() const;

  private:
    void check_counts(const Container& container, const Column<std::uint64_t>& counts) const;
    void check_wide(std::size_t field) const;
    void check_term(std::uint64_t term, std::size_t field) const;
    void verify_field(std::size_t field) const;

    std::vector<Bm25Field> fields_;
    std::optional<Vocabulary> vocabulary_;
    std::unique_ptr<std::atomic<bool>[]> checked_;  // by field, then term; null for an index in memory
};

// The names that the segment's sections of a field start with.
std::string field_section(std::size_t field, const char* name);

}  // namespace gnomon
