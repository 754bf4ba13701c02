// The windowed path: float32 sums of screen lists, term at a time, over documents that fit in L2.
#include <algorithm>

#include "bm25_paths.hpp"

namespace gnomon {
namespace {

// Documents between two looks at the threshold: it rises fast in the first windows.
constexpr std::size_t kStride = 4096;

// Adds the postings below `end` from `at` on; returns where it stopped. sums is shifted to document 0.
std::size_t add_until(const TermScreen& screen, std::size_t at, std::size_t end, float weight, float* sums) {
    const std::uint32_t* const docs = screen.docs.data();
    const float* const impacts = screen.impacts.data();
    const std::size_t n = screen.docs.size();
    for (; at < n && docs[at] < end; ++at) sums[docs[at]] += weight * impacts[at];
    return at;
}

std::size_t add_range(const TermScreen& screen, std::size_t at, std::size_t last, float weight, float* sums) {
    const std::uint32_t* const docs = screen.docs.data();
    const float* const impacts = screen.impacts.data();
    for (; at + 4 <= last; at += 4) {
        const std::uint32_t a = docs[at], b = docs[at + 1], c = docs[at + 2], d = docs[at + 3];
        sums[a] += weight * impacts[at];
        sums[b] += weight * impacts[at + 1];
        sums[c] += weight * impacts[at + 2];
        sums[d] += weight * impacts[at + 3];
    }
    for (; at < last; ++at) sums[docs[at]] += weight * impacts[at];
    return last;
}

}  // namespace

std::size_t add_screen(const Kernels& kernels, const TermScreen& screen, std::size_t at, std::size_t base,
                       std::size_t end, float weight, float* sums) {
    if (!screen.row.empty()) {
        kernels.bm25_row(screen.row.data() + base, (end - base + 63) / 64 * 64, weight, sums);
        return at;
    }
    if (screen.starts.empty()) return add_until(screen, at, end, weight, sums - base);
    const std::size_t last = screen.starts[(end + TermScreen::kBlock - 1) / TermScreen::kBlock];
    return add_range(screen, at, last, weight, sums - base);
}

void windows_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                  std::size_t first, std::size_t last, Candidates& candidates) {
    struct Cursor {
        const TermScreen* screen;
        float weight;
        std::size_t at;
    };
    std::vector<Cursor> cursors;
    for (const Screened::Term& term : screened.terms) {
        const TermScreen* screen = (*term.screens)[segment].get();
        if (screen == nullptr) continue;
        const auto at = first == 0 ? screen->docs.begin()
                                   : std::lower_bound(screen->docs.begin(), screen->docs.end(), first);
        cursors.push_back({screen, term.weight, static_cast<std::size_t>(at - screen->docs.begin())});
    }
    if (cursors.empty()) return;
    Bm25Scratch& scratch = run.scratch;
    scratch.sums.resize(kScreenWindow);
    scratch.picked.resize(std::max(scratch.picked.size(), kStride));
    scratch.picked_sums.resize(std::max(scratch.picked_sums.size(), kStride));
    const auto base_slot = static_cast<std::uint32_t>(run.scorer.snapshot().segments()[segment].base);
    for (std::size_t base = first; base < last; base += kScreenWindow) {
        const std::size_t end = std::min(base + kScreenWindow, last);
        for (Cursor& cursor : cursors)
            cursor.at = add_screen(run.kernels, *cursor.screen, cursor.at, base, end, cursor.weight,
                                   scratch.sums.data());
        for (std::size_t part = base; part < end; part += kStride) {
            const std::size_t n = std::min(kStride, (end - part + 63) / 64 * 64);
            const std::size_t found =
                run.kernels.bm25_pick(scratch.sums.data() + (part - base), n, candidates.threshold(),
                                      scratch.picked.data(), scratch.picked_sums.data());
            for (std::size_t i = 0; i < found; ++i) {
                const auto doc = static_cast<std::uint32_t>(part) + scratch.picked[i];
                if (filter.allowed == nullptr || filter.allowed->has(doc))
                    candidates.push(scratch.picked_sums[i], base_slot + doc);
            }
            candidates.settle_down();
        }
        if (candidates.overflown()) return;
    }
}

}  // namespace gnomon
