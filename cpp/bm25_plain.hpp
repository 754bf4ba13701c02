// BM25 over a snapshot by one float64 pass over the postings of each term: the plain way, which holds for any
// number of segments and any deletions.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bm25_snapshot.hpp"
#include "order.hpp"

namespace gnomon {

// One norm a slot. Throws InvalidInput unless 0 <= k1 <= 1e100 and 0 <= b <= 1.
std::vector<double> snapshot_norms(const Bm25Snapshot& snapshot, bm25::Params params);

// The best k live documents that hold at least one term, best first; positions are slots.
std::vector<Hit> plain_search(const Bm25Snapshot& snapshot, bm25::Params params,
                              std::span<const double> norms, std::span<const TermRef> terms, std::size_t k);

// The score of every live document in order, 0.0 where no term occurs.
std::vector<double> plain_scores(const Bm25Snapshot& snapshot, bm25::Params params,
                                 std::span<const double> norms, std::span<const TermRef> terms);

}  // namespace gnomon
