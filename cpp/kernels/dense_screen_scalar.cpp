// The integer screen, portable level: the sums of kernels.hpp, written out.
#include "kernels.hpp"

namespace gnomon::scalar {

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, std::size_t steps,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    for (std::size_t q = 0; q < n; ++q) {
        std::int32_t* const sums = acc + q * kPanelRows;
        for (std::size_t r = 0; r < kPanelRows; ++r) sums[r] = init[q];
        for (std::size_t s = 0; s < steps; ++s) {
            const std::uint8_t* const rows = panel + s * kPanelRows * 4;
            const std::int8_t* const query = queries + (s * kTileQueries + q) * 4;
            for (std::size_t r = 0; r < kPanelRows; ++r)
                for (std::size_t j = 0; j < 4; ++j) sums[r] += rows[r * 4 + j] * query[j];
        }
        masks[q] = 0;
        for (std::size_t r = 0; r < kPanelRows; ++r)
            masks[q] |= static_cast<std::uint64_t>(sums[r] >= thresholds[q]) << r;
    }
}

}  // namespace gnomon::scalar
