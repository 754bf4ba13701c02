#include "bm25_screen.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

namespace gnomon {
namespace {

void count_above(TermScreen& screen) {
    constexpr std::size_t kClasses = std::tuple_size_v<decltype(screen.above)>;
    const float factor = static_cast<float>(kClasses) / screen.greatest;
    for (const float impact : screen.impacts)
        if (impact > 0.0F) ++screen.above[std::min(static_cast<std::size_t>(impact * factor), kClasses - 1)];
    for (std::size_t c = kClasses - 1; c-- > 0;) screen.above[c] += screen.above[c + 1];
}

// A byte b stands for b / 255 * greatest, at least the impact: 1.0001 pays for the rounding on the way.
std::uint8_t level_of(float impact, float greatest) {
    const float scale = 255.0F / greatest * 1.0001F;
    return static_cast<std::uint8_t>(std::min(255.0F, std::ceil(impact * scale)));
}

void find_blocks(TermScreen& screen, std::size_t n_docs) {
    const std::size_t blocks = padded_blocks(n_docs);
    screen.maxima.assign(blocks, 0);
    screen.starts.resize(blocks + 1);
    std::size_t block = 0;
    for (std::size_t i = 0; i < screen.docs.size(); ++i) {
        const std::size_t here = screen.docs[i] / TermScreen::kBlock;
        while (block <= here) screen.starts[block++] = static_cast<std::uint32_t>(i);
        screen.maxima[here] = std::max(screen.maxima[here], level_of(screen.impacts[i], screen.greatest));
    }
    while (block <= blocks) screen.starts[block++] = static_cast<std::uint32_t>(screen.docs.size());
}

}  // namespace

// With a buffer of the best 1000 that is cut when it has doubled.
std::array<float, 3> best_impacts(std::span<const std::shared_ptr<const TermScreen>> segments) {
    constexpr std::size_t kMost = TermScreen::kRanks.back();
    std::vector<float> best;
    best.reserve(2 * kMost);
    float least = 0.0F;  // an impact must exceed it to change any rank; 0 leaves out the deleted
    for (const auto& screen : segments) {
        if (screen == nullptr || !screen->usable) continue;
        for (const float impact : screen->impacts) {
            if (impact <= least) continue;
            best.push_back(impact);
            if (best.size() < 2 * kMost) continue;
            std::nth_element(best.begin(), best.begin() + kMost - 1, best.end(), std::greater<float>());
            best.resize(kMost);
            least = best.back();
        }
    }
    std::sort(best.begin(), best.end(), std::greater<float>());
    std::array<float, 3> ranked{};
    for (std::size_t i = 0; i < ranked.size(); ++i)
        if (best.size() >= TermScreen::kRanks[i]) ranked[i] = best[TermScreen::kRanks[i] - 1];
    return ranked;
}

void finish_screen(TermScreen& screen, std::size_t n_docs) {
    screen.greatest = 0.0F;
    screen.least = 0.0F;
    screen.usable = true;
    for (const float impact : screen.impacts) {
        if (impact == 0.0F) continue;
        screen.usable = screen.usable && impact >= 1e-30F && impact <= 1e30F;
        screen.greatest = std::max(screen.greatest, impact);
        screen.least = screen.least == 0.0F ? impact : std::min(screen.least, impact);
    }
    if (!screen.usable || screen.greatest == 0.0F) return;
    count_above(screen);
    // A block of a rarer term holds so few of its postings that scattering them costs less than its maxima.
    if (screen.docs.size() >= 64 && screen.docs.size() * 4 * TermScreen::kBlock >= n_docs)
        find_blocks(screen, n_docs);
    // A byte a document costs less to read and add than a posting for each sixteenth document.
    if (screen.docs.size() >= 64 && screen.docs.size() * 16 > n_docs) {
        screen.levels.assign(padded_blocks(n_docs) * TermScreen::kBlock, 0);
        for (std::size_t i = 0; i < screen.docs.size(); ++i)
            screen.levels[screen.docs[i]] = level_of(screen.impacts[i], screen.greatest);
    }
    if (screen.docs.size() >= 64 && screen.docs.size() * 4 > n_docs) {
        screen.row.assign(padded_blocks(n_docs) * TermScreen::kBlock, 0.0F);
        for (std::size_t i = 0; i < screen.docs.size(); ++i) screen.row[screen.docs[i]] = screen.impacts[i];
    }
}

}  // namespace gnomon
