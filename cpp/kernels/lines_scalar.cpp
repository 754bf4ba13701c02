// Windows of byte classes in a text, portable: a table gives each byte the classes that it is in, and those
// of a window are followed from byte to byte as bits that move up.
#include "kernels.hpp"

namespace gnomon::scalar {

void lines_window(const std::uint8_t* data, std::size_t n_blocks, const ByteWindow& window,
                  std::uint64_t* masks) noexcept {
    std::uint8_t classes[256];
    for (unsigned byte = 0; byte < 256; ++byte) {
        unsigned in = 0;
        for (std::size_t k = 0; k < window.width; ++k) {
            const bool held =
                byte < 128 ? (window.rows[k][byte & 15] >> (byte >> 4) & 1) != 0 : window.high[k];
            in |= static_cast<unsigned>(held) << k;
        }
        classes[byte] = static_cast<std::uint8_t>(in);
    }
    const std::size_t lead = window.width - 1;
    unsigned reached = 0;  // bit k: the k + 1 bytes up to here are in the first classes
    for (std::size_t i = 0; i < lead; ++i) reached = (reached << 1 | 1U) & classes[data[i]];
    for (std::size_t b = 0; b < n_blocks; ++b) {
        std::uint64_t mask = 0;
        for (std::size_t i = 0; i < 64; ++i) {
            reached = (reached << 1 | 1U) & classes[data[b * 64 + i + lead]];
            mask |= static_cast<std::uint64_t>(reached >> lead & 1U) << i;
        }
        masks[b] = mask;
    }
}

}  // namespace gnomon::scalar
