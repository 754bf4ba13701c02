// What the levels of bm25_find, bm25_above and bm25_settle share. Everything is static: a kernel file leaves
// no weak symbol.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../bm25.hpp"

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
        std::uint32_t at = starts[docs[i] / 32];
        while (at < last && list[at] < docs[i]) ++at;
        out[i] = at < last && list[at] == docs[i] ? static_cast<double>(tfs[at]) : 0.0;
    }
}

// bm25_above of the places [first, n), after `count` that were found before.
static inline std::size_t above_each(const float* impacts, std::size_t first, std::size_t n, float least,
                                     std::uint32_t* out, std::size_t count) noexcept {
    for (std::size_t i = first; i < n; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        count += static_cast<std::size_t>(impacts[i] >= least);
    }
    return count;
}

// bm25_settle, which each level's compiler flags turn into its own vectors.
static inline void settle_each(const double* tfs, const double* norms, std::size_t n, double idf,
                               double k1_plus_1, double* scores) noexcept {
    for (std::size_t i = 0; i < n; ++i)
        scores[i] = scores[i] + bm25::weight(idf, tfs[i], k1_plus_1, norms[i]);
}

}  // namespace gnomon
