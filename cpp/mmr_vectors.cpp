#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "error.hpp"
#include "mmr.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kDots = 8;  // dots per kernel call: the rows that it interleaves

struct Entry {
    double score;
    std::uint32_t row;
};

// std::priority_queue puts the greatest last-compared on top: higher score, then lower row.
struct Below {
    bool operator()(const Entry& a, const Entry& b) const {
        return a.score != b.score ? a.score < b.score : a.row > b.row;
    }
};

// A candidate's redundancy, as far as it is known: the greatest canonical cosine seen, a lower bound, and the
// picks that may lie above it, with their cosines in float32 arithmetic.
struct Known {
    static constexpr std::uint32_t kRivals = 3;
    double exact = -std::numeric_limits<double>::infinity();
    double least = -std::numeric_limits<double>::infinity();
    std::uint32_t seen = 0;  // picks
    std::uint32_t rivals = 0;
    std::uint32_t rival[kRivals];
    float cosine[kRivals];
};

class LazyGreedy {
  public:
    LazyGreedy(Matrix rows, const double* squares, const double* relevance, double diversity,
               const Kernels& kernels)
        : rows_(rows),
          squares_(squares),
          relevance_(relevance),
          diversity_(diversity),
          kernels_(kernels),
          inverse_(rows.rows),
          known_(rows.rows),
          query_(rows.dim) {
        // dense_float's bound, |x| |y| taken as 1, and 2e-9 for the canonical cosine's own distance and for
        // products below float32's range. Norms for which that holds:
        constexpr double kLeast = 1e-30, kMost = 1e30;
        error_ = (static_cast<double>(rows.dim) / 4 + 8) * 0x1p-24 * 1.01 + 2e-9;
        for (std::size_t row = 0; row < rows.rows; ++row) {
            const double square = squares[row];
            if (square != 0.0 && !(square > kLeast && square < kMost)) error_ = 0.0;
            inverse_[row] = square > 0.0 ? 1.0 / std::sqrt(square) : 0.0;
        }
    }

    // Every candidate against one pick: one pass over the rows in a whole run.
    void see_all(std::uint32_t pick) {
        add_pick(pick);
        const std::vector<double> cosines = against(pick);
        for (std::size_t row = 0; row < rows_.rows; ++row) {
            see(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(picks_.size() - 1), cosines[row]);
            known_[row].seen = static_cast<std::uint32_t>(picks_.size());
        }
    }

    void add_pick(std::uint32_t pick) {
        picks_.push_back(pick);
        const float* const from = rows_.data + std::size_t{pick} * rows_.dim;
        picked_.insert(picked_.end(), from, from + rows_.dim);
    }

    // An upper bound; the score itself once settled.
    double score(std::uint32_t row) const {
        return diversity_ * relevance_[row] - (1.0 - diversity_) * known_[row].least;
    }

    // Sees some of the picks that the row has not seen, or settles it; says whether it was settled already.
    bool refresh(std::uint32_t row) {
        Known& known = known_[row];
        const std::size_t n = std::min(kDots, picks_.size() - known.seen);
        if (n == 0) return !settle(row);
        double cosines[kDots];
        some(row, known.seen, n, cosines);
        for (std::size_t i = 0; i < n; ++i) see(row, known.seen + static_cast<std::uint32_t>(i), cosines[i]);
        known.seen += static_cast<std::uint32_t>(n);
        return false;
    }

    // Penalty of the latest pick alone: scores may rise again, so nothing can be lazy.
    void see_only(std::uint32_t pick) {
        const std::vector<double> cosines = canonical_column(pick);
        for (std::size_t row = 0; row < rows_.rows; ++row) known_[row].least = cosines[row];
    }

  private:
    void widen(std::uint32_t row) {
        const float* const from = rows_.data + static_cast<std::size_t>(row) * rows_.dim;
        std::copy(from, from + rows_.dim, query_.begin());
    }

    // A cosine within error_ of the canonical one.
    void see(std::uint32_t row, std::uint32_t pick, double cosine) {
        Known& known = known_[row];
        if (error_ == 0.0) {
            known.exact = known.least = std::max(known.least, cosine);
            return;
        }
        // Rounded to float32 once more: 2^-24 of at most 1.
        const double width = error_ + 0x1p-23;
        if (cosine + width < known.least) return;
        known.least = std::max(known.least, cosine - width);
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < known.rivals; ++i) {
            if (static_cast<double>(known.cosine[i]) + width < known.least) continue;
            known.rival[kept] = known.rival[i];
            known.cosine[kept++] = known.cosine[i];
        }
        known.rivals = kept;
        if (kept == Known::kRivals) settle(row);
        known.rival[known.rivals] = pick;
        known.cosine[known.rivals++] = static_cast<float>(cosine);
    }

    // Canonical cosines of what may be the greatest; says whether there was any.
    bool settle(std::uint32_t row) {
        Known& known = known_[row];
        if (known.rivals == 0) return false;
        std::uint32_t ids[Known::kRivals];
        double cosines[Known::kRivals];
        for (std::uint32_t i = 0; i < known.rivals; ++i) ids[i] = picks_[known.rival[i]];
        canonical(row, ids, known.rivals, cosines);
        for (std::uint32_t i = 0; i < known.rivals; ++i) known.exact = std::max(known.exact, cosines[i]);
        known.rivals = 0;
        known.least = known.exact;
        return true;
    }

    void canonical(std::uint32_t row, const std::uint32_t* others, std::size_t n, double* cosines) {
        widen(row);
        double squares[kDots];
        for (std::size_t i = 0; i < n; ++i) squares[i] = squares_[others[i]];
        kernels_.dense_dot(query_.data(), rows_.data, others, n, rows_.dim, rows_.dim, cosines);
        finish_scores(Metric::cosine, squares_[row], squares, n, kernels_, cosines);
    }

    // The row against n <= kDots picks.
    void some(std::uint32_t row, std::size_t first, std::size_t n, double* cosines) {
        if (error_ == 0.0) return canonical(row, picks_.data() + first, n, cosines);
        float dots[kDots];
        kernels_.dense_float(rows_.data + std::size_t{row} * rows_.dim, 1, picked_.data() + first * rows_.dim,
                             n, rows_.dim, dots, kDots);
        for (std::size_t i = 0; i < n; ++i)
            cosines[i] = static_cast<double>(dots[i]) * inverse_[row] * inverse_[picks_[first + i]];
    }

    std::vector<double> against(std::uint32_t pick) {
        if (error_ == 0.0) return canonical_column(pick);
        std::vector<float> dots(rows_.rows);
        kernels_.dense_float(rows_.data + std::size_t{pick} * rows_.dim, 1, rows_.data, rows_.rows, rows_.dim,
                             dots.data(), rows_.rows);
        std::vector<double> cosines(rows_.rows);
        for (std::size_t row = 0; row < rows_.rows; ++row)
            cosines[row] = static_cast<double>(dots[row]) * inverse_[row] * inverse_[pick];
        return cosines;
    }

    std::vector<double> canonical_column(std::uint32_t pick) {
        std::vector<double> cosines(rows_.rows);
        widen(pick);
        kernels_.dense_dot(query_.data(), rows_.data, nullptr, rows_.rows, rows_.dim, rows_.dim,
                           cosines.data());
        finish_scores(Metric::cosine, squares_[pick], squares_, rows_.rows, kernels_, cosines.data());
        return cosines;
    }

    Matrix rows_;
    const double* squares_;
    const double* relevance_;
    double diversity_;
    const Kernels& kernels_;
    double error_;                 // of float32 cosines; 0: they are canonical ones
    std::vector<double> inverse_;  // 1 / |x|, 0 for zero rows
    std::vector<Known> known_;
    std::vector<std::uint32_t> picks_;
    std::vector<float> picked_;  // their vectors
    std::vector<double> query_;
};

void pick_lazily(LazyGreedy& greedy, const std::vector<std::uint8_t>& taken, std::size_t count,
                 std::vector<MmrPick>& picks) {
    std::vector<Entry> entries;
    for (std::uint32_t row = 0; row < taken.size(); ++row)
        if (taken[row] == 0) entries.push_back({greedy.score(row), row});
    std::priority_queue<Entry, std::vector<Entry>, Below> heap(Below(), std::move(entries));
    while (picks.size() < count && !heap.empty()) {
        Entry top = heap.top();
        heap.pop();
        bool fresh = greedy.refresh(top.row);
        // Until it is up to date or has fallen behind the next one.
        while (!fresh) {
            top.score = greedy.score(top.row);
            if (!heap.empty() && Below()(top, heap.top())) break;
            fresh = greedy.refresh(top.row);
        }
        if (!fresh) {
            heap.push(top);
            continue;
        }
        picks.push_back({top.row, top.score});
        greedy.add_pick(top.row);
    }
}

void pick_by_last(LazyGreedy& greedy, std::vector<std::uint8_t>& taken, std::size_t count,
                  std::vector<MmrPick>& picks) {
    while (picks.size() < count) {
        std::uint32_t best = std::numeric_limits<std::uint32_t>::max();
        for (std::uint32_t row = 0; row < taken.size(); ++row)
            if (taken[row] == 0 && (best >= taken.size() || greedy.score(row) > greedy.score(best)))
                best = row;
        picks.push_back({best, greedy.score(best)});
        taken[best] = 1;
        greedy.see_only(best);
    }
}

}  // namespace

std::vector<MmrPick> mmr_vectors(Matrix rows, const double* squares, const double* relevance,
                                 const std::vector<std::uint32_t>& selected, std::size_t limit,
                                 double diversity, MmrPenalty penalty, const Kernels& kernels) {
    if (!(diversity >= 0.0 && diversity <= 1.0))
        throw InvalidInput("invalid MMR inputs: diversity must lie between 0 and 1, got " +
                           std::to_string(diversity));
    std::vector<std::uint8_t> taken(rows.rows, 0);
    for (const std::uint32_t pick : selected) {
        if (pick >= rows.rows)
            throw InvalidInput("invalid MMR inputs: selected names row " + std::to_string(pick) + " of " +
                               std::to_string(rows.rows));
        if (taken[pick] != 0)
            throw InvalidInput("invalid MMR inputs: selected names row " + std::to_string(pick) + " twice");
        taken[pick] = 1;
    }
    const std::size_t count = std::min(limit, rows.rows - selected.size());
    std::vector<MmrPick> picks;
    if (count == 0) return picks;
    picks.reserve(count);
    LazyGreedy greedy(rows, squares, relevance, diversity, kernels);
    if (selected.empty()) {
        const auto first =
            static_cast<std::uint32_t>(std::max_element(relevance, relevance + rows.rows) - relevance);
        picks.push_back({first, relevance[first]});
        taken[first] = 1;
        if (penalty == MmrPenalty::last)
            greedy.see_only(first);
        else
            greedy.see_all(first);
    } else if (penalty == MmrPenalty::last) {
        greedy.see_only(selected.back());
    } else {
        for (const std::uint32_t pick : selected) greedy.see_all(pick);
    }
    if (penalty == MmrPenalty::last)
        pick_by_last(greedy, taken, count, picks);
    else
        pick_lazily(greedy, taken, count, picks);
    return picks;
}

}  // namespace gnomon
