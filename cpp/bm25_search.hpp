// Exact BM25 answers from one segment: term at a time within windows of documents.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "bm25_index.hpp"
#include "cpu.hpp"
#include "order.hpp"

namespace gnomon {

// Reused between the queries of one thread.
struct Bm25Scratch {
    std::vector<double> scores;
    std::vector<std::uint32_t> selected;
};

// The best k of the documents that hold at least one term, best first. Terms are added in the given order and
// as often as they are given. Every term must be < index.n_terms().
std::vector<Hit> bm25_search(const Bm25Index& index, const Bm25Scoring& scoring,
                             std::span<const std::uint32_t> terms, std::size_t k, const Kernels& kernels,
                             Bm25Scratch& scratch);

// out[doc] = the score of every document, 0.0 where no term occurs. out holds index.n_docs() values.
void bm25_score_all(const Bm25Index& index, const Bm25Scoring& scoring, std::span<const std::uint32_t> terms,
                    const Kernels& kernels, double* out);

}  // namespace gnomon
