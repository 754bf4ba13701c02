// What the planner believes that things cost, in units of a microsecond. Fitted by benchmarks/fit_bm25.py to
// each path's time over 10,000, 100,000 and a million short documents and 100,000 passages of prose, on a
// Sapphire Rapids core with AVX-512. Only their ratios matter, and a wrong one costs time, never an answer.
#pragma once
#include <cstddef>

#include "bm25_paths.hpp"

namespace gnomon::plan {

// Under this many documents a float64 pass is done before screens have been looked up.
constexpr std::size_t kTiny = 512;

// Windows: a posting is a load, a product and a scattered addition that stays in L1; a cell of a row is a
// lane of a vector; a document is a lane of the compare with the threshold, and with a large k there is more
// to pick and to cut.
constexpr double kPosting = 0.0006;
constexpr double kCell = 0.0001;
constexpr double kDocument = 0.00004;
constexpr double kDocumentLargeK = 0.0001;

// Integers: a very frequent term is a byte a document, a posting of the others costs what it does in windows.
// Their slack lets more documents through, a part of k that costs look-ups in each term.
constexpr double kLevel = 0.00002;
constexpr double kIntegerDocument = 0.00002;
// A posting of a rare term beyond what it costs in windows: too few stand together to be made integers at
// once.
constexpr double kIntegerRare = 0.0003;
constexpr double kIntegerSettle = 0.005;

// The plain path beyond the windows: divisions in float64, and accumulators of twice the size.
constexpr double kPlainPosting = 0.0009;
constexpr double kPlainDocument = 0.0004;
// Settling a candidate, for each term, less what the plain path pays to sift its hits. It only outweighs the
// float64 pass where k is a good part of the documents: at 10,000 documents and k = 1000 the windows take
// 71 of the plain path's 80 units for 5 terms, and 207 of 176 for 22; at 100,000 they take half.
constexpr double kSettle = 0.002;

// Blocks: bounding them, the postings of rare terms twice over, and scoring a block, whose postings lie
// anywhere: two lines of cache a term, and a loop that stops where no predictor expects it.
constexpr double kBoundingLeast = 5.0;
constexpr double kBlockTerm = 0.00004;
constexpr double kRarePosting = 0.002;
constexpr double kScoring = 0.04;
constexpr double kScoringTerm = 0.008;
// With a large k the threshold stays low and 3.5 times as many blocks are scored as their number before the
// first one suggests.
constexpr double kLargeK = 3.5;
// Bounds that cost more than this part of the windows are not tried: they may be in vain.
constexpr double kInVain = 3.0;
constexpr double kInVainLargeK = 10.0;
constexpr std::size_t kBlocksTermsMost = 12;

// Lists: a posting of a vector compare; one that comes through it costs its place in the block maxima of each
// further term, and look-ups in some. The threshold rises on the way, so fewer come through than the one at
// the start suggests.
constexpr double kListsLeast = 1.0;
constexpr double kListsPosting = 0.0001;
constexpr double kListsThrough = 0.012;
constexpr double kListsThroughTerm = 0.006;
// With a large k the threshold hardly rises.
constexpr double kListsLargeK = 3.0;

// A few allowed documents: a look-up costs as much as so many postings in a row.
constexpr std::size_t kLookUp = 32;
// Essential terms: here too, but the postings lie near those that are added up.
constexpr std::size_t kNearLookUp = 20;
// Under this many windows there is no time to learn how much is worth looking up.
constexpr std::size_t kEssentialWindows = 8;
// The share of the threshold that terms may have together to be looked up, at first and at most; it falls
// where look-ups cost more than the postings that they save, as with short documents, whose scores lie close
// together.
constexpr float kShareFirst = 0.4F;
constexpr float kShareMost = 0.8F;

// What a query is estimated to cost in a segment: by windows, by integers, and to bound the blocks.
struct Costs {
    double windows = 0.0;
    double integers = 0.0;
    double bounding = 0.0;
};
Costs costs_of(const Bm25Scorer& scorer, const Screened& screened, std::size_t segment, std::size_t k);

// How many candidate blocks of a segment may be scored before `otherwise` is cheaper; 0: do not even bound
// the blocks.
std::size_t worth_in_blocks(const Screened& screened, double otherwise, double bounding, std::size_t k);

// By lists, from this threshold on; any more than `most` need not be exact.
double lists_cost(const Screened& screened, std::size_t segment, float threshold, std::size_t k, double most);

// Over all segments, against windows.
bool integers_pay(const Bm25Scorer& scorer, const Screened& screened, std::size_t k);

// Whether float64 sums at once are cheaper than float32 sums and look-ups for k candidates, which is so where
// k is a good part of the documents.
bool plain_is_cheaper(const Bm25Scorer& scorer, const Prepared& query, std::size_t k);

}  // namespace gnomon::plan
