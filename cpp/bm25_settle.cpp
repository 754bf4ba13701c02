// Canonical scores of chosen documents: frequencies by look-up, then the formula in query-term order.
#include <algorithm>

#include "bm25_paths.hpp"

namespace gnomon {
namespace {

// Ascending documents, found by walking the postings: step by step where they lie close together, which the
// prefetcher sees, else galloping.
template <class Found>
void walk(std::span<const std::uint32_t> list, std::span<const std::uint32_t> docs, const Found& found) {
    const bool close = list.size() < docs.size() * 32;
    std::size_t at = 0;
    for (std::size_t i = 0; i < docs.size(); ++i) {
        if (close) {
            while (at < list.size() && list[at] < docs[i]) ++at;
        } else {
            std::size_t step = 1;
            while (at + step < list.size() && list[at + step] < docs[i]) {
                at += step;
                step *= 2;
            }
            const std::size_t end = std::min(list.size(), at + step + 1);
            at = static_cast<std::size_t>(std::lower_bound(list.begin() + static_cast<std::ptrdiff_t>(at),
                                                           list.begin() + static_cast<std::ptrdiff_t>(end),
                                                           docs[i]) -
                                          list.begin());
        }
        if (at == list.size()) return;
        if (list[at] == docs[i]) found(i, at);
    }
}

// A look-up by block costs about as much as so many steps along the list.
constexpr std::size_t kStepsPerLookUp = 8;

void field_frequencies(const Run& run, const Bm25Term& term, std::size_t segment,
                       std::span<const std::uint32_t> docs, double* out) {
    const Bm25Model& model = run.scorer.model();
    const std::size_t n_fields = run.scorer.n_fields();
    for (std::size_t field = 0; field < n_fields; ++field) {
        const double weight = model.field_weights[field];
        if (weight == 0.0) continue;
        const Postings& list = term.postings[segment * n_fields + field];
        const double* const rels = run.scorer.constants(segment, field);
        walk(list.docs, docs, [&](std::size_t i, std::size_t at) {
            out[i] += bm25::field_tf(weight, static_cast<double>(list.tf(at)), rels[docs[i]]);
        });
    }
}

}  // namespace

void find_frequencies(const Run& run, const Screened* screened, std::size_t segment,
                      std::span<const std::uint32_t> docs, std::vector<double>& frequencies) {
    frequencies.assign(run.query.terms.size() * docs.size(), 0.0);
    for (std::size_t t = 0; t < run.query.terms.size(); ++t) {
        const Bm25Term& term = *run.query.terms[t];
        if (!term.ref.by_segment[segment]) continue;
        double* const out = frequencies.data() + t * docs.size();
        if (run.scorer.model().formula == bm25::Formula::kBm25f) {
            field_frequencies(run, term, segment, docs, out);
            continue;
        }
        const Postings& list = term.postings[segment];
        const auto found = [&](std::size_t i, std::size_t at) { out[i] = static_cast<double>(list.tf(at)); };
        const TermScreen* screen =
            screened == nullptr ? nullptr : (*screened->terms[t].screens)[segment].get();
        if (screen != nullptr && !screen->tfs.empty()) {
            for (std::size_t i = 0; i < docs.size(); ++i) out[i] = static_cast<double>(screen->tfs[docs[i]]);
            continue;
        }
        // Frequent terms know where the postings of a block of documents start.
        if (screen != nullptr && !screen->starts.empty() && list.wide.empty() &&
            docs.size() * kStepsPerLookUp < list.docs.size())
            run.kernels.bm25_find(list.docs.data(), screen->starts.data(), list.tfs.data(), docs.data(),
                                  docs.size(), out);
        else
            walk(list.docs, docs, found);
    }
}

void settle(const Run& run, const Screened* screened, std::size_t segment,
            std::span<const std::uint32_t> docs, TopK& best) {
    const Bm25Model& model = run.scorer.model();
    Bm25Scratch& scratch = run.scratch;
    find_frequencies(run, screened, segment, docs, scratch.frequencies);
    const bool fields = model.formula == bm25::Formula::kBm25f;
    scratch.values.assign(docs.size(), 0.0);
    std::vector<double>& norms = scratch.norms;
    norms.resize(docs.size());
    if (!fields) {
        const double* const constants = run.scorer.constants(segment);
        for (std::size_t i = 0; i < docs.size(); ++i) norms[i] = constants[docs[i]];
    }
    double* const scores = scratch.values.data();
    for (const Prepared::Occurrence& term : run.query.order) {
        const double* const tfs = scratch.frequencies.data() + term.term * docs.size();
        if (screened != nullptr && model.formula == bm25::Formula::kDefault && model.k1 > 0.0) {
            // Without a branch: a term that is absent adds 0 * ... / norm = 0. Only for k1 > 0, where every
            // norm of a document that has tokens is positive.
            run.kernels.bm25_settle(tfs, norms.data(), docs.size(), term.idf, model.k1 + 1.0, scores);
            continue;
        }
        for (std::size_t i = 0; i < docs.size(); ++i) {
            if (tfs[i] > 0.0)
                scores[i] = scores[i] + (fields ? bm25::field_part(term.idf, tfs[i], model.k1)
                                                : bm25::part(model.formula, term.idf, tfs[i], norms[i],
                                                             model.k1, model.delta));
            else if (run.query.in_order)
                scores[i] = scores[i] + term.absent;
        }
    }
    const bool at_end = bm25::absent(model.formula) == bm25::Absent::kAtEnd;
    const auto base = static_cast<std::uint32_t>(run.scorer.snapshot().segments()[segment].base);
    for (std::size_t i = 0; i < docs.size(); ++i) {
        bool matches = screened != nullptr;  // a screen finds nothing else
        for (std::size_t t = 0; !matches && t < run.query.terms.size(); ++t)
            matches = scratch.frequencies[t * docs.size() + i] > 0.0;
        if (matches) best.push({at_end ? scores[i] + run.query.at_end : scores[i], base + docs[i]});
    }
}

Bm25Parts bm25_parts(const Bm25Scorer& scorer, const Bm25Query& query,
                     const std::vector<std::uint32_t>& slots) {
    const Prepared prepared(scorer, query);
    const Bm25Model& model = scorer.model();
    Bm25Scratch scratch;
    const Run run{scorer, prepared, default_kernels(), scratch};
    const std::size_t n_terms = prepared.order.size();
    const bool fields = model.formula == bm25::Formula::kBm25f;
    const bool at_end = bm25::absent(model.formula) == bm25::Absent::kAtEnd;
    Bm25Parts result;
    result.at_end = at_end ? prepared.at_end : 0.0;
    result.scores.assign(slots.size(), 0.0);
    result.parts.assign(slots.size() * n_terms, 0.0);
    result.frequencies.assign(slots.size() * n_terms, 0.0);
    std::size_t at = 0;
    const auto& segments = scorer.snapshot().segments();
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
        scratch.docs.clear();
        const std::size_t first = at;
        const std::uint64_t end = segments[segment].base + segments[segment].segment->n_docs();
        for (; at < slots.size() && slots[at] < end; ++at)
            scratch.docs.push_back(slots[at] - static_cast<std::uint32_t>(segments[segment].base));
        find_frequencies(run, nullptr, segment, scratch.docs, scratch.frequencies);
        const double* const norms = fields ? nullptr : scorer.constants(segment);
        for (std::size_t i = 0; i < scratch.docs.size(); ++i) {
            for (std::size_t t = 0; t < n_terms; ++t) {
                const Prepared::Occurrence& term = prepared.order[t];
                const double tf = scratch.frequencies[term.term * scratch.docs.size() + i];
                double& part = result.parts[(first + i) * n_terms + t];
                if (tf > 0.0)
                    part = fields ? bm25::field_part(term.idf, tf, model.k1)
                                  : bm25::part(model.formula, term.idf, tf, norms[scratch.docs[i]], model.k1,
                                               model.delta);
                else if (prepared.in_order)
                    part = term.absent;
                result.scores[first + i] = result.scores[first + i] + part;
                result.frequencies[(first + i) * n_terms + t] = tf;
            }
            if (at_end) result.scores[first + i] = result.scores[first + i] + prepared.at_end;
        }
    }
    return result;
}

}  // namespace gnomon
