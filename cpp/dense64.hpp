// Exact top-k over float64 rows as they lie, in float64 arithmetic in the order of kernels.hpp:
//   cosine  s = dot(q, x) / sqrt(dot(q, q) * dot(x, x)) of q and x times powers of two that bring their
//           greatest component into [1/2, 1), which changes no cosine and lets no square overflow
//   l2      s = -(sum of squared differences)
//
// The screen is dense_screen.hpp's, its codes made of float32 rows that exist a panel at a time: an eighth of
// the rows' memory in all. For cosine the coded row x' is the scaled one rounded to float32, for l2 it is
// (x - c) 2^e rounded, where c is a centre and 2^e brings the greatest distance of a coordinate below 1.
// Rounding moves a vector by at most u = 2^-24 of its length (and the subtraction by 2^-53), so
//   cosine  |cos(q', x') - cos(q, x)| <= the angles between q, q' and x, x' < 4 u
//   l2      ||x' - q'| - |x - q| 2^e| <= u (|x'| + |q'|) 1.01, so the squares differ by at most
//           2.1 u (|x'| + |q'|)^2
// and kRounding = 2^-21 = 8 u covers both as DenseScreen::build counts it. A coded score is the row's times
// 2^(2 e). Subnormal float32 err by 2^-150 at most, which kTiny and kSlack cover beside components near 1.
// A query whose coded components reach 2^40, and rows whose e is beyond 500 (their squares may leave
// float64), have no bounds: they are scanned, as are queries that the bounds do not decide.
#pragma once
#include <memory>
#include <vector>

#include "dense_screen.hpp"

namespace gnomon {

class Dense64 {
  public:
    // `data` [rows, dim] must stay as it is while `owner` is held. `centre` [dim] and `exponent` are c and e
    // of l2. Throws InvalidInput for ip and, naming the row, for one that is not finite.
    Dense64(const double* data, std::size_t rows, std::size_t dim, std::shared_ptr<const void> owner,
            Metric metric, std::vector<double> centre, int exponent, bool screened, std::size_t threads,
            const Kernels& kernels);

    std::size_t rows() const { return rows_; }
    std::size_t dim() const { return dim_; }
    std::size_t screen_bytes() const { return screen_.bytes(); }

    // For each of n queries [n, dim] the wanted rows, best first. Throws InvalidInput for a query that is not
    // finite.
    std::vector<std::vector<Hit>> search(const double* queries, std::size_t n, const DenseWanted& wanted,
                                         std::size_t threads, const Kernels& kernels) const;

  private:
    class Asked;
    const double* row(std::size_t number) const { return data_ + number * dim_; }
    void near(const double* values, float* out) const;

    const double* data_;
    std::size_t rows_;
    std::size_t dim_;
    std::shared_ptr<const void> owner_;
    Metric metric_;
    std::vector<double> centre_;
    int exponent_;
    std::vector<double> factors_;       // cosine: of each row; 0 for one that takes two multiplications
    std::vector<double> squares_;       // cosine: of each scaled row
    std::vector<double> near_squares_;  // of the coded rows
    DenseScreen screen_;
};

}  // namespace gnomon
