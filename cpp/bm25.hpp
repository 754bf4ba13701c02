// THE formulas: every BM25 that goes by a name, once. Each line is evaluated as Python evaluates it, in
// float64 and left to right, so that the bits equal reference/bm25_formulas.py; where a peer computes in
// float64 (rank_bm25, Haystack, bm25s with dtype="float64"), they equal the peer's too.
//
//   rel    = 1 - b + b * dl / max(avgdl, 1e-12)
//   norm   = k1 * rel
//   c      = tf / rel
//   I      = query weight * idf + 0.0                     (+ 0.0: a weighted idf is never -0.0)
//   score  = score + part, left to right in query-term order, repeats count unless asked otherwise
//
//   name                idf                              part where the term stands            where not
//   default             log(1 + (N-df+.5)/(df+.5))       I * tf * (k1+1) / (tf + norm)         0
//   lucene              as default                       I * (tf / (norm + tf))                0
//   robertson           log(max(1, (N-df+.5)/(df+.5)))   as lucene                             0
//   atire               log(N / df)                      I * ((tf * (k1+1)) / (tf + norm))     0
//   bm25l               log((N+1) / (df+.5))             I * L - I * L0                        I*L0 at end
//   bm25+               log((N+1) / df)                  I * (P + delta) - I * delta           I*delta at end
//   rank_bm25-okapi     log(N-df+.5) - log(df+.5), floor as atire                              0
//   rank_bm25-l         log(N+1) - log(df+.5)            I * tf * (k1+1) * (c+d) / (k1+c+d)    0
//   rank_bm25-l-head    as rank_bm25-l                   I * (k1+1) * (c+d) / (k1+c+d)         same, c = 0
//   rank_bm25-plus      log((N+1) / df)                  I * (d + (tf * (k1+1)) / (norm + tf)) I * d
//   rank_bm25-plus-head log(N+1) - log(df)               as rank_bm25-plus                     I * d
//   haystack-okapi      log((N-df+.5)/(df+.5)), floor    as atire                              0
//   haystack-l          log((N+1) / (df+.5))             I * L                                 0
//   haystack-plus       as default                       I * (P + delta)                       0
//   tf-idf              log(N / df)                      I * tf                                0
//
//   L = ((k1+1) * (c+delta)) / (k1+c+delta), L0 = the same with c = 0, P = ((k1+1) * tf) / (norm + tf).
//   floor: a negative idf becomes epsilon times the mean idf of all terms (floor_idf below).
//   "at end": the parts of absent terms are summed left to right over all query terms and that sum is
//   added last, once for every document (bm25s' shift). bm25f is at the end of this file.
//
// Sources: Robertson & Zaragoza 2009; Kamphuis et al., ECIR 2020; Trotman et al., ADCS 2014; the code of
// bm25s 0.3.16, rank_bm25 0.2.2 and its repository, Haystack 3.4.1.
//
// static inline, not inline: kernel files include this header and must leave no weak symbol (at -O0 the
// plain form left one in the AVX-512 object).
#pragma once
#include <cmath>
#include <cstdint>

// What a GPU evaluates as well (cuda/bm25.cuh); idf is made on the host, as logarithms have no written bits.
#ifdef __CUDACC__
#define GNOMON_HOST_DEVICE __host__ __device__
#else
#define GNOMON_HOST_DEVICE
#endif

namespace gnomon::bm25 {

struct Params {
    double k1 = 1.2;
    double b = 0.75;
};

enum class Formula : std::uint8_t {
    kDefault,
    kLucene,
    kRobertson,
    kAtire,
    kBm25l,
    kBm25Plus,
    kRankOkapi,
    kRankL,
    kRankLHead,
    kRankPlus,
    kRankPlusHead,
    kHaystackOkapi,
    kHaystackL,
    kHaystackPlus,
    kTfIdf,
    kBm25f,
};

// What a document that lacks a query term gets for it.
enum class Absent : std::uint8_t { kNothing, kInOrder, kAtEnd };

static inline double idf(std::uint64_t n_docs, std::uint64_t df) {
    const double n = static_cast<double>(n_docs);
    const double d = static_cast<double>(df);
    return std::log(1.0 + (n - d + 0.5) / (d + 0.5));
}

// 0 < df <= n_docs. For the formulas with a floor this is the value before it.
static inline double idf(Formula formula, std::uint64_t n_docs, std::uint64_t df) {
    const double n = static_cast<double>(n_docs);
    const double d = static_cast<double>(df);
    switch (formula) {
        case Formula::kRobertson: {
            const double inner = (n - d + 0.5) / (d + 0.5);
            return std::log(inner < 1.0 ? 1.0 : inner);
        }
        case Formula::kAtire:
        case Formula::kTfIdf:
            return std::log(n / d);
        case Formula::kBm25l:
        case Formula::kHaystackL:
            return std::log((n + 1.0) / (d + 0.5));
        case Formula::kBm25Plus:
        case Formula::kRankPlus:
            return std::log((n + 1.0) / d);
        case Formula::kRankPlusHead:
            return std::log(n + 1.0) - std::log(d);
        case Formula::kRankOkapi:
            return std::log(n - d + 0.5) - std::log(d + 0.5);
        case Formula::kRankL:
        case Formula::kRankLHead:
            return std::log(n + 1.0) - std::log(d + 0.5);
        case Formula::kHaystackOkapi:
            return std::log((n - d + 0.5) / (d + 0.5));
        default:
            return idf(n_docs, df);
    }
}

// The two that replace a negative idf by epsilon * (sum of all terms' idf) / (number of terms); the sum goes
// over the values of df ascending, each times the number of terms that have it, so that it does not depend on
// the order of documents. (The peers add term by term in order of first appearance: their floor may differ in
// the last bits, and can be given instead.)
static inline bool has_floor(Formula formula) {
    return formula == Formula::kRankOkapi || formula == Formula::kHaystackOkapi;
}

static inline double floor_idf(Formula formula, double epsilon, double idf_sum, double n_terms) {
    return formula == Formula::kRankOkapi ? epsilon * (idf_sum / n_terms) : epsilon * idf_sum / n_terms;
}

static inline double average_length(std::uint64_t n_tokens, std::uint64_t n_docs) {
    return static_cast<double>(n_tokens) / static_cast<double>(n_docs);
}

static inline double relative_length(double b, double dl, double avgdl) {
    const double floor = avgdl > 1e-12 ? avgdl : 1e-12;
    return 1.0 - b + b * dl / floor;
}

// The part of the norm that depends on the document alone.
static inline double length_norm(Params p, double dl, double avgdl) {
    return p.k1 * relative_length(p.b, dl, avgdl);
}

GNOMON_HOST_DEVICE static inline double weight(double idf, double tf, double k1_plus_1, double length_norm) {
    return idf * tf * k1_plus_1 / (tf + length_norm);
}

// The formulas with a c take rel as a document's constant, the others norm.
static inline bool takes_rel(Formula formula) {
    return formula == Formula::kBm25l || formula == Formula::kRankL || formula == Formula::kRankLHead ||
           formula == Formula::kHaystackL;
}

static inline Absent absent(Formula formula) {
    switch (formula) {
        case Formula::kBm25l:
        case Formula::kBm25Plus:
            return Absent::kAtEnd;
        case Formula::kRankLHead:
        case Formula::kRankPlus:
        case Formula::kRankPlusHead:
            return Absent::kInOrder;
        default:
            return Absent::kNothing;
    }
}

// ((k1+1) * (c+delta)) / (k1+c+delta), and 0 where k1 = c = delta = 0.
GNOMON_HOST_DEVICE static inline double saturated(double k1, double delta, double c) {
    const double denominator = k1 + c + delta;
    return denominator == 0.0 ? 0.0 : ((k1 + 1.0) * (c + delta)) / denominator;
}

static inline double absent_part(Formula formula, double idf, double k1, double delta) {
    switch (formula) {
        case Formula::kBm25l:
            return idf * saturated(k1, delta, 0.0);
        case Formula::kRankLHead:
            return k1 + delta == 0.0 ? 0.0 : idf * (k1 + 1.0) * delta / (k1 + delta);
        case Formula::kBm25Plus:
        case Formula::kRankPlus:
        case Formula::kRankPlusHead:
            return idf * delta;
        default:
            return 0.0;
    }
}

// The part of a term that stands tf > 0 times in a document whose constant is `norm` (rel where takes_rel).
GNOMON_HOST_DEVICE static inline double part(Formula formula, double idf, double tf, double norm, double k1,
                                             double delta) {
    switch (formula) {
        case Formula::kLucene:
        case Formula::kRobertson:
            return idf * (tf / (norm + tf));
        case Formula::kAtire:
        case Formula::kRankOkapi:
        case Formula::kHaystackOkapi:
            return idf * (tf * (k1 + 1.0) / (tf + norm));
        case Formula::kBm25l:
            return idf * saturated(k1, delta, tf / norm) - idf * saturated(k1, delta, 0.0);
        case Formula::kBm25Plus:
            return idf * ((k1 + 1.0) * tf / (norm + tf) + delta) - idf * delta;
        case Formula::kRankL: {
            const double c = tf / norm;
            return idf * tf * (k1 + 1.0) * (c + delta) / (k1 + c + delta);
        }
        case Formula::kRankLHead: {
            const double c = tf / norm;
            return idf * (k1 + 1.0) * (c + delta) / (k1 + c + delta);
        }
        case Formula::kRankPlus:
        case Formula::kRankPlusHead:
            return idf * (delta + tf * (k1 + 1.0) / (norm + tf));
        case Formula::kHaystackL:
            return idf * saturated(k1, delta, tf / norm);
        case Formula::kHaystackPlus:
            return idf * (tf * (k1 + 1.0) / (tf + norm) + delta);
        case Formula::kTfIdf:
            return idf * tf;
        default:
            return weight(idf, tf, k1 + 1.0, norm);
    }
}

// part = I * impact, + absent_part's share, up to rounding: what a screen adds up. Never negative; written so
// that nothing cancels.
GNOMON_HOST_DEVICE static inline double impact(Formula formula, double tf, double norm, double k1,
                                               double delta) {
    switch (formula) {
        case Formula::kLucene:
        case Formula::kRobertson:
            return tf / (norm + tf);
        case Formula::kBm25l:
        case Formula::kRankLHead: {
            const double c = tf / norm;
            return (k1 + 1.0) * (c / (k1 + c + delta)) * (k1 + delta == 0.0 ? 1.0 : k1 / (k1 + delta));
        }
        case Formula::kRankL: {
            const double c = tf / norm;
            return tf * (k1 + 1.0) * ((c + delta) / (k1 + c + delta));
        }
        case Formula::kHaystackL: {
            const double c = tf / norm;
            return (k1 + 1.0) * ((c + delta) / (k1 + c + delta));
        }
        case Formula::kHaystackPlus:
            return tf * (k1 + 1.0) / (tf + norm) + delta;
        case Formula::kTfIdf:
            return tf;
        default:
            return tf * (k1 + 1.0) / (tf + norm);
    }
}

// BM25F (Robertson, Zaragoza & Taylor 2004; one saturation over all fields), idf as default:
//   tf~   = sum over the fields that hold the term, in declared order, of w * tf / rel, rel of that field
//   score = score + I * tf~ * (k1 + 1) / (tf~ + k1)
static inline double field_tf(double weight, double tf, double rel) { return weight * tf / rel; }
static inline double field_part(double idf, double tilde, double k1) {
    return idf * tilde * (k1 + 1.0) / (tilde + k1);
}

}  // namespace gnomon::bm25
