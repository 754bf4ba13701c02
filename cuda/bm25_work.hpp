// Inside of bm25_device.cpp and bm25_stream.cpp: a segment's lists on the device, and what a search shares
// out.
#pragma once
#include <vector>

#include "../cpp/bm25.hpp"
#include "bm25_device.hpp"
#include "memory.hpp"

namespace gnomon::cuda {

constexpr std::size_t kTermsMost = 64;  // of a screened query

inline Bm25Rule rule_of(const Bm25Formula& formula) {
    return {formula.formula, formula.k1, formula.delta, formula.in_order, formula.at_end};
}
inline bool has_fields(const Bm25Formula& formula) {
    return formula.formula == static_cast<int>(bm25::Formula::kBm25f);
}

// Postings by term, on the device or, but for the impacts, on their way to it.
struct Bm25Corpus::Lists {
    std::uint32_t* docs = nullptr;
    std::uint32_t* tfs = nullptr;
    double* tildes = nullptr;
    std::int64_t* starts = nullptr;
    double* constants = nullptr;
    float* impacts = nullptr;  // made on the device
    std::int64_t postings = 0;
    std::size_t given_bytes = 0;  // all before the impacts
    std::size_t bytes = 0;

    Bm25Lists view() const { return {docs, tfs, tildes, impacts}; }
    // Without memory only the sizes are set.
    static Lists at(char* memory, std::size_t postings, std::size_t terms, std::int64_t n_docs, bool fields) {
        Arena arena(memory);
        Lists lists;
        lists.postings = static_cast<std::int64_t>(postings);
        lists.docs = arena.take<std::uint32_t>(postings);
        if (fields)
            lists.tildes = arena.take<double>(postings);
        else
            lists.tfs = arena.take<std::uint32_t>(postings);
        lists.starts = arena.take<std::int64_t>(terms + 1);
        if (!fields) lists.constants = arena.take<double>(static_cast<std::size_t>(n_docs));
        lists.given_bytes = arena.used();
        lists.impacts = arena.take<float>(postings);
        lists.bytes = arena.used();
        return lists;
    }
};

struct Bm25Corpus::Segment {
    Bm25Arrays host;
    std::size_t number = 0;
    bool resident = false;
    Buffer memory;
    Lists lists;
    std::vector<float> greatest;  // impact of each term
    std::vector<float> least;     // above 0

    int ranges(int docs_each) const { return static_cast<int>((host.n_docs + docs_each - 1) / docs_each); }
    std::size_t length(std::int32_t term) const {
        const auto t = static_cast<std::size_t>(term);
        return static_cast<std::size_t>(host.starts[t + 1] - host.starts[t]);
    }
};

// Weights of the screen: of each occurrence, then of each query.
struct Bm25Corpus::Scaled {
    std::vector<float> weights;
    std::vector<double> scales, absent_sums, relatives, slacks;
};

struct Bm25Corpus::Part {
    Stream stream;
    std::size_t n = 0;
    int k = 0;
    Bm25Queries queries{};
    std::int32_t* terms = nullptr;  // of the segment at hand
    std::int64_t* cuts = nullptr;
    std::uint32_t* allowed = nullptr;
    Candidates found{};
    Best best[2]{};
    int* not_a_number = nullptr;
    void* scratch = nullptr;
    std::vector<std::int32_t> distinct;  // of the batch's terms, those of this part
    const Bm25Batch* batch = nullptr;
};

}  // namespace gnomon::cuda
