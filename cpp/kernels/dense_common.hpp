// What the dense kernels of all levels share: loops that each level's compiler flags turn into its vectors,
// and the walk over a block in tiles. static: no weak symbol leaves a kernel object. Included by the kernel
// files only.
#pragma once
#include <cmath>

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

}  // namespace gnomon::common
