// What the dense kernels of all levels share: loops that each level's compiler flags turn into its vectors,
// and the walk over a block in tiles. static: no weak symbol leaves a kernel object. Included by the kernel
// files only.
#pragma once
#include <cmath>
#include <cstring>

#include "kernels.hpp"

namespace gnomon::common {

static inline void cosines(double query_square, const double* squares, std::size_t n,
                           double* scores) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        const double norms = std::sqrt(query_square * squares[i]);
        const bool some = norms > 0.0;
        // No branch around the division: the loop becomes vectors.
        const double cosine = (some ? scores[i] : 0.0) / (some ? norms : 1.0);
        const double above = cosine > -1.0 ? cosine : -1.0;
        scores[i] = above < 1.0 ? above : 1.0;
    }
}

// Tile::run<q, r>(queries, rows, dim, out, out_stride) takes q queries and r rows. A type of a kernel file's
// anonymous namespace, so that what is made of these templates stays in its object.
template <class Tile, int kQueries, class Query, class Value, class Out>
static inline void walk_rows(const Query* queries, const Value* rows, std::size_t n_rows, std::size_t dim,
                             Out* out, std::size_t out_stride) noexcept {
    std::size_t r = 0;
    for (; r + Tile::kRows <= n_rows; r += Tile::kRows)
        Tile::template run<kQueries, Tile::kRows>(queries, rows + r * dim, dim, out + r, out_stride);
    for (; r < n_rows; ++r)
        Tile::template run<kQueries, 1>(queries, rows + r * dim, dim, out + r, out_stride);
}

template <class Tile, class Query, class Value, class Out>
static inline void walk(const Query* queries, std::size_t n_queries, const Value* rows, std::size_t n_rows,
                        std::size_t dim, Out* out, std::size_t out_stride) noexcept {
    std::size_t q = 0;
    for (; q + Tile::kQueries <= n_queries; q += Tile::kQueries)
        walk_rows<Tile, Tile::kQueries>(queries + q * dim, rows, n_rows, dim, out + q * out_stride,
                                        out_stride);
    for (; q < n_queries; ++q)
        walk_rows<Tile, 1>(queries + q * dim, rows, n_rows, dim, out + q * out_stride, out_stride);
}

// Eight running sums in a vector of the language, of which each level's flags make registers of its width.
typedef double Lanes __attribute__((vector_size(64)));

// kRows rows at once, whose chains of additions run side by side.
template <bool kL2, int kRows>
static inline void few64(const double* query, const double* const* rows, const double* factors,
                         std::size_t dim, double* out) noexcept {
    Lanes sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = Lanes{};
    const std::size_t whole = dim & ~std::size_t{7};
    for (std::size_t d = 0; d < whole; d += 8) {
        Lanes q;
        std::memcpy(&q, query + d, sizeof q);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            Lanes x;
            std::memcpy(&x, rows[r] + d, sizeof x);
            x = kL2 ? x - q : x * factors[r];
            sum[r] += x * (kL2 ? x : q);
        }
    }
    for (int r = 0; r < kRows; ++r) {
        double lane[8];
        std::memcpy(lane, &sum[r], sizeof lane);
        for (std::size_t d = whole; d < dim; ++d) {
            const double x = kL2 ? rows[r][d] - query[d] : rows[r][d] * factors[r];
            lane[d - whole] += x * (kL2 ? x : query[d]);
        }
        out[r] = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
}

template <bool kL2>
static inline void rows64(const double* query, const double* rows, const double* factors,
                          const std::uint32_t* ids, std::size_t n, std::size_t dim, double* out) noexcept {
    constexpr int kRows = 4;
    const double* first[kRows];
    double factor[kRows];
    for (std::size_t i = 0; i < n;) {
        const std::size_t count = n - i >= kRows ? kRows : 1;
        for (std::size_t r = 0; r < count; ++r) {
            const std::size_t row = ids != nullptr ? ids[i + r] : i + r;
            first[r] = rows + row * dim;
            factor[r] = factors != nullptr ? factors[row] : 1.0;
        }
        if (count == kRows)
            few64<kL2, kRows>(query, first, factor, dim, out + i);
        else
            few64<kL2, 1>(query, first, factor, dim, out + i);
        i += count;
    }
}

}  // namespace gnomon::common
