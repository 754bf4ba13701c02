// Exact BM25 for batches of queries on a device, over the arrays of the CPU's index; bm25.cuh has the screen
// and its bound. Documents, order and bits are the CPU's.
//
// Segments stay on the device as far as they fit. Of the others each search brings the postings of its own
// terms, through two buffers: one is filled from pinned memory while the other is searched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device.hpp"

namespace gnomon::cuda {

// One segment's postings by term, in host memory; they stay valid as long as the corpus.
struct Bm25Arrays {
    std::span<const std::int64_t> starts;  // one more than terms
    std::span<const std::uint32_t> docs;   // ascending within a term
    std::span<const std::uint32_t> tfs;
    std::span<const double> tildes;  // bm25f: in the place of tfs, tf~ > 0 over all fields; else empty
    std::span<const double>
        constants;  // of each document: norm or relative length (bm25.hpp); none for bm25f
    std::int64_t n_docs;
    std::uint32_t base;  // slot of its first document
};

struct Bm25Formula {
    int formula;  // as bm25::Formula
    double k1, delta;
    bool in_order, at_end;  // what absent terms give
};

// Queries as Bm25Scorer::device_plan() of the core lays them out; occurrences of query q are
// [starts[q], starts[q + 1]).
struct Bm25Batch {
    std::span<const std::int32_t> starts;
    std::span<const std::int32_t> slots;  // of each occurrence, into the batch's distinct terms
    std::span<const double> weights;      // query weight * idf + 0.0
    std::span<const double> absents;
    std::span<const double> at_ends;                   // of each query
    std::vector<std::span<const std::int32_t>> terms;  // by segment: of each distinct term its number, or -1
    std::vector<const std::uint64_t*> allowed;         // by segment: live and wanted documents; null: all
};

struct Bm25Options {
    std::size_t k = 10;
    std::size_t workspace_bytes = kWorkspaceBytes;
    std::size_t capacity = 0;  // candidates of a query and wave; 0: chosen
};

class Bm25Corpus {
  public:
    // range_docs: documents that a block scores, 0: 16,384, whose sums take 64 KiB of shared memory.
    // resident_bytes: device memory that the postings may hold; 0: what is free, less a tenth.
    Bm25Corpus(int device, const std::vector<Bm25Arrays>& segments, const Bm25Formula& formula,
               int range_docs = 0, std::size_t resident_bytes = 0);
    ~Bm25Corpus();
    Bm25Corpus(const Bm25Corpus&) = delete;
    Bm25Corpus& operator=(const Bm25Corpus&) = delete;

    std::size_t n_segments() const;
    bool resident() const;  // all of them
    std::size_t bytes() const;
    // Slots and scores of each query, best first. Throws DeviceError when the workspace is too small.
    Found search(const Bm25Batch& batch, const Bm25Options& options, Did& did) const;

  private:
    struct Lists;
    struct Segment;
    struct Part;
    struct Scaled;
    struct Streamed;

    struct Room {  // a search's memory
        char* own;
        std::size_t own_bytes;
        char* streamed;  // two of streamed_bytes each
        std::size_t streamed_bytes;
    };

    // room: device memory that is left for postings.
    void upload(Segment& segment, std::size_t& room) const;
    void find_impact_range(Segment& segment) const;
    Scaled scaled(const Bm25Batch& batch) const;
    std::size_t part_bytes(const Bm25Batch& batch, std::size_t n, int k, std::size_t capacity) const;
    // False: candidates of a single range did not fit.
    bool search_part(const Bm25Batch& batch, const Scaled& scaled, std::size_t first, std::size_t n, int k,
                     std::size_t capacity, const Room& room, Found& found, Did& did) const;
    bool search_segments(Part& part, char* rooms, std::size_t room_bytes, Did& did) const;
    // terms: of each of the part's distinct terms its number in the lists, or -1.
    bool search_lists(const Segment& segment, const Lists& lists, std::span<const std::int32_t> terms,
                      Part& part, Did& did) const;
    std::size_t streamed_bytes(const Bm25Batch& batch, std::size_t n) const;

    int device_;
    Bm25Formula formula_;
    int range_docs_;
    std::vector<Segment> segments_;
};

}  // namespace gnomon::cuda
