// What a search sees: immutable segments, the documents that were deleted from each, and the statistics of
// the live documents. A snapshot never changes, so readers need no lock while a writer prepares the next one.
//
// A document's *slot* is its segment's base plus its number within the segment: slots are unique within a
// snapshot and ascend in the order of insertion, deleted documents included, so "lower slot first" ranks as
// "lower position first" would in an index built afresh from the live documents.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bm25_index.hpp"
#include "doc_set.hpp"

namespace gnomon {

struct SegmentView {
    std::shared_ptr<const Bm25Index> segment;
    std::shared_ptr<const DocSet> dead;  // null: no document was deleted
    std::uint64_t base = 0;              // slot of the segment's first document

    bool live(std::uint32_t doc) const { return dead == nullptr || !dead->has(doc); }
};

// A term as each segment numbers it; nothing where a segment does not hold it.
struct TermRef {
    std::vector<std::optional<std::uint32_t>> by_segment;
};

class Bm25Snapshot {
  public:
    // Segments in order of insertion; bases are set here. All have the same number of fields, which is 1 for
    // no segment at all, and all have a vocabulary or none has.
    // Throws InvalidInput when they disagree, or when there are more slots than 2^32 - 2.
    static std::shared_ptr<const Bm25Snapshot> of(std::vector<SegmentView> segments);

    const std::vector<SegmentView>& segments() const { return segments_; }
    std::uint64_t n_slots() const { return n_slots_; }
    std::uint64_t n_docs() const { return n_docs_; }  // live
    std::size_t n_fields() const { return n_tokens_.size(); }
    // Of a field over the live documents: n_tokens / n_docs is its avgdl.
    std::uint64_t n_tokens(std::size_t field = 0) const { return n_tokens_[field]; }
    bool has_vocabulary() const { return has_vocabulary_; }

    // Distinct terms over the segments, those that only deleted documents hold included; of token ids the
    // greatest plus one. Costs a look-up for each term of all segments but the first.
    std::uint64_t n_terms() const;

    TermRef find(std::string_view token) const;  // of segments with a vocabulary
    TermRef find(std::uint32_t id) const;        // of segments that were built from token ids
    // Live documents that hold the term in any field. Costs a pass over the postings of segments with
    // deletions.
    std::uint64_t df(const TermRef& term) const;

  private:
    std::vector<SegmentView> segments_;
    std::uint64_t n_slots_ = 0;
    std::uint64_t n_docs_ = 0;
    std::vector<std::uint64_t> n_tokens_ = {0};
    bool has_vocabulary_ = false;
};

}  // namespace gnomon
