// A query as a tree, and what it means. Which documents match is defined here; how they are ranked in
// query_rank.hpp. Positions are those of bm25_positions.hpp, within one field.
//
//   term      documents that hold the token
//   prefix    that hold a token which starts with the text; the empty text: any token
//   fuzzy     that hold a token within `edits` of the text (vocabulary_sorted.hpp)
//   any_of    that hold one of the tokens that the children (term, prefix, fuzzy, any_of) name
//   phrase    children 0..n-1 stand at different positions p0..pn-1 of one field, such that the greatest and
//             the least of pi - i differ by at most `slop`: with 0 they follow one another
//   near      occurrences of all children stand in one field, starting at different positions, within
//             `window`: the last position of any less the first of any is at most that. `ordered`: in the
//             order of the children, each behind the one before. A child is a phrase of slop 0, or one token
//   boolean   every must, no must_not, and at least `minimum` of the should
//   all       every document
//   docs      those of a set that the caller evaluated: filters, scopes
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doc_set.hpp"

namespace gnomon {

struct QueryNode {
    enum class Kind : std::uint8_t { term, prefix, fuzzy, any_of, phrase, near, boolean, all, docs };
    static constexpr std::size_t kMostSloppy = 64;  // children of a near, or of a phrase with slop

    Kind kind = Kind::all;
    double boost = 1.0;
    std::string text;                 // term, prefix, fuzzy
    std::optional<std::uint32_t> id;  // term: instead of the text, where tokens are ids
    std::vector<std::size_t> fields;  // term to near: where to look; empty for every field
    unsigned edits = 0;               // fuzzy
    std::size_t exact = 0;            // fuzzy: code points at the start that must be equal
    bool swaps = true;                // fuzzy
    std::uint64_t slop = 0;           // phrase: the slop; near: the window
    bool ordered = false;             // near
    std::vector<QueryNode> children;  // any_of, phrase, near; boolean: must
    std::vector<QueryNode> should;
    std::vector<QueryNode> must_not;
    std::size_t minimum = 0;
    std::vector<DocSet> docs;  // by segment

    bool names_tokens() const {
        return kind == Kind::term || kind == Kind::prefix || kind == Kind::fuzzy || kind == Kind::any_of;
    }
};

}  // namespace gnomon
