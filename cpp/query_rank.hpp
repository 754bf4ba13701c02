// The best k of the documents that match a query. Matching decides who is in the answer; the score is BM25 of
// the positive terms, left to right as the query is written: those of must, should, phrases and nears, not of
// must_not. A prefix, fuzzy or any_of is one term whose tf is the sum over its tokens and whose df counts the
// live documents that hold any. Boosts multiply from the root on. A document that matches without a positive
// term scores what the formula gives a document that holds none: 0, but for the formulas that reward absence.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bm25_search.hpp"
#include "query_match.hpp"

namespace gnomon {

// A weight in a message: short, and never 0 for what is not.
inline std::string weight_text(double weight) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", weight);
    return text;
}

// The positive terms of a query that a live document holds. Throws InvalidInput when boosts multiply to a
// weight beyond what BM25 takes.
struct QueryTerms {
    Bm25Query terms;
    std::vector<const QueryNode*> nodes;  // what each of them stands for
    bool plain_only = false;  // a term stands for several tokens: made for this query, not kept by the scorer
};
QueryTerms positive_terms(const QueryNode& node, const Bm25Scorer& scorer);

// Best first; positions are slots. Fewer than k where fewer live, allowed documents match. `total`, where it
// is given, becomes how many match: mostly that is known anyway.
std::vector<Hit> query_top_k(const QueryNode& node, const Bm25Scorer& scorer, std::size_t k,
                             const Allowed& allowed, Bm25Search& search, std::size_t threads = 1,
                             std::uint64_t* total = nullptr);

}  // namespace gnomon
