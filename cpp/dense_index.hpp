// A matrix with its squares and, where it pays, its int8 screen; in memory or mapped. Sections: "counts" u64
// {rows, dim, metric}, "vectors" f32, "squares" f64, and those of dense_screen.hpp.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "dense.hpp"
#include "dense_planner.hpp"
#include "dense_screen.hpp"

namespace gnomon {

// `automatic` goes the way that pays, measured where that is not plain (dense_planner.hpp), and reads heads
// where they pay; `whole` reads whole codes, `heads` heads first and `floats` the vectors in float32; the
// answers are equal.
enum class ScreenUse { automatic, whole, heads, floats, never };

// Throws InvalidInput listing the known names.
ScreenUse screen_use_named(std::string_view name);

class DenseIndex {
  public:
    // with_screen: `automatic` builds one where it is worthwhile, with a rotation where that is; `whole`
    // insists on one without, `heads` on one with a rotation; `floats` needs none.
    DenseIndex(Column<float> vectors, std::size_t rows, std::size_t dim, Metric metric, OnZero on_zero,
               ScreenUse with_screen, std::size_t threads, const Kernels& kernels);

    Matrix matrix() const { return {vectors_.data(), rows_, dim_}; }
    void ensure_vectors() const { vectors_.ensure_all(); }
    Metric metric() const { return metric_; }
    std::size_t screen_bytes() const { return screen_.bytes(); }
    std::size_t head_dims() const { return screen_.rotation().head; }
    std::vector<std::vector<Hit>> search(Matrix queries, const DenseWanted& wanted, OnZero on_zero,
                                         ScreenUse use, std::size_t threads, const Kernels& kernels,
                                         DenseStats& stats) const;

    void write(ContainerWriter& writer) const;
    static std::shared_ptr<const DenseIndex> open(const Container& container);
    // Recomputes squares and screen on top of the container's checksums; the first search does the squares.
    void verify() const;

  private:
    DenseIndex() = default;
    void build_screen(ScreenUse with_screen, std::size_t threads, const Kernels& kernels);
    void check(std::size_t threads, const Kernels& kernels) const;
    bool contested(const DenseWanted& wanted) const;
    std::vector<std::vector<Hit>> go(Way way, Heads heads, Matrix queries, const double* squares,
                                     const DenseWanted& wanted, std::size_t threads, const Kernels& kernels,
                                     DenseStats& stats) const;
    std::vector<std::vector<Hit>> by_measure(Matrix queries, const double* squares, const DenseWanted& wanted,
                                             std::size_t threads, const Kernels& kernels,
                                             DenseStats& stats) const;
    std::size_t rows_ = 0;
    std::size_t dim_ = 0;
    Metric metric_ = Metric::cosine;
    Column<float> vectors_;
    Column<double> squares_;
    DenseScreen screen_;
    DensePlanner planner_;
    mutable std::atomic<bool> checked_{false};
    mutable std::atomic<bool> undecided_{false};  // the int8 bounds left a query to the plain scan
};

}  // namespace gnomon
