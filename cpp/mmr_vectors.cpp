#include <algorithm>
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

class LazyGreedy {
  public:
    LazyGreedy(Matrix rows, const double* squares, const double* relevance, double diversity,
               const Kernels& kernels)
        : rows_(rows),
          squares_(squares),
          relevance_(relevance),
          diversity_(diversity),
          kernels_(kernels),
          redundancy_(rows.rows, -std::numeric_limits<double>::infinity()),
          seen_(rows.rows, 0),
          query_(rows.dim) {}

    // Every candidate against one pick: two passes over the rows in a whole run.
    void see_all(std::uint32_t pick) {
        widen(pick);
        std::vector<double> dots(rows_.rows);
        kernels_.dense_dot(query_.data(), rows_.data, nullptr, rows_.rows, rows_.dim, rows_.dim, dots.data());
        finish_scores(Metric::cosine, squares_[pick], squares_, rows_.rows, kernels_, dots.data());
        for (std::size_t row = 0; row < rows_.rows; ++row)
            redundancy_[row] = std::max(redundancy_[row], dots[row]);
        picks_.push_back(pick);
        std::fill(seen_.begin(), seen_.end(), static_cast<std::uint32_t>(picks_.size()));
    }

    void add_pick(std::uint32_t pick) { picks_.push_back(pick); }

    double score(std::uint32_t row) const {
        return diversity_ * relevance_[row] - (1.0 - diversity_) * redundancy_[row];
    }

    // Sees some of the picks that the row has not seen; says whether it has seen all.
    bool refresh(std::uint32_t row) {
        const std::size_t n = std::min(kDots, picks_.size() - seen_[row]);
        if (n == 0) return true;
        widen(row);
        const std::uint32_t* const picks = picks_.data() + seen_[row];
        double dots[kDots];
        double squares[kDots];
        for (std::size_t i = 0; i < n; ++i) squares[i] = squares_[picks[i]];
        kernels_.dense_dot(query_.data(), rows_.data, picks, n, rows_.dim, rows_.dim, dots);
        finish_scores(Metric::cosine, squares_[row], squares, n, kernels_, dots);
        for (std::size_t i = 0; i < n; ++i) redundancy_[row] = std::max(redundancy_[row], dots[i]);
        seen_[row] += static_cast<std::uint32_t>(n);
        return false;
    }

    // Penalty of the latest pick alone: scores may rise again, so nothing can be lazy.
    void see_only(std::uint32_t pick) {
        std::fill(redundancy_.begin(), redundancy_.end(), -std::numeric_limits<double>::infinity());
        see_all(pick);
    }

  private:
    void widen(std::uint32_t row) {
        const float* const from = rows_.data + static_cast<std::size_t>(row) * rows_.dim;
        std::copy(from, from + rows_.dim, query_.begin());
    }

    Matrix rows_;
    const double* squares_;
    const double* relevance_;
    double diversity_;
    const Kernels& kernels_;
    std::vector<double> redundancy_;
    std::vector<std::uint32_t> seen_;  // how many picks this row's redundancy counts
    std::vector<std::uint32_t> picks_;
    std::vector<double> query_;
};

void pick_lazily(LazyGreedy& greedy, const std::vector<std::uint8_t>& taken, std::size_t count,
                 std::vector<MmrPick>& picks) {
    std::priority_queue<Entry, std::vector<Entry>, Below> heap;
    std::vector<Entry> entries;
    for (std::uint32_t row = 0; row < taken.size(); ++row)
        if (taken[row] == 0) entries.push_back({greedy.score(row), row});
    heap = decltype(heap)(Below(), std::move(entries));
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
