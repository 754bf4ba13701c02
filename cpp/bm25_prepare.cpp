// A query made ready for a path, and the candidates of the screened ones.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "bm25_paths.hpp"
#include "radix.hpp"

namespace gnomon {

Prepared::Prepared(const Bm25Scorer& scorer, const Bm25Query& query) {
    const Bm25Model& model = scorer.model();
    in_order = bm25::absent(model.formula) == bm25::Absent::kInOrder;
    order.reserve(query.size());
    for (const QueryTerm& wanted : query) {
        const auto known = std::find(terms.begin(), terms.end(), wanted.term.get());
        const auto place = static_cast<std::uint32_t>(known - terms.begin());
        if (known == terms.end()) terms.push_back(wanted.term.get());
        const double idf = wanted.weight * wanted.term->idf + 0.0;
        const double absent = bm25::absent_part(model.formula, idf, model.k1, model.delta);
        order.push_back({place, idf, absent});
        at_end = at_end + absent;
    }
}

void HeldScreens::begin(const Bm25Scorer& scorer) {
    once_.clear();
    if (scorer_ == scorer.number() && dropped_ == scorer.dropped()) return;
    kept_.clear();
    scorer_ = scorer.number();
    dropped_ = scorer.dropped();
}

const TermScreens* HeldScreens::of(const Bm25Scorer& scorer, const Bm25Term& term) {
    if (!keep_) {
        once_.push_back(scorer.screens(term));
        return once_.back().get();
    }
    std::shared_ptr<const TermScreens>& known = kept_[&term];
    if (known != nullptr)
        scorer.touch(*known);
    else
        known = scorer.screens(term);
    return known.get();
}

Screened::Screened(const Bm25Scorer& scorer, const Prepared& query, HeldScreens& held) {
    if (query.terms.empty() || query.terms.size() > kTermsMost) return;
    std::vector<double> weights(query.terms.size(), 0.0);
    double absent = 0.0;
    for (const Prepared::Occurrence& occurrence : query.order) {
        if (!(occurrence.idf > 0.0)) return;
        weights[occurrence.term] += occurrence.idf;
        absent += std::abs(occurrence.absent);
    }
    double scale = 0.0;
    terms.resize(query.terms.size());
    for (std::size_t t = 0; t < terms.size(); ++t) {
        const TermScreens* const lists = held.of(scorer, *query.terms[t]);
        if (lists == nullptr) return;
        terms[t].screens = &lists->lists;
        terms[t].best = &lists->best;
        float greatest = 0.0F;
        for (const auto& screen : *terms[t].screens) {
            if (screen == nullptr) continue;
            if (!screen->usable) return;
            greatest = std::max(greatest, screen->greatest);
            terms[t].postings += screen->docs.size();
        }
        terms[t].greatest = greatest;
        scale += weights[t] * static_cast<double>(greatest);
    }
    if (!(scale > 0.0) || !std::isfinite(scale)) return;
    for (std::size_t t = 0; t < terms.size(); ++t) {
        terms[t].weight = static_cast<float>(weights[t] / scale);
        terms[t].greatest *= terms[t].weight * 1.000001F;
        for (const auto& screen : *terms[t].screens)
            if (screen != nullptr && screen->least > 0.0F && !(terms[t].weight * screen->least >= 1e-30F))
                return;
    }
    relative = static_cast<double>(terms.size() + 6) * 0x1p-23;
    slack = static_cast<double>(query.order.size() + 8) * 0x1p-50 * (1.0 + absent / scale);
    ok = std::isfinite(slack);
}

float Cut::of(float reached) const {
    const double least = static_cast<double>(reached) * (1.0 - relative) - slack;
    if (!(least > 0.0)) return 0.0F;
    return std::nextafter(static_cast<float>(least), 0.0F);
}

float Screened::start(std::size_t k) const {
    float reached = 0.0F;
    for (std::size_t i = 0; i < TermScreen::kRanks.size(); ++i) {
        if (k > TermScreen::kRanks[i]) continue;
        for (const Term& term : terms) reached = std::max(reached, term.weight * (*term.best)[i]);
        break;
    }
    return reached;
}

void Candidates::reset(const Cut& cut, std::size_t k, float threshold) {
    cut_ = cut;
    k_ = k;
    limit_ = k + std::max<std::size_t>(k, 64);
    threshold_ = threshold;
    keys_.clear();
}

// The bits of the k-th greatest sum. Sums are positive, so their bits stand in their order: a histogram of
// 2048 classes finds the class, and only its members are looked at closer. nth_element over all of them
// mispredicts a branch for each second key.
std::uint32_t Candidates::kth_bits() {
    const auto bits_of = [](std::uint64_t key) { return static_cast<std::uint32_t>(key >> 32); };
    std::size_t wanted = k_;
    members_.clear();
    if (keys_.size() < kRadixLeast) {
        for (const std::uint64_t key : keys_) members_.push_back(bits_of(key));
    } else {
        std::uint32_t least = UINT32_MAX;
        std::uint32_t greatest = 0;
        for (const std::uint64_t key : keys_) {
            least = std::min(least, bits_of(key));
            greatest = std::max(greatest, bits_of(key));
        }
        unsigned shift = 0;
        while ((greatest - least) >> shift >= kClasses) ++shift;
        counts_.assign(kClasses, 0);
        for (const std::uint64_t key : keys_) ++counts_[(bits_of(key) - least) >> shift];
        std::uint32_t place = (greatest - least) >> shift;
        for (; counts_[place] < wanted; --place) wanted -= counts_[place];
        for (const std::uint64_t key : keys_)
            if ((bits_of(key) - least) >> shift == place) members_.push_back(bits_of(key));
    }
    const auto last = members_.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
    std::nth_element(members_.begin(), last, members_.end(), std::greater<std::uint32_t>());
    return *last;
}

void Candidates::shrink() {
    if (keys_.size() < k_) return;
    raise(cut_.of(std::bit_cast<float>(kth_bits())));
    const std::uint64_t floor = static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(threshold_)) << 32;
    std::size_t kept = 0;  // in order: the paths that go by document leave nothing to sort
    for (const std::uint64_t key : keys_) {
        keys_[kept] = key;
        kept += static_cast<std::size_t>(key >= floor);
    }
    keys_.resize(kept);
    limit_ = std::max(k_ + std::max<std::size_t>(k_, 64), 2 * keys_.size());
}

void Candidates::take(std::vector<std::uint32_t>& slots) {
    shrink();
    slots.resize(keys_.size());
    for (std::size_t i = 0; i < keys_.size(); ++i)
        slots[i] = UINT32_MAX - static_cast<std::uint32_t>(keys_[i]);
    if (std::is_sorted(slots.begin(), slots.end())) return;
    if (slots.size() < kRadixLeast)
        std::sort(slots.begin(), slots.end());
    else
        radix_sort(slots, [](std::uint32_t slot) { return slot; });
}

}  // namespace gnomon
