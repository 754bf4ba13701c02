// What the levels of bm25_find share. Everything is static: a kernel file leaves no weak symbol.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gnomon {

// The list, its blocks' starts and the frequencies of document i + 24 and i + 12 are on their way while i is
// looked up: each look-up misses the cache three times otherwise.
static inline void ask_ahead(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
                             const std::uint32_t* docs, std::size_t i, std::size_t n) noexcept {
    constexpr std::size_t kAhead = 12;
    if (i + 2 * kAhead < n) __builtin_prefetch(starts + docs[i + 2 * kAhead] / 32);
    if (i + kAhead >= n) return;
    const std::uint32_t ahead = starts[docs[i + kAhead] / 32];
    __builtin_prefetch(list + ahead);
    __builtin_prefetch(tfs + ahead);
}

// bm25_find, posting by posting.
static inline void find_by_steps(const std::uint32_t* list, const std::uint32_t* starts,
                                 const std::uint8_t* tfs, const std::uint32_t* docs, std::size_t n,
                                 double* out) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        ask_ahead(list, starts, tfs, docs, i, n);
        const std::uint32_t last = starts[docs[i] / 32 + 1];
        for (std::uint32_t at = starts[docs[i] / 32]; at < last && list[at] <= docs[i]; ++at)
            if (list[at] == docs[i]) out[i] = static_cast<double>(tfs[at]);
    }
}

}  // namespace gnomon
