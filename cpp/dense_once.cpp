#include "dense_once.hpp"

#include <algorithm>
#include <cmath>

#include "dense_screen.hpp"

namespace gnomon {
namespace {

// From so many queries and rows on codes pay for themselves, unless so large a share of the rows is wanted.
constexpr std::size_t kManyQueries = 12;
constexpr std::size_t kManyRows = 4096;
constexpr std::size_t kLargeShare = 4;

}  // namespace

std::vector<std::vector<Hit>> once_top_k(Matrix rows, Matrix queries, Metric metric, OnZero on_zero,
                                         std::size_t k, std::size_t threads, const Kernels& kernels) {
    const std::vector<double> own = squares_of(queries, threads, kernels);
    const bool finite = std::all_of(own.begin(), own.end(), [](double x) { return std::isfinite(x); });
    const bool some = k > 0 && rows.rows > 0 && queries.rows > 0 && rows.rows < UINT32_MAX;
    if (finite && some && rows.dim == queries.dim) {
        std::vector<double> squares(rows.rows);
        std::vector<std::vector<Hit>> results;
        bool found = false;
        if (queries.rows >= kManyQueries && rows.rows >= kManyRows && k < rows.rows / kLargeShare &&
            DenseScreen::worthwhile(rows.rows, rows.dim)) {
            try {
                results =
                    streamed_top_k(rows, squares.data(), queries, own.data(), metric, {k}, threads, kernels);
                found = true;
            } catch (const DenseScreen::Unfit&) {  // rows or queries that no bound holds for
            }
        }
        found = found || dense_top_k_once(rows, squares.data(), queries, own.data(), metric, {k}, threads,
                                          kernels, results);
        if (found) {
            check_squares(squares, "documents", metric, on_zero);
            check_squares(own, "query", metric, on_zero);
            return results;
        }
    }
    const std::vector<double> squares = checked_squares(rows, "documents", metric, on_zero, threads, kernels);
    check_squares(own, "query", metric, on_zero);
    return dense_top_k(rows, squares.data(), queries, own.data(), metric, {k}, threads, kernels);
}

}  // namespace gnomon
