// Bounds and codes of the screen: the loops of screen_bounds.hpp with this level's flags.
#include "screen_bounds.hpp"

namespace gnomon::scalar {

void screen_limits(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                   std::int32_t* limits) noexcept {
    bounds::limits(panel, queries, n, limits);
}

std::size_t screen_take(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                        const float* residuals, const float* tails, const double* squares,
                        std::uint32_t first_row, float* lower, float* upper, std::uint32_t* rows) noexcept {
    return bounds::take(acc, mask, bounds, residuals, tails, squares, first_row, lower, upper, rows);
}

double screen_code(const float* x, std::size_t dim, double factor, double scale, double inverse,
                   std::int8_t* codes) noexcept {
    return bounds::code(x, dim, factor, scale, inverse, codes);
}

void screen_untangle(const std::uint8_t* panel, std::size_t head, std::size_t steps,
                     std::uint8_t* out) noexcept {
    bounds::untangle(panel, head, steps, out);
}

void screen_tails(const std::uint8_t* tails, std::size_t bytes, std::uint64_t mask, const std::int8_t* query,
                  int shift, std::int32_t init, std::int32_t* acc) noexcept {
    bounds::tails(tails, bytes, mask, query, shift, init, acc);
}

std::uint64_t screen_reach(const std::int32_t* acc, std::int32_t limit) noexcept {
    return bounds::reach(acc, limit);
}

float screen_quick(const float* x, std::size_t dim, float factor, float scale, float inverse,
                   std::uint8_t* codes) noexcept {
    return bounds::quick(x, dim, factor, scale, inverse, codes);
}

float screen_greatest(const float* x, std::size_t dim) noexcept { return bounds::greatest(x, dim); }

float screen_kth(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept {
    return bounds::kth(values, n, k, keys);
}

}  // namespace gnomon::scalar
