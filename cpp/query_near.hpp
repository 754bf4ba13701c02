// Do positions lie as a phrase or a near asks for? Pure functions of ascending lists, one for each part.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnomon {

using PositionLists = std::span<const std::vector<std::uint32_t>>;

// The positions p such that p + i is in lists[order[i]] for each i, ascending, into out.
void phrase_starts(PositionLists lists, std::span<const std::size_t> order, std::vector<std::uint32_t>& out);

// A part of a sloppy phrase or an unordered near: it may stand from v + offset to v + offset + slack, where v
// is the same for all parts.
struct Part {
    std::int64_t offset;
    std::int64_t slack;
};

// Is there a v with a position for every part, all of them different? Part i takes one of lists[i].
// At most 64 parts.
bool fit_window(PositionLists lists, std::span<const Part> parts);

// Is there a start for each part in turn, each behind the end of the one before (start + length), the end of
// the last one at most `window` behind the first start plus one?
bool fit_order(PositionLists lists, std::span<const std::uint32_t> lengths, std::uint64_t window);

}  // namespace gnomon
