// The kernel table: every function that exists once per CPU level. A kernel file (name ends in its level) is
// a leaf: it includes its intrinsics header, this header and the formula, is compiled with its level's flags,
// and leaves no weak symbol, which the linker could pick for the whole program (numpy issue 25274).
// All kernels are noexcept and give the same bits on every level.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gnomon {

// BM25: for i = 0..n-1: scores[o] += idf * tfs[i] * k1_plus_1 / (tfs[i] + norms[o]) with o = docs[i] - base.
// docs are strictly ascending (scatters never conflict) and lie in [base, base + 2^31).
using Bm25Add = void(const std::uint32_t* docs, const std::uint8_t* tfs, std::size_t n, std::uint32_t base,
                     const double* norms, double idf, double k1_plus_1, double* scores) noexcept;

// Writes the offsets i < n, ascending, of the scores that were touched (their bits differ from -0.0, which an
// accumulator starts from) and are >= threshold; returns how many. out holds n entries.
using Bm25Select = std::size_t(const double* scores, std::size_t n, double threshold,
                               std::uint32_t* out) noexcept;

// BM25 screens (bm25_screen.hpp). sums[i] += weight * row[i]; n is a multiple of 64.
using Bm25Row = void(const float* row, std::size_t n, float weight, float* sums) noexcept;

// Writes the offsets i < n, ascending, of sums that are positive and >= threshold, and those sums; sets all n
// sums to +0.0; returns how many. n is a multiple of 32; the outputs hold n entries.
using Bm25Pick = std::size_t(float* sums, std::size_t n, float threshold, std::uint32_t* out,
                             float* out_sums) noexcept;

// A frequent term's frequencies: out[i] = tfs[at] where list[at] == docs[i], untouched where there is no such
// `at`. list ascends, docs too; the entries of documents [32 b, 32 b + 32) are list[starts[b]..starts[b +
// 1]).
using Bm25Find = void(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
                      const std::uint32_t* docs, std::size_t n, double* out) noexcept;

// bounds[i] = (add ? bounds[i] : 0) + (maxima[i] * weight >> 8) + 1, modulo 2^16; n is a multiple of 64.
using Bm25Bound = void(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                       std::uint16_t* bounds) noexcept;

// Writes the places i < n, ascending, where bounds[i] >= threshold; returns how many. n is a multiple of 64.
using Bm25Blocks = std::size_t(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                               std::uint32_t* out) noexcept;

// Dense: out[i] = canonical dot of query[0..dim) and row r(i); rows lie `stride` floats apart, and r(i) is
// ids[i], or i where ids is null.
//   lane[l] = sum over d = l, l+8, l+16, ... of query[d] * row[d], from +0.0, ascending d, in float64
//   dot     = ((lane0 + lane4) + (lane2 + lane6)) + ((lane1 + lane5) + (lane3 + lane7))
// query holds float32 values: each product is exact in float64 (48 of 53 bits), so FMA and mul+add agree.
// A lane is never -0.0, so zeros that pad the last lanes change no bit.
using DenseDot = void(const double* query, const float* rows, const std::uint32_t* ids, std::size_t n,
                      std::size_t stride, std::size_t dim, double* out) noexcept;

// The same sum of squares of query[d] - row[d]: difference, square and addition each rounded, so no FMA.
using DenseL2 = DenseDot;

// out[i] = the canonical dot of row i with itself. It is finite if and only if the whole row is.
using DenseSquare = void(const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                         double* out) noexcept;

// Dense screen: integer dots of one panel of 64 coded rows with up to six coded queries, equal on every
// level.
//   acc[q * 64 + r] = init[q] + sum over s < steps, j < 4 of panel[(s * 64 + r) * 4 + j] * queries[(s * 6 +
//   q) * 4 + j] bit r of masks[q] = acc[q * 64 + r] >= thresholds[q]
// Rows are stored as code + 128, so init[q] = -128 * sum of the query's codes; |codes| <= 127, and steps are
// few enough that nothing overflows (dense_screen.hpp). 1 <= n <= 6; a panel on a 64-byte border is read
// fastest.
constexpr std::size_t kPanelRows = 64;
constexpr std::size_t kTileQueries = 6;
using ScreenPanel = void(const std::uint8_t* panel, const std::int8_t* queries, std::size_t steps,
                         const std::int32_t* init, const std::int32_t* thresholds, std::size_t n,
                         std::int32_t* acc, std::uint64_t* masks) noexcept;

// MMR: redundancy[i] = max(redundancy[i], similarity[i]) for all i < n; returns the lowest i with taken[i] ==
// 0 of greatest diversity * relevance[i] - (1 - diversity) * redundancy[i]; n when all are taken. Inputs
// finite.
using MmrStep = std::size_t(const double* relevance, const double* similarity, double* redundancy,
                            const std::uint8_t* taken, std::size_t n, double diversity) noexcept;

struct Kernels {
    const char* level;
    Bm25Add* bm25_add;
    Bm25Select* bm25_select;
    Bm25Row* bm25_row;
    Bm25Pick* bm25_pick;
    Bm25Find* bm25_find;
    Bm25Bound* bm25_bound;
    Bm25Blocks* bm25_blocks;
    DenseDot* dense_dot;
    DenseL2* dense_l2;
    DenseSquare* dense_square;
    ScreenPanel* dense_screen;
    MmrStep* mmr_step;
};

namespace scalar {
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Bound bm25_bound;
Bm25Blocks bm25_blocks;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
ScreenPanel dense_screen;
MmrStep mmr_step;
}  // namespace scalar

namespace avx2 {
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Bound bm25_bound;
Bm25Blocks bm25_blocks;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
ScreenPanel dense_screen;
MmrStep mmr_step;
}  // namespace avx2

namespace avx512 {
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Bound bm25_bound;
Bm25Blocks bm25_blocks;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
ScreenPanel dense_screen;
MmrStep mmr_step;
}  // namespace avx512

// x86-64-v4 with AVX512-VNNI: the screen alone differs, the rest are the functions of avx512.
namespace avx512vnni {
using avx512::bm25_add;
using avx512::bm25_blocks;
using avx512::bm25_bound;
using avx512::bm25_find;
using avx512::bm25_pick;
using avx512::bm25_row;
using avx512::bm25_select;
using avx512::dense_dot;
using avx512::dense_l2;
using avx512::dense_square;
using avx512::mmr_step;
ScreenPanel dense_screen;
}  // namespace avx512vnni

}  // namespace gnomon
