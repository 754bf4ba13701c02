// Postings of one field as they are stored to be small: about a quarter of the plain arrays. A list is
// decoded, and thereby checked, when it is asked for; everything behind reads plain arrays.
//
// A term's data are nothing where no document holds it; else LEB128 numbers, how many documents do and the
// first of them, and then for each kBlock postings a byte with the widths, low six bits for the documents and
// high two for the frequencies (3: their width is the next byte); the distances of the documents from the
// ones before them, less 1, but for the first of the list; the frequencies less 1. So documents ascend and
// frequencies are positive whatever the bytes are. Blocks of 32 took 15 % less than blocks of 128 on the
// corpus that it was made for: short lists, and lists of documents that stand together.
//
// Sections: "F.lists" u8, the lists and kBehind zeros, with the directory "F.lists_blocks", "F.lists_sizes".
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "bit_pack.hpp"
#include "packed_directory.hpp"
#include "storage.hpp"

namespace gnomon {

struct Postings;

class PackedLists {
  public:
    static constexpr std::size_t kBlock = 32;
    // Lists of at least so many postings are kept when they were decoded, up to so many bytes in all, those
    // that were decoded first dropped first. A shorter one takes about a microsecond.
    static constexpr std::size_t kKeptLeast = 512;
    static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;

    // n_postings: what the segment's counts say, for verify().
    PackedLists(const Container& container, const std::string& name, std::uint64_t n_docs,
                std::uint64_t n_terms, std::uint64_t n_postings);

    // Throws CorruptIndex. The arrays live as long as their owner.
    Postings postings(std::uint64_t term) const;
    std::uint64_t count(std::uint64_t term) const;  // of postings
    std::uint64_t n_terms() const { return directory_.n_terms(); }
    std::uint64_t n_postings() const { return n_postings_; }
    std::uint64_t memory() const { return bytes_.size() + directory_.memory(); }
    std::size_t kept() const;  // bytes of decoded lists
    void verify() const { directory_.verify(total()); }
    void copy(ContainerWriter& writer, const std::string& name) const;

  private:
    struct Decoded;
    std::uint64_t total() const { return bytes_.size() - kBehind; }
    std::span<const std::uint8_t> data(std::uint64_t term) const;
    std::uint64_t count_of(std::uint64_t term, std::span<const std::uint8_t> data) const;
    std::shared_ptr<const Decoded> decode(std::uint64_t term, std::span<const std::uint8_t> data) const;
    std::shared_ptr<const Decoded> keep(std::uint64_t term, std::shared_ptr<const Decoded> list) const;

    PackedDirectory directory_;
    Column<std::uint8_t> bytes_;
    std::uint64_t n_docs_;
    std::uint64_t n_postings_;
    mutable std::shared_mutex lock_;
    mutable std::unordered_map<std::uint64_t, std::shared_ptr<const Decoded>> kept_;
    mutable std::deque<std::uint64_t> order_;  // of kept_, the oldest first
    mutable std::size_t kept_bytes_ = 0;
};

// Streams the lists of one field to a file, term after term.
class PackedWriter {
  public:
    PackedWriter(ContainerWriter& writer, const std::string& name);
    // The next posting of the present term, documents ascending; every term ends once.
    void add(std::uint32_t doc, std::uint32_t tf) {
        docs_.push_back(doc);
        tfs_.push_back(tf - 1);
    }
    void end_term();
    void end();  // of all terms

  private:
    void encode_block(std::size_t first, std::size_t last);
    void flush();

    ContainerWriter& writer_;
    std::string name_;
    std::vector<std::uint32_t> docs_;
    std::vector<std::uint32_t> tfs_;  // less 1
    std::vector<std::uint8_t> bytes_;
    std::vector<std::uint64_t> starts_{0};
    std::uint64_t written_ = 0;  // bytes that left already
};

}  // namespace gnomon
