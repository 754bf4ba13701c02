// THE formula: Okapi BM25 (Robertson & Zaragoza 2009) with Lucene's idf, which is never negative:
//   idf   = log(1 + (N - df + 0.5) / (df + 0.5))
//   norm  = tf + k1 * (1 - b + b * dl / max(avgdl, 1e-12))
//   score = score + idf * tf * (k1 + 1) / norm          left to right, in query-term order, repeats count
// Each line is evaluated as Python evaluates it, in float64, so that the bits equal reference/bm25.py.
// static inline, not inline: kernel files include this header and must leave no weak symbol (at -O0 the
// plain form left one in the AVX-512 object).
#pragma once
#include <cmath>
#include <cstdint>

namespace gnomon::bm25 {

struct Params {
    double k1 = 1.2;
    double b = 0.75;
};

static inline double idf(std::uint64_t n_docs, std::uint64_t df) {
    const double n = static_cast<double>(n_docs);
    const double d = static_cast<double>(df);
    return std::log(1.0 + (n - d + 0.5) / (d + 0.5));
}

static inline double average_length(std::uint64_t n_tokens, std::uint64_t n_docs) {
    return static_cast<double>(n_tokens) / static_cast<double>(n_docs);
}

// The part of the norm that depends on the document alone.
static inline double length_norm(Params p, double dl, double avgdl) {
    const double floor = avgdl > 1e-12 ? avgdl : 1e-12;
    return p.k1 * (1.0 - p.b + p.b * dl / floor);
}

static inline double weight(double idf, double tf, double k1_plus_1, double length_norm) {
    return idf * tf * k1_plus_1 / (tf + length_norm);
}

}  // namespace gnomon::bm25
