// Exact BM25 answers over a snapshot. A planner picks the cheapest of the paths (bm25_paths.hpp); all give
// the same documents, in the same order, with the same bits.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bm25_scorer.hpp"
#include "cpu.hpp"
#include "order.hpp"

namespace gnomon {

// Known terms in query order, each as often as it counts; weights in [1e-100, 1e100], 0, or negative such.
struct QueryTerm {
    std::shared_ptr<const Bm25Term> term;
    double weight = 1.0;
};
using Bm25Query = std::vector<QueryTerm>;

// Documents that may be answered, by segment; null: all of that segment. An empty vector: all.
using Allowed = std::vector<std::shared_ptr<const DocSet>>;

enum class Path : std::uint8_t { kAuto, kPlain, kWindows, kBlocks, kEssential, kDirect, kIntegers, kLists };

// Throws InvalidInput.
Path path_named(std::string_view name);
const char* path_name(Path path);

struct Bm25Scratch;  // what a thread reuses between its queries

class alignas(64) Bm25Search {
  public:
    // keep_screens: for many queries of one scorer in a row; it keeps their screen lists alive.
    explicit Bm25Search(const Kernels& kernels, bool keep_screens = false);
    ~Bm25Search();
    Bm25Search(const Bm25Search&) = delete;
    Bm25Search& operator=(const Bm25Search&) = delete;

    // The best k of the live, allowed documents that hold at least one term, best first; positions are slots.
    // A path that cannot answer the query gives way to the plain one. With threads > 1 the windows of a
    // costly query are shared out.
    std::vector<Hit> top_k(const Bm25Scorer& scorer, const Bm25Query& query, std::size_t k,
                           const Allowed& allowed = {}, Path path = Path::kAuto, std::size_t threads = 1);
    Path used() const { return used_; }  // by the last top_k

  private:
    const Kernels& kernels_;
    std::unique_ptr<Bm25Scratch> scratch_;
    Path used_ = Path::kAuto;
};

// out[slot] = the score of every document, deleted ones included; what the formula gives a document without
// any of the terms where none occurs.
void bm25_score_all(const Bm25Scorer& scorer, const Bm25Query& query, const Kernels& kernels, double* out);

// What makes up the scores of some documents. slots ascend.
struct Bm25Parts {
    std::vector<double> scores;       // by slot
    std::vector<double> parts;        // by slot, then query term: in query order; they add up to the score,
                                      // left to right and then at_end
    std::vector<double> frequencies;  // by slot, then query term; tf~ for BM25F; 0: the term is not there
    double at_end = 0.0;
};
Bm25Parts bm25_parts(const Bm25Scorer& scorer, const Bm25Query& query,
                     const std::vector<std::uint32_t>& slots);

}  // namespace gnomon
