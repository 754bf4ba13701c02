// The essential path (MaxScore, Turtle & Flood 1995, within windows): terms whose greatest impacts together
// stay well under the threshold cannot lift a document over it by themselves. Only the others are added up;
// what reaches the threshold less those greatest impacts is completed by look-ups, greatest term first, until
// it cannot get there any more. For long queries and a small k most postings belong to such terms.
#include <algorithm>

#include "bm25_paths.hpp"
#include "bm25_plan.hpp"

namespace gnomon {
namespace {

// Pays for the rounding of sums of up to 64 float32 terms, many times.
constexpr float kUp = 1.0001F;

class Essential {
  public:
    Essential(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
              Candidates& candidates)
        : run_(run), filter_(filter), candidates_(candidates) {
        const SegmentView& view = run.scorer.snapshot().segments()[segment];
        base_slot_ = static_cast<std::uint32_t>(view.base);
        n_docs_ = view.segment->n_docs();
        for (const Screened::Term& term : screened.terms) {
            const TermScreen* screen = (*term.screens)[segment].get();
            if (screen == nullptr || screen->greatest == 0.0F) continue;
            terms_.push_back({screen, term.weight, term.weight * screen->greatest * kUp, 0.0F, 0});
        }
        std::sort(terms_.begin(), terms_.end(),
                  [](const Term& a, const Term& b) { return a.greatest < b.greatest; });
        float sum = 0.0F;
        for (Term& term : terms_) term.below = sum = (sum + term.greatest) * kUp;
    }

    void run() {
        Bm25Scratch& scratch = run_.scratch;
        scratch.sums.resize(kScreenWindow);
        scratch.picked.resize(std::max(scratch.picked.size(), kScreenWindow));
        scratch.picked_sums.resize(std::max(scratch.picked_sums.size(), kScreenWindow));
        for (std::size_t base = 0; base < n_docs_ && !candidates_.overflown(); base += kScreenWindow) {
            const std::size_t end = std::min(base + kScreenWindow, n_docs_);
            split(base);
            for (std::size_t t = looked_up_; t < terms_.size(); ++t)
                terms_[t].at = add_screen(run_.kernels, *terms_[t].screen, terms_[t].at, base, end,
                                          terms_[t].weight, scratch.sums.data());
            const float rest = looked_up_ == 0 ? 0.0F : terms_[looked_up_ - 1].below;
            const std::size_t found = run_.kernels.bm25_pick(
                scratch.sums.data(), (end - base + 63) / 64 * 64, candidates_.threshold() - rest,
                scratch.picked.data(), scratch.picked_sums.data());
            for (std::size_t i = 0; i < found; ++i)
                complete(static_cast<std::uint32_t>(base) + scratch.picked[i], scratch.picked_sums[i]);
            learn(end - base);
        }
    }

  private:
    struct Term {
        const TermScreen* screen;
        float weight;
        float greatest;
        float below;     // what it and all lesser terms can add together
        std::size_t at;  // the first posting that is not behind us
    };

    // Which terms are looked up in the window from `base` on. One that no longer is goes on from there.
    void split(std::size_t base) {
        const float most = candidates_.threshold() * share_;
        std::size_t wanted = 0;
        while (wanted + 1 < terms_.size() && terms_[wanted].below < most) ++wanted;
        for (std::size_t t = wanted; t < looked_up_; ++t) {
            const auto docs = terms_[t].screen->docs;
            terms_[t].at =
                static_cast<std::size_t>(std::lower_bound(docs.begin(), docs.end(), base) - docs.begin());
        }
        looked_up_ = wanted;
    }

    // Whether the window's look-ups cost more than the postings that they saved.
    void learn(std::size_t window) {
        std::size_t saved = 0;
        for (std::size_t t = 0; t < looked_up_; ++t) {
            const TermScreen& screen = *terms_[t].screen;
            saved += screen.row.empty() ? screen.docs.size() * window / n_docs_ : window / 8;
        }
        const std::size_t spent = look_ups_ * plan::kNearLookUp;
        if (spent > saved)
            share_ *= 0.4F;
        else if (spent * 4 < saved)
            share_ = std::min(plan::kShareMost, share_ * 1.25F);
        look_ups_ = 0;
    }

    void complete(std::uint32_t doc, float sum) {
        if (filter_.allowed != nullptr && !filter_.allowed->has(doc)) return;
        for (std::size_t t = looked_up_; t-- > 0;) {
            if (sum + terms_[t].below < candidates_.threshold()) return;
            ++look_ups_;
            sum += terms_[t].weight * impact(*terms_[t].screen, doc);
        }
        if (sum < candidates_.threshold()) return;
        candidates_.push(sum, base_slot_ + doc);
        candidates_.settle_down();
    }

    static float impact(const TermScreen& screen, std::uint32_t doc) {
        if (!screen.row.empty()) return screen.row[doc];
        const std::uint32_t* first = screen.docs.data();
        const std::uint32_t* last = first + screen.docs.size();
        if (!screen.starts.empty()) {
            last = first + screen.starts[doc / TermScreen::kBlock + 1];
            first += screen.starts[doc / TermScreen::kBlock];
        }
        const std::uint32_t* const found = std::lower_bound(first, last, doc);
        return found == last || *found != doc
                   ? 0.0F
                   : screen.impacts[static_cast<std::size_t>(found - screen.docs.data())];
    }

    const Run& run_;
    const Filter& filter_;
    Candidates& candidates_;
    std::uint32_t base_slot_ = 0;
    std::size_t n_docs_ = 0;
    std::vector<Term> terms_;
    std::size_t looked_up_ = 0;
    std::size_t look_ups_ = 0;  // in this window
    float share_ = plan::kShareFirst;
};

}  // namespace

void essential_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                    Candidates& candidates) {
    Essential(run, screened, segment, filter, candidates).run();
}

}  // namespace gnomon
