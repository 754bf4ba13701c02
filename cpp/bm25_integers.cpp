// The integer path: upper bounds of the documents' sums in 16 bits, over windows that fit in L1. What windows
// spend most on are the postings of very frequent terms, each a scattered addition; here such a term is a
// byte a document, and 16 or 32 documents are one instruction.
//
// 1 stands for 1 / kScale of the greatest possible sum. A term with levels adds (byte * weight >> 8) + 1 to
// every document, weight = ceil(w * greatest * kScale * 256 / 255), which is no less than w * g * kScale for
// its impact g <= byte / 255 * greatest; any other term adds w * g * kScale rounded up where it stands. So a
// document of the exact sum S has V >= S * kScale * (1 - 1e-4) - 1e-4 a term. On the other side a byte is at
// most 255 * g / greatest * 1.0002 + 1, hence V <= S * kScale * 1.0002 + share * kScale / 255 + 2 a term,
// where share is what the terms with levels have of the greatest sum. V never exceeds kScale + 3 a term <
// 2^16. From both: when k documents reach V, one below V * (1 - relative) - slack of integer_cut() has a sum
// S that Screened's own cut rules out. Very frequent terms weigh little, so slack is a few thousandths.
#include <algorithm>
#include <cmath>

#include "bm25_paths.hpp"

namespace gnomon {
namespace {

constexpr float kScale = 60000.0F;
constexpr std::size_t kStride = 4096;  // documents between two looks at the threshold
constexpr std::size_t kAtOnce = 64;

struct List {
    const TermScreen* screen;
    float weight;
    std::size_t at;
};

// Rounded up but for 1e-4, which the bounds above allow for: a deleted document's 0 stays 0.
std::uint16_t part_of(float weight, float impact) {
    return static_cast<std::uint16_t>(static_cast<std::int32_t>(weight * impact + 0.9999F));
}

// Adds the parts of documents below `end`. sums is shifted to document 0. The parts are made some at a time,
// which the compiler turns into vectors.
void add_list(List& list, std::size_t end, std::uint16_t* sums) {
    const std::uint32_t* const docs = list.screen->docs.data();
    const float* const impacts = list.screen->impacts.data();
    const std::size_t n = list.screen->docs.size();
    if (list.screen->starts.empty()) {
        for (; list.at < n && docs[list.at] < end; ++list.at) {
            std::uint16_t& sum = sums[docs[list.at]];
            sum = static_cast<std::uint16_t>(sum + part_of(list.weight, impacts[list.at]));
        }
        return;
    }
    const std::size_t last = list.screen->starts[(end + TermScreen::kBlock - 1) / TermScreen::kBlock];
    std::uint16_t parts[kAtOnce];
    while (list.at < last) {
        const std::size_t count = std::min(kAtOnce, last - list.at);
        for (std::size_t i = 0; i < count; ++i) parts[i] = part_of(list.weight, impacts[list.at + i]);
        for (std::size_t i = 0; i < count; ++i) {
            std::uint16_t& sum = sums[docs[list.at + i]];
            sum = static_cast<std::uint16_t>(sum + parts[i]);
        }
        list.at += count;
    }
}

bool has_levels(const Screened::Term& term) {
    return std::any_of(term.screens->begin(), term.screens->end(),
                       [](const auto& screen) { return screen != nullptr && !screen->levels.empty(); });
}

}  // namespace

Cut integer_cut(const Screened& screened) {
    double share = 0.0;
    for (const Screened::Term& term : screened.terms)
        if (has_levels(term)) share += static_cast<double>(term.greatest);
    const auto scale = static_cast<double>(kScale);
    return {2.0 * screened.relative + 5e-4, share * scale / 255.0 * 1.001 +
                                                2.0 * static_cast<double>(screened.terms.size()) + 2.0 +
                                                2.0 * screened.slack * scale};
}

float integer_start(const Screened& screened, std::size_t k) {
    const auto scale = static_cast<double>(kScale);
    const Cut cut{2.0 * screened.relative + 2e-4, 2.0 + 2.0 * screened.slack * scale};
    return cut.of(screened.start(k) * kScale);
}

bool integers_suffice(const Screened& screened, const Candidates& candidates) {
    return candidates.threshold() > static_cast<float>(screened.terms.size());
}

void integers_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                   std::size_t first, std::size_t last, Candidates& candidates) {
    std::vector<const std::uint8_t*> rows;
    std::vector<std::uint16_t> weights;
    std::vector<List> lists;
    for (const Screened::Term& term : screened.terms) {
        const TermScreen* const screen = (*term.screens)[segment].get();
        if (screen == nullptr || screen->greatest == 0.0F) continue;
        if (!screen->levels.empty()) {
            const float weight = term.weight * screen->greatest * (kScale * 256.0F / 255.0F);
            rows.push_back(screen->levels.data() + first);
            weights.push_back(static_cast<std::uint16_t>(weight + 1.0F));
            continue;
        }
        const auto at = first == 0 ? screen->docs.begin()
                                   : std::lower_bound(screen->docs.begin(), screen->docs.end(), first);
        lists.push_back({screen, term.weight * kScale, static_cast<std::size_t>(at - screen->docs.begin())});
    }
    if (rows.empty() && lists.empty()) return;
    Bm25Scratch& scratch = run.scratch;
    scratch.counts16.resize(kScreenWindow);
    scratch.picked.resize(std::max(scratch.picked.size(), kStride));
    std::uint16_t* const sums = scratch.counts16.data();
    const auto base_slot = static_cast<std::uint32_t>(run.scorer.snapshot().segments()[segment].base);
    // A document that holds none of the terms has a 1 of each row.
    const auto untouched = static_cast<float>(rows.size());
    for (std::size_t base = first; base < last; base += kScreenWindow) {
        const std::size_t end = std::min(base + kScreenWindow, last);
        const std::size_t padded = (end - base + 63) / 64 * 64;
        if (rows.empty())
            std::fill_n(sums, padded, std::uint16_t{0});
        else
            run.kernels.bm25_levels(rows.data(), weights.data(), rows.size(), padded, sums);
        for (const std::uint8_t*& row : rows) row += padded;
        for (List& list : lists) add_list(list, end, sums - base);
        for (std::size_t part = 0; part < padded; part += kStride) {
            const float least = std::max(std::ceil(candidates.threshold()), untouched + 1.0F);
            const std::size_t found =
                run.kernels.bm25_blocks(sums + part, std::min(kStride, padded - part),
                                        static_cast<std::uint16_t>(least), scratch.picked.data());
            for (std::size_t i = 0; i < found; ++i) {
                const std::size_t place = part + scratch.picked[i];
                const auto doc = static_cast<std::uint32_t>(base + place);
                if (filter.allowed == nullptr || filter.allowed->has(doc))
                    candidates.push(static_cast<float>(sums[place]), base_slot + doc);
            }
            candidates.settle_down();
        }
        if (candidates.overflown()) return;
    }
}

}  // namespace gnomon
