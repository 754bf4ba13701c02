// Screen lists: what the fast paths of BM25 search read instead of frequencies and lengths. For one term in
// one segment, under one formula with its parameters: a float32 impact g for each posting, such that
//     a document's score = sum over the query's terms of W * g, W = query weight * idf,
//                        + a constant that is the same for every document (bm25.hpp), up to rounding;
// its greatest and least; for frequent terms the greatest of each block of 32 documents as a byte rounded up,
// and where each block's postings start; for terms of more than a sixteenth of all documents also such a byte
// for each document and its frequency, for those of more than a quarter a row with one g a document. Deleted
// documents have g = 0 and never come up. Over all segments together the 10th, 100th and 1000th best g of a
// term: so many documents surely reach it.
//
// Built on first use in one pass; 4 bytes a posting, and for a frequent term 2 or 6 bytes a document. Nothing
// of it lies on disk: it follows k1, b, delta, avgdl and the deletions.
//
// Why a screen is right. g is the float64 impact rounded to nearest, so within 2^-24 of it, relatively; a
// path adds w * g in float32, w = W / sum of (W * max g) rounded, any order. All of it is positive, so a sum
// of m terms is within (m + 3) * 2^-24 of the exact sum S, relatively. The canonical float64 score differs
// from S * scale + constants by less than `slack` = (m + 8) * 2^-50 of the largest possible sum, constants
// included. So when k documents reach the float32 sum A, a document below A * (1 - 2 e) - 2 slack with
// e = (m + 6) * 2^-23 is beaten by all k of them. Candidates (bm25_paths.hpp) keeps exactly the others, near
// ties included, and they are settled in float64. Sums never become subnormal: a query whose least w * g is
// under 1e-30 takes the plain path.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnomon {

struct TermScreen {
    static constexpr std::size_t kBlock = 32;
    static constexpr std::array<std::size_t, 3> kRanks = {10, 100, 1000};

    std::span<const std::uint32_t> docs;  // ascending; of the segment, or `merged`
    std::vector<std::uint32_t> merged;    // the union of the fields' documents, when there are several
    std::vector<float> impacts;           // as many as docs
    float greatest = 0.0F;
    float least = 0.0F;  // of live documents; 0 when there is none
    // above[c]: how many live postings have an impact of at least c / 16 of the greatest.
    std::array<std::uint32_t, 16> above{};
    std::vector<std::uint8_t> maxima;   // by block, of 255 * g / greatest rounded up; padded to 64
    std::vector<std::uint32_t> starts;  // by padded block, and one more; empty unless frequent
    std::vector<float> row;             // by document, padded to 64; empty unless very frequent
    std::vector<std::uint8_t> levels;   // by document, padded, as maxima; empty unless very frequent
    std::vector<std::uint8_t> tfs;  // frequencies by document where there are levels; empty when one > 255
    bool usable = false;            // every live impact lies in [1e-30, 1e30]

    std::size_t bytes() const {
        return sizeof *this + merged.size() * 4 + impacts.size() * 4 + maxima.size() + starts.size() * 4 +
               row.size() * 4 + levels.size() + tfs.size();
    }
};

// How many bytes of maxima a segment of n documents has: blocks, rounded up to 64.
constexpr std::size_t padded_blocks(std::size_t n_docs) {
    const std::size_t blocks = (n_docs + TermScreen::kBlock - 1) / TermScreen::kBlock;
    return (blocks + 63) / 64 * 64;
}

// The impacts at kRanks of a term's live postings in all segments, 0 where there are fewer. Null and unusable
// screens are left out.
std::array<float, 3> best_impacts(std::span<const std::shared_ptr<const TermScreen>> segments);

// Fills all but docs, merged and impacts, from them. with_row: for a very frequent term, see above.
void finish_screen(TermScreen& screen, std::size_t n_docs);

}  // namespace gnomon
