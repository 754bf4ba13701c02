// The int8 screen of a dense index: which rows can be among the best k, decided in exact integer arithmetic.
//
// Rows are coded in panels of 64. For a row y (x / |x| for cosine, x itself otherwise) of a panel with scale
// a,
//   y = a c + r,   c = round(y / a) in [-127, 127]^D,
// and |r| is stored, rounded up. A query v (q / |q|, or q) is coded alone: v = b d + t. Then
//   v.y = (b d + t).(a c + r) = a b (d.c) + v.r + t.(y - r),  so
//   |v.y - a b (d.c)| <= |v| |r| + |t| (|y| + |r|)            (Cauchy-Schwarz, twice)
// d.c is an integer and equal on every level. Scores follow from v.y: cosine and ip are v.y itself; l2 is
// 2 v.y - |x|^2 - |q|^2. The canonical float64 score differs from the real number by at most (D / 8 + 32)
// 2^-52 of |v| |y|, and of |q|^2 + |x|^2 for l2; kSlack = 1e-9 of the same covers it, and the rounding of the
// bounds themselves, for every dim <= kScreenDims (1e-9 / 2^-52 = 4.5e6). A row is dropped only when its
// upper bound is below the k-th best lower bound seen so far. The others are settled in canonical arithmetic,
// so no answer depends on the screen. About 1.5-5 k rows a query are settled, also on isotropic data; where
// bounds cannot decide (all rows alike), the query is scanned plainly.
//
// Rotated (dense_rotation.hpp): y and v are multiplied by one matrix R first, whose first `head` dims carry
// most of the variance. Then v.y = (Rv).(Ry) up to slack() |v| |y|, which holds R's distance from an
// orthogonal matrix and the rounding of the products. The tail's codes have the scales a 2^-s and b 2^-s, so
//   a b (2^-2s) * (sum over the head * 2^2s + sum over the tail)
// is the whole sum: `shift` is 2s. The head alone bounds a row as well:
//   |v.y - a b (d.c over the head)| <= |v| |r| + |t| (|y| + |r|) + |tail of Rv| |tail of Ry|,
// the last again by Cauchy-Schwarz; one or few queries read the heads only (dense_head.cpp).
//
// Candidates' bounds are computed in float32 from what is rounded outward here; kFloatSlack of every
// magnitude in them covers the dozen float32 roundings (each 2^-24 = 6e-8) of kernels.hpp's screen_take.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dense.hpp"
#include "dense_rotation.hpp"

namespace gnomon {

// 255 * 127 * dims < 2^31: the integer sums cannot overflow.
constexpr std::size_t kScreenDims = 66000;
constexpr double kSlack = 1e-9;
constexpr double kFloatSlack = 1e-6;
constexpr double kFloatMost = 1e37;  // magnitudes beyond it have no float32 bounds: such queries are scanned

// The n rows from `first` on as float32 [n, dim], which may lie in `memory`. It has written their squares to
// where the caller of build() keeps all of them.
using PanelRows = std::function<const float*(std::size_t first, std::size_t n, std::vector<float>& memory)>;

class DenseScreen {
  public:
    DenseScreen() = default;
    static DenseScreen build(Matrix rows, const double* squares, Metric metric, const Rotation& rotation,
                             std::size_t threads, const Kernels& kernels);
    // From rows that are made a panel at a time. `rounding`: how far the real rows and queries may be from
    // the coded ones: scores from them differ by at most rounding |v| |y|, for l2 rounding (|x| + |q|)^2 / 2.
    static DenseScreen build(std::size_t rows, std::size_t dim, const PanelRows& panel, const double* squares,
                             Metric metric, const Rotation& rotation, double rounding, std::size_t threads,
                             const Kernels& kernels);
    // Of dim dimensions and no rows, for queries to be coded for.
    static DenseScreen shaped(std::size_t dim);
    // A screen that is used once, coded in float32: a third of the time. Its squares are written. Throws
    // Unfit for rows that have no float32 bounds.
    static DenseScreen quick(Matrix rows, Metric metric, double* squares, const Kernels& kernels);
    struct Unfit {};
    static bool possible(std::size_t dim) { return dim >= 1 && dim <= kScreenDims; }
    // Whether building one pays: fewer rows are scanned as fast, and codes of few dims decide little.
    static bool worthwhile(std::size_t rows, std::size_t dim);

    bool empty() const { return codes_.size() == 0; }
    std::size_t panels() const { return scales_.size(); }
    std::size_t steps() const { return steps_; }  // of four dims each
    const Rotation& rotation() const { return rotation_; }
    std::size_t head_steps() const { return rotation_.head / 4; }
    double slack() const { return rotation_.slack + own_slack(); }
    double own_slack() const { return kSlack + rounding_; }  // without the rotation's
    std::size_t bytes() const;

    const std::uint8_t* panel(std::size_t p) const { return codes_.data() + p * steps_ * kPanelRows * 4; }
    // Bytes of a row's tail, and the first row's in the panel; the others follow (kernels.hpp).
    std::size_t tail_bytes() const { return steps_ * 4 - rotation_.head; }
    const std::uint8_t* tail_codes(std::size_t p) const { return panel(p) + rotation_.head * kPanelRows; }
    double scale(std::size_t p) const { return static_cast<double>(scales_.data()[p]); }
    // |r| of the panel's rows, rounded up.
    const float* residuals(std::size_t p) const { return residuals_.data() + p * kPanelRows; }
    // Norms of the tails of the panel's rows, rounded up; null without a rotation.
    const float* tails(std::size_t p) const {
        return rotation_.empty() ? nullptr : tails_.data() + p * kPanelRows;
    }
    // Over the panel: the greatest |r|, the greatest |y| and the least |x|^2, each rounded outward.
    double worst_residual(std::size_t p) const { return static_cast<double>(bounds_.data()[3 * p]); }
    double greatest_norm(std::size_t p) const { return static_cast<double>(bounds_.data()[3 * p + 1]); }
    double least_square(std::size_t p) const { return static_cast<double>(bounds_.data()[3 * p + 2]); }
    double greatest_tail(std::size_t p) const {
        return static_cast<double>(tails_.data()[panels() * kPanelRows + p]);
    }
    double greatest_norm() const { return most_; }  // over all panels

    // Sections "screen.codes" u8, "screen.scales", "screen.residuals", "screen.bounds" f32; with a rotation
    // "screen.rotation", "screen.tails" f32, "screen.slack" f64 and "screen.shape" u64 {head, tail shift,
    // layout} too.
    void write(ContainerWriter& writer) const;
    static DenseScreen open(const Container& container, std::size_t rows, std::size_t dim);
    void ensure_all() const;
    bool equals(const DenseScreen& other) const;

  private:
    bool usable();
    void open_rotation(const Container& container, std::size_t dim);
    std::size_t steps_ = 0;
    double most_ = 0.0;
    double rounding_ = 0.0;
    Rotation rotation_;
    Column<std::uint8_t> codes_;
    Column<float> scales_;
    Column<float> residuals_;
    Column<float> bounds_;
    Column<float> tails_;  // by row, then the greatest of each panel
};

// A batch of coded queries in the tiles of the screen kernel.
struct CodedQueries {
    CodedQueries(Matrix queries, const double* squares, Metric metric, const DenseScreen& screen,
                 const Kernels& kernels);

    std::size_t tiles() const { return (n + tile_queries - 1) / tile_queries; }
    const std::int8_t* tile(std::size_t t) const { return codes.data() + t * steps * tile_queries * 4; }

    std::size_t n;
    std::size_t steps;
    std::size_t tile_queries;
    std::vector<std::int8_t> codes;
    std::vector<std::int32_t> init;       // by query, padded to whole tiles
    std::vector<std::int32_t> init_head;  // the same for the head alone
    std::vector<std::int32_t> init_tail;  // and for the tail
    std::vector<std::int8_t> tails;       // codes of the tails, [n, screen.tail_bytes()]
    std::vector<double> scale;            // b
    std::vector<double> inverse;          // 1 / b
    std::vector<double> norm;             // |v|, rounded up
    std::vector<double> residual;         // |t|, rounded up
    std::vector<double> tail;             // norm of the tail of Rv, rounded up; 0 without a rotation
    std::vector<double> square;           // |q|^2

  private:
    void code(std::size_t q, const float* values, double factor, std::size_t dim, const DenseScreen& screen,
              std::vector<std::int8_t>& line, const Kernels& kernels);
};

// What a search did; sums over its queries.
struct DenseStats {
    std::uint64_t screened = 0;  // rows compared in integers
    std::uint64_t candidates = 0;
    std::uint64_t settled = 0;  // rows scored in float64 after the screen
    std::uint64_t plain = 0;    // queries that were scanned without the screen
    std::uint64_t heads = 0;    // queries that read the heads of rows only
    double slack = 0.0;         // the greatest distance between a candidate's bounds and their middle
};

// Whether a search starts with the heads of a rotated screen.
enum class Heads { automatic, always, never };

// What settles a search whose rows are not float32: the codes are those of rows near them (dense64.hpp).
class ExactRows {
  public:
    virtual ~ExactRows() = default;
    // The scores of these rows for a query, by its number in the whole search.
    virtual void score(std::size_t query, std::span<const std::uint32_t> rows, double* scores) const = 0;
    // Searches these queries, which no bound decided, in one scan.
    virtual void scan(const std::vector<std::size_t>& queries,
                      std::vector<std::vector<Hit>>& results) const = 0;
    // A score as one of the coded rows.
    virtual double coded(double score) const = 0;
};

// As dense_top_k, by the screen. With `exact`, rows.data is not read, and scores and min_score are its.
std::vector<std::vector<Hit>> screened_top_k(Matrix rows, const double* squares, const DenseScreen& screen,
                                             Matrix queries, const double* query_squares, Metric metric,
                                             const DenseWanted& wanted, Heads heads, std::size_t threads,
                                             const Kernels& kernels, DenseStats& stats,
                                             const ExactRows* exact = nullptr);

// As dense_top_k for rows that are searched once: they are coded a part at a time, a part is screened while
// it is in a cache, and their squares are written. Throws DenseScreen::Unfit for rows or queries that have no
// bounds, or are not finite.
std::vector<std::vector<Hit>> streamed_top_k(Matrix rows, double* squares, Matrix queries,
                                             const double* query_squares, Metric metric,
                                             const DenseWanted& wanted, std::size_t threads,
                                             const Kernels& kernels);

}  // namespace gnomon
