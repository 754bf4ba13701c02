// The block filter: which blocks of 32 documents can hold a candidate, and then only those.
//
// Bounds are integers: 1 stands for 1 / kScale of the greatest possible sum. A frequent term adds
// (byte * weight >> 8) + 1 with weight = ceil(w * greatest * kScale * 256 / 255), which is no less than
// w * g * kScale for each of the block's impacts g <= byte / 255 * greatest; a rare term adds
// floor(w * g * kScale) + 2 for each posting. All w * greatest add up to 1, so no bound exceeds
// kScale + 3 a term < 2^16. A document of float32 sum s lies in a block of bound >= s * kScale * (1 - 1e-4) -
// 1: 1e-4 is many times what float32 can lose in 64 additions.
#include <algorithm>

#include "bm25_paths.hpp"

namespace gnomon {
namespace {

constexpr float kScale = 60000.0F;
constexpr std::uint32_t kBlock = TermScreen::kBlock;

std::uint16_t least_bound(float threshold) {
    const float least = threshold * kScale * (1.0F - 1e-4F) - 1.0F;
    return least <= 1.0F ? std::uint16_t{1} : static_cast<std::uint16_t>(least);
}

class Blocks {
  public:
    Blocks(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
           Candidates& candidates)
        : run_(run), scratch_(run.scratch), filter_(filter), candidates_(candidates) {
        const SegmentView& view = run.scorer.snapshot().segments()[segment];
        base_slot_ = static_cast<std::uint32_t>(view.base);
        n_blocks_ = padded_blocks(view.segment->n_docs());
        for (const Screened::Term& term : screened.terms) {
            const TermScreen* screen = (*term.screens)[segment].get();
            if (screen == nullptr || screen->greatest == 0.0F) continue;
            const Entry entry{screen, term.weight};
            (screen->starts.empty() ? rare_ : frequent_).push_back(entry);
        }
    }

    bool run(std::size_t worth) {
        bound_blocks();
        std::vector<std::uint32_t>& blocks = scratch_.blocks;
        blocks.resize(std::max(blocks.size(), n_blocks_ + 1));
        std::size_t n =
            run_.kernels.bm25_blocks(bounds_, n_blocks_, least_bound(candidates_.threshold()), blocks.data());
        if (n > worth) return false;
        if (filter_.allowed != nullptr) n = drop_empty(n);
        chain_rare();
        if (!rare_.empty()) n = refine(n);
        sort_blocks(n);
        score_blocks(n);
        for (std::size_t i = 0; i < n; ++i) scratch_.heads[scratch_.sorted[i]] = 0;
        return true;
    }

  private:
    struct Entry {
        const TermScreen* screen;
        float weight;
    };

    void bound_blocks() {
        std::vector<std::uint16_t>& frequent = scratch_.frequent_bounds;
        frequent.resize(std::max(frequent.size(), n_blocks_));
        bool add = false;
        for (const Entry& entry : frequent_) {
            const float weight = entry.weight * entry.screen->greatest * (kScale * 256.0F / 255.0F);
            run_.kernels.bm25_bound(entry.screen->maxima.data(), n_blocks_,
                                    static_cast<std::uint16_t>(weight + 1.0F), add, frequent.data());
            add = true;
        }
        if (!add) std::fill_n(frequent.begin(), n_blocks_, std::uint16_t{0});
        bounds_ = frequent.data();
        if (rare_.empty()) return;
        scratch_.bounds.assign(frequent.begin(), frequent.begin() + static_cast<std::ptrdiff_t>(n_blocks_));
        bounds_ = scratch_.bounds.data();
        for (const Entry& entry : rare_) {
            const float weight = entry.weight * kScale;
            for (std::size_t i = 0; i < entry.screen->docs.size(); ++i) {
                std::uint16_t& bound = bounds_[entry.screen->docs[i] / kBlock];
                const unsigned sum = bound + static_cast<unsigned>(weight * entry.screen->impacts[i]) + 2U;
                bound = static_cast<std::uint16_t>(std::min(sum, 65535U));
            }
        }
    }

    // Blocks without an allowed document; a word of the set covers two blocks.
    std::size_t drop_empty(std::size_t n) {
        std::size_t kept = 0;
        const auto words = filter_.allowed->words();
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t block = scratch_.blocks[i];
            const std::uint64_t word = block / 2 < words.size() ? words[block / 2] >> (block % 2 * 32) : 0;
            if ((word & 0xFFFFFFFFU) != 0)
                scratch_.blocks[kept++] = block;
            else
                bounds_[block] = 0;
        }
        return kept;
    }

    // The rare terms' postings in the candidate blocks as a list for each block.
    void chain_rare() {
        std::vector<std::uint32_t>& heads = scratch_.heads;  // all 0 between two runs
        if (heads.size() < n_blocks_) heads.resize(n_blocks_, 0);
        if (rare_.empty()) return;
        const std::uint16_t least = least_bound(candidates_.threshold());
        std::size_t most = 1;
        for (const Entry& entry : rare_) most += entry.screen->docs.size();
        if (scratch_.nexts.size() < most) {
            scratch_.nexts.resize(most);
            scratch_.chained.resize(most);
            scratch_.chained_sums.resize(most);
        }
        std::uint32_t free = 1;
        for (const Entry& entry : rare_) {
            for (std::size_t i = 0; i < entry.screen->docs.size(); ++i) {
                const std::uint32_t doc = entry.screen->docs[i];
                const std::uint32_t block = doc / kBlock;
                if (bounds_[block] < least) continue;
                scratch_.chained[free] = doc % kBlock;
                scratch_.chained_sums[free] = entry.weight * entry.screen->impacts[i];
                scratch_.nexts[free] = heads[block];
                heads[block] = free++;
            }
        }
    }

    // Two rare terms in a block are seldom in one document: the bound becomes that of the best document.
    std::size_t refine(std::size_t n) {
        const std::uint16_t least = least_bound(candidates_.threshold());
        float sums[kBlock] = {};
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t block = scratch_.blocks[i];
            const std::uint32_t head = scratch_.heads[block];
            if (head != 0 && scratch_.nexts[head] != 0) {
                float greatest = 0.0F;
                for (std::uint32_t at = head; at != 0; at = scratch_.nexts[at]) {
                    float& sum = sums[scratch_.chained[at]];
                    sum += scratch_.chained_sums[at];
                    greatest = std::max(greatest, sum);
                }
                for (std::uint32_t at = head; at != 0; at = scratch_.nexts[at])
                    sums[scratch_.chained[at]] = 0.0F;
                const unsigned refined = scratch_.frequent_bounds[block] +
                                         static_cast<unsigned>(greatest * (kScale * 1.0001F)) + 2U;
                bounds_[block] = static_cast<std::uint16_t>(std::min<unsigned>(refined, bounds_[block]));
            }
            if (bounds_[block] >= least)
                scratch_.blocks[kept++] = block;
            else
                scratch_.heads[block] = 0;
        }
        return kept;
    }

    // By falling bound, in up to 1,024 classes of equal width.
    void sort_blocks(std::size_t n) {
        scratch_.sorted.resize(std::max(scratch_.sorted.size(), n));
        if (n == 0) return;
        const std::uint32_t* const blocks = scratch_.blocks.data();
        greatest_ = 0;
        unsigned least = 65535;
        for (std::size_t i = 0; i < n; ++i) {
            greatest_ = std::max<unsigned>(greatest_, bounds_[blocks[i]]);
            least = std::min<unsigned>(least, bounds_[blocks[i]]);
        }
        shift_ = 0;
        while ((greatest_ - least) >> shift_ > 1000) ++shift_;
        const std::size_t classes = ((greatest_ - least) >> shift_) + 1;
        scratch_.counts.assign(classes + 1, 0);
        for (std::size_t i = 0; i < n; ++i) ++scratch_.counts[class_of(blocks[i]) + 1];
        for (std::size_t c = 1; c <= classes; ++c) scratch_.counts[c] += scratch_.counts[c - 1];
        for (std::size_t i = 0; i < n; ++i)
            scratch_.sorted[scratch_.counts[class_of(blocks[i])]++] = blocks[i];
    }

    std::size_t class_of(std::uint32_t block) const { return (greatest_ - bounds_[block]) >> shift_; }

    void score_blocks(std::size_t n) {
        std::uint16_t least = least_bound(candidates_.threshold());
        float threshold = candidates_.threshold();
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t block = scratch_.sorted[i];
            const std::size_t best_of_class = greatest_ - (class_of(block) << shift_);
            if (best_of_class < least) break;
            if (bounds_[block] < least) continue;
            prefetch(i, n);
            score_block(block);
            candidates_.settle_down();
            if (candidates_.overflown()) break;
            if (candidates_.threshold() != threshold) {
                threshold = candidates_.threshold();
                least = least_bound(threshold);
            }
        }
    }

    void prefetch(std::size_t i, std::size_t n) const {
        if (i + 4 < n)
            for (const Entry& entry : frequent_)
                __builtin_prefetch(&entry.screen->starts[scratch_.sorted[i + 4]]);
        if (i + 2 >= n) return;
        const std::uint32_t block = scratch_.sorted[i + 2];
        for (const Entry& entry : frequent_) {
            const std::uint32_t at = entry.screen->starts[block];
            __builtin_prefetch(entry.screen->docs.data() + at);
            __builtin_prefetch(entry.screen->impacts.data() + at);
        }
    }

    void score_block(std::uint32_t block) {
        alignas(64) float sums[kBlock] = {};
        const std::uint32_t base = block * kBlock;
        for (std::uint32_t at = scratch_.heads[block]; at != 0; at = scratch_.nexts[at])
            sums[scratch_.chained[at]] += scratch_.chained_sums[at];
        for (const Entry& entry : frequent_) {
            const std::uint32_t* const docs = entry.screen->docs.data();
            const float* const impacts = entry.screen->impacts.data();
            const std::uint32_t last = entry.screen->starts[block + 1];
            for (std::uint32_t at = entry.screen->starts[block]; at < last; ++at)
                sums[docs[at] - base] += entry.weight * impacts[at];
        }
        std::uint32_t picked[kBlock];
        float picked_sums[kBlock];
        const std::size_t found =
            run_.kernels.bm25_pick(sums, kBlock, candidates_.threshold(), picked, picked_sums);
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint32_t doc = base + picked[i];
            if (filter_.allowed == nullptr || filter_.allowed->has(doc))
                candidates_.push(picked_sums[i], base_slot_ + doc);
        }
    }

    const Run& run_;
    Bm25Scratch& scratch_;
    const Filter& filter_;
    Candidates& candidates_;
    std::uint32_t base_slot_ = 0;
    std::size_t n_blocks_ = 0;
    std::vector<Entry> frequent_;
    std::vector<Entry> rare_;
    std::uint16_t* bounds_ = nullptr;
    unsigned greatest_ = 0;
    unsigned shift_ = 0;
};

}  // namespace

bool blocks_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                 Candidates& candidates, std::size_t worth) {
    return Blocks(run, screened, segment, filter, candidates).run(worth);
}

}  // namespace gnomon
