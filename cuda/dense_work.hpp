// Inside of dense.cpp: a chunk of rows, how a search shares out its memory, and one wave.
#pragma once
#include <vector>

#include "dense.hpp"
#include "memory.hpp"

namespace gnomon::cuda {

constexpr unsigned long long kNoRow = ~0ULL;
constexpr std::int64_t kTileRowsLeast = 128;  // of a streamed chunk
constexpr std::int64_t kQueriesMost = 32768;  // at once: one dimension of a grid
constexpr int kTwoPlanesMost = 64;            // queries, up to which a second plane costs no time
constexpr std::int64_t kFirstWave = 1024;
constexpr std::int64_t kWaveMost = 1 << 27;  // rows; times the tiles of queries they are one grid

// The first rows of a matrix that may not be there.
struct RowFlags {
    unsigned long long bad = kNoRow;
    unsigned long long zero = kNoRow;
};
inline void clear_flags(unsigned long long* flags, const Stream& stream) {
    check(cudaMemsetAsync(flags, 0xFF, 2 * sizeof *flags, stream), "clearing memory");
}
inline RowFlags flags_of(const unsigned long long* flags, const Stream& stream) {
    unsigned long long both[2];
    stream.fetch(std::span<unsigned long long>(both), flags);
    return {both[0], both[1]};
}
// Throws InvalidInput.
void refuse_bad_rows(const char* name, const RowFlags& flags, bool refuse_zero);

struct DenseCorpus::Chunk {
    const float* rows = nullptr;
    double* squares = nullptr;
    CodedRows coded{};
    unsigned long long* flags = nullptr;
    std::int64_t first = 0;  // row of the corpus
    std::int64_t n = 0;
    std::size_t bytes = 0;
};

struct DenseCorpus::Plan {
    int queries = 0;  // at once
    int k = 0;
    int capacity = 0;
    int planes = 0;
    std::size_t allowed_words = 0;
    std::size_t bytes = 0;  // of a Work
    std::int64_t chunk_rows = 0;
    std::size_t chunk_bytes = 0;  // of each of two buffers; 0: the corpus is resident
};

// The device memory of a part of the queries: all that is kept for them from wave to wave.
struct DenseCorpus::Arrays {
    // Without memory only `used` is set.
    Arrays(const DenseSource& source, const Plan& plan, bool bf16, int n, int capacity,
           const DenseOptions& options, char* memory);

    int n;
    int k;
    int planes;
    float* own_queries = nullptr;
    double* squares = nullptr;
    CodedQueries coded{};
    float* limits = nullptr;
    std::uint32_t* allowed = nullptr;
    Candidates found{};
    Best best[2]{};
    int* not_a_number = nullptr;
    void* scratch = nullptr;
    std::int64_t* rows64 = nullptr;
    unsigned long long* flags = nullptr;
    std::size_t used = 0;
};

struct DenseCorpus::Work : Arrays {
    Work(const DenseSource& source, const Plan& plan, bool bf16, int n, const DenseOptions& options,
         char* memory);

    void start(const float* given, bool on_device, std::int64_t first_query, const DenseSource& source,
               bool bf16, const DenseOptions& options);
    // False: the candidates did not fit, and nothing has changed.
    bool run(const Chunk& chunk, std::int64_t first, int n_rows, const DenseSource& source, bool bf16,
             Did& did);
    void finish(const DenseOutput& out) const;
    std::int64_t next_wave() const;

    Stream stream;
    Family family;
    double least;
    LimitRule rule{};
    const float* queries = nullptr;  // on the device
    std::int64_t done = 0;
    std::int64_t last_wave = kFirstWave;
};

}  // namespace gnomon::cuda
