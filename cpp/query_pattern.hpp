// Documents of one segment and field in which tokens stand as a phrase or a near asks for.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bm25_index.hpp"
#include "doc_set.hpp"
#include "query.hpp"
#include "query_near.hpp"

namespace gnomon {

// A place of a pattern: one token, or one of several.
class PatternStep {
  public:
    PatternStep(const std::vector<std::uint32_t>& terms, const Bm25Index& segment, std::size_t field);
    std::uint64_t n_postings() const { return n_postings_; }
    // How often the document holds one of the tokens. Documents ascend from call to call.
    std::uint64_t seek(std::uint32_t doc);
    // Positions in the document of the last seek(), which found it.
    void positions(std::vector<std::uint32_t>& out);
    // fn(doc) for each document that holds one of the tokens, ascending.
    void each(std::size_t n_docs, const std::function<void(std::uint32_t)>& fn) const;

  private:
    struct Alternative {
        Postings list;
        PositionsCursor cursor;
        std::size_t at = 0;
        bool here = false;
    };
    std::vector<Alternative> alternatives_;
    std::uint64_t n_postings_ = 0;
    std::vector<std::uint32_t> one_;
};

class Pattern {
  public:
    using TermsOf = std::function<std::vector<std::uint32_t>(const QueryNode&)>;
    // node: a phrase or a near.
    Pattern(const QueryNode& node, const Bm25Index& segment, std::size_t field, const TermsOf& terms_of);
    // Adds the documents to `out`; those outside `within`, where it is given, may be left out.
    void collect(DocSet& out, const DocSet* within);
    std::uint64_t least_postings() const;

  private:
    bool holds_all(std::uint32_t doc);
    bool fits();

    const QueryNode& node_;
    std::size_t n_docs_;
    // A word that stands there many times is one step, so that a phrase of thousands of them costs what its
    // different words do. least_ is how often a document must hold it: a word of a phrase, or by itself in a
    // near, stands at another position each time.
    std::vector<PatternStep> steps_;
    std::vector<std::uint32_t> least_;
    std::vector<std::size_t> by_rarity_;
    std::vector<std::size_t> order_;      // the step at each place, part behind part
    std::vector<std::uint32_t> lengths_;  // places of each part
    std::vector<Part> parts_;
    std::vector<std::vector<std::uint32_t>> lists_;   // positions by step
    std::vector<std::vector<std::uint32_t>> starts_;  // by part
};

}  // namespace gnomon
