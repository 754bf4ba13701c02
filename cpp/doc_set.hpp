// A set of documents of one segment as a packed bitmap: bit d % 64 of word d / 64. Deletions, filters and the
// answers of boolean queries all have this form, so any of them can be combined with a scan by one AND.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnomon {

class DocSet {
  public:
    DocSet() = default;
    explicit DocSet(std::size_t n_docs, bool full = false)
        : n_docs_(n_docs), words_((n_docs + 63) / 64, full ? ~std::uint64_t{0} : 0) {
        clear_tail();
    }

    std::size_t n_docs() const { return n_docs_; }  // of the segment, members or not
    std::span<const std::uint64_t> words() const { return words_; }
    std::span<std::uint64_t> words() { return words_; }

    bool has(std::size_t doc) const { return (words_[doc / 64] >> (doc % 64) & 1) != 0; }
    void add(std::size_t doc) { words_[doc / 64] |= std::uint64_t{1} << (doc % 64); }
    void remove(std::size_t doc) { words_[doc / 64] &= ~(std::uint64_t{1} << (doc % 64)); }

    std::size_t count() const {
        std::size_t n = 0;
        for (const std::uint64_t word : words_) n += static_cast<std::size_t>(std::popcount(word));
        return n;
    }

    // Both sets belong to segments of equal size.
    void intersect(const DocSet& other) {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    }
    void unite(const DocSet& other) {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    }
    void subtract(const DocSet& other) {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    }
    void invert() {
        for (std::uint64_t& word : words_) word = ~word;
        clear_tail();
    }

    // fn(std::uint32_t doc) for each member, ascending.
    template <class Fn>
    void each(const Fn& fn) const {
        for (std::size_t i = 0; i < words_.size(); ++i)
            for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
                fn(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
    }

  private:
    // Bits behind the last document stay 0, so that count() and each() need no care.
    void clear_tail() {
        if (n_docs_ % 64 != 0) words_.back() &= ~std::uint64_t{0} >> (64 - n_docs_ % 64);
    }

    std::size_t n_docs_ = 0;
    std::vector<std::uint64_t> words_;
};

}  // namespace gnomon
