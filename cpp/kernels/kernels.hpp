// The kernel table: every function that exists once per CPU level. A kernel file (name ends in its level) is a
// leaf: it includes its intrinsics header, this header and the formula, is compiled with its level's flags,
// and leaves no weak symbol, which the linker could pick for the whole program (numpy issue 25274).
// All kernels are noexcept and give the same bits on every level.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gnomon {

struct Kernels {
    const char* level;

    // BM25: for i = 0..n-1: scores[docs[i] - base] += idf * tfs[i] * k1_plus_1 / (tfs[i] + norms[docs[i]]).
    // docs are strictly ascending (so scatters never conflict), and docs[i] >= base.
    void (*bm25_add)(const std::uint32_t* docs, const std::uint32_t* tfs, std::size_t n, std::uint32_t base,
                     const double* norms, double idf, double k1_plus_1, double* scores) noexcept;

    // Writes the offsets i < n, ascending, of the scores that were touched (differ in bits from -0.0) and are
    // >= threshold; returns how many. out holds n entries.
    std::size_t (*bm25_select)(const double* scores, std::size_t n, double threshold,
                               std::uint32_t* out) noexcept;

    // Dense: out[i] = canonical dot of query[0..dim) and row i, rows stored `stride` floats apart.
    //   lane[l] = sum over d = l, l+8, l+16, ... of query[d] * row[d], from +0.0, ascending d, in float64
    //   dot     = ((lane0 + lane4) + (lane2 + lane6)) + ((lane1 + lane5) + (lane3 + lane7))
    // Products of two float32 are exact in float64, so FMA and mul+add agree. query holds float32 values.
    void (*dense_dot)(const double* query, const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                      double* out) noexcept;

    // The same for squared distances: lane[l] += t * t with t = query[d] - row[d], each step rounded: no FMA.
    void (*dense_l2)(const double* query, const float* rows, std::size_t n, std::size_t stride, std::size_t dim,
                     double* out) noexcept;

    // MMR: redundancy[i] = max(redundancy[i], similarity[i]) for all i; then the lowest i with taken[i] == 0 that
    // has the greatest diversity * relevance[i] - (1 - diversity) * redundancy[i]; n when all are taken.
    std::size_t (*mmr_step)(const double* relevance, const double* similarity, double* redundancy,
                            const std::uint8_t* taken, std::size_t n, double diversity) noexcept;
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace gnomon
