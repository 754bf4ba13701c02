// A query made ready for a path, and the candidates of the screened ones.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "bm25_paths.hpp"

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

Screened::Screened(const Bm25Scorer& scorer, const Prepared& query) {
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
        terms[t].screens = scorer.screens(*query.terms[t]);
        if (terms[t].screens == nullptr) return;
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

float Screened::cut(float reached) const {
    const double least = static_cast<double>(reached) * (1.0 - 2.0 * relative) - 2.0 * slack;
    if (!(least > 0.0)) return 0.0F;
    return std::nextafter(static_cast<float>(least), 0.0F);
}

float Screened::start(std::size_t k) const {
    float reached = 0.0F;
    for (std::size_t i = 0; i < TermScreen::kRanks.size(); ++i) {
        if (k > TermScreen::kRanks[i]) continue;
        for (const Term& term : terms)
            for (const auto& screen : *term.screens)
                if (screen != nullptr) reached = std::max(reached, term.weight * screen->best[i]);
        break;
    }
    return reached;
}

void Candidates::reset(const Screened& screened, std::size_t k, float start) {
    screened_ = &screened;
    k_ = k;
    limit_ = k + std::max<std::size_t>(k, 64);
    threshold_ = screened.cut(start);
    keys_.clear();
}

void Candidates::shrink() {
    if (keys_.size() < k_) return;
    const auto last = keys_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
    std::nth_element(keys_.begin(), last, keys_.end(), std::greater<std::uint64_t>());
    const auto bits = static_cast<std::uint32_t>(*last >> 32);
    float reached;
    __builtin_memcpy(&reached, &bits, sizeof reached);
    raise(screened_->cut(reached));
    std::uint32_t least;
    __builtin_memcpy(&least, &threshold_, sizeof least);
    const std::uint64_t floor = static_cast<std::uint64_t>(least) << 32;
    keys_.erase(std::partition(last, keys_.end(), [floor](std::uint64_t key) { return key >= floor; }),
                keys_.end());
    limit_ = std::max(k_ + std::max<std::size_t>(k_, 64), 2 * keys_.size());
}

void Candidates::take(std::vector<std::uint32_t>& slots) {
    shrink();
    slots.resize(keys_.size());
    for (std::size_t i = 0; i < keys_.size(); ++i)
        slots[i] = UINT32_MAX - static_cast<std::uint32_t>(keys_[i]);
    std::sort(slots.begin(), slots.end());
}

}  // namespace gnomon
