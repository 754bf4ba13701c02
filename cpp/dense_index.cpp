#include "dense_index.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <string>

#include "dense_float.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

// What this thread has worked: other programs on a busy machine would decide what a clock on the wall says.
// Helpers of a search work as long as it does.
std::uint64_t own_nanoseconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
    timespec time{};
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0)
        return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
               static_cast<std::uint64_t>(time.tv_nsec);
#endif
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

}  // namespace

ScreenUse screen_use_named(std::string_view name) {
    if (name == "auto") return ScreenUse::automatic;
    if (name == "int8") return ScreenUse::whole;
    if (name == "head") return ScreenUse::heads;
    if (name == "float32") return ScreenUse::floats;
    if (name == "none") return ScreenUse::never;
    throw InvalidInput("screen must be 'auto', 'int8', 'head', 'float32' or 'none', got '" +
                       std::string(name) + "'");
}

DenseIndex::DenseIndex(Column<float> vectors, std::size_t rows, std::size_t dim, Metric metric,
                       OnZero on_zero, ScreenUse with_screen, std::size_t threads, const Kernels& kernels)
    : rows_(rows), dim_(dim), metric_(metric), vectors_(std::move(vectors)) {
    squares_ = Column<double>::of(checked_squares(matrix(), "vectors", metric, on_zero, threads, kernels));
    build_screen(with_screen, threads, kernels);
    checked_.store(true, std::memory_order_release);
}

void DenseIndex::build_screen(ScreenUse with_screen, std::size_t threads, const Kernels& kernels) {
    const bool insist = with_screen == ScreenUse::whole || with_screen == ScreenUse::heads;
    if (insist && !DenseScreen::possible(dim_))
        throw InvalidInput("a screen takes 1 to " + std::to_string(kScreenDims) + " dimensions, got " +
                           std::to_string(dim_) + "; use screen='none'");
    const bool without = with_screen == ScreenUse::never || with_screen == ScreenUse::floats;
    if (!insist && (without || !DenseScreen::worthwhile(rows_, dim_))) return;
    Rotation rotation;
    if (with_screen != ScreenUse::whole)
        rotation = choose_rotation(matrix(), squares_.data(), metric_, with_screen == ScreenUse::heads,
                                   threads, kernels);
    screen_ = DenseScreen::build(matrix(), squares_.data(), metric_, rotation, threads, kernels);
}

std::vector<std::vector<Hit>> DenseIndex::search(Matrix queries, const DenseWanted& wanted, OnZero on_zero,
                                                 ScreenUse use, std::size_t threads, const Kernels& kernels,
                                                 DenseStats& stats) const {
    if (queries.dim != dim_)
        throw InvalidInput("queries have " + std::to_string(queries.dim) +
                           " dimensions but the vectors have " + std::to_string(dim_));
    check(threads, kernels);
    const std::vector<double> squares =
        checked_squares(queries, "queries", metric_, on_zero, threads, kernels);
    if (use == ScreenUse::whole && screen_.empty())
        throw InvalidInput(
            "screen 'int8' was asked for, but this index has none: it was built without one, is "
            "empty, or its vectors are too near the end of float32; use screen='auto'");
    if (use == ScreenUse::heads && (screen_.empty() || screen_.rotation().empty()))
        throw InvalidInput(
            "screen 'head' was asked for, but this index has none: heads are made for 128 to 1,024 "
            "dimensions "
            "when screen='head' is given to build(), or where 'auto' finds that they pay; use screen='auto'");
    if (use == ScreenUse::automatic && contested(wanted))
        return by_measure(queries, squares.data(), wanted, threads, kernels, stats);
    const Way way = use == ScreenUse::never || (use == ScreenUse::automatic && screen_.empty()) ? Way::plain
                    : use == ScreenUse::floats                                                  ? Way::floats
                    : wanted.k >= rows_ && use == ScreenUse::automatic                          ? Way::plain
                                                                                                : Way::screen;
    const Heads heads = use == ScreenUse::heads   ? Heads::always
                        : use == ScreenUse::whole ? Heads::never
                                                  : Heads::automatic;
    return go(way, heads, queries, squares.data(), wanted, threads, kernels, stats);
}

// Whether it is open what costs least: few rows, whose scan costs little; a k that settles many of them; or
// no int8 screen. A filter changes what each way costs from one search to the next: it is left out.
bool DenseIndex::contested(const DenseWanted& wanted) const {
    constexpr std::size_t kFewRows = 32768;
    if (wanted.allowed != nullptr || wanted.k == 0 || wanted.k >= rows_ || rows_ < 512) return false;
    return screen_.empty() || rows_ <= kFewRows || wanted.k > rows_ / 64 || undecided_.load();
}

std::vector<std::vector<Hit>> DenseIndex::go(Way way, Heads heads, Matrix queries, const double* squares,
                                             const DenseWanted& wanted, std::size_t threads,
                                             const Kernels& kernels, DenseStats& stats) const {
    if (way == Way::floats)
        return float_top_k(matrix(), squares_.data(), queries, squares, metric_, wanted, threads, kernels,
                           stats);
    if (way == Way::plain) {
        stats.plain += queries.rows;
        return dense_top_k(matrix(), squares_.data(), queries, squares, metric_, wanted, threads, kernels);
    }
    const std::uint64_t before = stats.plain;
    auto results = screened_top_k(matrix(), squares_.data(), screen_, queries, squares, metric_, wanted,
                                  heads, threads, kernels, stats);
    // Bounds that left queries to the plain scan: from now on the ways are measured.
    if (stats.plain > before) undecided_.store(true, std::memory_order_relaxed);
    return results;
}

std::vector<std::vector<Hit>> DenseIndex::by_measure(Matrix queries, const double* squares,
                                                     const DenseWanted& wanted, std::size_t threads,
                                                     const Kernels& kernels, DenseStats& stats) const {
    std::vector<std::vector<Hit>> results;
    results.reserve(queries.rows);
    for (std::size_t first = 0; first < queries.rows;) {
        const DensePlanner::Next next = planner_.next(wanted.k, queries.rows, !screen_.empty());
        if (!next.trial && first == 0)
            return go(next.way, Heads::automatic, queries, squares, wanted, threads, kernels, stats);
        const std::size_t left = queries.rows - first;
        const std::size_t n = next.trial ? std::min(left, DensePlanner::kTrial) : left;
        const std::uint64_t start = next.trial ? own_nanoseconds() : 0;
        auto found = go(next.way, Heads::automatic, {queries.data + first * dim_, n, dim_}, squares + first,
                        wanted, threads, kernels, stats);
        if (next.trial) planner_.record(wanted.k, queries.rows, next.way, (own_nanoseconds() - start) / n);
        std::move(found.begin(), found.end(), std::back_inserter(results));
        first += n;
    }
    return results;
}

// Squares that are not those of the vectors would bend cosines, and vectors that are not finite have no
// ranking: neither reaches a search. Two threads may both check; the outcome is the same.
void DenseIndex::check(std::size_t threads, const Kernels& kernels) const {
    if (checked_.load(std::memory_order_acquire)) return;
    vectors_.ensure_all();
    squares_.ensure_all();
    screen_.ensure_all();
    const std::vector<double> squares = squares_of(matrix(), threads, kernels);
    for (std::size_t row = 0; row < rows_; ++row) {
        const bool finite = std::isfinite(squares[row]);
        if (finite && squares[row] == squares_.data()[row]) continue;
        throw CorruptIndex("dense: row " + std::to_string(row) +
                           (finite ? " has a stored square that is not that of its vector"
                                   : " holds a value that is infinite or not a number") +
                           "; build the index again or restore the file");
    }
    checked_.store(true, std::memory_order_release);
}

void DenseIndex::write(ContainerWriter& writer) const {
    // Damaged blocks must not get new, matching checksums in the copy.
    vectors_.ensure_all();
    squares_.ensure_all();
    screen_.ensure_all();
    const std::uint64_t counts[] = {rows_, dim_, static_cast<std::uint64_t>(metric_)};
    writer.section("counts", std::span<const std::uint64_t>(counts));
    writer.section("vectors", vectors_.span());
    writer.section("squares", squares_.span());
    if (!screen_.empty()) screen_.write(writer);
}

std::shared_ptr<const DenseIndex> DenseIndex::open(const Container& container) {
    std::shared_ptr<DenseIndex> index(new DenseIndex());
    const Column<std::uint64_t> counts = container.column<std::uint64_t>("counts");
    counts.ensure_all();
    index->vectors_ = container.column<float>("vectors");
    index->squares_ = container.column<double>("squares");
    const bool fits = counts.size() == 3 && counts.data()[0] == index->squares_.size() &&
                      counts.data()[0] < UINT32_MAX && counts.data()[2] >= 1 && counts.data()[2] <= 3;
    // Division instead of multiplication: rows * dim of a hostile file may overflow.
    if (!fits || (counts.data()[0] == 0 ? index->vectors_.size() != 0
                                        : (index->vectors_.size() % counts.data()[0] != 0 ||
                                           index->vectors_.size() / counts.data()[0] != counts.data()[1])))
        throw CorruptIndex(container.path() + ": the counts do not agree with the sections");
    index->rows_ = counts.data()[0];
    index->dim_ = counts.data()[1];
    index->metric_ = static_cast<Metric>(counts.data()[2]);
    if (container.has("screen.codes"))
        index->screen_ = DenseScreen::open(container, index->rows_, index->dim_);
    return index;
}

// The screen stands behind its checksums until then: coding the rows again takes as long as building it.
void DenseIndex::verify() const {
    check(0, kernels_named("scalar"));
    if (!screen_.empty() && !screen_.equals(DenseScreen::build(matrix(), squares_.data(), metric_,
                                                               screen_.rotation(), 0, default_kernels())))
        throw CorruptIndex("dense: the stored screen is not that of the vectors; build the index again");
}

}  // namespace gnomon
