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

// A frequent term's frequencies: out[i] = tfs[at] where list[at] == docs[i], 0 where there is no such `at`.
// The list is not empty and ascends, docs too; the entries of documents [32 b, 32 b + 32) are
// list[starts[b]..starts[b + 1]).
using Bm25Find = void(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
                      const std::uint32_t* docs, std::size_t n, double* out) noexcept;

// scores[i] += idf * tfs[i] * k1_plus_1 / (tfs[i] + norms[i]); norms are positive, so that a frequency of 0
// changes no bit of a score that is not -0.0.
using Bm25Settle = void(const double* tfs, const double* norms, std::size_t n, double idf, double k1_plus_1,
                        double* scores) noexcept;

// bounds[i] = (add ? bounds[i] : 0) + (maxima[i] * weight >> 8) + 1, modulo 2^16; n is a multiple of 64.
using Bm25Bound = void(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                       std::uint16_t* bounds) noexcept;

// sums[i] = the sum over r < n_rows of (rows[r][i] * weights[r] >> 8) + 1, modulo 2^16: bm25_bound of each
// row in one pass. n is a multiple of 64, n_rows at least 1.
using Bm25Levels = void(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t n_rows,
                        std::size_t n, std::uint16_t* sums) noexcept;

// Writes the places i < n, ascending, where bounds[i] >= threshold; returns how many. n is a multiple of 64.
using Bm25Blocks = std::size_t(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                               std::uint32_t* out) noexcept;

// Writes the places i < n, ascending, where impacts[i] >= least; returns how many. least > 0.
using Bm25Above = std::size_t(const float* impacts, std::size_t n, float least, std::uint32_t* out) noexcept;

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

// Dense screen: integer dots of one panel of 64 coded rows with a tile of coded queries, equal on every
// level.
//   dot(s, q, r)    = sum over j < 4 of panel[(s * 64 + r) * 4 + j] * queries[p(s, q) + j]
//   acc[q * 64 + r] = init[q] + (sum of dot over s < head) * 2^shift + sum of dot over head <= s < steps
//   bit r of masks[q] = acc[q * 64 + r] >= thresholds[q]
// in 32 bits that wrap: only the result has to fit. Rows are stored as code + 128, so init[q] is -128 times
// the like sum of the query's codes; |codes| <= 127, and steps are few enough that no result overflows
// (dense_screen.hpp). head is a multiple of 16 and below steps, or head and shift are 0. A level has tiles of
// six queries, step by step: p(s, q) = (s * 6 + q) * 4; or of sixteen, one after the other: p(s, q) = (q *
// stride + s) * 4. n queries of the tile are wanted, and acc is written for no others. A panel on a 64-byte
// border is read fastest. `ahead`: whether the next panel, stride * 256 bytes on, should be asked for: of
// use to the first tile that reads a panel.
struct ScreenShape {
    std::size_t head, steps, stride;
    int shift;
    bool ahead;
};
constexpr std::size_t kPanelRows = 64;
constexpr std::size_t kTileQueries = 6;
constexpr std::size_t kWideTileQueries = 16;
using ScreenPanel = void(const std::uint8_t* panel, const std::int8_t* queries, const ScreenShape& shape,
                         const std::int32_t* init, const std::int32_t* thresholds, std::size_t n,
                         std::int32_t* acc, std::uint64_t* masks) noexcept;

// Dense screen, what surrounds the sums. A panel's share of the bounds, and for each query q the arrays'
// (what they mean: dense_screen.hpp):
//   limits[q] = nearest((needed[q] + panel.offset - norm[q] * panel.per_norm - residual[q] *
//   panel.per_residual
//                        - tail[q] * panel.per_tail) * panel.inverse * inverse[q]) - 1,
// clamped to +-2147483000, the least where that is no number. Each operation is rounded; no FMA.
struct PanelLimits {
    double offset, per_norm, per_residual, per_tail, inverse;
};
struct QueryLimits {
    const double *needed, *norm, *residual, *tail, *inverse;
};
using ScreenLimits = void(const PanelLimits& panel, const QueryLimits& queries, std::size_t n,
                          std::int32_t* limits) noexcept;

// For each set bit r of mask, ascending, in float32, each operation rounded:
//   middle = scale * acc[r] + base - squares[r] (nothing subtracted where squares is null)
//   width  = fixed + slope * residuals[r] + tail_slope * tails[r] (no last term where tails is null)
// writes middle - width (-inf for NaN), middle + width (+inf for NaN) and first_row + r; returns how many.
// The three outputs have room for kPanelRows + 16 entries each.
struct TakeBounds {
    float scale, base, fixed, slope, tail_slope;
};
using ScreenTake = std::size_t(const std::int32_t* acc, std::uint64_t mask, const TakeBounds& bounds,
                               const float* residuals, const float* tails, const double* squares,
                               std::uint32_t first_row, float* lower, float* upper,
                               std::uint32_t* rows) noexcept;

// Rotated panels hold the heads of their 64 rows as above, then the tails row by row, `bytes` each, so that
// one row's tail is a few cache lines. Untangled, a panel is as dense_screen takes it: steps * 256 bytes of
// out. The next panel, which follows in memory, is asked for.
using ScreenUntangle = void(const std::uint8_t* panel, std::size_t head, std::size_t steps,
                            std::uint8_t* out) noexcept;

// For each set bit r of mask: acc[r] = acc[r] * 2^shift + init + the dot of tail r with the query's, in 32
// bits that wrap, as in dense_screen. Tail r is the `bytes` at tails + r * bytes.
using ScreenTails = void(const std::uint8_t* tails, std::size_t bytes, std::uint64_t mask,
                         const std::int8_t* query, int shift, std::int32_t init, std::int32_t* acc) noexcept;

// Bit r: acc[r] >= limit, of kPanelRows.
using ScreenReach = std::uint64_t(const std::int32_t* acc, std::int32_t limit) noexcept;

// Codes one vector: codes[d] = round(y / scale), ties to even, in [-127, 127] for y = x[d] * factor, where
// inverse is 1 / scale, rounded; returns the sum of (y - scale * code)^2 in eight lanes as DenseDot adds
// them.
using ScreenCode = double(const float* x, std::size_t dim, double factor, double scale, double inverse,
                          std::int8_t* codes) noexcept;

// Codes one vector in float32, for a screen that is used once: codes[d] = 128 + the whole number nearest to
// y / scale, in [-127, 127], for y = x[d] * factor rounded; returns the sum of (y - scale * (code - 128))^2,
// added in sixteen lanes, fused or not: levels differ, and dense_screen.cpp bounds by how much.
using ScreenQuick = float(const float* x, std::size_t dim, float factor, float scale, float inverse,
                          std::uint8_t* codes) noexcept;

// A threshold that at least k of the n values reach, and hardly more than k: 1 <= k <= n < 2^31, none is NaN.
// keys has room for n.
using ScreenKth = float(const float* values, std::size_t n, std::size_t k, std::int32_t* keys) noexcept;

// The greatest |x[d]|, 0 without any; infinite or NaN only if one is.
using ScreenGreatest = float(const float* x, std::size_t dim) noexcept;

// Dots to cosines, in place: scores[i] / sqrt(query_square * squares[i]), clipped to [-1, 1]; 0.0 where that
// root is 0. Root, product and division are rounded correctly on every level.
using DenseCosines = void(double query_square, const double* squares, std::size_t n, double* scores) noexcept;

// A block of canonical dots (or sums of squared differences): out[q * out_stride + r] as DenseDot gives it
// for queries[q * dim ...] and row r.
using DenseTile = void(const double* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                       std::size_t dim, double* out, std::size_t out_stride) noexcept;

// A block of dots in float32: out[q * out_stride + r], added in any order of at most dim / 4 + 8 roundings
// from a product to the sum, fused or not; so levels differ, and float_screen.hpp bounds by how much.
using DenseFloat = void(const float* queries, std::size_t n_queries, const float* rows, std::size_t n_rows,
                        std::size_t dim, float* out, std::size_t out_stride) noexcept;

// Float64 rows (dense64.hpp), added in DenseDot's order: out[i] = the dot of query and row r(i), each
// component of which is multiplied by factors[r(i)] before (by 1 where factors is null); every product is
// rounded, so no FMA. Rows lie `dim` doubles apart, and r(i) is ids[i], or i where ids is null. dense_l2_64:
// the sum of squares of row[d] - query[d]; factors are not read.
using DenseDot64 = void(const double* query, const double* rows, const double* factors,
                        const std::uint32_t* ids, std::size_t n, std::size_t dim, double* out) noexcept;

// MMR: redundancy[i] = max(redundancy[i], similarity[i]) for all i < n; returns the lowest i with taken[i] ==
// 0 of greatest diversity * relevance[i] - (1 - diversity) * redundancy[i]; n when all are taken. Inputs
// finite.
using MmrStep = std::size_t(const double* relevance, const double* similarity, double* redundancy,
                            const std::uint8_t* taken, std::size_t n, double diversity) noexcept;

// Lines: which places of a text hold a window of byte classes. Bit i of masks[b] says whether, for every k <
// width, byte data[64 b + i + k] is in class k. Class k holds byte 16 h + l, h < 8, where bit h of rows[k][l]
// is set, and every byte from 0x80 on where high[k] is set. Classes are looked at in the order given: the
// rarest first. 64 * n_blocks + width - 1 bytes are read.
struct ByteWindow {
    static constexpr std::size_t kMost = 8;
    std::size_t width;
    std::uint8_t order[kMost];
    std::uint8_t rows[kMost][16];
    bool high[kMost];
};
using LinesWindow = void(const std::uint8_t* data, std::size_t n_blocks, const ByteWindow& window,
                         std::uint64_t* masks) noexcept;

struct Kernels {
    const char* level;
    std::size_t tile_queries;  // of dense_screen: kTileQueries or kWideTileQueries
    Bm25Add* bm25_add;
    Bm25Select* bm25_select;
    Bm25Row* bm25_row;
    Bm25Pick* bm25_pick;
    Bm25Find* bm25_find;
    Bm25Settle* bm25_settle;
    Bm25Bound* bm25_bound;
    Bm25Levels* bm25_levels;
    Bm25Blocks* bm25_blocks;
    Bm25Above* bm25_above;
    DenseDot* dense_dot;
    DenseL2* dense_l2;
    DenseSquare* dense_square;
    DenseTile* dense_dot_tile;
    DenseTile* dense_l2_tile;
    DenseCosines* dense_cosines;
    DenseFloat* dense_float;
    DenseDot64* dense_dot_64;
    DenseDot64* dense_l2_64;
    ScreenPanel* dense_screen;
    ScreenLimits* screen_limits;
    ScreenTake* screen_take;
    ScreenUntangle* screen_untangle;
    ScreenTails* screen_tails;
    ScreenReach* screen_reach;
    ScreenCode* screen_code;
    ScreenGreatest* screen_greatest;
    ScreenQuick* screen_quick;
    ScreenKth* screen_kth;
    MmrStep* mmr_step;
    LinesWindow* lines_window;
};

namespace scalar {
constexpr std::size_t tile_queries = kTileQueries;
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Settle bm25_settle;
Bm25Bound bm25_bound;
Bm25Levels bm25_levels;
Bm25Blocks bm25_blocks;
Bm25Above bm25_above;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
DenseTile dense_dot_tile;
DenseTile dense_l2_tile;
DenseCosines dense_cosines;
DenseFloat dense_float;
DenseDot64 dense_dot_64;
DenseDot64 dense_l2_64;
ScreenPanel dense_screen;
ScreenLimits screen_limits;
ScreenTake screen_take;
ScreenUntangle screen_untangle;
ScreenTails screen_tails;
ScreenReach screen_reach;
ScreenCode screen_code;
ScreenGreatest screen_greatest;
ScreenQuick screen_quick;
ScreenKth screen_kth;
MmrStep mmr_step;
LinesWindow lines_window;
}  // namespace scalar

namespace avx2 {
constexpr std::size_t tile_queries = kTileQueries;
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Settle bm25_settle;
Bm25Bound bm25_bound;
Bm25Levels bm25_levels;
Bm25Blocks bm25_blocks;
Bm25Above bm25_above;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
DenseTile dense_dot_tile;
DenseTile dense_l2_tile;
DenseCosines dense_cosines;
DenseFloat dense_float;
DenseDot64 dense_dot_64;
DenseDot64 dense_l2_64;
ScreenPanel dense_screen;
ScreenLimits screen_limits;
ScreenTake screen_take;
ScreenUntangle screen_untangle;
ScreenTails screen_tails;
ScreenReach screen_reach;
ScreenCode screen_code;
ScreenGreatest screen_greatest;
ScreenQuick screen_quick;
ScreenKth screen_kth;
MmrStep mmr_step;
LinesWindow lines_window;
}  // namespace avx2

namespace avx512 {
constexpr std::size_t tile_queries = kTileQueries;
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Settle bm25_settle;
Bm25Bound bm25_bound;
Bm25Levels bm25_levels;
Bm25Blocks bm25_blocks;
Bm25Above bm25_above;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
DenseTile dense_dot_tile;
DenseTile dense_l2_tile;
DenseCosines dense_cosines;
DenseFloat dense_float;
DenseDot64 dense_dot_64;
DenseDot64 dense_l2_64;
ScreenPanel dense_screen;
ScreenLimits screen_limits;
ScreenTake screen_take;
ScreenUntangle screen_untangle;
ScreenTails screen_tails;
ScreenReach screen_reach;
ScreenCode screen_code;
ScreenGreatest screen_greatest;
ScreenQuick screen_quick;
ScreenKth screen_kth;
MmrStep mmr_step;
LinesWindow lines_window;
}  // namespace avx512

// x86-64-v4 with AVX512-VNNI: the screen alone differs, the rest are the functions of avx512.
namespace avx512vnni {
using avx512::bm25_above;
using avx512::bm25_add;
using avx512::bm25_blocks;
using avx512::bm25_bound;
using avx512::bm25_find;
using avx512::bm25_levels;
using avx512::bm25_pick;
using avx512::bm25_row;
using avx512::bm25_select;
using avx512::bm25_settle;
using avx512::dense_cosines;
using avx512::dense_dot;
using avx512::dense_dot_64;
using avx512::dense_dot_tile;
using avx512::dense_float;
using avx512::dense_l2;
using avx512::dense_l2_64;
using avx512::dense_l2_tile;
using avx512::dense_square;
using avx512::lines_window;
using avx512::mmr_step;
using avx512::screen_code;
using avx512::screen_greatest;
using avx512::screen_kth;
using avx512::screen_limits;
using avx512::screen_quick;
using avx512::screen_reach;
using avx512::screen_take;
using avx512::screen_untangle;
using avx512::tile_queries;
ScreenPanel dense_screen;
ScreenTails screen_tails;
}  // namespace avx512vnni

// x86-64-v4 with AVX512-VNNI and AMX-INT8, whose state the operating system has to grant: again the screen.
namespace avx512amx {
using avx512::bm25_above;
using avx512::bm25_add;
using avx512::bm25_blocks;
using avx512::bm25_bound;
using avx512::bm25_find;
using avx512::bm25_levels;
using avx512::bm25_pick;
using avx512::bm25_row;
using avx512::bm25_select;
using avx512::bm25_settle;
using avx512::dense_cosines;
using avx512::dense_dot;
using avx512::dense_dot_64;
using avx512::dense_dot_tile;
using avx512::dense_float;
using avx512::dense_l2;
using avx512::dense_l2_64;
using avx512::dense_l2_tile;
using avx512::dense_square;
using avx512::lines_window;
using avx512::mmr_step;
using avx512::screen_code;
using avx512::screen_greatest;
using avx512::screen_kth;
using avx512::screen_limits;
using avx512::screen_quick;
using avx512::screen_reach;
using avx512::screen_take;
using avx512::screen_untangle;
constexpr std::size_t tile_queries = kWideTileQueries;
using avx512vnni::screen_tails;
ScreenPanel dense_screen;
}  // namespace avx512amx

// aarch64 with dot products; MMR is as fast as the compiler makes the portable loop.
namespace neon {
using scalar::mmr_step;
constexpr std::size_t tile_queries = kTileQueries;
Bm25Add bm25_add;
Bm25Select bm25_select;
Bm25Row bm25_row;
Bm25Pick bm25_pick;
Bm25Find bm25_find;
Bm25Settle bm25_settle;
Bm25Bound bm25_bound;
Bm25Levels bm25_levels;
Bm25Blocks bm25_blocks;
Bm25Above bm25_above;
DenseDot dense_dot;
DenseL2 dense_l2;
DenseSquare dense_square;
DenseTile dense_dot_tile;
DenseTile dense_l2_tile;
DenseCosines dense_cosines;
DenseFloat dense_float;
DenseDot64 dense_dot_64;
DenseDot64 dense_l2_64;
ScreenPanel dense_screen;
ScreenLimits screen_limits;
ScreenTake screen_take;
ScreenUntangle screen_untangle;
ScreenTails screen_tails;
ScreenReach screen_reach;
ScreenCode screen_code;
ScreenGreatest screen_greatest;
ScreenQuick screen_quick;
ScreenKth screen_kth;
LinesWindow lines_window;
}  // namespace neon

}  // namespace gnomon
