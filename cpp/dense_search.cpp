// Screen, then settle: the search of dense_screen.hpp.
//
// A large k starts from a guess: the score of the right rank among sampled panels, a little lower. Were it
// too high, fewer than k rows would be proved to reach it; that is seen at the end, and the query is screened
// again without it. A guess that holds spares most of the candidates that a threshold on its way up lets
// pass.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "dense_batch.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kRangePanels = 64;        // panels that one thread takes at a time: 4,096 rows
constexpr std::size_t kBatchBytes = 400 << 10;  // codes of the queries that share a pass: they stay in L2
constexpr std::size_t kHeldBytes = std::size_t{256} << 20;  // for candidates of one batch
constexpr std::size_t kGuessK = 256;                        // from this k on a guess is worth its sample
constexpr double kGuessRank = 64.0;                         // rank of the guess within the sample
constexpr std::size_t kHeadQueries = 2;  // up to so many, memory is the bound and reading heads pays
constexpr std::size_t kHeadK = 32;

// The widest tile's sums and masks.
struct TileSums {
    alignas(64) std::int32_t sums[kWideTileQueries * kPanelRows];
    std::int32_t limits[kWideTileQueries];
    std::uint64_t masks[kWideTileQueries];
};

struct Worker {
    std::vector<Candidates> found;
    std::vector<double> needed;  // by query: its threshold on v.y
    Selection selection{};
};

using Thresholds = std::vector<std::atomic<float>>;  // relaxed: a late one costs time only

void sums_of(const ScreenBatch& batch, std::size_t panel, std::size_t tile, std::size_t n, TileSums& out) {
    const std::size_t q0 = tile * batch.queries.tile_queries;
    batch.kernels.dense_screen(batch.screen.panel(panel), batch.queries.tile(tile),
                               shape_of(batch, Extent::whole, tile), batch.queries.init.data() + q0,
                               out.limits, n, out.sums, out.masks);
}

double limit_of(const ScreenBatch& batch, std::size_t q, const Candidates& found) {
    return found.gave_up() ? -static_cast<double>(kNoThreshold) : batch.needed(q, found.threshold());
}

void publish(std::atomic<float>& best, float threshold) {
    float known = best.load(std::memory_order_relaxed);
    while (known < threshold && !best.compare_exchange_weak(known, threshold, std::memory_order_relaxed)) {
    }
}

void take(const ScreenBatch& batch, std::size_t q, std::size_t panel, std::uint64_t mask,
          const std::int32_t* sums, Worker& worker, Thresholds& thresholds) {
    Candidates& found = worker.found[q];
    const double* const squares = batch.metric == Metric::l2 ? batch.squares + panel * kPanelRows : nullptr;
    const std::size_t n = batch.kernels.screen_take(
        sums, mask, take_bounds(batch, q, panel, Extent::whole, false), batch.screen.residuals(panel),
        nullptr, squares, static_cast<std::uint32_t>(panel * kPanelRows), found.lower_end(),
        found.upper_end(), found.rows_end());
    if (!found.grow(n, worker.selection)) return;
    worker.needed[q] = limit_of(batch, q, found);
    publish(thresholds[q], found.threshold());
}

void scan_panels(const ScreenBatch& batch, std::size_t first, std::size_t last, Worker& worker,
                 Thresholds& thresholds) {
    TileSums tile_sums;
    const std::size_t width = batch.queries.tile_queries;
    for (std::size_t q = 0; q < batch.n(); ++q) {
        const float best = thresholds[q].load(std::memory_order_relaxed);
        if (!(best > worker.found[q].threshold()) || worker.found[q].gave_up()) continue;
        worker.found[q].raise(best);
        worker.needed[q] = limit_of(batch, q, worker.found[q]);
    }
    for (std::size_t panel = first; panel < last; ++panel) {
        const std::uint64_t real = batch.wanted.word(panel, batch.rows.rows);
        if (real == 0) continue;
        const PanelLimits share = panel_limits(batch, panel, Extent::whole, false);
        for (std::size_t tile = 0; tile < batch.queries.tiles(); ++tile) {
            const std::size_t q0 = tile * width;
            const std::size_t n = std::min(width, batch.n() - q0);
            batch.kernels.screen_limits(share, query_limits(batch, worker.needed.data(), q0), n,
                                        tile_sums.limits);
            sums_of(batch, panel, tile, n, tile_sums);
            for (std::size_t q = 0; q < n; ++q)
                if ((tile_sums.masks[q] & real) != 0)
                    take(batch, q0 + q, panel, tile_sums.masks[q] & real, tile_sums.sums + q * kPanelRows,
                         worker, thresholds);
        }
    }
}

// Thresholds that about one and a half times k rows will reach, by query; none where the sample would be too
// small or too large a part of the work.
std::vector<float> guesses(const ScreenBatch& batch, std::size_t allowed) {
    std::vector<float> guess(batch.n(), kNoThreshold);
    if (batch.k < kGuessK || batch.k * 2 > allowed) return guess;
    const double share = 2 * kGuessRank / static_cast<double>(batch.k);  // of the rows to sample
    const std::size_t panels = batch.screen.panels();
    const auto wanted =
        static_cast<std::size_t>(std::ceil(static_cast<double>(panels) * std::min(share, 1.0)));
    if (share > 0.5 || wanted < 4) return guess;
    const std::size_t width = batch.queries.tile_queries;
    parallel_for(thread_count(batch.threads), batch.queries.tiles(), [&](std::size_t, std::size_t tile) {
        const std::size_t q0 = tile * width;
        const std::size_t n = std::min(width, batch.n() - q0);
        std::vector<std::vector<float>> lower(n, std::vector<float>((wanted + 1) * kPanelRows + 16));
        std::vector<float> upper(kPanelRows + 16);
        std::vector<std::uint32_t> rows(kPanelRows + 16);
        TileSums tile_sums;
        std::fill_n(tile_sums.limits, n, std::numeric_limits<std::int32_t>::min());
        std::size_t filled = 0;
        for (std::size_t i = 0; i < wanted; ++i) {
            const std::size_t panel = i * panels / wanted;
            const std::uint64_t real = batch.wanted.word(panel, batch.rows.rows);
            sums_of(batch, panel, tile, n, tile_sums);
            const double* const squares =
                batch.metric == Metric::l2 ? batch.squares + panel * kPanelRows : nullptr;
            for (std::size_t q = 0; q < n; ++q)
                batch.kernels.screen_take(tile_sums.sums + q * kPanelRows, real,
                                          take_bounds(batch, q0 + q, panel, Extent::whole, false),
                                          batch.screen.residuals(panel), nullptr, squares, 0,
                                          lower[q].data() + filled, upper.data(), rows.data());
            filled += static_cast<std::size_t>(std::popcount(real));
        }
        const double rank = static_cast<double>(batch.k * filled) / static_cast<double>(allowed);
        const auto place = static_cast<std::size_t>(rank + 3 * std::sqrt(rank) + 4);
        if (place >= filled) return;
        Selection selection{&batch.kernels, {}};
        for (std::size_t q = 0; q < n; ++q) {
            guess[q0 + q] = selection.kth_greatest(lower[q].data(), filled, place + 1);
        }
    });
    return guess;
}

// All threads' candidates of one query, cut under the final threshold. `plain` where they are no proof: a
// thread gave up, or (`guessed`) too few rows were proved to reach a guess.
Remaining gather(const ScreenBatch& batch, std::vector<Worker>& workers, std::size_t q, std::size_t least,
                 bool& plain, bool& missed, DenseStats& stats) {
    Selection& selection = workers[0].selection;
    Candidates& all = workers[0].found[q];
    for (std::size_t worker = 1; worker < workers.size(); ++worker) all.append(workers[worker].found[q]);
    if (all.gave_up()) {
        plain = true;
        return {};
    }
    if (all.size() >= batch.k) all.raise(selection.kth_greatest(all.lower(), all.size(), batch.k));
    missed = all.proved() < least;
    all.drop();
    for (std::size_t i = 0; i < all.size(); ++i)
        stats.slack = std::max(stats.slack, static_cast<double>(all.upper()[i] - all.lower()[i]) / 2);
    Remaining remaining;
    all.release(remaining.rows, remaining.upper);
    if (workers.size() > 1) {  // threads took ranges in turn
        std::vector<std::pair<std::uint32_t, float>> items(remaining.rows.size());
        for (std::size_t i = 0; i < items.size(); ++i) items[i] = {remaining.rows[i], remaining.upper[i]};
        std::sort(items.begin(), items.end());
        for (std::size_t i = 0; i < items.size(); ++i) {
            remaining.rows[i] = items[i].first;
            remaining.upper[i] = items[i].second;
        }
    }
    return remaining;
}

// Whether reading heads pays: few queries, which memory bounds, and a k whose rows are few among all.
bool by_heads(const DenseScreen& screen, Heads heads, std::size_t queries, std::size_t k,
              std::size_t allowed) {
    if (screen.rotation().empty() || heads != Heads::automatic) return heads == Heads::always;
    return queries <= kHeadQueries && k <= kHeadK && k * 256 <= allowed;
}

enum class Outcome : std::uint8_t { done, plain, missed };

// One pass over the whole codes for the batch.
std::vector<Outcome> search_whole(const ScreenBatch& batch, bool guess, std::size_t allowed,
                                  std::vector<std::vector<Hit>>& results, DenseStats& stats) {
    const std::size_t n = batch.n();
    const std::size_t ranges = (batch.screen.panels() + kRangePanels - 1) / kRangePanels;
    const std::size_t threads = std::min(thread_count(batch.threads), ranges);
    const std::size_t most =
        std::max(batch.k > batch.rows.rows / 16 ? batch.rows.rows : 8 * batch.k + 1024, batch.rows.rows / 8);
    const float floor = float_below(batch.wanted.min_score);
    const std::vector<float> guessed = guess ? guesses(batch, allowed) : std::vector<float>(n, kNoThreshold);
    Worker first;
    first.selection.kernels = &batch.kernels;
    Thresholds thresholds(n);
    for (std::size_t q = 0; q < n; ++q) {
        const float start = std::max(floor, guessed[q]);
        thresholds[q].store(start);
        first.found.emplace_back(batch.k, most, start);
        first.needed.push_back(batch.representable(q) ? limit_of(batch, q, first.found[q])
                                                      : -static_cast<double>(kNoThreshold));
    }
    std::vector<Worker> workers(threads - 1, first);
    workers.push_back(std::move(first));
    parallel_for(threads, ranges, [&](std::size_t worker, std::size_t range) {
        const std::size_t start = range * kRangePanels;
        scan_panels(batch, start, std::min(start + kRangePanels, batch.screen.panels()), workers[worker],
                    thresholds);
    });
    std::vector<Outcome> outcomes(n, Outcome::done);
    std::vector<std::size_t> settling;
    std::vector<Remaining> remaining;
    for (std::size_t q = 0; q < n; ++q) {
        bool plain = !batch.representable(q);
        bool missed = false;
        const std::size_t least = guessed[q] > floor ? std::min(batch.k, allowed) : 0;
        Remaining left;
        if (!plain) left = gather(batch, workers, q, least, plain, missed, stats);
        stats.screened += batch.rows.rows;
        outcomes[q] = plain ? Outcome::plain : missed ? Outcome::missed : Outcome::done;
        if (outcomes[q] != Outcome::done) continue;
        stats.candidates += left.rows.size();
        settling.push_back(q);
        remaining.push_back(std::move(left));
    }
    std::vector<Settled> settled = settle(batch, settling, std::move(remaining));
    for (std::size_t i = 0; i < settling.size(); ++i) {
        stats.settled += settled[i].rows;
        results[settling[i]] = std::move(settled[i].hits);
    }
    return outcomes;
}

}  // namespace

void scan_plainly(Matrix rows, const double* squares, Matrix queries, const double* query_squares,
                  Metric metric, const DenseWanted& wanted, std::size_t threads, const Kernels& kernels,
                  const std::vector<std::size_t>& numbers, std::vector<std::vector<Hit>>& results) {
    if (numbers.empty()) return;
    std::vector<float> raw(numbers.size() * queries.dim);
    std::vector<double> own(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::copy_n(queries.data + numbers[i] * queries.dim, queries.dim, &raw[i * queries.dim]);
        own[i] = query_squares[numbers[i]];
    }
    auto found = dense_top_k(rows, squares, {raw.data(), numbers.size(), queries.dim}, own.data(), metric,
                             wanted, threads, kernels);
    for (std::size_t i = 0; i < numbers.size(); ++i) results[numbers[i]] = std::move(found[i]);
}

std::vector<std::vector<Hit>> screened_top_k(Matrix rows, const double* squares, const DenseScreen& screen,
                                             Matrix queries, const double* query_squares, Metric metric,
                                             const DenseWanted& wanted, Heads heads, std::size_t threads,
                                             const Kernels& kernels, DenseStats& stats) {
    const std::size_t k = std::min(wanted.k, rows.rows);
    std::vector<std::vector<Hit>> results(queries.rows);
    if (k == 0) return results;
    std::size_t allowed = 0;
    for (std::size_t panel = 0; panel < screen.panels(); ++panel)
        allowed += static_cast<std::size_t>(std::popcount(wanted.word(panel, rows.rows)));
    const std::size_t affordable = kHeldBytes / (4 * k * 12 * thread_count(threads));
    const std::size_t batch_rows = std::max<std::size_t>(
        1, std::min(std::max(2 * kWideTileQueries, kBatchBytes / (screen.steps() * 4)), affordable));
    for (std::size_t first = 0; first < queries.rows; first += batch_rows) {
        const std::size_t n = std::min(batch_rows, queries.rows - first);
        std::vector<std::size_t> numbers(n);
        for (std::size_t q = 0; q < n; ++q) numbers[q] = first + q;
        for (const bool guess : {true, false}) {  // without it for those that it failed
            if (numbers.empty()) break;
            std::vector<float> raw(numbers.size() * queries.dim);
            std::vector<double> own(numbers.size());
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                std::copy_n(queries.data + numbers[i] * queries.dim, queries.dim, &raw[i * queries.dim]);
                own[i] = query_squares[numbers[i]];
            }
            const Matrix part{raw.data(), numbers.size(), queries.dim};
            const CodedQueries coded(part, own.data(), metric, screen, kernels);
            const ScreenBatch batch{screen, coded,  rows, squares, raw.data(),
                                    metric, wanted, k,    threads, kernels};
            std::vector<std::vector<Hit>> found(numbers.size());
            if (guess && by_heads(screen, heads, n, k, allowed)) {
                const std::vector<std::uint8_t> done = search_heads(batch, found, stats);
                std::vector<std::size_t> others;
                for (std::size_t i = 0; i < n; ++i) {
                    if (done[i] != 0)
                        results[numbers[i]] = std::move(found[i]);
                    else
                        others.push_back(numbers[i]);
                }
                numbers = std::move(others);
                continue;  // to the whole codes, without a guess
            }
            const std::vector<Outcome> outcomes = search_whole(batch, guess, allowed, found, stats);
            std::vector<std::size_t> missed;
            std::vector<std::size_t> plain;
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                if (outcomes[i] == Outcome::missed) missed.push_back(numbers[i]);
                if (outcomes[i] == Outcome::plain) plain.push_back(numbers[i]);
                if (outcomes[i] == Outcome::done) results[numbers[i]] = std::move(found[i]);
            }
            scan_plainly(rows, squares, queries, query_squares, metric, wanted, threads, kernels, plain,
                         results);
            stats.plain += plain.size();
            numbers = std::move(missed);
        }
    }
    return results;
}

}  // namespace gnomon
