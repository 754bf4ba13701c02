// What the host hands to kernels, and the launches: plain C++ for both sides. All pointers are the device's.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef GNOMON_EMULATED
#include "emulator_runtime.hpp"
#else
#include <cuda_runtime_api.h>
#endif

namespace gnomon::cuda {

constexpr int kCosine = 1;  // as Metric of cpp/dense.hpp
constexpr int kIp = 2;
constexpr int kL2 = 3;

constexpr std::size_t kScreenDims = 66000;
constexpr std::int64_t kRowBytes = 128;  // rows of codes are padded to a multiple of it

struct CodedRows {
    char* codes;
    std::int64_t row_bytes;
    const double* squares;
    float* scales;
    float* residuals;
    float* norms;
    float* halves;  // |x|^2 / 2, rounded down
    unsigned* greatest_norm;
};

struct CodedQueries {
    char* codes;
    std::int64_t row_bytes;
    const double* squares;
    float* scales;
    float* per_residual;  // A of dense_code.cuh
    float* per_norm;      // B
    double* norms;
};

struct LimitRule {
    int metric;
    bool never;  // no bound: every row is settled
    const double* squares;
    const double* norms;
    const unsigned* greatest_norm;
};

// Candidates of each query: at most `capacity`; beyond it only *overflow is set.
struct Candidates {
    std::uint32_t* rows;
    double* scores;
    int* counts;
    int capacity;
    int* overflow;
};

// The best of each query so far, in no order: room for k each.
struct Best {
    double* scores;
    std::uint32_t* rows;
    int* counts;
    double* taus;  // what a row has to reach: the k-th best score, or the least that is wanted
};

enum class Family { mma, wgmma };

struct ScreenArgs {
    const char* codes;  // of the wave's first row
    const char* queries;
    std::int64_t row_bytes;
    const float* scales;  // of the wave's rows
    const float* residuals;
    const float* norms;
    const float* halves;           // null but for l2
    const std::uint32_t* allowed;  // a bit for each row of the segment; null: all
    std::int64_t first_row;        // of the wave, in the segment
    int n_rows;
    int n_queries;
    const float* query_scales;
    const float* per_residual;
    const float* per_norm;
    const float* limits;
    Candidates found;
};

struct SettleArgs {
    const float* rows;  // of the chunk
    const double* squares;
    std::int64_t first_row;  // of the chunk, in the segment
    const float* queries;
    const double* query_squares;
    int dim;
    int metric;
    int n_queries;
    Candidates found;
};

struct MergeArgs {
    int n_queries;
    int k;
    double least;  // score that is wanted
    Candidates found;
    Best before;
    Best after;
    int* not_a_number;
};

struct Bm25Lists {
    const std::uint32_t* docs;
    const std::uint32_t* tfs;
    const double* tildes;  // bm25f: in the place of tfs; else null
    const float* impacts;
};

// Occurrences of a batch's queries: those of query q are [starts[q], starts[q + 1]).
struct Bm25Queries {
    const int* starts;
    const int* slots;       // into the batch's distinct terms
    const double* weights;  // query weight * idf + 0.0
    const double* absents;  // what a document without the term gets
    const float* scaled;    // weights of the screen, 0 where it does not apply
    const double* scales;   // of a query: screen sums times it are scores, but for absent_sums
    const double* absent_sums;
    const double* relatives;
    const double* slacks;
    const double* at_ends;
};

struct Bm25Block {
    Bm25Lists lists;
    Bm25Queries queries;
    const std::int64_t* cuts;      // [terms, ranges + 1]
    const std::uint32_t* allowed;  // documents of the segment; null: all
    std::uint32_t base;            // of the segment's documents
    int n_ranges;
    int first_range;
    int ranges;  // of the wave
    int range_docs;
    std::int64_t n_docs;
    int n_queries;
    int k;
    Best best;
    Candidates found;
};

struct Bm25Rule {
    int formula;
    double k1;
    double delta;
    bool in_order;
    bool at_end;
};

struct MmrArgs {
    const float* rows;
    const double* squares;
    std::int64_t n;
    int dim;
    const double* relevance;     // [queries, n]
    double* redundancy;          // [queries, n]
    unsigned char* taken;        // [queries, n], zero but for the earlier picks
    const int* selected;         // earlier picks of all queries
    const int* selected_starts;  // [queries + 1]
    int limit;
    double diversity;
    bool last_only;
    int n_queries;
    int* picks;      // [queries, limit], -1 behind the last
    double* scores;  // likewise
};

void launch_squares(const float* rows, std::int64_t n, int dim, std::int64_t first, double* squares,
                    unsigned long long* bad, unsigned long long* zero, cudaStream_t stream);
void launch_code_rows(const float* rows, std::int64_t n, int dim, bool cosine, bool bf16,
                      const CodedRows& out, cudaStream_t stream);
void launch_code_queries(const float* queries, int n, int dim, bool cosine, bool bf16, int planes,
                         const CodedQueries& out, cudaStream_t stream);
void launch_limits(const LimitRule& rule, int n, const double* taus, float* limits, cudaStream_t stream);
void launch_screen(const ScreenArgs& args, bool bf16, int planes, Family family, cudaStream_t stream);
void launch_settle(const SettleArgs& args, cudaStream_t stream);
// Sets limits as well, where there are any.
void launch_merge(const MergeArgs& args, const LimitRule& rule, float* limits, cudaStream_t stream);
// Best first; scratch has room for the next power of two above k for each query, 12 bytes each, where k is
// above kSortShared.
constexpr int kSortShared = 2048;
void launch_sort(const Best& best, int n_queries, int k, void* scratch, cudaStream_t stream);
// Rows of the hits as int64; -1, and a score of -infinity, behind the last of a query.
void launch_rows64(const Best& best, int n_queries, int k, std::int64_t* rows, cudaStream_t stream);
void launch_fill(double* values, std::int64_t n, double value, cudaStream_t stream);

// To float32 from float64, float16 or bfloat16 (kinds 0, 1, 2).
void launch_widen(const void* from, int kind, std::int64_t n, float* to, cudaStream_t stream);

void launch_impacts(const Bm25Lists& lists, std::int64_t n, const double* constants, const Bm25Rule& rule,
                    float* impacts, cudaStream_t stream);
// Greatest impact of each term, and the least above 0 (infinity where there is none).
void launch_impact_range(const std::int64_t* starts, const float* impacts, std::int64_t n_terms,
                         float* greatest, float* least, cudaStream_t stream);
void launch_cuts(const std::uint32_t* docs, const std::int64_t* starts, const int* terms, int n_terms,
                 int n_ranges, int range_docs, std::int64_t* cuts, cudaStream_t stream);
void launch_bm25(const Bm25Block& block, cudaStream_t stream);
void launch_bm25_settle(const Bm25Block& block, const Bm25Rule& rule, const double* constants,
                        cudaStream_t stream);
// Canonical cosines [m, n].
void launch_cosines(const float* rows, const double* squares, std::int64_t n, const float* queries,
                    const double* query_squares, int m, int dim, double* cosines, cudaStream_t stream);
void launch_mmr(const MmrArgs& args, cudaStream_t stream);

}  // namespace gnomon::cuda
