// One way to score one snapshot: a formula with its parameters, and what follows from both, each made on
// first use: a constant for each document (norm or relative length), a term's df and idf, its screen lists.
// Safe from several threads; what a search holds stays valid when it is evicted meanwhile.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bm25.hpp"
#include "bm25_screen.hpp"
#include "bm25_snapshot.hpp"

namespace gnomon {

struct Bm25Model {
    bm25::Formula formula = bm25::Formula::kDefault;
    double k1 = 1.2;
    double b = 0.75;
    double delta = 0.5;
    double epsilon = 0.25;
    std::optional<double> floor;        // instead of epsilon times the mean idf
    std::vector<double> field_weights;  // bm25f: one a field, 0 leaves the field out
    std::vector<double> field_b;
};

// Throws InvalidInput, listing the names.
bm25::Formula formula_named(std::string_view name);
std::vector<std::string> formula_names();

// A term that a live document holds.
struct Bm25Term : std::enable_shared_from_this<Bm25Term> {
    TermRef ref;
    std::vector<Postings> postings;  // by segment, then field; empty where there are none
    std::uint64_t n_postings = 0;    // over all of them, deleted documents included
    std::size_t decoded_bytes = 0;   // of postings that a packed segment decoded
    std::uint64_t df = 0;            // live documents
    double idf = 0.0;
};

using SegmentScreens = std::vector<std::shared_ptr<const TermScreen>>;  // null: the segment lacks the term

// A term's screen lists over all segments, and when they were last wanted.
struct TermScreens {
    // The lists point into its postings. And while it lives, no other term has its address, by which the
    // screens of a term are found.
    std::shared_ptr<const Bm25Term> term;
    SegmentScreens lists;
    std::array<float, 3> best{};  // best_impacts() of the lists
    std::size_t bytes = 0;
    mutable std::atomic<std::uint64_t> used{0};
};

class Bm25Scorer {
  public:
    static constexpr std::size_t kScreenBytes = std::size_t{1} << 30;

    // Throws InvalidInput for parameters out of range. Screen lists of more than screen_bytes in all are
    // dropped, those of the longest unused terms first; a single term beyond it is never screened. Terms that
    // were decoded from packed segments are kept up to a quarter of it (the newest in any case), then all
    // forgotten.
    Bm25Scorer(std::shared_ptr<const Bm25Snapshot> snapshot, Bm25Model model,
               std::size_t screen_bytes = kScreenBytes);

    const Bm25Snapshot& snapshot() const { return *snapshot_; }
    const Bm25Model& model() const { return model_; }
    std::size_t n_fields() const { return snapshot_->n_fields(); }

    // Null when no live document holds the term. Throws CorruptIndex.
    std::shared_ptr<const Bm25Term> find(std::string_view token) const;
    std::shared_ptr<const Bm25Term> find(std::uint32_t id) const;

    // Of a term that so many live documents hold, floored where the formula has a floor.
    double idf_of(std::uint64_t df) const;

    // The constant of each document of a segment: rel for BM25F and where bm25::takes_rel, else norm.
    const double* constants(std::size_t segment, std::size_t field = 0) const;

    // bm25f: tf~ of each document that holds a term in a field that counts, from the term's postings in each
    // field of a segment; the documents are left in `docs`, which is empty before.
    std::vector<double> merge_fields(const Postings* lists, std::size_t segment,
                                     std::vector<std::uint32_t>& docs) const;

    // Null when the term's lists alone would exceed the cap.
    std::shared_ptr<const TermScreens> screens(const Bm25Term& term) const;
    std::size_t screen_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
    // Says that lists are wanted again. Time is the number of lists made so far: only then may others have to
    // go, and in between many threads read one line of cache and write none.
    void touch(const TermScreens& screens) const {
        const std::uint64_t now = made_.load(std::memory_order_relaxed);
        if (screens.used.load(std::memory_order_relaxed) != now)
            screens.used.store(now, std::memory_order_relaxed);
    }
    // Grows with each list that was dropped for want of room.
    std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
    // Tells this scorer from every other of the process, dead ones included.
    std::uint64_t number() const { return number_; }

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };

    std::shared_ptr<const Bm25Term> make(TermRef ref) const;
    template <class Map, class Key>
    std::shared_ptr<const Bm25Term> remember(Map& map, Key key, std::shared_ptr<const Bm25Term> term) const;
    void forget_terms() const;
    double mean_floor() const;
    std::shared_ptr<const TermScreen> make_screen(const Bm25Term& term, std::size_t segment) const;
    void make_room(std::size_t bytes) const;

    std::shared_ptr<const Bm25Snapshot> snapshot_;
    Bm25Model model_;
    std::size_t screen_cap_;
    std::uint64_t number_;

    mutable std::shared_mutex terms_lock_;
    mutable std::unordered_map<std::string, std::shared_ptr<const Bm25Term>, Hash, std::equal_to<>> tokens_;
    mutable std::unordered_map<std::uint32_t, std::shared_ptr<const Bm25Term>> ids_;
    mutable std::size_t decoded_bytes_ = 0;  // of the terms
    mutable std::shared_mutex screens_lock_;
    mutable std::unordered_map<const Bm25Term*, std::shared_ptr<const TermScreens>> screens_;
    mutable std::atomic<std::uint64_t> made_{0};
    mutable std::atomic<std::uint64_t> dropped_{0};
    mutable std::atomic<std::size_t> used_bytes_{0};

    mutable std::mutex constants_lock_;
    mutable std::vector<std::atomic<const double*>> ready_;  // by segment, then field
    mutable std::vector<std::unique_ptr<double[]>> constants_;
    mutable std::once_flag floor_once_;
    mutable double floor_ = 0.0;
};

}  // namespace gnomon
