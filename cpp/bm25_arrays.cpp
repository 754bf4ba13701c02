#include "bm25_arrays.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

// The frequency of each term in the document at hand, without clearing anything between documents.
class Frequencies {
  public:
    explicit Frequencies(std::size_t n_terms) : terms_(n_terms) {}
    // True when the term is new in the document. Documents ascend.
    bool add(std::uint32_t term, std::uint32_t doc, std::uint64_t count) {
        Entry& entry = terms_[term];
        const bool fresh = entry.doc != doc;
        entry.tf = fresh ? count : entry.tf + count;
        entry.doc = doc;
        return fresh;
    }
    std::uint64_t of(std::uint32_t term) const { return terms_[term].tf; }

  private:
    struct Entry {
        std::uint64_t tf = 0;
        std::uint32_t doc = kMost;
    };
    std::vector<Entry> terms_;
};

struct Counted {
    std::vector<std::uint32_t> lengths;
    std::vector<std::uint64_t> starts;
    std::vector<std::uint32_t> wide;
    std::uint64_t n_tokens = 0;
};

// each(doc, fn): fn(term, count) for what the document holds; a count may be 0.
template <class Each>
Counted count(std::size_t n_docs, std::size_t n_terms, const Each& each) {
    if (n_docs >= kMost) throw InvalidInput("an index holds at most 4,294,967,294 documents; shard it");
    Counted counted;
    counted.starts.assign(n_terms + 1, 0);
    Frequencies frequencies(n_terms);
    for (std::uint32_t doc = 0; doc < n_docs; ++doc) {
        std::uint64_t length = 0;
        each(doc, [&](std::uint32_t term, std::uint64_t times) {
            if (times == 0) return;
            length += times;
            if (frequencies.add(term, doc, times)) ++counted.starts[term + 1];
            const std::uint64_t tf = frequencies.of(term);
            if (tf > Bm25Field::kWide && tf - times <= Bm25Field::kWide) counted.wide.push_back(term);
        });
        if (length >= kMost) throw InvalidInput("a document holds at most 4,294,967,294 tokens; split it");
        counted.lengths.push_back(static_cast<std::uint32_t>(length));
        counted.n_tokens += length;
    }
    for (std::size_t term = 0; term < n_terms; ++term) counted.starts[term + 1] += counted.starts[term];
    std::sort(counted.wide.begin(), counted.wide.end());
    counted.wide.erase(std::unique(counted.wide.begin(), counted.wide.end()), counted.wide.end());
    return counted;
}

template <class Each>
std::shared_ptr<const Bm25Index> segment_of(std::size_t n_docs, std::size_t n_terms, const Each& each) {
    Counted counted = count(n_docs, n_terms, each);
    std::vector<std::uint64_t> wide_starts(counted.wide.size() + 1, 0);
    for (std::size_t i = 0; i < counted.wide.size(); ++i)
        wide_starts[i + 1] =
            wide_starts[i] + counted.starts[counted.wide[i] + 1] - counted.starts[counted.wide[i]];
    std::vector<std::uint32_t> docs(counted.starts.back());
    std::vector<std::uint8_t> tfs(counted.starts.back());
    std::vector<std::uint32_t> wide_tfs(wide_starts.back());
    std::vector<std::uint64_t> next(counted.starts.begin(), counted.starts.end() - 1);
    Frequencies frequencies(n_terms);
    for (std::uint32_t doc = 0; doc < n_docs; ++doc)
        each(doc, [&](std::uint32_t term, std::uint64_t times) {
            if (times == 0) return;
            if (frequencies.add(term, doc, times)) docs[next[term]++] = doc;
            const std::uint64_t place = next[term] - 1;
            const auto tf = static_cast<std::uint32_t>(frequencies.of(term));
            tfs[place] = static_cast<std::uint8_t>(std::min(tf, Bm25Field::kWide));
            if (counted.wide.empty()) return;
            const auto found = std::lower_bound(counted.wide.begin(), counted.wide.end(), term);
            if (found != counted.wide.end() && *found == term)
                wide_tfs[wide_starts[static_cast<std::size_t>(found - counted.wide.begin())] + place -
                         counted.starts[term]] = tf;
        });
    Bm25Field field;
    field.n_tokens = counted.n_tokens;
    field.lengths = Column<std::uint32_t>::of(std::move(counted.lengths));
    field.starts = Column<std::uint64_t>::of(std::move(counted.starts));
    field.docs = Column<std::uint32_t>::of(std::move(docs));
    field.tfs = Column<std::uint8_t>::of(std::move(tfs));
    field.wide_terms = Column<std::uint32_t>::of(std::move(counted.wide));
    field.wide_starts = Column<std::uint64_t>::of(std::move(wide_starts));
    field.wide_tfs = Column<std::uint32_t>::of(std::move(wide_tfs));
    std::vector<Bm25Field> fields;
    fields.push_back(std::move(field));
    return Bm25Index::of(std::move(fields), std::nullopt);
}

template <class T>
void check_starts(std::span<const T> starts, std::size_t size, const char* name) {
    if (starts.empty() || starts[0] != 0 || static_cast<std::uint64_t>(starts.back()) != size)
        throw InvalidInput(std::string(name) + " must start at 0 and end at the number of token ids, " +
                           std::to_string(size));
    for (std::size_t i = 1; i < starts.size(); ++i)
        if (starts[i - 1] > starts[i])
            throw InvalidInput(std::string(name) + " must not fall, but " + name + "[" + std::to_string(i) +
                               "] does");
}

template <class C>
std::uint64_t whole(C count) {
    if constexpr (std::is_floating_point_v<C>) {
        if (!(count >= 0) || count != std::floor(count) || !(count < C{4294967296.0}))
            throw InvalidInput("counts must be whole numbers from 0 to 4,294,967,295, got " +
                               std::to_string(count));
    } else if constexpr (std::is_signed_v<C>) {
        if (count < 0) throw InvalidInput("counts must be from 0 on, got " + std::to_string(count));
    }
    return static_cast<std::uint64_t>(count);
}

}  // namespace

template <class T>
std::shared_ptr<const Bm25Index> segment_of_tokens(std::span<const T> ids,
                                                   std::span<const std::int64_t> offsets) {
    check_starts(offsets, ids.size(), "offsets");
    std::uint64_t n_terms = 0;
    for (const T id : ids) {
        const auto number = static_cast<std::uint64_t>(id);  // a negative one becomes too large
        if (number >= kMost) throw InvalidInput("token_ids holds a token id outside 0..4294967294");
        n_terms = std::max(n_terms, number + 1);
    }
    return segment_of(offsets.size() - 1, n_terms, [&](std::uint32_t doc, const auto& fn) {
        for (std::int64_t i = offsets[doc]; i < offsets[doc + 1]; ++i)
            fn(static_cast<std::uint32_t>(ids[static_cast<std::size_t>(i)]), std::uint64_t{1});
    });
}

template <class T, class C>
std::shared_ptr<const Bm25Index> segment_of_counts(std::span<const T> starts, std::span<const T> columns,
                                                   std::span<const C> counts, std::uint64_t n_terms) {
    require(columns.size() == counts.size(), "indices and data of a matrix must have the same length");
    check_starts(starts, columns.size(), "indptr");
    if (n_terms >= kMost) throw InvalidInput("a matrix has at most 4,294,967,294 columns");
    for (const T column : columns)
        if (static_cast<std::uint64_t>(column) >= n_terms)
            throw InvalidInput("indices holds a column outside 0.." + std::to_string(n_terms) + " - 1");
    return segment_of(starts.size() - 1, n_terms, [&](std::uint32_t doc, const auto& fn) {
        for (auto i = static_cast<std::size_t>(starts[doc]); i < static_cast<std::size_t>(starts[doc + 1]);
             ++i)
            fn(static_cast<std::uint32_t>(columns[i]), whole(counts[i]));
    });
}

#define GNOMON_TOKENS(T)                                                            \
    template std::shared_ptr<const Bm25Index> segment_of_tokens(std::span<const T>, \
                                                                std::span<const std::int64_t>);
GNOMON_TOKENS(std::int32_t)
GNOMON_TOKENS(std::uint32_t)
GNOMON_TOKENS(std::int64_t)
GNOMON_TOKENS(std::uint64_t)
#define GNOMON_COUNTS(T, C)                                                                             \
    template std::shared_ptr<const Bm25Index> segment_of_counts(std::span<const T>, std::span<const T>, \
                                                                std::span<const C>, std::uint64_t);
#define GNOMON_COUNTS_OF(C)        \
    GNOMON_COUNTS(std::int32_t, C) \
    GNOMON_COUNTS(std::int64_t, C)
GNOMON_COUNTS_OF(std::int32_t)
GNOMON_COUNTS_OF(std::int64_t)
GNOMON_COUNTS_OF(float)
GNOMON_COUNTS_OF(double)

}  // namespace gnomon
