#include "query_rank.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bm25_paths.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

using Kind = QueryNode::Kind;

// A term made of several: its postings are their union, frequencies added up.
struct GroupTerm : Bm25Term {
    struct List {
        std::vector<std::uint32_t> docs;
        std::vector<std::uint8_t> tfs;
        std::vector<std::uint32_t> wide;
    };
    std::vector<List> lists;  // by segment, then field

    // Frequencies of the documents that hold a token, in the scratch `sums`, which is 0 before and after.
    void take(std::size_t place, DocSet& docs, std::vector<std::uint64_t>& sums) {
        List& list = lists[place];
        bool wide = false;
        docs.each([&](std::uint32_t doc) {
            const auto tf = static_cast<std::uint32_t>(std::min<std::uint64_t>(sums[doc], UINT32_MAX));
            sums[doc] = 0;
            wide |= tf > Bm25Field::kWide;
            list.docs.push_back(doc);
            list.tfs.push_back(static_cast<std::uint8_t>(std::min(tf, Bm25Field::kWide)));
            list.wide.push_back(tf);
        });
        if (!wide) list.wide.clear();
        postings[place] = {list.docs, list.tfs, list.wide, nullptr};
        n_postings += list.docs.size();
    }
};

std::shared_ptr<const Bm25Term> group_term(const QueryNode& node, const Bm25Scorer& scorer) {
    const auto& segments = scorer.snapshot().segments();
    const std::size_t n_fields = scorer.n_fields();
    auto group = std::make_shared<GroupTerm>();
    group->postings.resize(segments.size() * n_fields);
    group->lists.resize(group->postings.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Bm25Index& segment = *segments[i].segment;
        const std::vector<std::uint32_t> terms = query_terms(node, segment);
        group->ref.by_segment.push_back(terms.empty() ? std::nullopt : std::optional(terms[0]));
        if (terms.empty()) continue;
        DocSet any(segment.n_docs());
        std::vector<std::uint64_t> sums(segment.n_docs(), 0);
        for (std::size_t field = 0; field < n_fields; ++field) {
            DocSet docs(segment.n_docs());
            for (const std::uint32_t term : terms) {
                const Postings list = segment.postings(term, field);
                for (std::size_t j = 0; j < list.docs.size(); ++j) {
                    docs.add(list.docs[j]);
                    sums[list.docs[j]] += list.tf(j);
                }
            }
            group->take(i * n_fields + field, docs, sums);
            any.unite(docs);
        }
        if (segments[i].dead != nullptr) any.subtract(*segments[i].dead);
        group->df += any.count();
    }
    if (group->df == 0) return nullptr;
    group->idf = scorer.idf_of(group->df);
    return group;
}

class Collector {
  public:
    Collector(const Bm25Scorer& scorer, QueryTerms& out) : scorer_(scorer), out_(out) {}

    void walk(const QueryNode& node, double boost) {
        const double weight = boost * node.boost;
        if (node.names_tokens()) {
            add(node, weight);
            return;
        }
        for (const QueryNode& child : node.children) walk(child, weight);
        for (const QueryNode& child : node.should) walk(child, weight);
    }

  private:
    void add(const QueryNode& node, double weight) {
        const double size = std::abs(weight);
        if (!(weight == 0.0 || (size >= 1e-100 && size <= 1e100)))
            throw InvalidInput("the boosts of a term multiply to " + weight_text(weight) +
                               "; keep them within 1e-100 and 1e100");
        std::shared_ptr<const Bm25Term> term;
        if (node.kind == Kind::term) {
            term = node.id ? scorer_.find(*node.id) : scorer_.find(node.text);
        } else {
            const auto [known, is_new] = groups_.try_emplace(match_key(node));
            if (is_new) known->second = group_term(node, scorer_);
            term = known->second;
            out_.plain_only |= term != nullptr;
        }
        if (term == nullptr) return;
        out_.terms.push_back({std::move(term), weight});
        out_.nodes.push_back(&node);
    }

    const Bm25Scorer& scorer_;
    QueryTerms& out_;
    std::map<std::string, std::shared_ptr<const Bm25Term>> groups_;  // each is made once, however often said
};

// Whether every document that matches holds a positive term. False when that is not certain.
bool holds_positive(const QueryNode& node) {
    if (node.kind == Kind::all || node.kind == Kind::docs) return false;
    if (node.kind != Kind::boolean) return true;
    if (std::any_of(node.children.begin(), node.children.end(), holds_positive)) return true;
    return node.minimum > 0 && std::all_of(node.should.begin(), node.should.end(), holds_positive);
}

// Whether exactly those documents match that hold one of the positive terms: the search finds them by itself,
// and may use bounds that a filter would void.
bool one_of_its_terms(const QueryNode& node) {
    if (node.names_tokens()) return node.fields.empty();
    return node.kind == Kind::boolean && node.children.empty() && node.must_not.empty() &&
           node.minimum == 1 && std::all_of(node.should.begin(), node.should.end(), one_of_its_terms);
}

// What a document without any of the terms scores.
double absent_score(const Bm25Scorer& scorer, const Bm25Query& query) {
    const Prepared prepared(scorer, query);
    double score = 0.0;
    if (prepared.in_order)
        for (const Prepared::Occurrence& one : prepared.order) score = score + one.absent;
    const bool at_end = bm25::absent(scorer.model().formula) == bm25::Absent::kAtEnd;
    return at_end ? score + prepared.at_end : score;
}

// The first k matching documents that hold none of the terms, by slot.
std::vector<Hit> without_terms(const Bm25Scorer& scorer, const Bm25Query& query, const Allowed& matching,
                               std::size_t k, double score) {
    std::vector<Hit> hits;
    const auto& segments = scorer.snapshot().segments();
    const std::size_t n_fields = scorer.n_fields();
    for (std::size_t i = 0; i < segments.size() && hits.size() < k; ++i) {
        DocSet rest = *matching[i];
        for (const QueryTerm& one : query)
            for (std::size_t field = 0; field < n_fields; ++field)
                for (const std::uint32_t doc : one.term->postings[i * n_fields + field].docs)
                    rest.remove(doc);
        rest.each([&](std::uint32_t doc) {
            if (hits.size() < k) hits.push_back({score, static_cast<std::uint32_t>(segments[i].base + doc)});
        });
    }
    return hits;
}

}  // namespace

QueryTerms positive_terms(const QueryNode& node, const Bm25Scorer& scorer) {
    QueryTerms found;
    Collector(scorer, found).walk(node, 1.0);
    return found;
}

std::vector<Hit> query_top_k(const QueryNode& node, const Bm25Scorer& scorer, std::size_t k,
                             const Allowed& allowed, Bm25Search& search, std::size_t threads,
                             std::uint64_t* asked) {
    check_query(node, scorer.snapshot());
    const QueryTerms positive = positive_terms(node, scorer);
    // Terms made for this query have no screen lists that could be kept.
    const Path path = positive.plain_only ? Path::kPlain : Path::kAuto;
    const bool by_terms = one_of_its_terms(node);
    std::uint64_t total = 0;
    Allowed matching;
    for (std::size_t i = 0; i < scorer.snapshot().segments().size() && (!by_terms || asked != nullptr); ++i) {
        const DocSet* const only = allowed.empty() ? nullptr : allowed[i].get();
        matching.push_back(std::make_shared<const DocSet>(query_match(node, scorer.snapshot(), i, only)));
        total += matching.back()->count();
    }
    if (asked != nullptr) {
        *asked = total;
        k = static_cast<std::size_t>(std::min<std::uint64_t>(k, total));
        if (k == 0) return {};
    }
    if (by_terms) return search.top_k(scorer, positive.terms, k, allowed, path, threads);
    k = static_cast<std::size_t>(std::min<std::uint64_t>(k, total));
    if (k == 0) return {};
    const bool few = total < scorer.snapshot().n_slots() / 64;
    std::vector<Hit> hits = search.top_k(scorer, positive.terms, k, matching,
                                         path == Path::kPlain && few ? Path::kDirect : path, threads);
    if (holds_positive(node)) return hits;
    const double score = absent_score(scorer, positive.terms);
    if (hits.size() == k && hits.back().score > score) return hits;
    const std::vector<Hit> rest = without_terms(scorer, positive.terms, matching, k, score);
    hits.insert(hits.end(), rest.begin(), rest.end());
    std::sort(hits.begin(), hits.end(), better);
    hits.resize(k);
    return hits;
}

}  // namespace gnomon
