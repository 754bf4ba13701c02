// A segment straight from the caller's arrays: two passes over them where they lie, nothing copied, and no
// more memory than the segment and 16 bytes a term.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "bm25_index.hpp"

namespace gnomon {

// Document i holds ids[offsets[i]], ..., ids[offsets[i + 1] - 1]. T: i32, u32, i64, u64.
// Throws InvalidInput for ids outside 0..2^32-2, or offsets that fall or do not span the ids.
template <class T>
std::shared_ptr<const Bm25Index> segment_of_tokens(std::span<const T> ids,
                                                   std::span<const std::int64_t> offsets);

// Row i of a CSR matrix [documents, n_terms] holds term columns[j] counts[j] times, starts[i] <= j <
// starts[i + 1]; columns of a row in any order, repeated ones add up. T: i32, i64; C: any number.
// Throws InvalidInput for counts that are not whole numbers from 0 on, columns outside n_terms, bad starts.
template <class T, class C>
std::shared_ptr<const Bm25Index> segment_of_counts(std::span<const T> starts, std::span<const T> columns,
                                                   std::span<const C> counts, std::uint64_t n_terms);

}  // namespace gnomon
