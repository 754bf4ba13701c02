// The names in a word: what the pattern TOKEN of gnomon.corpus.names finds in a word of ASCII.
#pragma once
#include <string_view>
#include <vector>

#include "corpus_words.hpp"

namespace gnomon {

// Appends each match, from left to right, as finditer gives them: the span of the group that matched, and
// its number in the order of the pattern's groups.
//
// Proof that no backtracking is needed. Each alternative is tried at a place with its repeats as long as
// they can be; a shorter repeat is followed by a letter, digit or sign of the same repeat, which what must
// come next (a boundary, a bracket, a sign, no word character) refuses. Where that is not so, in `atvar` and
// `exception`, the code tries what the pattern would.
void find_tokens(std::string_view word, std::vector<WordHit>& hits);

}  // namespace gnomon
