// A matrix with its squares and, where it pays, its int8 screen; in memory or mapped. Sections: "counts" u64
// {rows, dim, metric}, "vectors" f32, "squares" f64, and those of dense_screen.hpp.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "dense.hpp"
#include "dense_screen.hpp"

namespace gnomon {

// `automatic` uses the screen where it was built and k is small against the rows; the answers are equal.
enum class ScreenUse { automatic, always, never };

// Throws InvalidInput listing the known names.
ScreenUse screen_use_named(std::string_view name);

class DenseIndex {
  public:
    // with_screen: `automatic` builds one where it is worthwhile, `always` insists.
    DenseIndex(Column<float> vectors, std::size_t rows, std::size_t dim, Metric metric, OnZero on_zero,
               ScreenUse with_screen, std::size_t threads, const Kernels& kernels);

    Matrix matrix() const { return {vectors_.data(), rows_, dim_}; }
    Metric metric() const { return metric_; }
    std::size_t screen_bytes() const { return screen_.bytes(); }
    std::vector<std::vector<Hit>> search(Matrix queries, const DenseWanted& wanted, OnZero on_zero,
                                         ScreenUse use, std::size_t threads, const Kernels& kernels,
                                         DenseStats& stats) const;

    void write(ContainerWriter& writer) const;
    static std::shared_ptr<const DenseIndex> open(const Container& container);
    // Recomputes squares and screen on top of the container's checksums; the first search does the squares.
    void verify() const;

  private:
    DenseIndex() = default;
    void check(std::size_t threads, const Kernels& kernels) const;
    std::size_t rows_ = 0;
    std::size_t dim_ = 0;
    Metric metric_ = Metric::cosine;
    Column<float> vectors_;
    Column<double> squares_;
    DenseScreen screen_;
    mutable std::atomic<bool> checked_{false};
};

}  // namespace gnomon
