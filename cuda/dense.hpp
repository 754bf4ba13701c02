// Exact dense top-k on a device: rows are screened on the tensor cores in waves and what is left is settled
// in canonical float64, so that rows, order and bits are the CPU's (dense_code.cuh has the proof).
//
// Waves grow as the threshold rises: about 6 k rows a wave are settled, whatever its length. A wave whose
// candidates do not fit is done again at half its length; nothing is lost, and one of `capacity` rows always
// fits. Rows that ascend in score therefore cost time, not answers.
//
// A corpus that fits stays on the device with its codes. One that does not is streamed in every search,
// through two buffers: one is filled from pinned memory while the other is searched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "device.hpp"

namespace gnomon::cuda {

class Stream;

enum class Format { automatic, int8, bf16 };

struct DenseOptions {
    std::size_t k = 10;
    double min_score;                        // -infinity: none
    const std::uint64_t* allowed = nullptr;  // host memory, a bit for each row; null allows all
    bool refuse_zero = false;                // zero queries, under cosine
    const char* query_name = "queries";      // in messages
    std::size_t workspace_bytes = kWorkspaceBytes;
    std::string family;        // "mma", "wgmma", or empty: what the device is fastest with
    int planes = 0;            // of int8 queries; 0: two where memory is the bound
    std::size_t capacity = 0;  // candidates of a query and wave; 0: chosen
};

struct DenseSource {
    const float* rows;  // [n, dim]; stays valid as long as the corpus
    bool on_device;
    std::int64_t n;
    int dim;
    int metric;  // as Metric of cpp/dense.hpp
    bool refuse_zero = false;
    const char* name = "vectors";  // in messages
};

// Where hits go: [queries, k] row-major and [queries], all on the device or all in host memory.
struct DenseOutput {
    double* scores;
    std::int64_t* rows;
    int* counts;
};

class DenseCorpus {
  public:
    // resident_bytes: device memory that the corpus may hold; 0: what is free, less a tenth. Throws
    // InvalidInput naming the first row that is not finite, or zero where zeros are refused.
    DenseCorpus(int device, DenseSource source, Format format, std::size_t resident_bytes,
                std::size_t workspace_bytes);
    ~DenseCorpus();
    DenseCorpus(const DenseCorpus&) = delete;
    DenseCorpus& operator=(const DenseCorpus&) = delete;

    std::int64_t n() const { return source_.n; }
    int dim() const { return source_.dim; }
    int device() const { return device_; }
    bool resident() const;
    std::size_t bytes() const;  // of device memory that it holds
    std::string format() const { return bf16_ ? "bf16" : "int8"; }

    // min(k, n) hits of each query at most. Safe from several threads: each search has its own stream and
    // workspace. Throws DeviceError when the workspace is too small, with the bytes that are needed.
    void search(const float* queries, bool on_device, std::int64_t n_queries, const DenseOptions& options,
                const DenseOutput& out, Did& did) const;

  private:
    struct Chunk;
    struct Arrays;
    struct Work;
    struct Plan;
    struct Resident;

    std::size_t chunk_bytes(std::int64_t rows) const;
    Chunk chunk_at(char* memory, std::int64_t rows) const;
    void code(const Chunk& chunk, const Stream& stream) const;
    void choose_format(const Chunk& chunk);
    Plan plan(std::int64_t n_queries, std::size_t k, const DenseOptions& options) const;
    void search_part(const float* queries, bool on_device, std::int64_t first_query, int n,
                     const DenseOptions& options, const Plan& plan, char* memory, const DenseOutput& out,
                     Did& did) const;
    void search_chunk(const Chunk& chunk, Work& work, Did& did) const;
    void stream_chunks(Work& work, char* memory, const Plan& plan, Did& did) const;

    int device_;
    DenseSource source_;
    bool bf16_ = false;
    std::unique_ptr<Resident> resident_;
};

}  // namespace gnomon::cuda
