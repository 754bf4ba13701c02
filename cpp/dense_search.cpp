// Screen, then settle: the search of dense_screen.hpp.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "dense_candidates.hpp"
#include "dense_screen.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kRangePanels = 64;        // panels that one thread takes at a time: 4,096 rows
constexpr std::size_t kBatchBytes = 400 << 10;  // codes of the queries that share a pass: they stay in L2
constexpr float kLeast = -std::numeric_limits<float>::infinity();

float float_above(double value) {
    const float nearest = static_cast<float>(value);
    return static_cast<double>(nearest) < value ? std::nextafter(nearest, -kLeast) : nearest;
}

float float_below(double value) { return -float_above(-value); }

// Everything that one batch of queries needs while threads scan ranges of panels.
struct Batch {
    const DenseScreen& screen;
    const CodedQueries& queries;
    Matrix rows;
    const double* squares;
    Metric metric;
    const Kernels& kernels;
    // The best threshold that any thread has proved; relaxed, since a late one costs time only.
    std::vector<std::atomic<float>> thresholds;
};

double slack_of(const Batch& batch, std::size_t q, double norm) {
    const double own = batch.queries.norm[q];
    return kSlack * (batch.metric == Metric::l2 ? own * own + norm * norm : own * norm);
}

// The least integer sum with which a row of the panel might still reach the query's threshold.
std::int32_t integer_threshold(const Batch& batch, std::size_t q, std::size_t panel, double inverse,
                               float threshold) {
    constexpr double kLimit = 2147483000.0;
    if (threshold == kLeast) return std::numeric_limits<std::int32_t>::min();
    const DenseScreen& screen = batch.screen;
    const double norm = screen.greatest_norm(panel);
    const double worst = screen.worst_residual(panel);
    double needed = static_cast<double>(threshold);
    if (batch.metric == Metric::l2)
        needed = (needed + batch.queries.square[q] + screen.least_square(panel)) / 2;
    needed -=
        slack_of(batch, q, norm) + batch.queries.norm[q] * worst + batch.queries.residual[q] * (norm + worst);
    // Two products for a division, on numbers below 2^31: with the floor they err by less than one.
    const double sum = std::floor(needed * inverse * batch.queries.inverse[q]) - 1.0;
    if (!(sum > -kLimit)) return std::numeric_limits<std::int32_t>::min();  // also for what is no number
    return static_cast<std::int32_t>(std::min(sum, kLimit));
}

Candidate bounds_of(const Batch& batch, std::size_t q, std::size_t panel, std::size_t row, std::int32_t sum) {
    const double square = batch.squares[row];
    const double norm = batch.metric == Metric::cosine ? 1.0 : std::sqrt(square) * (1.0 + 1e-12);
    const double rest = batch.screen.residual(row);
    const double dot = batch.screen.scale(panel) * batch.queries.scale[q] * sum;
    const double error = batch.queries.norm[q] * rest + batch.queries.residual[q] * (norm + rest);
    double middle = dot;
    double width = error + slack_of(batch, q, norm);
    if (batch.metric == Metric::l2) {
        middle = 2 * dot - square - batch.queries.square[q];
        width *= 2;
    }
    // A damaged file may hold what is no number: such a row is settled, and no comparison ever sees a NaN.
    if (!std::isfinite(middle) || !std::isfinite(width))
        return {-kLeast, kLeast, static_cast<std::uint32_t>(row)};
    return {float_above(middle + width), float_below(middle - width), static_cast<std::uint32_t>(row)};
}

void take_rows(Batch& batch, std::size_t q, std::size_t panel, std::uint64_t mask, const std::int32_t* sums,
               Candidates& found) {
    for (; mask != 0; mask &= mask - 1) {
        const auto r = static_cast<std::size_t>(std::countr_zero(mask));
        const Candidate candidate = bounds_of(batch, q, panel, panel * kPanelRows + r, sums[r]);
        if (candidate.upper < found.threshold() || !found.push(candidate)) continue;
        std::atomic<float>& best = batch.thresholds[q];
        float known = best.load(std::memory_order_relaxed);
        while (known < found.threshold() &&
               !best.compare_exchange_weak(known, found.threshold(), std::memory_order_relaxed)) {
        }
    }
}

void scan_panels(Batch& batch, std::size_t first, std::size_t last, Candidates* found) {
    alignas(64) std::int32_t sums[kTileQueries * kPanelRows];
    std::int32_t thresholds[kTileQueries];
    std::uint64_t masks[kTileQueries];
    const std::size_t n_queries = batch.queries.scale.size();
    for (std::size_t panel = first; panel < last; ++panel) {
        const std::size_t left = batch.rows.rows - panel * kPanelRows;
        const double inverse = 1.0 / batch.screen.scale(panel);
        const std::uint64_t real = left >= kPanelRows ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
        for (std::size_t tile = 0; tile < batch.queries.tiles(); ++tile) {
            const std::size_t q0 = tile * kTileQueries;
            const std::size_t n = std::min(kTileQueries, n_queries - q0);
            for (std::size_t q = 0; q < n; ++q) {
                found[q0 + q].raise(batch.thresholds[q0 + q].load(std::memory_order_relaxed));
                thresholds[q] = integer_threshold(batch, q0 + q, panel, inverse, found[q0 + q].threshold());
            }
            batch.kernels.dense_screen(batch.screen.panel(panel), batch.queries.tile(tile),
                                       batch.queries.steps, batch.queries.init.data() + q0, thresholds, n,
                                       sums, masks);
            for (std::size_t q = 0; q < n; ++q)
                if ((masks[q] & real) != 0)
                    take_rows(batch, q0 + q, panel, masks[q] & real, sums + q * kPanelRows, found[q0 + q]);
        }
    }
}

class Settler {
  public:
    Settler(const Batch& batch, std::size_t q, const double* query, std::size_t k)
        : batch_(batch), q_(q), query_(query), best_(k) {}

    void settle(const std::vector<std::uint32_t>& ids) {
        DenseDot* const kernel =
            batch_.metric == Metric::l2 ? batch_.kernels.dense_l2 : batch_.kernels.dense_dot;
        std::vector<double> scores(ids.size());
        std::vector<double> squares(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) squares[i] = batch_.squares[ids[i]];
        kernel(query_, batch_.rows.data, ids.data(), ids.size(), batch_.rows.dim, batch_.rows.dim,
               scores.data());
        finish_scores(batch_.metric, batch_.queries.square[q_], squares.data(), ids.size(), scores.data());
        for (std::size_t i = 0; i < ids.size(); ++i) best_.push({scores[i], ids[i]});
        settled_ += ids.size();
    }

    TopK& best() { return best_; }
    std::size_t settled() const { return settled_; }

  private:
    const Batch& batch_;
    std::size_t q_;
    const double* query_;
    TopK best_;
    std::size_t settled_ = 0;
};

// The k rows of greatest upper bound first: their worst score then excludes most of the others.
std::vector<Hit> settle(const Batch& batch, std::size_t q, const double* query, std::size_t k,
                        std::vector<Candidate> items, std::size_t& settled) {
    const auto higher = [](const Candidate& a, const Candidate& b) { return a.upper > b.upper; };
    const auto middle = items.begin() + static_cast<std::ptrdiff_t>(std::min(k, items.size()));
    if (middle != items.end()) std::nth_element(items.begin(), middle, items.end(), higher);
    std::vector<std::uint32_t> ids;
    for (auto item = items.begin(); item != middle; ++item) ids.push_back(item->row);
    std::sort(ids.begin(), ids.end());  // ascending rows: neighbours share pages
    Settler settler(batch, q, query, k);
    settler.settle(ids);
    const double worst = settler.best().cut();
    ids.clear();
    for (auto item = middle; item != items.end(); ++item)
        if (!(static_cast<double>(item->upper) < worst)) ids.push_back(item->row);
    std::sort(ids.begin(), ids.end());
    settler.settle(ids);
    settled = settler.settled();
    return settler.best().take();
}

struct Outcome {
    std::size_t candidates = 0;
    std::size_t settled = 0;
    bool plain = false;
};

// All threads' candidates of one query, cut under the final threshold; none if a thread gave up.
std::vector<Candidate> gather(const std::vector<std::vector<Candidates>>& found, std::size_t q, std::size_t k,
                              bool& gave_up) {
    Candidates all(k, std::numeric_limits<std::size_t>::max());
    for (const std::vector<Candidates>& worker : found) {
        gave_up = gave_up || worker[q].gave_up();
        all.raise(worker[q].threshold());
        for (const Candidate& item : worker[q].items()) all.push(item);
    }
    all.cut();
    return gave_up ? std::vector<Candidate>() : all.items();
}

}  // namespace

std::vector<std::vector<Hit>> screened_top_k(Matrix rows, const double* squares, const DenseScreen& screen,
                                             Matrix queries, const double* query_squares, Metric metric,
                                             std::size_t k, std::size_t threads, const Kernels& kernels,
                                             DenseStats& stats) {
    k = std::min(k, rows.rows);
    std::vector<std::vector<Hit>> results(queries.rows);
    if (k == 0) return results;
    const std::size_t workers = thread_count(threads);
    const std::size_t most = std::max(8 * k + 1024, rows.rows / 8);
    const std::size_t batch_rows = std::max<std::size_t>(kTileQueries, kBatchBytes / (screen.steps() * 4));
    const std::size_t ranges = (screen.panels() + kRangePanels - 1) / kRangePanels;
    for (std::size_t first = 0; first < queries.rows; first += batch_rows) {
        const std::size_t n = std::min(batch_rows, queries.rows - first);
        const Matrix part{queries.data + first * queries.dim, n, queries.dim};
        const CodedQueries coded(part, query_squares + first, metric, screen.steps());
        Batch batch{screen, coded, rows, squares, metric, kernels, std::vector<std::atomic<float>>(n)};
        for (std::atomic<float>& threshold : batch.thresholds) threshold.store(kLeast);
        std::vector<std::vector<Candidates>> found(std::min(workers, ranges),
                                                   std::vector<Candidates>(n, Candidates(k, most)));
        parallel_for(found.size(), ranges, [&](std::size_t worker, std::size_t range) {
            const std::size_t start = range * kRangePanels;
            scan_panels(batch, start, std::min(start + kRangePanels, screen.panels()), found[worker].data());
        });
        std::vector<Outcome> outcomes(n);
        parallel_for(workers, n, [&](std::size_t, std::size_t q) {
            const std::vector<double> query(part.data + q * part.dim, part.data + (q + 1) * part.dim);
            std::vector<Candidate> items = gather(found, q, k, outcomes[q].plain);
            outcomes[q].candidates = items.size();
            if (!outcomes[q].plain)
                results[first + q] = settle(batch, q, query.data(), k, std::move(items), outcomes[q].settled);
        });
        for (std::size_t q = 0; q < n; ++q) {
            if (!outcomes[q].plain) require_hits(results[first + q], k);
            stats.screened += rows.rows;
            stats.candidates += outcomes[q].candidates;
            stats.settled += outcomes[q].settled;
            if (!outcomes[q].plain) continue;
            ++stats.plain;
            results[first + q] =
                std::move(dense_top_k(rows, squares, {part.data + q * part.dim, 1, part.dim},
                                      query_squares + first + q, metric, k, threads, kernels)[0]);
        }
    }
    return results;
}

}  // namespace gnomon
