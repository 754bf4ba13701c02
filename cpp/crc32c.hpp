// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4), the checksum of every stored
// byte. It finds every burst of up to 32 wrong bits and every error of up to 3 bits within a block of 64 KiB
// (Koopman 2002); any other damage goes unseen with a chance of 2^-32.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gnomon {

// crc32c(ab) == crc32c(b, crc32c(a)); crc32c("123456789") == 0xE3069283.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed = 0) noexcept;

}  // namespace gnomon
