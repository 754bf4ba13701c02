// Dense kernels, aarch64: the eight lanes are four registers of two; four rows at a time.
#include <arm_neon.h>

#include "dense_common.hpp"

namespace gnomon::neon {

namespace {

struct Lanes {
    float64x2_t pair[4];  // lanes 2i and 2i + 1
};

enum Operation { kDot, kL2, kSquare };

}  // namespace

static Lanes zero() noexcept {
    return {{vdupq_n_f64(0.0), vdupq_n_f64(0.0), vdupq_n_f64(0.0), vdupq_n_f64(0.0)}};
}

static Lanes widen(const float* row) noexcept {
    const float32x4_t low = vld1q_f32(row);
    const float32x4_t high = vld1q_f32(row + 4);
    return {{vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low), vcvt_f64_f32(vget_low_f32(high)),
             vcvt_high_f64_f32(high)}};
}

static Lanes load(const double* query) noexcept {
    return {{vld1q_f64(query), vld1q_f64(query + 2), vld1q_f64(query + 4), vld1q_f64(query + 6)}};
}

// ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))
static double reduce(const Lanes& sum) noexcept {
    const float64x2_t first = vaddq_f64(sum.pair[0], sum.pair[2]);   // l0 + l4, l1 + l5
    const float64x2_t second = vaddq_f64(sum.pair[1], sum.pair[3]);  // l2 + l6, l3 + l7
    const float64x2_t halves = vaddq_f64(first, second);
    return vgetq_lane_f64(halves, 0) + vgetq_lane_f64(halves, 1);
}

template <Operation op>
static void step(Lanes& sum, const Lanes& q, const Lanes& x) noexcept {
    for (int i = 0; i < 4; ++i) {
        if (op == kL2) {
            const float64x2_t t = vsubq_f64(q.pair[i], x.pair[i]);
            sum.pair[i] = vaddq_f64(sum.pair[i], vmulq_f64(t, t));
        } else {
            sum.pair[i] = vfmaq_f64(sum.pair[i], op == kSquare ? x.pair[i] : q.pair[i], x.pair[i]);
        }
    }
}

// The last dim % 8 elements, padded with zeros: they add +0.0 or -0.0 to lanes that are never -0.0.
template <Operation op>
static void tail(Lanes& sum, const double* query, const float* row, std::size_t n) noexcept {
    double q[8] = {};
    float x[8] = {};
    for (std::size_t l = 0; l < n; ++l) {
        if (op != kSquare) q[l] = query[l];
        x[l] = row[l];
    }
    step<op>(sum, load(q), widen(x));
}

template <Operation op, int kRows>
static void block(const double* query, const float* rows, const std::uint32_t* ids, std::size_t stride,
                  std::size_t dim, double* out) noexcept {
    const float* row[kRows];
    for (std::size_t r = 0; r < kRows; ++r) row[r] = rows + (ids != nullptr ? ids[r] : r) * stride;
    Lanes sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = zero();
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        const Lanes q = op == kSquare ? zero() : load(query + d);
        for (int r = 0; r < kRows; ++r) step<op>(sum[r], q, widen(row[r] + d));
    }
    for (int r = 0; r < kRows; ++r) {
        if (whole < dim)
            tail<op>(sum[r], op == kSquare ? nullptr : query + whole, row[r] + whole, dim - whole);
        out[r] = reduce(sum[r]);
    }
}

template <Operation op>
static void scan(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                 std::size_t stride, std::size_t dim, double* out) noexcept {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4)
        block<op, 4>(query, ids != nullptr ? rows : rows + i * stride, ids != nullptr ? ids + i : nullptr,
                     stride, dim, out + i);
    for (; i < n; ++i)
        block<op, 1>(query, ids != nullptr ? rows : rows + i * stride, ids != nullptr ? ids + i : nullptr,
                     stride, dim, out + i);
}

void dense_dot(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
               std::size_t stride, std::size_t dim, double* out) noexcept {
    scan<kDot>(query, rows, ids, n, stride, dim, out);
}

void dense_l2(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
              std::size_t stride, std::size_t dim, double* out) noexcept {
    scan<kL2>(query, rows, ids, n, stride, dim, out);
}

void dense_square(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                  double* out) noexcept {
    scan<kSquare>(nullptr, rows, nullptr, n, stride, dim, out);
}

void dense_cosines(double query_square, const double* squares, std::size_t n, double* scores) noexcept {
    common::cosines(query_square, squares, n, scores);
}

void dense_dot_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                    std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_dot(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

void dense_l2_tile(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                   std::size_t dim, double* out, std::size_t out_stride) noexcept {
    for (std::size_t q = 0; q < n_queries; ++q)
        dense_l2(queries + q * dim, rows, nullptr, n_rows, dim, dim, out + q * out_stride);
}

// Four queries by four rows in float32.
template <int kQueries, int kRows>
static void float_tile(const float* queries, const float* rows, std::size_t dim, float* out,
                       std::size_t out_stride) noexcept {
    float32x4_t sum[kQueries][kRows];
    for (int q = 0; q < kQueries; ++q)
        for (int r = 0; r < kRows; ++r) sum[q][r] = vdupq_n_f32(0.0F);
    const std::size_t whole = dim & ~std::size_t{3};
    for (std::size_t d = 0; d < whole; d += 4) {
        float32x4_t x[kRows];
        for (std::size_t r = 0; r < kRows; ++r) x[r] = vld1q_f32(rows + r * dim + d);
        for (std::size_t q = 0; q < kQueries; ++q) {
            const float32x4_t value = vld1q_f32(queries + q * dim + d);
            for (std::size_t r = 0; r < kRows; ++r) sum[q][r] = vfmaq_f32(sum[q][r], value, x[r]);
        }
    }
    for (std::size_t q = 0; q < kQueries; ++q)
        for (std::size_t r = 0; r < kRows; ++r) {
            float rest = 0.0F;
            for (std::size_t d = whole; d < dim; ++d) rest += queries[q * dim + d] * rows[r * dim + d];
            out[q * out_stride + r] = vaddvq_f32(sum[q][r]) + rest;
        }
}

namespace {

struct FloatTile {
    static constexpr int kQueries = 4;
    static constexpr int kRows = 4;
    template <int kSome, int kOf>
    static void run(const float* queries, const float* rows, std::size_t dim, float* out,
                    std::size_t out_stride) noexcept {
        float_tile<kSome, kOf>(queries, rows, dim, out, out_stride);
    }
};

}  // namespace

void dense_float(const float* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                 std::size_t dim, float* out, std::size_t out_stride) noexcept {
    common::walk<FloatTile>(queries, n_queries, rows, n_rows, dim, out, out_stride);
}

void dense_dot_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                  std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<false>(query, rows, factors, ids, n, dim, out);
}

void dense_l2_64(const double* query, const double* rows, const double* factors, const std::uint32_t* ids,
                 std::size_t n, std::size_t dim, double* out) noexcept {
    common::rows64<true>(query, rows, factors, ids, n, dim, out);
}

}  // namespace gnomon::neon
