// The planner's estimates, from its constants.
#include "bm25_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gnomon::plan {

Costs costs_of(const Bm25Scorer& scorer, const Screened& screened, std::size_t segment, std::size_t k) {
    Costs costs;
    double rare = 0.0;
    double frequent_terms = 0.0;
    const auto docs = static_cast<double>(scorer.snapshot().segments()[segment].segment->n_docs());
    for (const Screened::Term& term : screened.terms) {
        const TermScreen* screen = (*term.screens)[segment].get();
        if (screen == nullptr) continue;
        const double adding = static_cast<double>(screen->docs.size()) * kPosting;
        costs.windows += screen->row.empty() ? adding : static_cast<double>(screen->row.size()) * kCell;
        costs.integers += screen->levels.empty() ? adding : docs * kLevel;
        if (screen->starts.empty()) {
            rare += static_cast<double>(screen->docs.size());
            costs.integers += static_cast<double>(screen->docs.size()) * kIntegerRare;
        } else {
            frequent_terms += 1.0;
        }
    }
    costs.windows += docs * (k > 100 ? kDocumentLargeK : kDocument);
    const double share = docs / static_cast<double>(scorer.snapshot().n_slots());  // of what is settled
    costs.integers +=
        docs * kIntegerDocument + share * static_cast<double>(k * screened.terms.size()) * kIntegerSettle;
    costs.bounding = kBoundingLeast + docs / TermScreen::kBlock * (frequent_terms + 2.0) * kBlockTerm +
                     rare * kRarePosting;
    return costs;
}

std::size_t worth_in_blocks(const Screened& screened, double otherwise, double bounding, std::size_t k) {
    const bool large = k > 100;
    const auto terms = static_cast<double>(screened.terms.size());
    const double scoring = (large ? kLargeK : 1.0) * (kScoring + kScoringTerm * terms);
    if (screened.terms.size() > kBlocksTermsMost || bounding * (large ? kInVainLargeK : kInVain) >= otherwise)
        return 0;
    return static_cast<std::size_t>((otherwise - bounding) / scoring);
}

double lists_cost(const Screened& screened, std::size_t segment, float threshold, std::size_t k,
                  double most) {
    if (!(threshold > 0.0F)) return most;
    std::array<std::pair<const TermScreen*, float>, Screened::kTermsMost> lists;  // with the weight
    std::size_t n = 0;
    float rest = 0.0F;
    for (const Screened::Term& term : screened.terms) {
        const TermScreen* const screen = (*term.screens)[segment].get();
        if (screen == nullptr || screen->greatest == 0.0F) continue;
        lists[n++] = {screen, term.weight};
        rest += term.weight * screen->greatest;
    }
    std::sort(lists.begin(), lists.begin() + static_cast<std::ptrdiff_t>(n),
              [](const auto& a, const auto& b) {
                  return a.first->greatest * a.second > b.first->greatest * b.second;
              });
    const double factor = k > 100 ? kListsLargeK : 1.0;
    double cost = kListsLeast;
    for (std::size_t t = 0; t < n && rest >= threshold && cost < most; ++t) {
        const auto& [screen, weight] = lists[t];
        rest -= weight * screen->greatest;
        const float least = std::max((threshold - rest) / (weight * screen->greatest), 0.0F);
        const auto last = static_cast<float>(screen->above.size() - 1);
        const auto place = static_cast<std::size_t>(std::min(least * (last + 1.0F), last));
        cost +=
            static_cast<double>(screen->impacts.size()) * kListsPosting +
            factor * screen->above[place] * (kListsThrough + kListsThroughTerm * static_cast<double>(n - t));
    }
    return cost;
}

bool integers_pay(const Bm25Scorer& scorer, const Screened& screened, std::size_t k) {
    double windows = 0.0;
    double integers = 0.0;
    for (std::size_t segment = 0; segment < scorer.snapshot().segments().size(); ++segment) {
        const Costs costs = costs_of(scorer, screened, segment, k);
        windows += costs.windows;
        integers += costs.integers;
    }
    return integers < windows;
}

bool plain_is_cheaper(const Bm25Scorer& scorer, const Prepared& query, std::size_t k) {
    double postings = 0.0;
    for (const Prepared::Occurrence& occurrence : query.order)
        postings += static_cast<double>(query.terms[occurrence.term]->n_postings);
    const double extra =
        postings * kPlainPosting + static_cast<double>(scorer.snapshot().n_slots()) * kPlainDocument;
    return extra < static_cast<double>(k * query.terms.size()) * kSettle;
}

}  // namespace gnomon::plan
