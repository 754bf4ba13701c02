// The ranking: higher score first, then lower document position. It is total, so merging partial results
// of threads, windows, segments or shards gives the same list in any order.
#pragma once
#include <cstdint>

namespace gnomon {

struct Hit {
    double score;
    std::uint32_t position;
};

constexpr bool better(const Hit& a, const Hit& b) {
    return a.score != b.score ? a.score > b.score : a.position < b.position;
}

static_assert(better({1.0, 7}, {1.0, 9}));
static_assert(better({2.0, 9}, {1.0, 7}));
static_assert(!better({0.0, 1}, {-0.0, 1}) && !better({-0.0, 1}, {0.0, 1}));

}  // namespace gnomon
