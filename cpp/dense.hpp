// Exact dense top-k over float32 rows, in the canonical float64 arithmetic of kernels.hpp:
//   cosine  s = dot(q, x) / sqrt(dot(q, q) * dot(x, x)), clipped to [-1, 1]; 0.0 if q or x is zero
//   ip      s = dot(q, x)
//   l2      s = -(sum of squared differences), so that higher is better everywhere
// sqrt(s * s) == s exactly, so equal rows score exactly 1.0; the squares of float32 rows can neither
// underflow nor overflow in float64 (2e-90 to 1e82), so no epsilon is needed and tiny rows keep their
// direction.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cpu.hpp"
#include "order.hpp"
#include "storage.hpp"

namespace gnomon {

enum class Metric : std::uint64_t { cosine = 1, ip = 2, l2 = 3 };

// Throws InvalidInput listing the known names.
Metric metric_named(std::string_view name);
std::string_view metric_name(Metric metric);

enum class OnZero { score_zero, refuse };

// Row-major float32, not owned.
struct Matrix {
    const float* data;
    std::size_t rows;
    std::size_t dim;
};

// Rows picked by id lie anywhere: asked for while others are scored, they cost half (110 against 56 us for a
// query's thousand rows).
inline void prefetch_rows(Matrix matrix, std::span<const std::uint32_t> rows) {
    for (const std::uint32_t row : rows) {
        const char* const first = reinterpret_cast<const char*>(matrix.data + row * matrix.dim);
        for (std::size_t byte = 0; byte < matrix.dim * sizeof(float); byte += 64)
            __builtin_prefetch(first + byte);
    }
}

// The canonical square of every row.
std::vector<double> squares_of(Matrix matrix, std::size_t threads, const Kernels& kernels);

// squares_of(), checked. Throws InvalidInput naming `what` and the first row that is not finite, or, for
// cosine with OnZero::refuse, the first that is zero.
std::vector<double> checked_squares(Matrix matrix, const char* what, Metric metric, OnZero on_zero,
                                    std::size_t threads, const Kernels& kernels);

// Dots (or, for l2, sums of squared differences) -> scores, in place; squares[i] belongs to scores[i].
void finish_scores(Metric metric, double query_square, const double* squares, std::size_t n,
                   const Kernels& kernels, double* scores);

// What a search asks for: the best k rows among those that are allowed and score at least min_score.
struct DenseWanted {
    std::size_t k;
    double min_score = -std::numeric_limits<double>::infinity();
    const std::uint64_t* allowed = nullptr;  // bit i % 64 of word i / 64 for row i; null allows all

    std::uint64_t word(std::size_t panel, std::size_t rows) const {
        const std::size_t left = rows - panel * 64;
        const std::uint64_t real = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
        return allowed != nullptr ? allowed[panel] & real : real;
    }
};

// Vectors were checked when they came in, so a score is a number. This throws the CorruptIndex for one that
// is not, which a damaged file or a writer to the caller's memory can make.
[[noreturn]] void throw_not_a_number();

// checked_squares()' checks of squares that are there.
void check_squares(std::span<const double> squares, const char* what, Metric metric, OnZero on_zero);

// dense_top_k() of rows whose squares are not known: they are made, and written, while a block of rows is in
// a cache, so memory is read once. Says whether all are finite; what is found is nothing if not.
bool dense_top_k_once(Matrix rows, double* squares, Matrix queries, const double* query_squares,
                      Metric metric, const DenseWanted& wanted, std::size_t threads, const Kernels& kernels,
                      std::vector<std::vector<Hit>>& results);

// For each query the wanted rows, best first. `squares` belong to `rows`. Throws CorruptIndex when a score is
// NaN, which rows that passed checked_squares() cannot give.
std::vector<std::vector<Hit>> dense_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric,
                                          const DenseWanted& wanted, std::size_t threads,
                                          const Kernels& kernels);

}  // namespace gnomon
