#include "bm25_search.hpp"

#include <algorithm>

#include "topk.hpp"

namespace gnomon {
namespace {

// 16,384 accumulators are 128 KiB: they stay in L2 while all terms of a query pass over them, and the norms
// of the same documents beside them. Without windows a query over a million documents clears and scans 8 MB.
constexpr std::size_t kWindow = 16384;

struct Cursor {
    Postings postings;
    double idf;
    std::size_t at;
};

std::vector<Cursor> open_cursors(const Bm25Index& index, std::span<const std::uint32_t> terms) {
    std::vector<Cursor> cursors;
    cursors.reserve(terms.size());
    for (const std::uint32_t term : terms) {
        const Postings postings = index.postings(term);
        cursors.push_back({postings, bm25::idf(index.n_docs(), postings.docs.size()), 0});
    }
    return cursors;
}

// Adds the postings of [base, end) in query-term order; says whether there were any.
bool add_window(std::vector<Cursor>& cursors, const Bm25Scoring& scoring, std::size_t base, std::size_t end,
                const Kernels& kernels, double* scores) {
    bool any = false;
    std::vector<std::uint32_t> widened;
    for (Cursor& cursor : cursors) {
        const std::span<const std::uint32_t> docs = cursor.postings.docs;
        // Documents are distinct, so at most end - base of them can lie in this window.
        const auto first = docs.begin() + static_cast<std::ptrdiff_t>(cursor.at);
        const auto limit =
            docs.begin() + static_cast<std::ptrdiff_t>(std::min(docs.size(), cursor.at + (end - base)));
        const std::size_t n = static_cast<std::size_t>(std::lower_bound(first, limit, end) - first);
        if (n == 0) continue;
        any = true;
        widened.resize(std::max(widened.size(), n));
        for (std::size_t i = 0; i < n; ++i) widened[i] = cursor.postings.tf(cursor.at + i);
        kernels.bm25_add(docs.data() + cursor.at, widened.data(), n, static_cast<std::uint32_t>(base),
                         scoring.norms.data() + base, cursor.idf, scoring.k1_plus_1, scores);
        cursor.at += n;
    }
    return any;
}

}  // namespace

std::vector<Hit> bm25_search(const Bm25Index& index, const Bm25Scoring& scoring,
                             std::span<const std::uint32_t> terms, std::size_t k, const Kernels& kernels,
                             Bm25Scratch& scratch) {
    const std::size_t n_docs = index.n_docs();
    std::vector<Cursor> cursors = open_cursors(index, terms);
    TopK best(std::min(k, n_docs));
    if (k == 0 || n_docs == 0 || cursors.empty()) return {};
    // Accumulators start from -0.0: the first weight, which is never -0.0, turns them into exactly 0.0 +
    // weight, and those that no term touched stay recognisable, so that a match with score 0.0 is still a
    // match.
    const std::size_t window = std::min(kWindow, n_docs);
    scratch.scores.assign(window, -0.0);
    scratch.selected.resize(window);
    for (std::size_t base = 0; base < n_docs; base += kWindow) {
        const std::size_t end = std::min(base + kWindow, n_docs);
        if (!add_window(cursors, scoring, base, end, kernels, scratch.scores.data())) continue;
        const std::size_t found =
            kernels.bm25_select(scratch.scores.data(), end - base, best.threshold(), scratch.selected.data());
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint32_t offset = scratch.selected[i];
            best.push({scratch.scores[offset], static_cast<std::uint32_t>(base) + offset});
        }
        std::fill(scratch.scores.begin(), scratch.scores.end(), -0.0);
    }
    return best.take();
}

void bm25_score_all(const Bm25Index& index, const Bm25Scoring& scoring, std::span<const std::uint32_t> terms,
                    const Kernels& kernels, double* out) {
    const std::size_t n_docs = index.n_docs();
    std::fill(out, out + n_docs, 0.0);
    std::vector<Cursor> cursors = open_cursors(index, terms);
    for (std::size_t base = 0; base < n_docs; base += kWindow)
        add_window(cursors, scoring, base, std::min(base + kWindow, n_docs), kernels, out + base);
}

}  // namespace gnomon
