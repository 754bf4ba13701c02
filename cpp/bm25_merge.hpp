// Several segments into one: their live documents in order, renumbered from 0. Terms keep the order of their
// first appearance over the inputs, so segments over consecutive ranges of documents, none deleted, merge
// into the very arrays that one builder makes of all the documents. Terms that no live document holds go,
// except for the caller's own term ids, which stay as they are.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "bm25_snapshot.hpp"
#include "storage.hpp"

namespace gnomon {

// In memory, over up to `threads` threads. The inputs have the same fields, all or none a vocabulary; bases
// are ignored. Throws InvalidInput when they disagree, CorruptIndex when a mapped input is damaged.
std::shared_ptr<const Bm25Index> merge_segments(std::span<const SegmentView> inputs, std::size_t threads);

// Into the sections of a container file, one pass after the other over the inputs. What it holds in memory
// is the vocabulary, 8 bytes a term and 4 bytes a document, whatever the number of postings. packed: in the
// format of bm25_packed.hpp.
void merge_segments_to(std::span<const SegmentView> inputs, ContainerWriter& writer, bool packed = false);

}  // namespace gnomon
