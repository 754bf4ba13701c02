#include "query_near.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <queue>

namespace gnomon {
namespace {

// Can every part take a position of its own, at a given v? Lists that share positions are a component. Where
// each list of a component has all of its positions between the list's first and last, as those of a word
// that a phrase says many times do, the parts are intervals, and going through the positions, each to the
// part that must end first, finds a choice if there is one (Glover 1967). Others take augmenting paths
// (Kuhn).
class Matching {
  public:
    Matching(PositionLists lists, std::span<const Part> parts) : lists_(lists), parts_(parts) {
        std::vector<std::uint32_t> all;
        for (const std::vector<std::uint32_t>& list : lists) all.insert(all.end(), list.begin(), list.end());
        sort_out(all);
        std::vector<std::size_t> owner(all.size(),
                                       lists.size());  // of a position: the first part that has it
        std::vector<std::size_t> head(lists.size());   // of a part: the first one of its component
        for (std::size_t i = 0; i < lists.size(); ++i) {
            head[i] = i;
            for (const std::uint32_t position : lists[i]) {
                std::size_t& first = owner[place_of(all, position)];
                if (first == lists.size()) first = i;
                const std::size_t kept = std::min(head[first], head[i]);
                const std::size_t gone = std::max(head[first], head[i]);
                if (kept != gone)
                    std::replace(head.begin(), head.begin() + std::ptrdiff_t(i) + 1, gone, kept);
            }
        }
        for (std::size_t i = 0; i < lists.size(); ++i)
            if (head[i] == i) components_.push_back(component(head, i));
    }

    bool complete(std::int64_t v) {
        return std::all_of(components_.begin(), components_.end(), [&](const Component& one) {
            return one.enough && (one.intervals ? swept(one, v) : augmented(one, v));
        });
    }

  private:
    struct Component {
        std::vector<std::size_t> parts;
        std::vector<std::uint32_t> positions;  // of all of them
        bool enough = true;                    // there are as many positions as parts
        bool intervals = true;
    };
    struct Reach {
        std::size_t first;
        std::size_t last;  // one behind
    };

    static void sort_out(std::vector<std::uint32_t>& positions) {
        std::sort(positions.begin(), positions.end());
        positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    }

    static std::size_t place_of(const std::vector<std::uint32_t>& all, std::int64_t position) {
        return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), position) - all.begin());
    }

    Component component(const std::vector<std::size_t>& head, std::size_t first) const {
        Component one;
        for (std::size_t i = first; i < head.size(); ++i) {
            if (head[i] != first) continue;
            one.parts.push_back(i);
            one.positions.insert(one.positions.end(), lists_[i].begin(), lists_[i].end());
        }
        sort_out(one.positions);
        one.enough = one.positions.size() >= one.parts.size();
        for (const std::size_t i : one.parts) {
            const std::vector<std::uint32_t>& list = lists_[i];
            one.intervals &=
                place_of(one.positions, list.back()) - place_of(one.positions, list.front()) + 1 ==
                list.size();
        }
        return one;
    }

    // Which positions of its component a part may take, where its list is an interval of them.
    Reach reach(const Component& one, std::size_t i, std::int64_t v) const {
        const std::int64_t first = std::max(v + parts_[i].offset, std::int64_t{lists_[i].front()});
        const std::int64_t last =
            std::min(v + parts_[i].offset + parts_[i].slack, std::int64_t{lists_[i].back()});
        return {place_of(one.positions, first), place_of(one.positions, last + 1)};
    }

    bool swept(const Component& one, std::int64_t v) {
        reaches_.clear();
        for (const std::size_t i : one.parts) reaches_.push_back(reach(one, i, v));
        std::sort(reaches_.begin(), reaches_.end(),
                  [](const Reach& a, const Reach& b) { return a.first < b.first; });
        std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> open;
        std::size_t at = 0;
        for (std::size_t next = 0; next < reaches_.size() || !open.empty(); ++at) {
            if (open.empty()) at = std::max(at, reaches_[next].first);
            while (next < reaches_.size() && reaches_[next].first <= at) open.push(reaches_[next++].last);
            if (open.top() <= at) return false;
            open.pop();
        }
        return true;
    }

    // n options a part are enough: the others take at most n - 1 of them.
    bool augmented(const Component& one, std::int64_t v) {
        options_.assign(lists_.size(), {});
        for (const std::size_t i : one.parts) {
            const std::int64_t last = v + parts_[i].offset + parts_[i].slack;
            for (std::size_t j = place_of(lists_[i], v + parts_[i].offset);
                 j < lists_[i].size() && lists_[i][j] <= last && options_[i].size() < one.parts.size(); ++j)
                options_[i].push_back(place_of(one.positions, lists_[i][j]));
        }
        taken_.assign(one.positions.size(), lists_.size());
        return std::all_of(one.parts.begin(), one.parts.end(), [&](std::size_t i) {
            tried_.assign(one.positions.size(), false);
            return placed(i);
        });
    }

    bool placed(std::size_t part) {
        for (const std::size_t at : options_[part]) {
            if (tried_[at]) continue;
            tried_[at] = true;
            if (taken_[at] == lists_.size() || placed(taken_[at])) {
                taken_[at] = part;
                return true;
            }
        }
        return false;
    }

    PositionLists lists_;
    std::span<const Part> parts_;
    std::vector<Component> components_;
    std::vector<Reach> reaches_;
    std::vector<std::vector<std::size_t>> options_;
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
        return matching->complete(v);
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
