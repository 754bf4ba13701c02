// BM25 kernels, portable level: the yardstick of the others.
#include "../bm25.hpp"
#include "bm25_blocks.hpp"
#include "kernels.hpp"

namespace gnomon::scalar {

// Whether an accumulator has left -0.0. Not std::bit_cast: its instance would be a weak symbol.
static bool touched(double score) noexcept {
    std::uint64_t bits;
    __builtin_memcpy(&bits, &score, sizeof bits);
    return bits != 0x8000000000000000u;
}

void bm25_add(const std::uint32_t* docs, const std::uint8_t* tfs, std::size_t n, std::uint32_t base,
              const double* norms, double idf, double k1_plus_1, double* scores) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t offset = docs[i] - base;
        scores[offset] += bm25::weight(idf, static_cast<double>(tfs[i]), k1_plus_1, norms[offset]);
    }
}

std::size_t bm25_select(const double* scores, std::size_t n, double threshold, std::uint32_t* out) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        count += static_cast<std::size_t>(scores[i] >= threshold && touched(scores[i]));
    }
    return count;
}

void bm25_row(const float* row, std::size_t n, float weight, float* sums) noexcept {
    for (std::size_t i = 0; i < n; ++i) sums[i] += weight * row[i];
}

std::size_t bm25_pick(float* sums, std::size_t n, float threshold, std::uint32_t* out,
                      float* out_sums) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        out_sums[count] = sums[i];
        count += static_cast<std::size_t>(sums[i] >= threshold && sums[i] > 0.0F);
        sums[i] = 0.0F;
    }
    return count;
}

void bm25_find(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
               const std::uint32_t* docs, std::size_t n, double* out) noexcept {
    find_by_steps(list, starts, tfs, docs, n, out);
}

void bm25_settle(const double* tfs, const double* norms, std::size_t n, double idf, double k1_plus_1,
                 double* scores) noexcept {
    settle_each(tfs, norms, n, idf, k1_plus_1, scores);
}

void bm25_bound(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                std::uint16_t* bounds) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const unsigned bound = (static_cast<unsigned>(maxima[i]) * weight >> 8) + 1U;
        bounds[i] = static_cast<std::uint16_t>((add ? bounds[i] : 0U) + bound);
    }
}

void bm25_levels(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t n_rows,
                 std::size_t n, std::uint16_t* sums) noexcept {
    for (std::size_t r = 0; r < n_rows; ++r) bm25_bound(rows[r], n, weights[r], r > 0, sums);
}

std::size_t bm25_blocks(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                        std::uint32_t* out) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        count += static_cast<std::size_t>(bounds[i] >= threshold);
    }
    return count;
}

std::size_t bm25_above(const float* impacts, std::size_t n, float least, std::uint32_t* out) noexcept {
    return above_each(impacts, 0, n, least, out, 0);
}

}  // namespace gnomon::scalar
