#include "bm25_plain.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "error.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

// Accumulators by slot, from -0.0 on: those that no term touched stay recognisable.
std::vector<double> accumulate(const Bm25Snapshot& snapshot, bm25::Params params,
                               std::span<const double> norms, std::span<const TermRef> terms) {
    std::vector<double> scores(snapshot.n_slots(), -0.0);
    for (const TermRef& term : terms) {
        const double idf = bm25::idf(snapshot.n_docs(), snapshot.df(term));
        for (std::size_t s = 0; s < snapshot.segments().size(); ++s) {
            if (!term.by_segment[s]) continue;
            const SegmentView& view = snapshot.segments()[s];
            const Postings list = view.segment->postings(*term.by_segment[s]);
            for (std::size_t i = 0; i < list.docs.size(); ++i)
                scores[view.base + list.docs[i]] += bm25::weight(
                    idf, static_cast<double>(list.tf(i)), params.k1 + 1.0, norms[view.base + list.docs[i]]);
        }
    }
    return scores;
}

template <class Fn>
void each_live(const Bm25Snapshot& snapshot, const Fn& fn) {
    for (const SegmentView& view : snapshot.segments())
        for (std::uint32_t doc = 0; doc < view.segment->n_docs(); ++doc)
            if (view.live(doc)) fn(static_cast<std::uint32_t>(view.base) + doc);
}

}  // namespace

std::vector<double> snapshot_norms(const Bm25Snapshot& snapshot, bm25::Params params) {
    if (!(params.k1 >= 0.0 && params.k1 <= 1e100))
        throw InvalidInput("k1 must lie between 0 and 1e100, got " + std::to_string(params.k1));
    if (!(params.b >= 0.0 && params.b <= 1.0))
        throw InvalidInput("b must lie between 0 and 1, got " + std::to_string(params.b));
    const double avgdl =
        snapshot.n_docs() == 0 ? 0.0 : bm25::average_length(snapshot.n_tokens(), snapshot.n_docs());
    std::vector<double> norms;
    norms.reserve(snapshot.n_slots());
    for (const SegmentView& view : snapshot.segments())
        for (const std::uint32_t dl : view.segment->lengths())
            norms.push_back(bm25::length_norm(params, static_cast<double>(dl), avgdl));
    return norms;
}

std::vector<Hit> plain_search(const Bm25Snapshot& snapshot, bm25::Params params,
                              std::span<const double> norms, std::span<const TermRef> terms, std::size_t k) {
    TopK best(std::min<std::size_t>(k, snapshot.n_docs()));
    if (k == 0 || snapshot.n_docs() == 0 || terms.empty()) return {};
    const std::vector<double> scores = accumulate(snapshot, params, norms, terms);
    each_live(snapshot, [&](std::uint32_t slot) {
        if (std::bit_cast<std::uint64_t>(scores[slot]) != std::bit_cast<std::uint64_t>(-0.0))
            best.push({scores[slot], slot});
    });
    return best.take();
}

std::vector<double> plain_scores(const Bm25Snapshot& snapshot, bm25::Params params,
                                 std::span<const double> norms, std::span<const TermRef> terms) {
    const std::vector<double> scores = accumulate(snapshot, params, norms, terms);
    std::vector<double> live;
    live.reserve(snapshot.n_docs());
    each_live(snapshot, [&](std::uint32_t slot) { live.push_back(0.0 + scores[slot]); });
    return live;
}

}  // namespace gnomon
