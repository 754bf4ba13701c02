// The path of lists (MaxScore by lists, Turtle & Flood 1995; each list filtered by its impacts): a document
// is looked at in the list of the greatest of its terms, when its impact there and the greatest impacts of
// all lesser terms can reach the threshold together. So each list is one pass of a vector compare, most of
// whose postings drop out, and only the others are looked up in further lists, as long as the byte maxima of
// their blocks leave them a chance. Nothing is added up, cleared or scanned by document, which is most of
// what windows do for terms of a few thousand postings.
//
// Nothing is lost: let t be the greatest term that a document holds. Its sum is at most w_t * impact +
// `rest` of t, so it comes through t's pass while it can reach the threshold, and then it is completed
// exactly. In the pass of a lesser term that it holds it is dropped, at the latest when t is found.
#include <algorithm>
#include <limits>

#include "bm25_paths.hpp"
#include "bm25_plan.hpp"

namespace gnomon {
namespace {

// Pays for the rounding of sums of up to 64 float32 terms, many times.
constexpr float kUp = 1.0001F;
// All sums are at most 1: what so many additions and subtractions lose, in absolute terms.
constexpr float kLost = 2e-5F;
constexpr std::size_t kStride = 1024;  // postings between two looks at the threshold

class Lists {
  public:
    Lists(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
          Candidates& candidates)
        : run_(run), filter_(filter), candidates_(candidates) {
        base_slot_ = static_cast<std::uint32_t>(run.scorer.snapshot().segments()[segment].base);
        for (const Screened::Term& term : screened.terms) {
            const TermScreen* screen = (*term.screens)[segment].get();
            if (screen == nullptr || screen->greatest == 0.0F) continue;
            const float greatest = term.weight * screen->greatest * kUp;
            terms_.push_back({screen, term.weight, greatest, greatest / 255.0F * kUp, 0.0F, 0});
        }
        std::sort(terms_.begin(), terms_.end(),
                  [](const Term& a, const Term& b) { return a.greatest > b.greatest; });
        float rest = 0.0F;
        for (std::size_t t = terms_.size(); t-- > 0;) {
            terms_[t].rest = rest;
            rest = (rest + terms_[t].greatest) * kUp;
        }
        bounds_.resize(terms_.size());
    }

    void run() {
        std::vector<std::uint32_t>& picked = run_.scratch.picked;
        picked.resize(std::max(picked.size(), kStride));
        for (std::size_t t = 0; t < terms_.size() && !candidates_.overflown(); ++t) {
            if ((terms_[t].greatest + terms_[t].rest) * kUp < candidates_.threshold()) return;
            for (Term& other : terms_) other.at = 0;
            const std::vector<float>& impacts = terms_[t].screen->impacts;
            for (std::size_t first = 0; first < impacts.size(); first += kStride) {
                const std::size_t found =
                    run_.kernels.bm25_above(impacts.data() + first, std::min(kStride, impacts.size() - first),
                                            least_impact(terms_[t]), picked.data());
                for (std::size_t i = 0; i < found; ++i) complete(t, first + picked[i]);
                if (candidates_.overflown()) return;
            }
        }
    }

  private:
    struct Term {
        const TermScreen* screen;
        float weight;
        float greatest;
        float unit;      // what 1 of a block's byte stands for
        float rest;      // what all lesser terms can add together
        std::size_t at;  // where the last look-up of this pass ended, for terms without blocks
    };

    float least_impact(const Term& term) const {
        const float least = (candidates_.threshold() - term.rest) / term.weight * 0.9999F;
        return std::max(least, std::numeric_limits<float>::min());  // deleted documents have 0
    }

    void complete(std::size_t t, std::size_t at) {
        const Term& term = terms_[t];
        const std::uint32_t doc = term.screen->docs[at];
        if (filter_.allowed != nullptr && !filter_.allowed->has(doc)) return;
        float sum = term.weight * term.screen->impacts[at];
        float bound = sum + kLost;
        for (std::size_t u = t + 1; u < terms_.size(); ++u) {
            const TermScreen& screen = *terms_[u].screen;
            bounds_[u] = screen.starts.empty()
                             ? terms_[u].greatest
                             : terms_[u].unit * static_cast<float>(screen.maxima[doc / TermScreen::kBlock]);
            bound += bounds_[u];
        }
        for (std::size_t u = t + 1; u < terms_.size(); ++u) {
            if (bound < candidates_.threshold()) return;
            if (bounds_[u] == 0.0F) continue;
            const float part = terms_[u].weight * impact(terms_[u], doc);
            sum += part;
            bound += part - bounds_[u];
        }
        if (sum < candidates_.threshold()) return;
        for (std::size_t u = 0; u < t; ++u)
            if (impact(terms_[u], doc) > 0.0F) return;  // its pass decided
        candidates_.push(sum, base_slot_ + doc);
        candidates_.settle_down();
    }

    // Documents ascend within a pass.
    static float impact(Term& term, std::uint32_t doc) {
        const TermScreen& screen = *term.screen;
        if (!screen.row.empty()) return screen.row[doc];
        if (!screen.levels.empty() && screen.levels[doc] == 0) return 0.0F;
        std::size_t first = term.at;
        std::size_t last = screen.docs.size();
        if (!screen.starts.empty()) {
            first = screen.starts[doc / TermScreen::kBlock];
            last = screen.starts[doc / TermScreen::kBlock + 1];
        } else {
            std::size_t step = 1;
            while (first + step < last && screen.docs[first + step] < doc) {
                first += step;
                step *= 2;
            }
            last = std::min(last, first + step + 1);
        }
        const std::uint32_t* const docs = screen.docs.data();
        const std::uint32_t* const found = std::lower_bound(docs + first, docs + last, doc);
        const auto at = static_cast<std::size_t>(found - docs);
        if (screen.starts.empty()) term.at = std::min(at, screen.docs.size() - 1);
        return at < last && *found == doc ? screen.impacts[at] : 0.0F;
    }

    const Run& run_;
    const Filter& filter_;
    Candidates& candidates_;
    std::uint32_t base_slot_ = 0;
    std::vector<Term> terms_;  // greatest first
    std::vector<float> bounds_;
};

}  // namespace

void lists_path(const Run& run, const Screened& screened, std::size_t segment, const Filter& filter,
                Candidates& candidates) {
    Lists(run, screened, segment, filter, candidates).run();
}

}  // namespace gnomon
