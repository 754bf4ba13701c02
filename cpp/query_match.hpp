// Which documents match a query: one DocSet a segment, exact, without a score in sight.
//
// Sets are packed bitmaps, so that a connective is a pass over n/64 words. The cheapest part of a conjunction
// goes first; the others look only at what it left (galloping where that is little). Positions are decoded
// only for documents that hold every token of a phrase.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bm25_snapshot.hpp"
#include "doc_set.hpp"
#include "query.hpp"

namespace gnomon {

// The live documents of a segment that match, and that are in `allowed` where it is given. Throws
// InvalidInput for a query that the index cannot answer (positions, prefixes of token ids), CorruptIndex.
DocSet query_match(const QueryNode& node, const Bm25Snapshot& snapshot, std::size_t segment,
                   const DocSet* allowed = nullptr);

// The ids that a node which names tokens has in a segment, ascending.
std::vector<std::uint32_t> query_terms(const QueryNode& node, const Bm25Index& segment);

// A text that only nodes have that match the same documents, whatever the index: equal but for boosts. Empty
// for a node that holds a set of documents.
std::string match_key(const QueryNode& node);

// Where the tokens that such a node names stand in a field of a document, ascending. Of an index with
// positions.
std::vector<std::uint32_t> token_positions(const QueryNode& node, const Bm25Index& segment, std::uint32_t doc,
                                           std::size_t field);

// Checks that do not depend on the segment. Throws InvalidInput naming the rule.
void check_query(const QueryNode& node, const Bm25Snapshot& snapshot);

}  // namespace gnomon
