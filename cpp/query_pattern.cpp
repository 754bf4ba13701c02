#include "query_pattern.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace gnomon {
namespace {

// The first place from `at` on whose document is not before `doc`: steps that double, then a binary search.
std::size_t gallop(std::span<const std::uint32_t> docs, std::size_t at, std::uint32_t doc) {
    std::size_t step = 1;
    std::size_t low = at;
    while (low + step <= docs.size() && docs[low + step - 1] < doc) {
        low += step;
        step *= 2;
    }
    const std::size_t high = std::min(low + step, docs.size());
    return static_cast<std::size_t>(std::lower_bound(docs.begin() + static_cast<std::ptrdiff_t>(low),
                                                     docs.begin() + static_cast<std::ptrdiff_t>(high), doc) -
                                    docs.begin());
}

}  // namespace

PatternStep::PatternStep(const std::vector<std::uint32_t>& terms, const Bm25Index& segment,
                         std::size_t field) {
    for (const std::uint32_t term : terms) {
        const Postings list = segment.postings(term, field);
        if (list.docs.empty()) continue;
        n_postings_ += list.docs.size();
        alternatives_.push_back({list, segment.positions(term, list, field)});
    }
}

std::uint64_t PatternStep::seek(std::uint32_t doc) {
    std::uint64_t found = 0;
    for (Alternative& a : alternatives_) {
        a.at = gallop(a.list.docs, a.at, doc);
        a.here = a.at < a.list.docs.size() && a.list.docs[a.at] == doc;
        if (a.here) found += a.list.tf(a.at);
    }
    return found;
}

void PatternStep::positions(std::vector<std::uint32_t>& out) {
    if (alternatives_.size() == 1) {
        alternatives_[0].cursor.read(alternatives_[0].at, out);
        return;
    }
    out.clear();
    for (Alternative& a : alternatives_) {
        if (!a.here) continue;
        a.cursor.read(a.at, one_);
        const auto middle = static_cast<std::ptrdiff_t>(out.size());
        out.insert(out.end(), one_.begin(), one_.end());
        std::inplace_merge(out.begin(), out.begin() + middle, out.end());
    }
}

void PatternStep::each(std::size_t n_docs, const std::function<void(std::uint32_t)>& fn) const {
    if (alternatives_.size() == 1) {
        for (const std::uint32_t doc : alternatives_[0].list.docs) fn(doc);
        return;
    }
    DocSet docs(n_docs);
    for (const Alternative& a : alternatives_)
        for (const std::uint32_t doc : a.list.docs) docs.add(doc);
    docs.each(fn);
}

Pattern::Pattern(const QueryNode& node, const Bm25Index& segment, std::size_t field, const TermsOf& terms_of)
    : node_(node), n_docs_(segment.n_docs()) {
    const bool near = node.kind == QueryNode::Kind::near;
    std::map<std::vector<std::uint32_t>, std::size_t> known;
    std::vector<std::uint32_t> alone;  // by step: the parts that are this one token
    std::vector<std::uint32_t> count;  // by step: places in the present phrase
    const auto place = [&](const QueryNode& token, std::vector<std::uint32_t>& counts) {
        std::vector<std::uint32_t> terms = terms_of(token);
        const auto [at, is_new] = known.try_emplace(std::move(terms), steps_.size());
        if (is_new) {
            steps_.emplace_back(at->first, segment, field);
            for (std::vector<std::uint32_t>* each : {&least_, &alone, &count}) each->push_back(0);
        }
        order_.push_back(at->second);
        least_[at->second] = std::max(least_[at->second], ++counts[at->second]);
    };
    for (const QueryNode& child : node.children) {
        if (near && child.kind == QueryNode::Kind::phrase) {
            std::fill(count.begin(), count.end(), 0);
            for (const QueryNode& token : child.children) place(token, count);
            lengths_.push_back(static_cast<std::uint32_t>(child.children.size()));
        } else {
            place(child, alone);
            lengths_.push_back(1);
        }
    }
    if (!near && node.slop == 0) lengths_ = {static_cast<std::uint32_t>(order_.size())};
    // Beyond any document a window means no more than "in one field".
    const auto width = static_cast<std::int64_t>(std::min<std::uint64_t>(node.slop, UINT32_MAX));
    for (std::size_t i = 0; i < lengths_.size(); ++i)
        parts_.push_back(near ? Part{0, width - lengths_[i] + 1} : Part{static_cast<std::int64_t>(i), width});
    by_rarity_.resize(steps_.size());
    std::iota(by_rarity_.begin(), by_rarity_.end(), std::size_t{0});
    std::stable_sort(by_rarity_.begin(), by_rarity_.end(), [&](std::size_t a, std::size_t b) {
        return steps_[a].n_postings() < steps_[b].n_postings();
    });
    lists_.resize(steps_.size());
    starts_.resize(lengths_.size());
}

std::uint64_t Pattern::least_postings() const {
    return steps_.empty() ? 0 : steps_[by_rarity_[0]].n_postings();
}

void Pattern::collect(DocSet& out, const DocSet* within) {
    if (least_postings() == 0) return;
    const auto visit = [&](std::uint32_t doc) {
        if (holds_all(doc) && fits()) out.add(doc);
    };
    if (within != nullptr && within->count() < least_postings() / 8) {
        within->each(visit);
        return;
    }
    const PatternStep rarest = steps_[by_rarity_[0]];
    rarest.each(n_docs_, [&](std::uint32_t doc) {
        if (within == nullptr || within->has(doc)) visit(doc);
    });
}

bool Pattern::holds_all(std::uint32_t doc) {
    for (const std::size_t step : by_rarity_)
        if (steps_[step].seek(doc) < least_[step]) return false;
    return true;
}

bool Pattern::fits() {
    for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i].positions(lists_[i]);
    const std::span<const std::size_t> order(order_);
    if (lengths_.size() == 1) {
        phrase_starts(lists_, order, starts_[0]);
        return !starts_[0].empty() && (node_.kind != QueryNode::Kind::near || parts_[0].slack >= 0);
    }
    std::size_t first = 0;
    for (std::size_t i = 0; i < lengths_.size(); first += lengths_[i++]) {
        phrase_starts(lists_, order.subspan(first, lengths_[i]), starts_[i]);
        if (starts_[i].empty()) return false;
    }
    if (node_.ordered) return fit_order(starts_, lengths_, node_.slop);
    return fit_window(starts_, parts_);
}

}  // namespace gnomon
