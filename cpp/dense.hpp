// Exact dense top-k over float32 rows, in the canonical float64 arithmetic of kernels.hpp:
//   cosine  s = dot(q, x) / sqrt(dot(q, q) * dot(x, x)), clipped to [-1, 1]; 0.0 if q or x is zero
//   ip      s = dot(q, x)
//   l2      s = -(sum of squared differences), so that higher is better everywhere
// sqrt(s * s) == s exactly, so equal rows score exactly 1.0; the squares of float32 rows can neither
// underflow nor overflow in float64 (2e-90 to 1e82), so no epsilon is needed and tiny rows keep their
// direction.
#pragma once
#include <cstddef>
#include <cstdint>
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

// Squares of all rows. Throws InvalidInput naming `what` and the first row that is not finite, or, for cosine
// with OnZero::refuse, the first that is zero.
std::vector<double> checked_squares(Matrix matrix, const char* what, Metric metric, OnZero on_zero,
                                    std::size_t threads, const Kernels& kernels);

// For each query the best min(k, rows) rows, best first. `squares` belong to `rows`. Throws CorruptIndex when
// a score is NaN, which rows that passed checked_squares() cannot give.
std::vector<std::vector<Hit>> dense_top_k(Matrix rows, const double* squares, Matrix queries,
                                          const double* query_squares, Metric metric, std::size_t k,
                                          std::size_t threads, const Kernels& kernels);

// A matrix with its squares, in memory or mapped. Sections: "counts" u64 {rows, dim, metric}, "vectors" f32,
// "squares" f64.
class DenseIndex {
  public:
    DenseIndex(Column<float> vectors, std::size_t rows, std::size_t dim, Metric metric, OnZero on_zero,
               std::size_t threads, const Kernels& kernels);

    Matrix matrix() const { return {vectors_.data(), rows_, dim_}; }
    Metric metric() const { return metric_; }
    std::vector<std::vector<Hit>> search(Matrix queries, std::size_t k, OnZero on_zero, std::size_t threads,
                                         const Kernels& kernels) const;

    void write(ContainerWriter& writer) const;
    static std::shared_ptr<const DenseIndex> open(const Container& container);
    // Recomputes every square on top of the container's checksums.
    void verify() const;

  private:
    DenseIndex() = default;
    std::size_t rows_ = 0;
    std::size_t dim_ = 0;
    Metric metric_ = Metric::cosine;
    Column<float> vectors_;
    Column<double> squares_;
};

}  // namespace gnomon
