// Windows of byte classes in a text, x86-64-v3: as lines_avx512.cpp, in two halves of 32 bytes.
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx2 {

static std::uint32_t members(const std::uint8_t* data, __m256i rows, std::uint32_t high) noexcept {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    const __m256i low = _mm256_set1_epi8(static_cast<char>(0x8F));  // a high byte looks up 0
    const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    const __m256i row = _mm256_shuffle_epi8(rows, _mm256_and_si256(bytes, low));
    const __m256i place = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(0x07));
    const __m256i bit = _mm256_shuffle_epi8(bits, place);
    const __m256i missing = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), _mm256_setzero_si256());
    const auto held = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(missing));
    return held | (static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes)) & high);
}

void lines_window(const std::uint8_t* data, std::size_t n_blocks, const ByteWindow& window,
                  std::uint64_t* masks) noexcept {
    __m256i rows[ByteWindow::kMost];
    std::uint32_t high[ByteWindow::kMost];
    std::size_t offset[ByteWindow::kMost];
    for (std::size_t j = 0; j < window.width; ++j) {
        const std::size_t k = window.order[j];
        offset[j] = k;
        rows[j] =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(window.rows[k])));
        high[j] = window.high[k] ? ~std::uint32_t{0} : 0;
    }
    for (std::size_t b = 0; b < n_blocks; ++b) {
        std::uint64_t mask = ~std::uint64_t{0};
        for (std::size_t j = 0; j < window.width && mask != 0; ++j) {
            const std::uint8_t* const at = data + b * 64 + offset[j];
            mask &= members(at, rows[j], high[j]) |
                    static_cast<std::uint64_t>(members(at + 32, rows[j], high[j])) << 32;
        }
        masks[b] = mask;
    }
}

}  // namespace gnomon::avx2
