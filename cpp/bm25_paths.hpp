// Inside of bm25_search: a query made ready, the candidates of a screen, and the paths that fill them.
//
//   plain      float64, term at a time in windows of documents: every formula, every weight
//   windows    float32 screen lists, term at a time in windows; one pass compares and clears the sums
//   integers   upper bounds of the sums in 16 bits, where very frequent terms are a byte a document
//   blocks     bounds of blocks of 32 documents from byte maxima (rare terms scattered exactly); those that
//              can reach the threshold are scored in order of their bound
//   lists      each term's impacts by a vector compare; what can still reach the threshold is looked up in
//              the other lists
//   essential  as windows, but only the terms that can lift a document over the threshold are added up, the
//              others looked up for documents that need them
//   direct     a few allowed documents: each is scored
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "bm25_search.hpp"
#include "topk.hpp"

namespace gnomon {

struct Prepared {
    struct Occurrence {
        std::uint32_t term;  // into `terms`
        double idf;          // query weight * idf + 0.0
        double absent;       // what a document without the term gets, in order
    };
    std::vector<const Bm25Term*> terms;  // distinct
    std::vector<Occurrence> order;       // as the query has them
    double at_end = 0.0;
    bool in_order = false;  // absent terms count

    Prepared(const Bm25Scorer& scorer, const Bm25Query& query);
};

// The screen lists that a thread holds on to. Taking them from the scorer costs a lock and two counters that
// all threads write to, for each term: with short queries a second thread then brings little. One that
// answers many queries of one scorer in a row keeps them from query to query, until the scorer has dropped
// any.
class HeldScreens {
  public:
    explicit HeldScreens(bool keep) : keep_(keep) {}
    void begin(const Bm25Scorer& scorer);  // a query
    void end() {
        if (!keep_) once_.clear();
    }
    // Valid until the next begin() or end(). Null as Bm25Scorer::screens has it.
    const TermScreens* of(const Bm25Scorer& scorer, const Bm25Term& term);

  private:
    bool keep_;
    std::uint64_t scorer_ = 0;
    std::uint64_t dropped_ = 0;
    std::unordered_map<const Bm25Term*, std::shared_ptr<const TermScreens>> kept_;
    std::vector<std::shared_ptr<const TermScreens>> once_;
};

// How far below the sum that k documents reach a document may lie and still be one of the best k.
struct Cut {
    double relative = 0.0;
    double slack = 0.0;

    float of(float reached) const;  // 0 where nothing can be said
};

// The screens of a query's terms, scaled so that no sum exceeds 1. ok is false where only the plain path may
// answer: a weight that is not positive, impacts out of float32's range, too many terms, no memory.
struct Screened {
    static constexpr std::size_t kTermsMost = 64;

    struct Term {
        const SegmentScreens* screens = nullptr;  // held by HeldScreens
        const std::array<float, 3>* best = nullptr;
        float weight = 0.0F;    // times a posting's impact
        float greatest = 0.0F;  // weight * greatest impact of any segment, rounded up
        std::uint64_t postings = 0;
    };
    std::vector<Term> terms;
    double relative = 0.0;  // e of bm25_screen.hpp
    double slack = 0.0;
    bool ok = false;

    Screened(const Bm25Scorer& scorer, const Prepared& query, HeldScreens& held);
    // k documents reach the sum `reached`: no document below the returned one can be among the best k.
    Cut cut() const { return {2.0 * relative, 2.0 * slack}; }
    // What at least k documents reach, from the lists' best impacts; 0 where it is not known. Only when no
    // filter can take those documents away.
    float start(std::size_t k) const;
};

// Sums and slots that may be among the best k: all that are not below the cut of the k-th best sum.
class Candidates {
  public:
    // threshold: what a document must reach from the start.
    void reset(const Cut& cut, std::size_t k, float threshold);
    float threshold() const { return threshold_; }
    void push(float sum, std::uint32_t slot) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, &sum, sizeof bits);
        keys_.push_back(static_cast<std::uint64_t>(bits) << 32 | (UINT32_MAX - slot));
    }
    // Cuts when many have gathered; threshold() may rise. Between two calls any number may be pushed.
    void settle_down() {
        if (keys_.size() >= limit_) shrink();
    }
    void shrink();
    // Near ties grew beyond what settling is worth.
    bool overflown() const { return keys_.size() > kOverflow + 8 * k_; }
    void merge(const Candidates& other) { keys_.insert(keys_.end(), other.keys_.begin(), other.keys_.end()); }
    void raise(float threshold) { threshold_ = threshold > threshold_ ? threshold : threshold_; }
    // Slots, ascending.
    void take(std::vector<std::uint32_t>& slots);

  private:
    static constexpr std::size_t kOverflow = 16384;
    static constexpr std::uint32_t kClasses = 2048;

    std::uint32_t kth_bits();

    Cut cut_;
    std::size_t k_ = 0;
    std::size_t limit_ = 0;
    float threshold_ = 0.0F;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint32_t> members_;
    std::vector<std::uint32_t> counts_;
};

// Documents of one segment that may be answered: live and allowed.
struct Filter {
    const DocSet* dead = nullptr;
    const DocSet* allowed = nullptr;

    bool passes(std::uint32_t doc) const {
        return (dead == nullptr || !dead->has(doc)) && (allowed == nullptr || allowed->has(doc));
    }
};

// On lines of cache of its own: a thread's vectors say their sizes here all the time.
struct alignas(64) Bm25Scratch {
    explicit Bm25Scratch(bool keep_screens = false) : screens(keep_screens) {}

    HeldScreens screens;
    // plain
    std::vector<double> scores;
    std::vector<std::uint8_t> touched;
    std::vector<std::uint32_t> offsets;
    std::vector<double> values;
    // windows, blocks
    std::vector<float> sums;  // all 0 between two windows
    std::vector<std::uint16_t> counts16;
    std::vector<float> picked_sums;
    std::vector<std::uint32_t> picked;
    std::vector<std::uint16_t> bounds;
    std::vector<std::uint16_t> frequent_bounds;
    std::vector<std::uint32_t> blocks;
    std::vector<std::uint32_t> sorted;
    std::vector<std::uint32_t> heads;
    std::vector<std::uint32_t> nexts;
    std::vector<std::uint32_t> chained;
    std::vector<float> chained_sums;
    std::vector<std::uint32_t> counts;
    Candidates candidates;
    // settling
    std::vector<std::uint32_t> slots;
    std::vector<std::uint32_t> docs;
    std::vector<double> frequencies;
    std::vector<double> norms;
};

struct Run {
    const Bm25Scorer& scorer;
    const Prepared& query;
    const Kernels& kernels;
    Bm25Scratch& scratch;
};

// frequencies[t * docs.size() + i] = how often term t stands in docs[i], ascending documents of a segment;
// tf~ for BM25F. `screened` may be null; it makes look-ups faster.
void find_frequencies(const Run& run, const Screened* screened, std::size_t segment,
                      std::span<const std::uint32_t> docs, std::vector<double>& frequencies);

// The canonical scores of the documents that hold a term, pushed with their slots. docs ascend.
void settle(const Run& run, const Screened* screened, std::size_t segment,
            std::span<const std::uint32_t> docs, TopK& best);

void plain_path(const Run& run, std::size_t segment, const Filter& filter, std::size_t first,
                std::size_t last, TopK& best);
void windows_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                  std::size_t first, std::size_t last, Candidates& candidates);
// Adds weight * impact of the documents [base, end) to sums[doc - base], from posting `at` on; returns the
// first posting behind. base and end are borders of windows, or end is the segment's.
std::size_t add_screen(const Kernels& kernels, const TermScreen& screen, std::size_t at, std::size_t base,
                       std::size_t end, float weight, float* sums);

// False, with nothing done, when more than `worth` blocks of the segment would have to be looked at.
bool blocks_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                 Candidates& candidates, std::size_t worth = SIZE_MAX);

// Sums in 16 bits (bm25_integers.cpp), of their own scale: `candidates` has to be reset with its cut and
// start.
Cut integer_cut(const Screened& screened);
float integer_start(const Screened& screened, std::size_t k);
void integers_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                   std::size_t first, std::size_t last, Candidates& candidates);
// Whether documents that were not picked are surely not among the best k.
bool integers_suffice(const Screened& screened, const Candidates& candidates);

void lists_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                Candidates& candidates);

void essential_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                    Candidates& candidates);

// Documents a window of the plain path and of the screened one has. 16,384 float64 accumulators are 128 KiB,
// and stay in L2 with the norms of the same documents beside them; without windows a query over a million
// documents clears and scans 8 MB.
constexpr std::size_t kPlainWindow = 16384;
constexpr std::size_t kScreenWindow = 8192;

}  // namespace gnomon
