// Codes of rows and queries for the tensor-core screen, and the bounds that make it certain.
//
// For a row y (x / |x| for cosine, x itself otherwise) with its own scale a,
//   y = a c + r      int8: c = round(y / a) in [-127, 127]^D, a = max|y| / 127
//                    bf16: c = y / a to bfloat16, a the power of two at or above max|y|; |c| < 2^-60 is 0
// and |r|, |y| are kept, rounded up. A query v is coded alike: v = b d + t. As in cpp/dense_screen.hpp
//   |v.y - a b (d.c)| <= |v| |r| + |t| (|y| + |r|)          (Cauchy-Schwarz, twice)
// A second plane codes what the first one left of the query: v = b (d + e / 254) + t, with |t| some 250 times
// smaller; d.c + e.c / 254 takes the place of d.c. It doubles the products, which cost nothing where memory
// is the bound.
//
// Integer sums are exact: 127 * 127 * D < 2^31 for D <= kScreenDims. A float sum of products (exact: 16 bits)
// on a tensor core is taken to be off by at most 2^-21 of the sum of magnitudes for each of the D products:
// eight times what one rounding toward zero to 24 bits loses; tests/device.sh measures it. With
// s = kFloatSlack + kSlack (+ D 2^-21 for bf16), which also covers the float32 roundings of the screen and
// the distance of the canonical score from the real number,
//   upper = a b (d.c) + A |r| + B |y|,   A = |v| (1 + s) + |t|,   B = |t| + s |v|
// is at least v.y, and a row is dropped only when upper < limit, where the limit of a query whose k-th best
// canonical score so far is tau is
//   cosine, ip: tau    l2: (tau + |q|^2) / 2 + |x|^2 / 2
// rounded down by 1e-6 of its size and by 1e-36, for products that leave float32's range. A comparison with a
// NaN never drops a row. Where |v| or |y| exceeds 1e18, or D kScreenDims, limits are -infinity: every row is
// settled.
#pragma once
#include "arguments.hpp"
#include "device.cuh"

namespace gnomon::cuda {

constexpr double kSlack = 1e-9;
constexpr double kFloatSlack = 2e-6;
constexpr double kNormMost = 1e18;
constexpr float kScaleLeast = 1.17549435e-38F;  // so that products with a scale keep their bits

// Upper bound of the norm whose square was summed with a few roundings.
__device__ inline double norm_above(double sum) { return __dsqrt_rn(sum) * (1.0 + 1e-12); }

__device__ inline double unit_of(bool cosine, double square) {
    return cosine && square > 0.0 ? __ddiv_rn(1.0, __dsqrt_rn(square)) : 1.0;
}

__device__ inline float greatest_of(const float* x, int dim, int lane) {
    float most = 0.0F;
    for (int d = lane; d < dim; d += kLanes) {
        const float size = fabsf(x[d]);
        most = size > most ? size : most;
    }
    for (unsigned bits = kLanes / 2; bits != 0; bits >>= 1) {
        const float other = __shfl_xor_sync(kAll, most, bits);
        most = other > most ? other : most;
    }
    return most;
}

__device__ inline uint32_t bf16_bits(float x) {  // to nearest, ties to even; finite, never rounds to infinity
    const uint32_t bits = __float_as_uint(x);
    return (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
}

struct Coded {
    float scale;
    double error;  // the sum of squares of what is left, of all lanes
};

// One plane of a row by its eight threads; `bytes` of the row are written, zeros behind its end. `rest`
// subtracts scale * code of the plane before, whose codes lie at `before`.
__device__ inline Coded code_int8(const float* x, double factor, double most, int dim, int lane, int bytes,
                                  const signed char* before, float scale_before, signed char* codes) {
    float scale = scale_before;
    if (before == nullptr) {
        scale = __double2float_ru(most / 127.0);
        scale = scale > kScaleLeast ? scale : kScaleLeast;
    }
    const double step = before == nullptr ? static_cast<double>(scale) : static_cast<double>(scale) / 254.0;
    double error = 0.0;
    for (int d = lane; d < bytes; d += kLanes) {
        double y = d < dim ? static_cast<double>(x[d]) * factor : 0.0;
        if (before != nullptr) y -= static_cast<double>(scale) * static_cast<double>(before[d]);
        double code = rint_even(y / step);
        code = code > 127.0 ? 127.0 : code < -127.0 ? -127.0 : code;
        codes[d] = static_cast<signed char>(code);
        const double left = y - step * code;
        error += left * left;
    }
    return {scale, lanes_sum(error)};
}

__device__ inline Coded code_bf16(const float* x, double factor, double most, int dim, int lane, int bytes,
                                  uint16_t* codes) {
    // The power of two at or above `most`, from the exponent of a double.
    const auto exponent = static_cast<long long>((__double_as_longlong(most) >> 52) + 1);
    double scale = most > 0.0 ? __longlong_as_double(exponent << 52) : 1.0;
    scale = scale > static_cast<double>(kScaleLeast) ? scale : static_cast<double>(kScaleLeast);
    scale = scale < 0x1p127 ? scale : 0x1p127;
    double error = 0.0;
    for (int d = lane; d < bytes / 2; d += kLanes) {
        const double y = d < dim ? static_cast<double>(x[d]) * factor : 0.0;
        const float c = __double2float_rn(y / scale);
        const uint32_t bits = fabsf(c) < 0x1p-60F ? 0U : bf16_bits(c);
        codes[d] = static_cast<uint16_t>(bits);
        const double left = y - scale * static_cast<double>(__uint_as_float(bits << 16));
        error += left * left;
    }
    return {static_cast<float>(scale), lanes_sum(error)};
}

// Canonical squares; the first row whose square is not finite is left in *bad (atomicMin), the first zero row
// in *zero.
__global__ void dense_squares(const float* rows, int64_t n, int dim, int64_t first, double* squares,
                              unsigned long long* bad, unsigned long long* zero) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
    const int lane = threadIdx.x % kLanes;
    const bool on = row < n;
    const float* x = rows + (on ? row : 0) * dim;
    const double square = lanes_sum(dot_lane(x, x, on ? dim : 0, lane));
    if (!on || lane != 0) return;
    squares[row] = square;
    const auto number = static_cast<unsigned long long>(first + row);
    if (!(square <= 1.7976931348623157e308)) atomicMin(bad, number);
    if (square == 0.0) atomicMin(zero, number);
}

__global__ void dense_code_rows(const float* rows, int64_t n, int dim, bool cosine, bool bf16,
                                CodedRows out) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
    const int lane = threadIdx.x % kLanes;
    const bool on = row < n;
    const float* x = rows + (on ? row : 0) * dim;
    const int used = on ? dim : 0;
    const double square = out.squares[on ? row : 0];
    const double factor = unit_of(cosine, square);
    const double most = static_cast<double>(greatest_of(x, used, lane)) * factor;
    char* const codes = out.codes + (on ? row : 0) * out.row_bytes;
    const int bytes = on ? static_cast<int>(out.row_bytes) : 0;
    const Coded coded =
        bf16 ? code_bf16(x, factor, most, used, lane, bytes, reinterpret_cast<uint16_t*>(codes))
             : code_int8(x, factor, most, used, lane, bytes, nullptr, 0.0F,
                         reinterpret_cast<signed char*>(codes));
    if (!on || lane != 0) return;
    const double norm = cosine ? 1.0 : norm_above(square);
    out.scales[row] = coded.scale;
    out.residuals[row] = __double2float_ru(norm_above(coded.error));
    out.norms[row] = __double2float_ru(norm);
    out.halves[row] = __double2float_rd(0.5 * square * (1.0 - 2e-6));
    atomicMax(out.greatest_norm, __float_as_uint(__double2float_ru(norm)));
}

// planes = 2: the rows of codes of query q are 2 q and 2 q + 1.
__global__ void dense_code_queries(const float* queries, int n, int dim, bool cosine, bool bf16, int planes,
                                   CodedQueries out) {
    const int q = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kLanes);
    const int lane = threadIdx.x % kLanes;
    const bool on = q < n;
    const float* v = queries + static_cast<int64_t>(on ? q : 0) * dim;
    const int used = on ? dim : 0;
    const double square = out.squares[on ? q : 0];
    const double factor = unit_of(cosine, square);
    const double most = static_cast<double>(greatest_of(v, used, lane)) * factor;
    char* const codes = out.codes + static_cast<int64_t>(on ? q : 0) * planes * out.row_bytes;
    auto* const first = reinterpret_cast<signed char*>(codes);
    const int bytes = on ? static_cast<int>(out.row_bytes) : 0;
    Coded coded = bf16 ? code_bf16(v, factor, most, used, lane, bytes, reinterpret_cast<uint16_t*>(codes))
                       : code_int8(v, factor, most, used, lane, bytes, nullptr, 0.0F, first);
    if (planes == 2)  // each thread reads only the codes that it wrote itself
        coded = code_int8(v, factor, most, used, lane, bytes, first, coded.scale, first + out.row_bytes);
    if (!on || lane != 0) return;
    const double norm = cosine ? 1.0 + 1e-12 : norm_above(square);
    const double left = norm_above(coded.error);
    const double s = kSlack + kFloatSlack + (bf16 ? static_cast<double>(dim) * 0x1p-21 : 0.0);
    out.scales[q] = coded.scale;
    out.per_residual[q] = __double2float_ru((norm * (1.0 + s) + left) * (1.0 + 1e-9));
    out.per_norm[q] = __double2float_ru((left + s * norm) * (1.0 + 1e-9));
    out.norms[q] = norm;
}

// The limit of a query for its threshold; see above.
__device__ inline float limit_of(const LimitRule& rule, int q, double tau) {
    const bool far =
        rule.norms[q] > kNormMost || static_cast<double>(__uint_as_float(*rule.greatest_norm)) > kNormMost;
    if (far || rule.never) return -__uint_as_float(0x7f800000U);
    const double square = rule.squares[q];
    double limit = tau;
    if (rule.metric == kL2) limit = 0.5 * (tau + square * (1.0 - 2e-6));
    const double size = limit < 0.0 ? -limit : limit;
    if (!(size <= 3e38)) return __double2float_rd(limit);
    return __double2float_rd(limit - 1e-6 * size - 1e-36);
}

__global__ void dense_limits(LimitRule rule, int n, const double* taus, float* limits) {
    const int q = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (q < n) limits[q] = limit_of(rule, q, taus[q]);
}

}  // namespace gnomon::cuda
