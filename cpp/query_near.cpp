#include "query_near.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace gnomon {
namespace {

// Can every part take a position of its own, at a given v? Parts with equal lists are a group, as a phrase
// has that says a word many times. Where no two groups share a position and no part of a group may begin
// later but must end sooner than another, each takes the earliest that is left, in the order of their ends:
// whoever takes another can be moved to it. Anything else is a matching by augmenting paths (Kuhn).
class Matching {
  public:
    Matching(PositionLists lists, std::span<const Part> parts) : lists_(lists), parts_(parts) {
        const auto last = [&](std::size_t i) { return parts[i].offset + parts[i].slack; };
        for (std::size_t i = 0; i < lists.size(); ++i) {
            const auto same = [&](const Group& group) { return lists[group[0]] == lists[i]; };
            const auto group = std::find_if(groups_.begin(), groups_.end(), same);
            (group == groups_.end() ? groups_.emplace_back() : *group).push_back(i);
        }
        for (Group& group : groups_) {
            const auto before = [&](std::size_t a, std::size_t b) {
                return last(a) != last(b) ? last(a) < last(b) : parts[a].offset < parts[b].offset;
            };
            std::sort(group.begin(), group.end(), before);
            for (std::size_t i = 1; i < group.size(); ++i)
                greedy_ &= parts[group[i - 1]].offset <= parts[group[i]].offset;
        }
        greedy_ = greedy_ && disjoint();
    }

    // heads: of each list the first position from v + offset on.
    bool complete(std::span<const std::size_t> heads, std::int64_t v) {
        if (!greedy_) return augmented(heads, v);
        for (const Group& group : groups_) {
            const std::vector<std::uint32_t>& list = lists_[group[0]];
            std::size_t next = 0;
            for (const std::size_t i : group) {
                next = std::max(next, heads[i]);
                if (next == list.size() || list[next] > v + parts_[i].offset + parts_[i].slack) return false;
                ++next;
            }
        }
        return true;
    }

  private:
    using Group = std::vector<std::size_t>;

    bool disjoint() const {
        std::vector<std::uint32_t> all;
        for (const Group& group : groups_)
            all.insert(all.end(), lists_[group[0]].begin(), lists_[group[0]].end());
        std::sort(all.begin(), all.end());
        return std::adjacent_find(all.begin(), all.end()) == all.end();
    }

    // n options a part are enough: the others take at most n - 1 of them.
    bool augmented(std::span<const std::size_t> heads, std::int64_t v) {
        const std::size_t n = lists_.size();
        options_.assign(n, {});
        std::vector<std::uint32_t> all;
        for (std::size_t i = 0; i < n; ++i) {
            const std::int64_t last = v + parts_[i].offset + parts_[i].slack;
            for (std::size_t j = heads[i]; j < lists_[i].size() && lists_[i][j] <= last; ++j) {
                if (options_[i].size() == n) break;
                options_[i].push_back(lists_[i][j]);
            }
            all.insert(all.end(), options_[i].begin(), options_[i].end());
        }
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        for (std::vector<std::uint32_t>& some : options_)
            for (std::uint32_t& position : some)
                position = static_cast<std::uint32_t>(std::lower_bound(all.begin(), all.end(), position) -
                                                      all.begin());
        taken_.assign(all.size(), n);
        for (std::size_t i = 0; i < n; ++i) {
            tried_.assign(all.size(), false);
            if (!place(i)) return false;
        }
        return true;
    }

    bool place(std::size_t part) {
        for (const std::uint32_t at : options_[part]) {
            if (tried_[at]) continue;
            tried_[at] = true;
            if (taken_[at] == lists_.size() || place(taken_[at])) {
                taken_[at] = part;
                return true;
            }
        }
        return false;
    }

    PositionLists lists_;
    std::span<const Part> parts_;
    std::vector<Group> groups_;
    bool greedy_ = true;
    std::vector<std::vector<std::uint32_t>> options_;  // places among all positions in reach
    std::vector<std::size_t> taken_;  // by place: the part that has it; or how many there are
    std::vector<bool> tried_;
};

bool heads_differ(PositionLists lists, std::span<const std::size_t> heads) {
    for (std::size_t i = 1; i < lists.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (lists[i][heads[i]] == lists[j][heads[j]]) return false;
    return true;
}

}  // namespace

void phrase_starts(PositionLists lists, std::span<const std::size_t> order, std::vector<std::uint32_t>& out) {
    out.clear();
    std::size_t rare = 0;
    for (std::size_t i = 1; i < order.size(); ++i)
        if (lists[order[i]].size() < lists[order[rare]].size()) rare = i;
    for (const std::uint32_t position : lists[order[rare]])
        if (position >= rare) out.push_back(position - static_cast<std::uint32_t>(rare));
    for (std::size_t i = 0; i < order.size() && !out.empty(); ++i) {
        if (i == rare) continue;
        const std::vector<std::uint32_t>& list = lists[order[i]];
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
    std::optional<Matching> matching;
    const auto matches = [&](std::int64_t v) {
        if (!matching) matching.emplace(lists, parts);
        return matching->complete(heads, v);
    };
    const auto moved = [&](std::size_t i) {
        return static_cast<std::int64_t>(lists[i][heads[i]]) - parts[i].offset;
    };
    for (;;) {
        // The least v that is still open: every head is the first position from v + offset on.
        std::int64_t v = moved(0);
        for (std::size_t i = 1; i < lists.size(); ++i) v = std::min(v, moved(i));
        bool fits = true;
        for (std::size_t i = 0; i < lists.size() && fits; ++i) fits = moved(i) <= v + parts[i].slack;
        if (fits && (heads_differ(lists, heads) || matches(v))) return true;
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
