// One or few queries by the heads of a rotated screen, which are a third of the codes or less:
//   1. sums over the heads of all rows, kept; the best of them by these sums alone are scored: their k-th
//   best
//      score is a lower bound of the answer's, near to it since heads hold most of every dot;
//   2. a second look at the kept sums leaves the rows whose upper bound (dense_screen.hpp) reaches it; the
//      tails of these, a few cache lines each, leave those whose upper bound by all codes does;
//   3. those are scored, greatest upper bound first, until the next cannot reach the k-th best.
// Rows are dropped by proved bounds only; where these leave too many, the query goes to the whole codes.
#include <algorithm>
#include <bit>
#include <numeric>

#include "dense_batch.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kRangePanels = 64;
constexpr std::size_t kChunk = 32;  // rows scored between two looks at the threshold

struct Survivors {
    std::vector<std::uint32_t> rows;
    std::vector<float> upper;
};

// What one query has in pass 1 and pass 2, by thread.
struct Part {
    std::vector<Candidates> foremost;
    std::vector<double> needed;
    std::vector<Survivors> survivors;
    Selection selection{};
};

class HeadSearch {
  public:
    explicit HeadSearch(const ScreenBatch& batch)
        : batch_(batch), sums_(batch.screen.panels() * batch.n() * kPanelRows) {}

    // Pass 1 over some panels: the `most` best by the sums alone.
    void scan(std::size_t first, std::size_t last, Part& part) {
        const std::size_t n = batch_.n();
        std::int32_t limits[kWideTileQueries];
        std::uint64_t masks[kWideTileQueries];
        for (std::size_t panel = first; panel < last; ++panel) {
            const std::uint64_t real = batch_.wanted.word(panel, batch_.rows.rows);
            if (real == 0) continue;
            const PanelLimits share = panel_limits(batch_, panel, Extent::head, true);
            for (std::size_t q0 = 0, tile = 0; q0 < n; q0 += batch_.queries.tile_queries, ++tile) {
                const std::size_t count = std::min(batch_.queries.tile_queries, n - q0);
                std::int32_t* const sums = sums_of(panel) + q0 * kPanelRows;
                batch_.kernels.screen_limits(share, query_limits(batch_, part.needed.data(), q0), count,
                                             limits);
                batch_.kernels.dense_screen(batch_.screen.panel(panel), batch_.queries.tile(tile),
                                            shape_of(batch_, Extent::head, tile),
                                            batch_.queries.init_head.data() + q0, limits, count, sums, masks);
                for (std::size_t q = 0; q < count; ++q)
                    if ((masks[q] & real) != 0) keep(panel, q0 + q, masks[q] & real, part);
            }
        }
    }

    // Pass 2 over at most kRangePanels: rows whose upper bound by the head reaches the query's threshold;
    // then those of them whose upper bound by all codes does.
    void select(std::size_t first, std::size_t last, std::size_t q, float threshold, Survivors& out) {
        const double needed = batch_.needed(q, threshold);
        std::uint64_t masks[kRangePanels];
        for (std::size_t panel = first; panel < last; ++panel) {
            std::uint64_t& mask = masks[panel - first];
            mask = batch_.wanted.word(panel, batch_.rows.rows);
            if (mask == 0) continue;
            std::int32_t limit;
            batch_.kernels.screen_limits(panel_limits(batch_, panel, Extent::head, false),
                                         one_query(needed, q), 1, &limit);
            mask &= batch_.kernels.screen_reach(sums_of(panel) + q * kPanelRows, limit);
            if (mask == 0) continue;
            mask = reach_by_head(batch_, q, panel, mask, sums_of(panel) + q * kPanelRows, threshold);
            prefetch_tails(batch_.screen, panel, mask);
        }
        for (std::size_t panel = first; panel < last; ++panel)
            if (masks[panel - first] != 0) append(panel, q, masks[panel - first], threshold, out);
    }

  private:
    std::int32_t* sums_of(std::size_t panel) { return sums_.data() + panel * batch_.n() * kPanelRows; }

    QueryLimits one_query(const double& needed, std::size_t q) const {
        QueryLimits limits = query_limits(batch_, nullptr, q);
        limits.needed = &needed;
        return limits;
    }

    const double* squares_of(std::size_t panel) const {
        return batch_.metric == Metric::l2 ? batch_.squares + panel * kPanelRows : nullptr;
    }

    void keep(std::size_t panel, std::size_t q, std::uint64_t mask, Part& part) {
        Candidates& found = part.foremost[q];
        const std::size_t n = batch_.kernels.screen_take(
            sums_of(panel) + q * kPanelRows, mask, take_bounds(batch_, q, panel, Extent::head, true),
            batch_.screen.residuals(panel), nullptr, squares_of(panel),
            static_cast<std::uint32_t>(panel * kPanelRows), found.lower_end(), found.upper_end(),
            found.rows_end());
        if (found.grow(n, part.selection)) part.needed[q] = batch_.needed(q, found.threshold());
    }

    // Adds the tails to the sums and keeps rows that still reach the threshold.
    void append(std::size_t panel, std::size_t q, std::uint64_t mask, float threshold, Survivors& out) {
        const std::size_t bytes = batch_.screen.tail_bytes();
        batch_.kernels.screen_tails(batch_.screen.tail_codes(panel), bytes, mask,
                                    batch_.queries.tails.data() + q * bytes, batch_.screen.rotation().shift(),
                                    batch_.queries.init_tail[q], sums_of(panel) + q * kPanelRows);
        float lower[kPanelRows + 16];
        float upper[kPanelRows + 16];
        std::uint32_t rows[kPanelRows + 16];
        const std::size_t n = batch_.kernels.screen_take(
            sums_of(panel) + q * kPanelRows, mask, take_bounds(batch_, q, panel, Extent::whole, false),
            batch_.screen.residuals(panel), nullptr, squares_of(panel),
            static_cast<std::uint32_t>(panel * kPanelRows), lower, upper, rows);
        for (std::size_t i = 0; i < n; ++i) {
            if (upper[i] < threshold) continue;
            out.rows.push_back(rows[i]);
            out.upper.push_back(upper[i]);
        }
    }

    const ScreenBatch& batch_;
    std::vector<std::int32_t> sums_;  // [panels, n, 64]
};

// Scores rows into `best`; each is a number or the data is damaged.
void score_into(const ScreenBatch& batch, std::size_t q, const double* query,
                std::span<const std::uint32_t> rows, TopK& best) {
    std::vector<double> scores(rows.size());
    score_rows(batch, q, query, rows, Reach::far, scores.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (scores[i] != scores[i]) throw_not_a_number();
        best.push({scores[i], rows[i]});
    }
}

// The rows that pass 1 found, ascending.
std::vector<std::uint32_t> foremost_rows(std::vector<Part>& parts, std::size_t q, std::size_t most) {
    Candidates& all = parts[0].foremost[q];
    for (std::size_t part = 1; part < parts.size(); ++part) all.append(parts[part].foremost[q]);
    if (all.size() > most) all.raise(parts[0].selection.kth_greatest(all.lower(), all.size(), most));
    all.drop();
    std::vector<std::uint32_t> rows(all.rows(), all.rows() + all.size());
    std::sort(rows.begin(), rows.end());
    return rows;
}

// Step 3. Says how many rows were scored.
std::size_t score_survivors(const ScreenBatch& batch, std::size_t q, const double* query,
                            const Survivors& survivors, const std::vector<std::uint32_t>& done, TopK& best) {
    std::vector<std::uint32_t> order(survivors.rows.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return survivors.upper[a] > survivors.upper[b]; });
    std::vector<std::uint32_t> chunk;
    std::size_t scored = 0;
    for (std::size_t i = 0; i < order.size();) {
        const double worst = best.cut();
        chunk.clear();
        for (; i < order.size() && chunk.size() < kChunk; ++i) {
            if (static_cast<double>(survivors.upper[order[i]]) < worst) {
                i = order.size();
                break;
            }
            const std::uint32_t row = survivors.rows[order[i]];
            if (!std::binary_search(done.begin(), done.end(), row)) chunk.push_back(row);
        }
        score_into(batch, q, query, chunk, best);
        scored += chunk.size();
    }
    return scored;
}

}  // namespace

std::vector<std::uint8_t> search_heads(const ScreenBatch& batch, std::vector<std::vector<Hit>>& results,
                                       DenseStats& stats) {
    const std::size_t n = batch.n();
    const std::size_t panels = batch.screen.panels();
    const std::size_t ranges = (panels + kRangePanels - 1) / kRangePanels;
    const std::size_t threads = std::min(thread_count(batch.threads), ranges);
    const std::size_t most = 2 * batch.k + 32;
    const float floor = float_below(batch.wanted.min_score);
    HeadSearch search(batch);
    Part first;
    first.selection.kernels = &batch.kernels;
    first.foremost.assign(n, Candidates(most, SIZE_MAX / 8, kNoThreshold));
    first.needed.assign(n, static_cast<double>(kNoThreshold));
    first.survivors.resize(n);
    std::vector<Part> parts(threads, first);
    const auto end_of = [&](std::size_t range) { return std::min(panels, (range + 1) * kRangePanels); };
    parallel_for(threads, ranges, [&](std::size_t part, std::size_t range) {
        search.scan(range * kRangePanels, end_of(range), parts[part]);
    });
    std::vector<std::uint8_t> done(n, 0);
    for (std::size_t q = 0; q < n; ++q) {
        if (!batch.representable(q)) continue;
        const std::vector<double> query(batch.raw + q * batch.rows.dim, batch.raw + (q + 1) * batch.rows.dim);
        const std::vector<std::uint32_t> rows = foremost_rows(parts, q, most);
        TopK best(batch.k);
        best.raise(batch.wanted.min_score);
        score_into(batch, q, query.data(), rows, best);
        const float threshold = std::max(floor, float_below(best.cut()));
        parallel_for(threads, ranges, [&](std::size_t part, std::size_t range) {
            search.select(range * kRangePanels, end_of(range), q, threshold, parts[part].survivors[q]);
        });
        Survivors& all = parts[0].survivors[q];
        for (std::size_t part = 1; part < threads; ++part) {
            const Survivors& other = parts[part].survivors[q];
            all.rows.insert(all.rows.end(), other.rows.begin(), other.rows.end());
            all.upper.insert(all.upper.end(), other.upper.begin(), other.upper.end());
        }
        stats.screened += batch.rows.rows;
        stats.settled += rows.size();
        if (all.rows.size() > batch.rows.rows / 64 + 8 * batch.k + 256) continue;
        stats.candidates += all.rows.size();
        stats.settled += score_survivors(batch, q, query.data(), all, rows, best);
        ++stats.heads;
        results[q] = best.take();
        done[q] = 1;
    }
    return done;
}

}  // namespace gnomon
