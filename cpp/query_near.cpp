#include "query_near.hpp"

#include <algorithm>
#include <cstddef>

namespace gnomon {
namespace {

// Kuhn's matching of parts to positions. n options a part are enough: the others take at most n - 1 of them.
class Matching {
  public:
    Matching(PositionLists lists, std::span<const Part> parts, std::span<const std::size_t> heads,
             std::int64_t v)
        : options_(lists.size()) {
        for (std::size_t i = 0; i < lists.size(); ++i) {
            const std::int64_t last = v + parts[i].offset + parts[i].slack;
            for (std::size_t j = heads[i]; j < lists[i].size() && lists[i][j] <= last; ++j) {
                if (options_[i].size() == lists.size()) break;
                options_[i].push_back(lists[i][j]);
            }
        }
    }

    bool complete() {
        for (std::size_t i = 0; i < options_.size(); ++i) {
            tried_.clear();
            if (!place(i)) return false;
        }
        return true;
    }

  private:
    struct Taken {
        std::uint32_t position;
        std::size_t part;
    };

    bool place(std::size_t part) {
        for (const std::uint32_t position : options_[part]) {
            if (std::find(tried_.begin(), tried_.end(), position) != tried_.end()) continue;
            tried_.push_back(position);
            const auto held = std::find_if(taken_.begin(), taken_.end(),
                                           [&](const Taken& t) { return t.position == position; });
            const auto at = static_cast<std::size_t>(held - taken_.begin());
            if (held == taken_.end()) {
                taken_.push_back({position, part});
                return true;
            }
            if (place(taken_[at].part)) {
                taken_[at].part = part;
                return true;
            }
        }
        return false;
    }

    std::vector<std::vector<std::uint32_t>> options_;
    std::vector<std::uint32_t> tried_;
    std::vector<Taken> taken_;
};

bool heads_differ(PositionLists lists, std::span<const std::size_t> heads) {
    for (std::size_t i = 1; i < lists.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (lists[i][heads[i]] == lists[j][heads[j]]) return false;
    return true;
}

}  // namespace

void phrase_starts(PositionLists lists, std::vector<std::uint32_t>& out) {
    out.clear();
    std::size_t rare = 0;
    for (std::size_t i = 1; i < lists.size(); ++i)
        if (lists[i].size() < lists[rare].size()) rare = i;
    for (const std::uint32_t position : lists[rare])
        if (position >= rare) out.push_back(position - static_cast<std::uint32_t>(rare));
    for (std::size_t i = 0; i < lists.size() && !out.empty(); ++i) {
        if (i == rare) continue;
        const std::vector<std::uint32_t>& list = lists[i];
        std::size_t kept = 0;
        auto at = list.begin();
        for (const std::uint32_t start : out) {
            const std::uint64_t wanted = std::uint64_t{start} + i;
            while (at != list.end() && *at < wanted) ++at;
            if (at == list.end()) break;
            if (*at == wanted) out[kept++] = start;
        }
        out.resize(kept);
    }
}

bool fit_window(PositionLists lists, std::span<const Part> parts) {
    for (std::size_t i = 0; i < lists.size(); ++i)
        if (lists[i].empty() || parts[i].slack < 0) return false;
    std::vector<std::size_t> heads(lists.size(), 0);
    const auto moved = [&](std::size_t i) {
        return static_cast<std::int64_t>(lists[i][heads[i]]) - parts[i].offset;
    };
    for (;;) {
        // The least v that is still open: every head is the first position from v + offset on.
        std::int64_t v = moved(0);
        for (std::size_t i = 1; i < lists.size(); ++i) v = std::min(v, moved(i));
        bool fits = true;
        for (std::size_t i = 0; i < lists.size() && fits; ++i) fits = moved(i) <= v + parts[i].slack;
        if (fits && (heads_differ(lists, heads) || Matching(lists, parts, heads, v).complete())) return true;
        for (std::size_t i = 0; i < lists.size(); ++i)
            if (moved(i) == v && ++heads[i] == lists[i].size()) return false;
    }
}

bool fit_order(PositionLists lists, std::span<const std::uint32_t> lengths, std::uint64_t window) {
    std::vector<std::size_t> heads(lists.size(), 0);
    for (const std::uint32_t first : lists[0]) {
        std::uint64_t behind = std::uint64_t{first} + lengths[0];
        for (std::size_t i = 1; i < lists.size(); ++i) {
            while (heads[i] < lists[i].size() && lists[i][heads[i]] < behind) ++heads[i];
            if (heads[i] == lists[i].size()) return false;
            behind = std::uint64_t{lists[i][heads[i]]} + lengths[i];
        }
        if (behind - 1 - first <= window) return true;
    }
    return false;
}

}  // namespace gnomon
