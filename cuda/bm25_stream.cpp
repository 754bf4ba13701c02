// Segments that do not stay on the device: each part of a batch brings the postings of its own terms.
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "bm25_work.hpp"

namespace gnomon::cuda {

struct Bm25Corpus::Streamed {
    Streamed(char* rooms, std::size_t bytes)
        : rooms{rooms, rooms + bytes}, staging{Pinned(bytes), Pinned(bytes)} {}

    // Starts the copy of a segment's lists of these terms; absent ones have empty lists.
    void fetch(const Segment& segment, const Part& part, bool fields, int side) {
        const std::span<const std::int32_t> numbers = part.batch->terms[segment.number];
        std::size_t postings = 0;
        for (const std::int32_t slot : part.distinct) {
            const std::int32_t term = numbers[static_cast<std::size_t>(slot)];
            if (term >= 0) postings += segment.length(term);
        }
        const std::size_t n_terms = part.distinct.size();
        const Lists to = Lists::at(staging[side].data(), postings, n_terms, segment.host.n_docs, fields);
        std::size_t at = 0;
        for (std::size_t i = 0; i < n_terms; ++i) {
            to.starts[i] = static_cast<std::int64_t>(at);
            const std::int32_t term = numbers[static_cast<std::size_t>(part.distinct[i])];
            if (term < 0) continue;
            const auto first = static_cast<std::size_t>(segment.host.starts[static_cast<std::size_t>(term)]);
            const std::size_t length = segment.length(term);
            const auto put = [&](auto* array, auto given) {
                std::memcpy(array + at, given.data() + first, length * sizeof *array);
            };
            put(to.docs, segment.host.docs);
            if (fields)
                put(to.tildes, segment.host.tildes);
            else
                put(to.tfs, segment.host.tfs);
            at += length;
        }
        to.starts[n_terms] = static_cast<std::int64_t>(at);
        if (!fields)
            std::memcpy(to.constants, segment.host.constants.data(), segment.host.constants.size_bytes());
        lists[side] = Lists::at(rooms[side], postings, n_terms, segment.host.n_docs, fields);
        copies.copy(rooms[side], staging[side].data(), to.given_bytes);
        ready[side].record(copies);
    }

    char* rooms[2];
    Pinned staging[2];
    Stream copies;  // ends before the memory that it reads
    Event ready[2];
    Lists lists[2];
};

// Of each of two buffers, for parts of n queries.
std::size_t Bm25Corpus::streamed_bytes(const Bm25Batch& batch, std::size_t n) const {
    if (resident()) return 0;
    std::size_t most = 0;
    const std::size_t all = batch.starts.size() - 1;
    std::unordered_set<std::int32_t> slots;
    for (std::size_t first = 0; first < all; first += n) {
        const auto from = static_cast<std::size_t>(batch.starts[first]);
        const auto until = static_cast<std::size_t>(batch.starts[std::min(first + n, all)]);
        slots.clear();
        slots.insert(batch.slots.begin() + static_cast<std::ptrdiff_t>(from),
                     batch.slots.begin() + static_cast<std::ptrdiff_t>(until));
        for (const Segment& segment : segments_) {
            if (segment.resident) continue;
            std::size_t postings = 0;
            for (const std::int32_t slot : slots) {
                const std::int32_t term = batch.terms[segment.number][static_cast<std::size_t>(slot)];
                if (term >= 0) postings += segment.length(term);
            }
            most = std::max(
                most,
                Lists::at(nullptr, postings, slots.size(), segment.host.n_docs, has_fields(formula_)).bytes);
        }
    }
    return most;
}

// As in DenseCorpus::stream_chunks(): a search ends with the host waiting for it, so that its buffer, and the
// staging memory that filled it, are free for the segment after the next.
bool Bm25Corpus::search_segments(Part& part, char* rooms, std::size_t room_bytes, Did& did) const {
    std::vector<const Segment*> streamed;
    for (const Segment& segment : segments_) {
        if (segment.host.n_docs == 0) continue;
        if (!segment.resident) {
            streamed.push_back(&segment);
            continue;
        }
        std::vector<std::int32_t> numbers;
        for (const std::int32_t slot : part.distinct)
            numbers.push_back(part.batch->terms[segment.number][static_cast<std::size_t>(slot)]);
        if (!search_lists(segment, segment.lists, numbers, part, did)) return false;
    }
    if (streamed.empty()) return true;
    const bool fields = has_fields(formula_);
    std::vector<std::int32_t> numbers(part.distinct.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    Streamed stream(rooms, room_bytes);
    stream.fetch(*streamed[0], part, fields, 0);
    for (std::size_t i = 0; i < streamed.size(); ++i) {
        const auto side = static_cast<int>(i % 2);
        if (i + 1 < streamed.size()) stream.fetch(*streamed[i + 1], part, fields, 1 - side);
        const Lists& lists = stream.lists[side];
        check(cudaStreamWaitEvent(part.stream, stream.ready[side].get()), "waiting for a segment");
        if (lists.postings > 0)
            launch_impacts(lists.view(), lists.postings, lists.constants, rule_of(formula_), lists.impacts,
                           part.stream);
        if (!search_lists(*streamed[i], lists, numbers, part, did)) return false;
        ++did.chunks;
    }
    return true;
}

}  // namespace gnomon::cuda
