// The plain path: float64, term at a time in windows, in query-term order. Also the scores of everything.
#include <algorithm>
#include <cmath>

#include "bm25_paths.hpp"

namespace gnomon {
namespace {

// One list of postings on its way through the windows; for BM25F each field of an occurrence has one.
struct Cursor {
    const Postings* list;
    std::size_t at;

    Cursor(const Postings& postings, std::size_t first) : list(&postings) {
        at = static_cast<std::size_t>(std::lower_bound(list->docs.begin(), list->docs.end(), first) -
                                      list->docs.begin());
    }
    // How many postings lie below `end`. Documents are distinct, so at most `room` of them can.
    std::size_t count(std::size_t end, std::size_t room) const {
        const auto begin = list->docs.begin() + static_cast<std::ptrdiff_t>(at);
        const auto limit =
            list->docs.begin() + static_cast<std::ptrdiff_t>(std::min(list->docs.size(), at + room));
        return static_cast<std::size_t>(std::lower_bound(begin, limit, end) - begin);
    }
};

class Plain {
  public:
    Plain(const Run& run, std::size_t segment, std::size_t first)
        : run_(run), model_(run.scorer.model()), segment_(segment), n_fields_(run.scorer.n_fields()) {
        for (const Prepared::Occurrence& occurrence : run.query.order)
            for (std::size_t field = 0; field < n_fields_; ++field)
                cursors_.emplace_back(run.query.terms[occurrence.term]->postings[segment * n_fields_ + field],
                                      first);
        if (model_.formula == bm25::Formula::kBm25f) run.scratch.values.assign(kPlainWindow, 0.0);
    }

    // Adds the parts of [base, end) to scores[doc - base]. Says whether there were any postings.
    bool add(std::size_t base, std::size_t end, double* scores) {
        bool any = false;
        for (std::size_t i = 0; i < run_.query.order.size(); ++i) {
            const Prepared::Occurrence& occurrence = run_.query.order[i];
            if (model_.formula == bm25::Formula::kBm25f)
                any = add_fields(i, base, end, scores) || any;
            else
                any = add_list(cursors_[i], occurrence, base, end, scores) || any;
        }
        return any;
    }

  private:
    bool add_list(Cursor& cursor, const Prepared::Occurrence& occurrence, std::size_t base, std::size_t end,
                  double* scores) {
        const std::size_t n = cursor.count(end, end - base);
        const std::uint32_t* const docs = cursor.list->docs.data() + cursor.at;
        const double* const norms = run_.scorer.constants(segment_);
        if (run_.query.in_order) {
            add_in_order(cursor, occurrence, base, end, n, scores);
        } else if (n != 0 && model_.formula == bm25::Formula::kDefault && cursor.list->wide.empty()) {
            run_.kernels.bm25_add(docs, cursor.list->tfs.data() + cursor.at, n,
                                  static_cast<std::uint32_t>(base), norms + base, occurrence.idf,
                                  model_.k1 + 1.0, scores);
        } else {
            for (std::size_t i = 0; i < n; ++i)
                scores[docs[i] - base] += part(cursor, i, occurrence.idf, norms);
        }
        cursor.at += n;
        return n != 0;
    }

    double part(const Cursor& cursor, std::size_t i, double idf, const double* norms) const {
        return bm25::part(model_.formula, idf, static_cast<double>(cursor.list->tf(cursor.at + i)),
                          norms[cursor.list->docs[cursor.at + i]], model_.k1, model_.delta);
    }

    // Documents that lack the term get a part too: the new sums of the others are kept aside meanwhile.
    void add_in_order(const Cursor& cursor, const Prepared::Occurrence& occurrence, std::size_t base,
                      std::size_t end, std::size_t n, double* scores) {
        std::vector<double>& sums = run_.scratch.values;
        sums.resize(std::max(sums.size(), n));
        const double* const norms = run_.scorer.constants(segment_);
        const std::uint32_t* const docs = cursor.list->docs.data() + cursor.at;
        for (std::size_t i = 0; i < n; ++i)
            sums[i] = scores[docs[i] - base] + part(cursor, i, occurrence.idf, norms);
        for (std::size_t offset = 0; offset < end - base; ++offset) scores[offset] += occurrence.absent;
        for (std::size_t i = 0; i < n; ++i) {
            scores[docs[i] - base] = sums[i];
            run_.scratch.touched[docs[i] - base] = 1;
        }
    }

    bool add_fields(std::size_t place, std::size_t base, std::size_t end, double* scores) {
        std::vector<double>& tildes = run_.scratch.values;  // all 0 between two calls
        std::vector<std::uint32_t>& offsets = run_.scratch.offsets;
        offsets.clear();
        for (std::size_t field = 0; field < n_fields_; ++field) {
            const double weight = model_.field_weights[field];
            Cursor& cursor = cursors_[place * n_fields_ + field];
            const std::size_t n = cursor.count(end, end - base);
            const double* const rels = run_.scorer.constants(segment_, field);
            for (std::size_t i = 0; weight != 0.0 && i < n; ++i) {
                const std::uint32_t doc = cursor.list->docs[cursor.at + i];
                const std::size_t offset = doc - base;
                if (tildes[offset] == 0.0) offsets.push_back(static_cast<std::uint32_t>(offset));
                tildes[offset] +=
                    bm25::field_tf(weight, static_cast<double>(cursor.list->tf(cursor.at + i)), rels[doc]);
            }
            cursor.at += n;
        }
        for (const std::uint32_t offset : offsets) {
            scores[offset] += bm25::field_part(run_.query.order[place].idf, tildes[offset], model_.k1);
            tildes[offset] = 0.0;
        }
        return !offsets.empty();
    }

    const Run& run_;
    const Bm25Model& model_;
    std::size_t segment_;
    std::size_t n_fields_;
    std::vector<Cursor> cursors_;
};

// What an accumulator must reach so that, with at_end added, it may reach `threshold`: a little less.
double least_sum(double threshold, double at_end) {
    return threshold - at_end - 1e-12 * (std::abs(threshold) + std::abs(at_end));
}

}  // namespace

void plain_path(const Run& run, std::size_t segment, const Filter& filter, std::size_t first,
                std::size_t last, TopK& best) {
    Bm25Scratch& scratch = run.scratch;
    const bool in_order = run.query.in_order;
    const bool at_end = bm25::absent(run.scorer.model().formula) == bm25::Absent::kAtEnd;
    const double shift = at_end ? run.query.at_end : 0.0;
    const auto base_slot = static_cast<std::uint32_t>(run.scorer.snapshot().segments()[segment].base);
    // Accumulators start from -0.0: the first part, which is never -0.0, turns them into exactly 0.0 + part,
    // and those that no term touched stay recognisable, so that a match with score 0.0 is still a match.
    const double untouched = in_order ? 0.0 : -0.0;
    const std::size_t window = std::min(kPlainWindow, last - first);
    scratch.scores.assign(window, untouched);
    scratch.picked.resize(std::max(scratch.picked.size(), window));
    if (in_order) scratch.touched.assign(window, 0);
    Plain plain(run, segment, first);
    for (std::size_t base = first; base < last; base += kPlainWindow) {
        const std::size_t end = std::min(base + kPlainWindow, last);
        if (!plain.add(base, end, scratch.scores.data())) {
            if (in_order) std::fill(scratch.scores.begin(), scratch.scores.end(), untouched);
            continue;
        }
        const double least = at_end ? least_sum(best.threshold(), shift) : best.threshold();
        const std::size_t found =
            run.kernels.bm25_select(scratch.scores.data(), end - base, least, scratch.picked.data());
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint32_t offset = scratch.picked[i];
            const auto doc = static_cast<std::uint32_t>(base) + offset;
            if ((in_order && scratch.touched[offset] == 0) || !filter.passes(doc)) continue;
            const double score = scratch.scores[offset];
            best.push({at_end ? score + shift : score, base_slot + doc});
        }
        std::fill(scratch.scores.begin(), scratch.scores.end(), untouched);
        if (in_order) std::fill(scratch.touched.begin(), scratch.touched.end(), 0);
    }
}

void bm25_score_all(const Bm25Scorer& scorer, const Bm25Query& query, const Kernels& kernels, double* out) {
    const Prepared prepared(scorer, query);
    Bm25Scratch scratch;
    const Run run{scorer, prepared, kernels, scratch};
    const bool at_end = bm25::absent(scorer.model().formula) == bm25::Absent::kAtEnd;
    scratch.touched.assign(kPlainWindow, 0);
    std::fill(out, out + scorer.snapshot().n_slots(), 0.0);
    const auto& segments = scorer.snapshot().segments();
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
        Plain plain(run, segment, 0);
        const std::size_t n_docs = segments[segment].segment->n_docs();
        double* const scores = out + segments[segment].base;
        for (std::size_t base = 0; base < n_docs; base += kPlainWindow)
            plain.add(base, std::min(base + kPlainWindow, n_docs), scores + base);
        for (std::size_t doc = 0; at_end && doc < n_docs; ++doc) scores[doc] += prepared.at_end;
    }
}

}  // namespace gnomon
