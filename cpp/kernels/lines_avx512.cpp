// Windows of byte classes in a text, x86-64-v4: 64 bytes are looked up at once. The low four bits of a byte
// choose a row of the class, whose bits are its high nibbles (Hyperscan calls this "truffle", by Langdale).
#include <immintrin.h>

#include "kernels.hpp"

namespace gnomon::avx512 {

void lines_window(const std::uint8_t* data, std::size_t n_blocks, const ByteWindow& window,
                  std::uint64_t* masks) noexcept {
    const __m512i low = _mm512_set1_epi8(static_cast<char>(0x8F));  // a high byte looks up 0
    const __m512i nibble = _mm512_set1_epi8(0x07);
    const __m512i bits = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201u));
    __m512i rows[ByteWindow::kMost];
    __mmask64 high[ByteWindow::kMost];
    std::size_t offset[ByteWindow::kMost];
    for (std::size_t j = 0; j < window.width; ++j) {
        const std::size_t k = window.order[j];
        offset[j] = k;
        rows[j] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(window.rows[k])));
        high[j] = window.high[k] ? ~__mmask64{0} : 0;
    }
    for (std::size_t b = 0; b < n_blocks; ++b) {
        __mmask64 mask = ~__mmask64{0};
        for (std::size_t j = 0; j < window.width && mask != 0; ++j) {
            const __m512i bytes = _mm512_loadu_si512(data + b * 64 + offset[j]);
            const __m512i row = _mm512_shuffle_epi8(rows[j], _mm512_and_si512(bytes, low));
            const __m512i place = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble);
            const __m512i bit = _mm512_shuffle_epi8(bits, place);
            mask &= _mm512_test_epi8_mask(row, bit) | (_mm512_movepi8_mask(bytes) & high[j]);
        }
        masks[b] = mask;
    }
}

}  // namespace gnomon::avx512
