// BM25 kernels, portable level: the yardstick of the others.
#include "../bm25.hpp"
#include "kernels.hpp"

namespace gnomon::scalar {

// Whether an accumulator has left -0.0. Not std::bit_cast: its instance would be a weak symbol.
static bool touched(double score) noexcept {
    std::uint64_t bits;
    __builtin_memcpy(&bits, &score, sizeof bits);
    return bits != 0x8000000000000000u;
}

void bm25_add(const std::uint32_t* docs, const std::uint32_t* tfs, std::size_t n, std::uint32_t base,
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

}  // namespace gnomon::scalar
