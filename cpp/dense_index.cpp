#include "dense_index.hpp"

#include <cmath>
#include <string>

#include "error.hpp"

namespace gnomon {

ScreenUse screen_use_named(std::string_view name) {
    if (name == "auto") return ScreenUse::automatic;
    if (name == "int8") return ScreenUse::whole;
    if (name == "head") return ScreenUse::heads;
    if (name == "none") return ScreenUse::never;
    throw InvalidInput("screen must be 'auto', 'int8', 'head' or 'none', got '" + std::string(name) + "'");
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
    if (!insist && (with_screen == ScreenUse::never || !DenseScreen::worthwhile(rows_, dim_))) return;
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
    // Settling k rows and more costs as much as scanning some times as many, in batches that share a pass
    // more.
    const std::size_t share = queries.rows < kTileQueries ? 3 : 8;
    const bool screened = use == ScreenUse::automatic ? wanted.k <= rows_ / share : use != ScreenUse::never;
    if (screened && !screen_.empty()) {
        const Heads heads = use == ScreenUse::heads   ? Heads::always
                            : use == ScreenUse::whole ? Heads::never
                                                      : Heads::automatic;
        return screened_top_k(matrix(), squares_.data(), screen_, queries, squares.data(), metric_, wanted,
                              heads, threads, kernels, stats);
    }
    stats.plain += queries.rows;
    return dense_top_k(matrix(), squares_.data(), queries, squares.data(), metric_, wanted, threads, kernels);
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
