// Which documents of a segment can hold a literal: for every three bytes that stand together somewhere, the
// documents in which they do.
//
// Text is folded first, so that one index serves searches with and without regard to case: ASCII letters
// become small, and so do the two other code points that fold to ASCII (U+212A to k, U+017F to s). Three
// bytes across a line feed are left out: no match of a line spans one. A document may have several parts
// (raw bytes, rendered text); its trigrams are those of all of them.
//
// File: "head" u32 [version, documents, trigrams]; the trigrams ascend in blocks of kBlockKeys, with "first"
// u32 (a block's first trigram), "entry" u64 (where its entries begin in "entries" u8) and "list" u64 (where
// its lists begin in "lists" u8). An entry is three varints: the distance to the trigram before it (0 for the
// block's first), the number of documents, the bytes of the list. A list holds the gaps between documents in
// Golomb-Rice code (Rice 1979): gap >> bits as that many zeros and a one, then the low bits, from the lowest
// bit of each byte on; rice_bits() gives the number of bits, so dense lists cost a bit a document.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doc_set.hpp"
#include "storage.hpp"

namespace gnomon {

// What a document must hold to be a candidate.
struct TrigramQuery {
    enum class Kind { literal, all, any };
    Kind kind = Kind::all;
    std::string literal;
    std::vector<TrigramQuery> parts;  // of all and any; an empty all holds for every document
};

std::string trigram_fold(std::string_view text);
// The distinct trigrams of folded text, ascending; first byte highest.
std::vector<std::uint32_t> trigrams_of(std::string_view folded);
unsigned rice_bits(std::uint64_t n_docs, std::uint64_t df);

// Takes documents in order. Memory is about half of what the file will be, and 2 MiB.
class TrigramBuilder {
  public:
    TrigramBuilder();
    void add(std::span<const std::string_view> parts);
    std::uint32_t n_docs() const { return n_docs_; }
    void write(ContainerWriter& writer) const;  // sections; the caller finishes the file

  private:
    struct Entry {
        std::uint32_t key = kNone;
        std::uint32_t df = 0;
        std::uint32_t last = 0;   // document
        std::uint32_t first = 0;  // block of the arena
        std::uint32_t tail = 0;
        std::uint16_t room = 0;  // bytes left in the tail block
        std::uint16_t size = 0;  // payload of the tail block
    };
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;

    void collect(std::string_view text);
    Entry& entry_of(std::uint32_t key);
    void grow();
    void append(Entry& entry, std::uint32_t doc);
    void push(Entry& entry, std::uint8_t byte);
    std::uint32_t new_block(std::uint16_t size);
    std::vector<std::uint32_t> docs_of(const Entry& entry) const;

    std::uint32_t n_docs_ = 0;
    std::vector<std::uint64_t> seen_;  // a bit for each trigram of the document at hand
    std::vector<std::uint32_t> fresh_;
    std::vector<Entry> table_;  // open addressing, at most half full
    std::size_t used_ = 0;
    std::vector<std::uint8_t> arena_;  // blocks: next u32, then varints of gaps
};

class TrigramIndex {
  public:
    static std::shared_ptr<const TrigramIndex> open(std::shared_ptr<const Container> container);

    std::uint32_t n_docs() const { return n_docs_; }
    std::uint32_t n_trigrams() const { return n_keys_; }
    // Documents that hold every trigram of what the query names. A literal of less than three bytes has none;
    // one must not begin or end inside of a character, or folding tells it from its text.
    DocSet candidates(const TrigramQuery& query) const;
    std::vector<std::uint32_t> docs(std::uint32_t key) const;  // that hold a trigram, ascending
    void verify() const;                                       // throws CorruptIndex

  private:
    struct List {
        std::uint64_t begin = 0;
        std::uint64_t bytes = 0;
        std::uint32_t df = 0;
    };
    TrigramIndex() = default;
    bool find(std::uint32_t key, List& list) const;
    template <class Fn>  // fn(key, list) until it returns false
    void each_entry(std::size_t block, const Fn& fn) const;
    template <class Fn>  // fn(doc)
    void decode(const List& list, const Fn& fn) const;
    DocSet literal(std::string_view text) const;
    [[noreturn]] void corrupt(const char* what) const;

    std::shared_ptr<const Container> container_;
    std::uint32_t n_docs_ = 0;
    std::uint32_t n_keys_ = 0;
    Column<std::uint32_t> first_;
    Column<std::uint64_t> entry_;
    Column<std::uint64_t> list_;
    Column<std::uint8_t> entries_;
    Column<std::uint8_t> lists_;
};

}  // namespace gnomon
