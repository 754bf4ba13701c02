// The integer screen, portable level: the sums of kernels.hpp, written out.
#include "kernels.hpp"

namespace gnomon::scalar {

void dense_screen(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                  const std::int32_t* init, const std::int32_t* thresholds, std::size_t n, std::int32_t* acc,
                  std::uint64_t* masks) noexcept {
    for (std::size_t q = 0; q < n; ++q) {
        std::uint32_t sums[kPanelRows] = {};
        for (std::size_t s = 0; s < shape.steps; ++s) {
            if (s == shape.head)
                for (std::uint32_t& sum : sums) sum <<= shape.shift;
            const std::uint8_t* const rows = panel + s * kPanelRows * 4;
            const std::int8_t* const query = queries + (s * kTileQueries + q) * 4;
            for (std::size_t r = 0; r < kPanelRows; ++r)
                for (std::size_t j = 0; j < 4; ++j)
                    sums[r] += static_cast<std::uint32_t>(rows[r * 4 + j] * query[j]);
        }
        masks[q] = 0;
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            const auto sum = static_cast<std::int32_t>(sums[r] + static_cast<std::uint32_t>(init[q]));
            acc[q * kPanelRows + r] = sum;
            masks[q] |= static_cast<std::uint64_t>(sum >= thresholds[q]) << r;
        }
    }
}

}  // namespace gnomon::scalar
