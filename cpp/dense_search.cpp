// Screen, then settle: the search of dense_screen.hpp.
//
// Rotated rows are read in one of three ways, by the batch: heads in two passes (dense_head.cpp); heads in
// one pass, where the tails of rows that the threshold so far lets pass are asked for and added a little
// later; or whole panels, untangled for the tiles of many queries.
//
// A large k starts from a guess: the score of the right rank among sampled panels, a little lower. Were it
// too high, fewer than k rows would be proved to reach it; that is seen at the end, and the query is screened
// again without it. A guess that holds spares most of the candidates that a threshold on its way up lets
// pass.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>

#include "dense_batch.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kRangePanels = 64;        // panels that one thread takes at a time: 4,096 rows
constexpr std::size_t kMadePanels = 16;         // that are made when a scan comes to them, for a cache
constexpr std::size_t kBatchBytes = 400 << 10;  // codes of the queries that share a pass: they stay in L2
constexpr std::size_t kStreamedQueries = 1024;
constexpr std::size_t kHeldBytes = std::size_t{256} << 20;  // for candidates of one batch
constexpr std::size_t kGuessK = 256;                        // from this k on a guess is worth its sample
constexpr double kGuessRank = 64.0;                         // rank of the guess within the sample
constexpr std::size_t kHeadK = 32;                          // a larger k leaves more rows than heads spare
constexpr std::size_t kSumBytes = 6 << 20;                  // of a batch's sums, which stay in a cache
constexpr std::size_t kCachedCodes = 128 << 20;             // more are read from memory
constexpr std::size_t kTwice = 2;  // queries that read heads in two passes, where heads were asked for
constexpr std::size_t kFewQueries = 16;
constexpr std::size_t kManyQueries = 64;
constexpr std::size_t kPendings = 48;  // whose tails are on their way

// The widest tile's sums and masks.
struct TileSums {
    alignas(64) std::int32_t sums[kWideTileQueries * kPanelRows];
    std::int32_t limits[kWideTileQueries];
    std::uint64_t masks[kWideTileQueries];
    std::vector<std::uint8_t> untangled;  // the panel of the latest sums, where rows are rotated

    std::uint8_t* codes() {  // on a border of 64 bytes
        return untangled.data() + (64 - reinterpret_cast<std::uintptr_t>(untangled.data()) % 64) % 64;
    }
};

// Rows that a head could not exclude, with their sums, until their tails have arrived.
struct Pending {
    std::size_t panel, q;
    std::uint64_t mask;
    std::int32_t sums[kPanelRows];
};

struct Worker {
    std::vector<Candidates> found;
    std::vector<double> needed;  // by query: its threshold on v.y
    Selection selection{};
    std::vector<Pending> pending{};
};

using Thresholds = std::vector<std::atomic<float>>;  // relaxed: a late one costs time only

// `first`: of the tiles that take this panel.
void sums_of(const ScreenBatch& batch, std::size_t panel, std::size_t tile, std::size_t n, bool first,
             TileSums& out) {
    const std::size_t q0 = tile * batch.queries.tile_queries;
    const std::uint8_t* codes = batch.screen.panel(panel);
    ScreenShape shape = shape_of(batch, Extent::whole, tile);
    if (shape.head != 0) {
        if (first) {
            out.untangled.resize(shape.steps * kPanelRows * 4 + 64);
            batch.kernels.screen_untangle(codes, shape.head, shape.steps, out.codes());
        }
        codes = out.codes();
        shape.ahead = false;
    }
    batch.kernels.dense_screen(codes, batch.queries.tile(tile), shape, batch.queries.init.data() + q0,
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
    const double* const squares =
        batch.metric == Metric::l2 ? batch.squares + (batch.base + panel) * kPanelRows : nullptr;
    const std::size_t n = batch.kernels.screen_take(
        sums, mask, take_bounds(batch, q, panel, Extent::whole, false), batch.screen.residuals(panel),
        nullptr, squares, static_cast<std::uint32_t>((batch.base + panel) * kPanelRows), found.lower_end(),
        found.upper_end(), found.rows_end());
    if (!found.grow(found.reaching(n), worker.selection)) return;
    worker.needed[q] = limit_of(batch, q, found);
    publish(thresholds[q], found.threshold());
}

// Adds the tails of pending rows to their sums.
void add_tails(const ScreenBatch& batch, Worker& worker, Thresholds& thresholds) {
    const std::size_t bytes = batch.screen.tail_bytes();
    for (Pending& rows : worker.pending) {
        if (worker.found[rows.q].gave_up()) continue;
        batch.kernels.screen_tails(batch.screen.tail_codes(rows.panel), bytes, rows.mask,
                                   batch.queries.tails.data() + rows.q * bytes,
                                   batch.screen.rotation().shift(), batch.queries.init_tail[rows.q],
                                   rows.sums);
        take(batch, rows.q, rows.panel, rows.mask, rows.sums, worker, thresholds);
    }
    worker.pending.clear();
}

// Rows that the panel's bounds by the head let pass: those that their own bounds do as well wait for their
// tails.
void wait_for_tails(const ScreenBatch& batch, std::size_t q, std::size_t panel, std::uint64_t mask,
                    const std::int32_t* sums, Worker& worker, Thresholds& thresholds) {
    mask = reach_by_head(batch, q, panel, mask, sums, worker.found[q].threshold());
    if (mask == 0) return;
    prefetch_tails(batch.screen, panel, mask);
    worker.pending.push_back({panel, q, mask, {}});
    std::copy_n(sums, kPanelRows, worker.pending.back().sums);
    if (worker.pending.size() >= kPendings) add_tails(batch, worker, thresholds);
}

void scan_panels(const ScreenBatch& batch, Extent extent, std::size_t first, std::size_t last, Worker& worker,
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
        const std::uint64_t real = batch.wanted.word(batch.base + panel, batch.rows.rows);
        if (real == 0) continue;
        const PanelLimits share = panel_limits(batch, panel, extent, false);
        for (std::size_t tile = 0; tile < batch.queries.tiles(); ++tile) {
            const std::size_t q0 = tile * width;
            const std::size_t n = std::min(width, batch.n() - q0);
            batch.kernels.screen_limits(share, query_limits(batch, worker.needed.data(), q0), n,
                                        tile_sums.limits);
            if (extent == Extent::whole)
                sums_of(batch, panel, tile, n, tile == 0, tile_sums);
            else
                batch.kernels.dense_screen(batch.screen.panel(panel), batch.queries.tile(tile),
                                           shape_of(batch, extent, tile), batch.queries.init_head.data() + q0,
                                           tile_sums.limits, n, tile_sums.sums, tile_sums.masks);
            for (std::size_t q = 0; q < n; ++q)
                if ((tile_sums.masks[q] & real) != 0)
                    (extent == Extent::whole ? take : wait_for_tails)(
                        batch, q0 + q, panel, tile_sums.masks[q] & real, tile_sums.sums + q * kPanelRows,
                        worker, thresholds);
        }
    }
    add_tails(batch, worker, thresholds);
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
            sums_of(batch, panel, tile, n, true, tile_sums);
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

// Which way pays (milliseconds, 384 dims on a Zen 5, head of 192; two passes, one pass, untangled panels):
//   100,000 rows: 1 query 0.43, 0.60, 1.57; 10 queries 1.5, 2.0, 2.4; 100 queries -, 16, 11
//   1,000,000 rows: 1 query 8.9, 9.3, 18.5; 10 queries 38, 15, 26; 100 queries -, 99, 101
enum class Reading : std::uint8_t { twice, once, whole };

Reading reading_of(const DenseScreen& screen, Heads heads, std::size_t queries, std::size_t k,
                   std::size_t allowed) {
    if (screen.rotation().empty() || heads == Heads::never) return Reading::whole;
    if (heads == Heads::always) return queries <= kTwice ? Reading::twice : Reading::once;
    if (k > kHeadK || k * 256 > allowed) return Reading::whole;
    if (queries * screen.panels() * kPanelRows * sizeof(std::int32_t) <= kSumBytes) return Reading::twice;
    const bool memory_bound = screen.panels() * screen.steps() * kPanelRows * 4 > kCachedCodes;
    return queries <= (memory_bound ? kManyQueries : kFewQueries) ? Reading::once : Reading::whole;
}

enum class Outcome : std::uint8_t { done, plain, missed };

// The codes of some rows, made when a scan comes to them; their squares are written.
using MakeScreen = std::function<DenseScreen(std::size_t first, std::size_t n)>;

// One pass over the codes, or first over their heads, for the batch. With `make` the batch's screen is shaped
// only.
std::vector<Outcome> search_whole(const ScreenBatch& batch, Extent extent, bool guess, std::size_t allowed,
                                  std::vector<std::vector<Hit>>& results, DenseStats& stats,
                                  const MakeScreen& make = nullptr) {
    const std::size_t n = batch.n();
    const std::size_t panels = (batch.rows.rows + kPanelRows - 1) / kPanelRows;
    const std::size_t each = make == nullptr ? kRangePanels : kMadePanels;
    const std::size_t ranges = (panels + each - 1) / each;
    const std::size_t threads = std::min(thread_count(batch.threads), ranges);
    const std::size_t most =
        std::max(batch.k > batch.rows.rows / 16 ? batch.rows.rows : 8 * batch.k + 1024, batch.rows.rows / 8);
    const float floor = float_below(batch.coded(batch.wanted.min_score));
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
        const std::size_t start = range * each;
        const std::size_t end = std::min(start + each, panels);
        if (make == nullptr) {
            scan_panels(batch, extent, start, end, workers[worker], thresholds);
            return;
        }
        const std::size_t first = start * kPanelRows;
        const DenseScreen screen = make(first, std::min(end * kPanelRows, batch.rows.rows) - first);
        const ScreenBatch part{screen,       batch.queries, batch.rows, batch.squares, batch.raw,
                               batch.metric, batch.wanted,  batch.k,    batch.threads, batch.kernels,
                               nullptr,      nullptr,       start};
        scan_panels(part, extent, 0, end - start, workers[worker], thresholds);
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
        stats.heads += extent == Extent::head ? 1 : 0;
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
                                             const Kernels& kernels, DenseStats& stats,
                                             const ExactRows* exact) {
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
            const ScreenBatch batch{screen, coded, rows,    squares, raw.data(), metric,
                                    wanted, k,     threads, kernels, exact,      numbers.data()};
            std::vector<std::vector<Hit>> found(numbers.size());
            const Reading reading = reading_of(screen, heads, n, k, allowed);
            if (guess && reading == Reading::twice) {
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
            const Extent extent = reading == Reading::once ? Extent::head : Extent::whole;
            const std::vector<Outcome> outcomes = search_whole(batch, extent, guess, allowed, found, stats);
            std::vector<std::size_t> missed;
            std::vector<std::size_t> plain;
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                if (outcomes[i] == Outcome::missed) missed.push_back(numbers[i]);
                if (outcomes[i] == Outcome::plain) plain.push_back(numbers[i]);
                if (outcomes[i] == Outcome::done) results[numbers[i]] = std::move(found[i]);
            }
            if (exact != nullptr)
                exact->scan(plain, results);
            else
                scan_plainly(rows, squares, queries, query_squares, metric, wanted, threads, kernels, plain,
                             results);
            stats.plain += plain.size();
            numbers = std::move(missed);
        }
    }
    return results;
}

std::vector<std::vector<Hit>> streamed_top_k(Matrix rows, double* squares, Matrix queries,
                                             const double* query_squares, Metric metric,
                                             const DenseWanted& wanted, std::size_t threads,
                                             const Kernels& kernels) {
    constexpr double kMost = 1e36;  // as of rows: then representable() holds whatever rows come
    for (std::size_t q = 0; q < queries.rows; ++q)
        if (!(query_squares[q] <= kMost)) throw DenseScreen::Unfit();
    std::vector<std::vector<Hit>> results(queries.rows);
    const std::size_t k = std::min(wanted.k, rows.rows);
    const MakeScreen make = [&](std::size_t first, std::size_t n) {
        return DenseScreen::quick({rows.data + first * rows.dim, n, rows.dim}, metric, squares + first,
                                  kernels);
    };
    const DenseScreen shape = DenseScreen::shaped(rows.dim);
    DenseStats stats;
    for (std::size_t first = 0; first < queries.rows; first += kStreamedQueries) {
        const std::size_t n = std::min(kStreamedQueries, queries.rows - first);
        const Matrix part{queries.data + first * queries.dim, n, queries.dim};
        const CodedQueries coded(part, query_squares + first, metric, shape, kernels);
        const ScreenBatch batch{shape, coded, rows, squares, part.data, metric, wanted, k, threads, kernels};
        std::vector<std::vector<Hit>> found(n);
        const std::vector<Outcome> outcomes =
            search_whole(batch, Extent::whole, false, rows.rows, found, stats, make);
        std::vector<std::size_t> plain;
        for (std::size_t q = 0; q < n; ++q) {
            if (outcomes[q] == Outcome::done)
                results[first + q] = std::move(found[q]);
            else
                plain.push_back(first + q);
        }
        scan_plainly(rows, squares, queries, query_squares, metric, wanted, threads, kernels, plain, results);
    }
    return results;
}

}  // namespace gnomon
