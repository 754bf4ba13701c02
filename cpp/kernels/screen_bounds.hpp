// What surrounds the integer sums of a screen, written once for every level: plain loops that each level's
// compiler flags turn into its vectors. static: no weak symbol leaves a kernel object. Included by the kernel
// files only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"

namespace gnomon::bounds {

constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to whole numbers, ties to even

static inline void limits(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                          std::int32_t* out) noexcept {
    constexpr double kLimit = 2147483000.0;  // beyond every sum
    for (std::size_t q = 0; q < n; ++q) {
        const double needed = queries.needed[q] + panel.offset - queries.norm[q] * panel.per_norm -
                              queries.residual[q] * panel.per_residual - queries.tail[q] * panel.per_tail;
        double sum = needed * panel.inverse * queries.inverse[q];
        sum = sum > -kLimit ? sum : -kLimit;  // also for what is no number
        sum = sum < kLimit ? sum : kLimit;
        // To the nearest whole number and one less is at most the floor, and at most one below it.
        out[q] = static_cast<std::int32_t>((sum + kRound) - kRound - 1.0);
    }
}

// By bisection on what orders floats as integers do: each step is one pass of comparisons, which the compiler
// turns into vectors; selection by exchanges is bound by mispredicted branches.
static inline float kth(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept {
    std::int32_t low = INT32_MAX;
    std::int32_t high = INT32_MIN;
    for (std::size_t i = 0; i < n; ++i) {
        std::int32_t bits;
        std::memcpy(&bits, values + i, sizeof bits);
        bits ^= (bits >> 31) & 0x7FFFFFFF;
        keys[i] = bits;
        low = bits < low ? bits : low;
        high = bits > high ? bits : high;
    }
    const std::size_t enough = k + k / 16 + (k > 4 ? 1 : 0);
    while (low < high) {
        const auto middle = static_cast<std::int32_t>((static_cast<std::int64_t>(low) + high + 1) >> 1);
        std::int32_t reach = 0;
        for (std::size_t i = 0; i < n; ++i) reach += keys[i] >= middle ? 1 : 0;
        if (static_cast<std::size_t>(reach) < k) {
            high = middle - 1;
        } else {
            low = middle;
            if (static_cast<std::size_t>(reach) <= enough) break;
        }
    }
    low ^= (low >> 31) & 0x7FFFFFFF;
    float value;
    std::memcpy(&value, &low, sizeof value);
    return value;
}

static inline std::size_t take(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                               const float* residuals, const float* tails, const double* squares,
                               std::uint32_t first_row, float* lower, float* upper,
                               std::uint32_t* rows) noexcept {
    constexpr float kInfinity = __builtin_inff();
    std::size_t n = 0;
    for (; mask != 0; mask &= mask - 1) {
        const auto r = static_cast<std::size_t>(__builtin_ctzll(mask));
        float middle = bounds.scale * static_cast<float>(acc[r]) + bounds.base;
        if (squares != nullptr) middle -= static_cast<float>(squares[r]);
        float width = bounds.fixed + bounds.slope * residuals[r];
        if (tails != nullptr) width += bounds.tail_slope * tails[r];
        const float low = middle - width;
        const float high = middle + width;
        lower[n] = low > -kInfinity ? low : -kInfinity;
        upper[n] = high < kInfinity ? high : kInfinity;
        rows[n] = first_row + static_cast<std::uint32_t>(r);
        ++n;
    }
    return n;
}

static inline float quick(const float* x, std::size_t dim, float factor, float scale, float inverse,
                          std::uint8_t* codes) noexcept {
    constexpr float kWhole = 12582912.0F;  // 1.5 * 2^23: adding it rounds to whole numbers
    constexpr std::size_t kLanes = 16;
    constexpr std::size_t kPart = 256;
    float lane[kLanes] = {};
    float rests[kPart];
    for (std::size_t at = 0; at < dim; at += kPart) {
        const std::size_t n = dim - at < kPart ? dim - at : kPart;
        for (std::size_t d = 0; d < n; ++d) {
            const float y = x[at + d] * factor;
            float whole = y * inverse;
            whole = whole > -127.0F ? whole : -127.0F;
            whole = whole < 127.0F ? whole : 127.0F;
            whole = (whole + kWhole) - kWhole;
            rests[d] = y - scale * whole;
            codes[at + d] = static_cast<std::uint8_t>(static_cast<std::int32_t>(whole) + 128);
        }
        for (std::size_t d = n; d % kLanes != 0; ++d) rests[d] = 0.0F;
        for (std::size_t d = 0; d < n; d += kLanes)
            for (std::size_t l = 0; l < kLanes; ++l) lane[l] += rests[d + l] * rests[d + l];
    }
    for (std::size_t width = kLanes / 2; width > 0; width /= 2)
        for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

static inline void untangle(const std::uint8_t* panel, std::size_t head, std::size_t steps,
                            std::uint8_t* out) noexcept {
    constexpr std::size_t kStep = kPanelRows * 4;
    const std::size_t bytes = (steps - head) * 4;
    const std::uint8_t* const next = panel + steps * kStep;
    for (std::size_t i = 0; i < steps * kStep; i += 64) __builtin_prefetch(next + i, 0, 2);
    std::memcpy(out, panel, head * kStep);
    const std::uint8_t* const tails = panel + head * kStep;
    out += head * kStep;
    for (std::size_t r = 0; r < kPanelRows; ++r)
        for (std::size_t s = 0; s < steps - head; ++s)
            std::memcpy(out + s * kStep + r * 4, tails + r * bytes + s * 4, 4);
}

static inline void tails(const std::uint8_t* first, std::size_t bytes, std::uint64_t mask,
                         const std::int8_t* query, int shift, std::int32_t init, std::int32_t* acc) noexcept {
    for (; mask != 0; mask &= mask - 1) {
        const auto r = static_cast<std::size_t>(__builtin_ctzll(mask));
        const std::uint8_t* const row = first + r * bytes;
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            sum += static_cast<std::int32_t>(row[i]) * static_cast<std::int32_t>(query[i]);
        acc[r] =
            static_cast<std::int32_t>((static_cast<std::uint32_t>(acc[r]) << shift) +
                                      static_cast<std::uint32_t>(init) + static_cast<std::uint32_t>(sum));
    }
}

static inline std::uint64_t reach(const std::int32_t* acc, std::int32_t limit) noexcept {
    std::uint64_t mask = 0;
    for (std::size_t r = 0; r < kPanelRows; ++r) mask |= static_cast<std::uint64_t>(acc[r] >= limit) << r;
    return mask;
}

// Ranks of absolute values are those of their bits, and integers have a vector maximum on every level.
static inline float greatest(const float* x, std::size_t dim) noexcept {
    std::uint32_t most = 0;
    for (std::size_t d = 0; d < dim; ++d) {
        std::uint32_t bits;
        std::memcpy(&bits, x + d, sizeof bits);
        bits &= 0x7FFFFFFFu;
        most = most > bits ? most : bits;
    }
    float value;
    std::memcpy(&value, &most, sizeof value);
    return value;
}

static inline void code_lane(float x, double factor, double scale, double inverse, double& error,
                             std::int8_t& code) noexcept {
    const double y = static_cast<double>(x) * factor;
    double whole = y * inverse;
    whole = whole > -127.0 ? whole : -127.0;
    whole = whole < 127.0 ? whole : 127.0;
    whole = (whole + kRound) - kRound;
    const double rest = y - scale * whole;
    error += rest * rest;
    code = static_cast<std::int8_t>(static_cast<std::int32_t>(whole));
}

static inline double code(const float* x, std::size_t dim, double factor, double scale, double inverse,
                          std::int8_t* codes) noexcept {
    double lane[8] = {};
    std::size_t d = 0;
    for (; d + 8 <= dim; d += 8)
        for (std::size_t l = 0; l < 8; ++l)
            code_lane(x[d + l], factor, scale, inverse, lane[l], codes[d + l]);
    for (std::size_t l = 0; d + l < dim; ++l)
        code_lane(x[d + l], factor, scale, inverse, lane[l], codes[d + l]);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

}  // namespace gnomon::bounds
