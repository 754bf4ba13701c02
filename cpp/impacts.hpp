// Eager scores: one number for each pair of a term and a document, by column (term), as bm25s keeps them.
// A query's score of a document is the sum of the columns of its terms, left to right in the query's order
// and in the columns' own type, then plus the query's shift; terms that repeat count again. The best k are
// those of the greatest scores, ties to the lower document.
//
// Few columns have to be read. Let a query have m terms, u be half the distance from 1 to the next number of
// the type. Columns are read in falling order of what they may add at most, into one partial sum p a
// document, and R bounds what the unread ones may add (a sum in double, each maximum as often as its term
// stands in the query). No value is negative, additions are rounded to nearest and none underflows, so
// whatever the order of up to m additions (and the products count * value of a partial sum), the result lies
// between (1 - u)^m and (1 + u)^m times the true sum. Hence a document's score is at most (p + R) * (1 -
// u)^-m * (1 + u)^m, which is at most (p + R) * (1 + 4mu) for mu <= 1/8. That is computed in double and, for
// its own roundings and the one to the type, with max(8u, 2^-40) and the least positive number more; the
// shift is then added as to a score, which is monotone. `worst` is the least of the exact scores of the k
// documents with the greatest partial sums; the k-th best of all scores is no less. A document goes only when
// its bound is below `worst`, not when it is equal; reading ends when that holds for p = 0, which is every
// document not yet met. The documents left are scored in the query's own order. Where values are negative,
// columns unsorted or too many documents left, all are summed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnomon {

// Views; who makes one keeps the arrays. T: float or double; I: a signed integer.
template <class T, class I>
class Impacts {
  public:
    // Reads every value once. Throws InvalidInput for arrays that do not fit each other.
    Impacts(std::span<const T> data, std::span<const I> documents, std::span<const std::int64_t> starts,
            std::uint64_t n_docs);

    std::size_t n_columns() const { return starts_.size() - 1; }
    std::uint64_t n_docs() const { return n_docs_; }
    // Whether sums of up to `terms` columns stay finite: without it the order of results is not defined here.
    bool bounded(std::size_t terms) const;

    // Adds up columns [each < n_columns] in `sums` [n_docs], which the caller sets to 0.
    void add(std::span<const std::int64_t> columns, T* sums) const;

    // What one thread keeps from query to query.
    struct Scratch {
        std::vector<T> sums;
        std::vector<std::uint32_t> met;
    };
    // The best k <= n_docs, written to `scores` and `found` [k]. Needs bounded(columns.size()), a finite
    // shift.
    void top_k(std::span<const std::int64_t> columns, T shift, std::size_t k, Scratch& scratch, T* scores,
               std::int64_t* found) const;

  private:
    struct Term;
    class Pruned;
    struct Best {
        T score;
        std::uint32_t document;
    };
    T value(std::int64_t column, std::uint32_t document) const;
    T score(std::span<const std::int64_t> columns, T shift, std::uint32_t document) const;
    std::vector<Best> best_of_all(std::span<const std::int64_t> columns, T shift, std::size_t k,
                                  T* sums) const;

    std::span<const T> data_;
    std::span<const I> documents_;
    std::span<const std::int64_t> starts_;
    std::uint64_t n_docs_;
    std::vector<T> greatest_;  // of each column, at least 0
    double largest_ = 0.0;     // of all magnitudes
    bool plain_ = false;       // a value is negative, or a column's documents do not rise
};

extern template class Impacts<float, std::int32_t>;
extern template class Impacts<float, std::int64_t>;
extern template class Impacts<double, std::int32_t>;
extern template class Impacts<double, std::int64_t>;

}  // namespace gnomon
