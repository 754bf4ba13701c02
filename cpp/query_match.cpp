#include "query_match.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "error.hpp"
#include "query_pattern.hpp"
#include "vocabulary_sorted.hpp"

namespace gnomon {
namespace {

using Kind = QueryNode::Kind;

// Tells clauses that were said before: what they match is known.
class Once {
  public:
    bool is_new(const QueryNode& node) {
        std::string key = match_key(node);
        return key.empty() || seen_.insert(std::move(key)).second;
    }

  private:
    std::unordered_set<std::string> seen_;
};

class Matcher {
  public:
    Matcher(const SegmentView& view, std::size_t segment) : index_(*view.segment), segment_(segment) {}

    // Exact inside `within`, where it is given; what it says of other documents means nothing.
    DocSet match(const QueryNode& node, const DocSet* within) const {
        switch (node.kind) {
            case Kind::all:
                return DocSet(index_.n_docs(), true);
            case Kind::docs:
                return node.docs[segment_];
            case Kind::boolean:
                return match_boolean(node, within);
            case Kind::phrase:
            case Kind::near:
                return match_pattern(node, within);
            default:
                return match_tokens(node);
        }
    }

  private:
    std::vector<std::size_t> fields(const QueryNode& node) const {
        if (!node.fields.empty()) return node.fields;
        std::vector<std::size_t> all(index_.n_fields());
        std::iota(all.begin(), all.end(), std::size_t{0});
        return all;
    }

    DocSet match_tokens(const QueryNode& node) const {
        DocSet found(index_.n_docs());
        const std::vector<std::size_t> in = fields(node);
        for (const std::uint32_t term : query_terms(node, index_))
            for (const std::size_t field : in)
                for (const std::uint32_t doc : index_.postings(term, field).docs) found.add(doc);
        return found;
    }

    DocSet match_pattern(const QueryNode& node, const DocSet* within) const {
        DocSet found(index_.n_docs());
        if (node.children.empty()) return found;
        for (const std::size_t field : fields(node))
            Pattern(node, index_, field, [&](const QueryNode& token) {
                return query_terms(token, index_);
            }).collect(found, within);
        return found;
    }

    DocSet match_boolean(const QueryNode& node, const DocSet* within) const {
        DocSet found = within == nullptr ? DocSet(index_.n_docs(), true) : *within;
        if (node.minimum > node.should.size()) return DocSet(index_.n_docs());
        std::vector<const QueryNode*> musts;
        const bool every_should = node.minimum == node.should.size();
        Once once;
        for (const QueryNode& child : node.children)
            if (once.is_new(child)) musts.push_back(&child);
        for (const QueryNode& child : node.should)
            if (every_should && once.is_new(child)) musts.push_back(&child);
        std::vector<std::uint64_t> costs;
        for (const QueryNode* child : musts) costs.push_back(cost(*child));
        std::vector<std::size_t> order(musts.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
        for (const std::size_t i : order) narrow(found, *musts[i]);
        if (node.minimum > 0 && !every_should) found.intersect(match_some(node, found));
        Once denied;
        for (const QueryNode& child : node.must_not)
            if (denied.is_new(child)) found.subtract(match(child, &found));
        return found;
    }

    DocSet match_some(const QueryNode& node, const DocSet& within) const {
        DocSet found(index_.n_docs());
        if (node.minimum == 1) {
            Once once;
            for (const QueryNode& child : node.should)
                if (once.is_new(child)) found.unite(match(child, &within));
            return found;
        }
        std::vector<std::uint32_t> counts(index_.n_docs(), 0);
        for (const QueryNode& child : node.should)
            match(child, &within).each([&](std::uint32_t doc) {
                if (++counts[doc] == node.minimum) found.add(doc);
            });
        return found;
    }

    // found = the documents of found that match the child. A few are looked up in a long list one by one.
    void narrow(DocSet& found, const QueryNode& child) const {
        if (child.kind == Kind::term) {
            const std::vector<std::uint32_t> terms = query_terms(child, index_);
            const std::vector<std::size_t> in = fields(child);
            if (terms.size() == 1 && in.size() == 1) {
                const Postings list = index_.postings(terms[0], in[0]);
                const auto docs = list.docs;
                if (found.count() < docs.size() / 32) {
                    auto at = docs.begin();
                    found.each([&](std::uint32_t doc) {
                        at = std::lower_bound(at, docs.end(), doc);
                        if (at == docs.end() || *at != doc) found.remove(doc);
                    });
                    return;
                }
            }
        }
        found.intersect(match(child, &found));
    }

    // About as many postings as have to be read.
    std::uint64_t cost(const QueryNode& node) const {
        if (node.kind == Kind::all || node.kind == Kind::docs) return 0;
        if (node.kind == Kind::prefix || node.kind == Kind::fuzzy) return index_.n_docs();
        std::uint64_t sum = 0;
        std::uint64_t least = UINT64_MAX;
        if (node.kind == Kind::term) {
            for (const std::uint32_t term : query_terms(node, index_))
                for (const std::size_t field : fields(node)) sum += index_.count(term, field);
            return sum;
        }
        for (const QueryNode& child : node.children) {
            const std::uint64_t one = cost(child);
            sum += one;
            least = std::min(least, one);
        }
        if (node.kind == Kind::any_of) return sum;
        // Positions cost more than documents: a phrase goes behind a term that is as frequent.
        if (node.kind == Kind::phrase || node.kind == Kind::near)
            return node.children.empty() ? 0 : least * 8;
        if (!node.children.empty()) return least;
        for (const QueryNode& child : node.should) sum += cost(child);
        return node.should.empty() ? index_.n_docs() : sum;
    }

    const Bm25Index& index_;
    std::size_t segment_;
};

void check_fields(const QueryNode& node, const Bm25Snapshot& snapshot) {
    for (const std::size_t field : node.fields)
        require(field < snapshot.n_fields(), "a field of the query is not in the index");
}

void check_pattern(const QueryNode& node, const Bm25Snapshot& snapshot) {
    const bool near = node.kind == Kind::near;
    for (const QueryNode& child : node.children) {
        const bool phrase = near && child.kind == Kind::phrase && child.slop == 0 && !child.children.empty();
        require(child.names_tokens() || phrase,
                "a phrase is made of single tokens, a near of tokens and of phrases without slop");
        check_query(child, snapshot);
    }
    if (near || node.slop > 0)
        require(node.children.size() <= QueryNode::kMostSloppy,
                "a near and a phrase with slop have at most 64 parts; use a phrase without slop");
    for (const SegmentView& view : snapshot.segments())
        require(view.segment->has_positions() || view.segment->n_docs() == 0,
                "phrases and near need token positions; build the index with positions=True");
}

}  // namespace

void check_query(const QueryNode& node, const Bm25Snapshot& snapshot) {
    check_fields(node, snapshot);
    if (node.kind == Kind::phrase || node.kind == Kind::near) {
        check_pattern(node, snapshot);
        return;
    }
    if (node.kind == Kind::prefix || node.kind == Kind::fuzzy)
        require(snapshot.has_vocabulary() || snapshot.segments().empty(),
                "this index was built from token ids, which have no prefixes; use terms");
    if (node.kind == Kind::docs) {
        bool fits = node.docs.size() == snapshot.segments().size();
        for (std::size_t i = 0; fits && i < node.docs.size(); ++i)
            fits = node.docs[i].n_docs() == snapshot.segments()[i].segment->n_docs();
        require(fits, "the documents of a set are not those of the index");
    }
    for (const auto* list : {&node.children, &node.should, &node.must_not})
        for (const QueryNode& child : *list) check_query(child, snapshot);
}

std::string match_key(const QueryNode& node) {
    std::string key;
    const auto add = [&](std::uint64_t number) { key += std::to_string(number) + ' '; };
    if (node.kind == Kind::docs) return key;
    for (const std::uint64_t number :
         {std::uint64_t(node.kind), std::uint64_t{node.edits}, std::uint64_t{node.exact},
          std::uint64_t{node.swaps}, node.slop, std::uint64_t{node.ordered}, std::uint64_t{node.minimum},
          node.id ? std::uint64_t{*node.id} + 1 : 0, node.text.size()})
        add(number);
    key += node.text;
    add(node.fields.size());
    for (const std::size_t field : node.fields) add(field);
    for (const auto* list : {&node.children, &node.should, &node.must_not}) {
        add(list->size());
        for (const QueryNode& child : *list) {
            const std::string inner = match_key(child);
            if (inner.empty()) return inner;
            key += inner;
        }
    }
    return key;
}

std::vector<std::uint32_t> query_terms(const QueryNode& node, const Bm25Index& segment) {
    switch (node.kind) {
        case Kind::term: {
            if (node.id)
                return *node.id < segment.n_terms() ? std::vector{*node.id} : std::vector<std::uint32_t>{};
            const auto found = segment.vocabulary().find(node.text);
            return found ? std::vector{*found} : std::vector<std::uint32_t>{};
        }
        case Kind::any_of: {
            std::vector<std::uint32_t> all;
            for (const QueryNode& child : node.children) {
                const std::vector<std::uint32_t> some = query_terms(child, segment);
                all.insert(all.end(), some.begin(), some.end());
            }
            std::sort(all.begin(), all.end());
            all.erase(std::unique(all.begin(), all.end()), all.end());
            return all;
        }
        default: {
            const SortedTerms& sorted = segment.vocabulary().sorted();
            std::vector<std::uint32_t> found =
                node.kind == Kind::prefix ? sorted.with_prefix(node.text)
                                          : sorted.within(node.text, node.edits, node.exact, node.swaps);
            std::sort(found.begin(), found.end());
            return found;
        }
    }
}

std::vector<std::uint32_t> token_positions(const QueryNode& node, const Bm25Index& segment, std::uint32_t doc,
                                           std::size_t field) {
    std::vector<std::uint32_t> all;
    std::vector<std::uint32_t> one;
    for (const std::uint32_t term : query_terms(node, segment)) {
        const Postings list = segment.postings(term, field);
        const auto docs = list.docs;
        const auto at = std::lower_bound(docs.begin(), docs.end(), doc);
        if (at == docs.end() || *at != doc) continue;
        segment.positions(term, list, field).read(static_cast<std::size_t>(at - docs.begin()), one);
        all.insert(all.end(), one.begin(), one.end());
    }
    std::sort(all.begin(), all.end());
    return all;
}

DocSet query_match(const QueryNode& node, const Bm25Snapshot& snapshot, std::size_t segment,
                   const DocSet* allowed) {
    const SegmentView& view = snapshot.segments()[segment];
    DocSet within = allowed == nullptr ? DocSet(view.segment->n_docs(), true) : *allowed;
    if (view.dead != nullptr) within.subtract(*view.dead);
    const bool all = view.dead == nullptr && allowed == nullptr;
    DocSet found = Matcher(view, segment).match(node, all ? nullptr : &within);
    found.intersect(within);
    return found;
}

}  // namespace gnomon
