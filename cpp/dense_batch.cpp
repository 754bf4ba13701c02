#include "dense_batch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gnomon {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-37;  // float32 bounds near zero: products that underflow err by less

}  // namespace

float float_above(double value) {
    const float nearest = static_cast<float>(value);
    return static_cast<double>(nearest) < value ? std::nextafter(nearest, -kNoThreshold) : nearest;
}

float float_below(double value) { return -float_above(-value); }

namespace {

// Above a value >= 0 without a branch: two roundings of 2^-24 against a factor of four; kTiny is added where
// the value itself may be subnormal.
float outward(double value) { return static_cast<float>(value) * (1.0F + 2.4e-7F); }

}  // namespace

bool ScreenBatch::representable(std::size_t q) const {
    const double own = queries.norm[q];
    const double most = screen.greatest_norm();
    const double magnitude = metric == Metric::l2 ? (own + most) * (own + most) : own * most;
    if (!(magnitude < kFloatMost) || !(queries.scale[q] < kFloatMost)) return false;
    // A rotated query was rounded to float32: its share of the slack is relative.
    return screen.rotation().empty() || own == 0.0 || own > 1e-15;
}

double ScreenBatch::needed(std::size_t q, float threshold) const {
    const double value = static_cast<double>(threshold);
    if (metric != Metric::l2 || !std::isfinite(value)) return value;
    return (value + queries.square[q]) / 2 - screen.own_slack() * queries.norm[q] * queries.norm[q];
}

PanelLimits panel_limits(const ScreenBatch& batch, std::size_t panel, Extent extent, bool bare) {
    const DenseScreen& screen = batch.screen;
    const bool l2 = batch.metric == Metric::l2;
    const double norm = screen.greatest_norm(panel);
    const double worst = screen.worst_residual(panel);
    const double scale = screen.scale(panel);
    PanelLimits limits{};
    limits.inverse =
        extent == Extent::head ? 1.0 / scale : std::ldexp(1.0, screen.rotation().shift()) / scale;
    if (l2) limits.offset = screen.least_square(panel) / 2 - screen.own_slack() * norm * norm;
    if (bare) return limits;
    limits.per_norm = worst + screen.slack() * norm;
    limits.per_residual = norm + worst;
    limits.per_tail = extent == Extent::head ? screen.greatest_tail(panel) : 0.0;
    return limits;
}

QueryLimits query_limits(const ScreenBatch& batch, const double* needed, std::size_t first) {
    const CodedQueries& queries = batch.queries;
    return {needed == nullptr ? nullptr : needed + first, queries.norm.data() + first,
            queries.residual.data() + first, queries.tail.data() + first, queries.inverse.data() + first};
}

TakeBounds take_bounds(const ScreenBatch& batch, std::size_t q, std::size_t panel, Extent extent, bool bare) {
    const DenseScreen& screen = batch.screen;
    const CodedQueries& queries = batch.queries;
    const bool l2 = batch.metric == Metric::l2;
    const double factor = l2 ? 2.0 : 1.0;
    const double norm = screen.greatest_norm(panel);
    const double own = queries.norm[q];
    const double unit = screen.scale(panel) * queries.scale[q];
    TakeBounds bounds{};
    const int shift = extent == Extent::head ? 0 : screen.rotation().shift();
    bounds.scale = static_cast<float>(factor * (shift == 0 ? unit : std::ldexp(unit, -shift)));
    if (l2) bounds.base = static_cast<float>(-queries.square[q]);
    if (bare) return bounds;
    const double magnitude = l2 ? 2 * (own + norm) * (own + norm) : 4 * own * norm;
    bounds.fixed = outward(factor * (queries.residual[q] * norm + screen.slack() * own * norm) +
                           (kFloatSlack + screen.own_slack() - kSlack) * magnitude + kTiny);
    bounds.slope = outward(factor * (own + queries.residual[q]));
    if (extent == Extent::head) bounds.tail_slope = outward(factor * queries.tail[q]);
    return bounds;
}

ScreenShape shape_of(const ScreenBatch& batch, Extent extent, std::size_t tile) {
    const DenseScreen& screen = batch.screen;
    const bool first = tile == 0;
    if (extent == Extent::head) return {0, screen.head_steps(), screen.steps(), 0, first};
    return {screen.head_steps(), screen.steps(), screen.steps(), screen.rotation().shift(), first};
}

std::uint64_t reach_by_head(const ScreenBatch& batch, std::size_t q, std::size_t panel, std::uint64_t mask,
                            const std::int32_t* sums, float threshold) {
    float lower[kPanelRows + 16];
    float upper[kPanelRows + 16];
    std::uint32_t rows[kPanelRows + 16];
    const std::size_t n = batch.kernels.screen_take(
        sums, mask, take_bounds(batch, q, panel, Extent::head, false), batch.screen.residuals(panel),
        batch.screen.tails(panel), batch.metric == Metric::l2 ? batch.squares + panel * kPanelRows : nullptr,
        0, lower, upper, rows);
    std::uint64_t left = 0;
    for (std::size_t i = 0; i < n; ++i)
        left |= static_cast<std::uint64_t>(!(upper[i] < threshold)) << rows[i];
    return left;
}

void prefetch_tails(const DenseScreen& screen, std::size_t panel, std::uint64_t mask) {
    const std::size_t bytes = screen.tail_bytes();
    const std::uint8_t* const tails = screen.tail_codes(panel);
    for (; mask != 0; mask &= mask - 1) {
        const std::uint8_t* const tail = tails + static_cast<std::size_t>(std::countr_zero(mask)) * bytes;
        for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(tail + i, 0, 3);
    }
}

}  // namespace gnomon
