// Where the data of each term lie in a section, as their sizes: a number for each term in blocks of kTerms,
// packed to the width of the block's greatest. Sections: "NAME_blocks" u64, for each block and once more for
// the end two numbers: where the data of its first term start, and where its sizes do; "NAME_sizes" u8, the
// blocks' sizes (a last block is filled up with 0) and kBehind zeros. A look-up adds up to kTerms - 1 sizes.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "bit_pack.hpp"
#include "storage.hpp"

namespace gnomon {

class PackedDirectory {
  public:
    static constexpr std::size_t kTerms = 64;
    struct Range {
        std::uint64_t first;
        std::uint64_t size;
    };

    PackedDirectory() = default;
    // Throws CorruptIndex when the sections are not of so many terms.
    PackedDirectory(const Container& container, const std::string& name, std::uint64_t n_terms);

    // The range of a term, which must be < n_terms: inside of `total` bytes, or CorruptIndex.
    Range of(std::uint64_t term, std::uint64_t total) const;
    // That the terms follow one another without a gap from 0 to `total`.
    void verify(std::uint64_t total) const;

    std::uint64_t n_terms() const { return n_terms_; }
    std::uint64_t memory() const { return blocks_.size() * 8 + sizes_.size(); }
    void copy(ContainerWriter& writer, const std::string& name) const;
    // starts: by term, and the end. Throws InvalidInput when a term has 4 GiB or more.
    static void write(ContainerWriter& writer, const std::string& name,
                      std::span<const std::uint64_t> starts);

  private:
    struct Block {
        std::uint64_t first;
        const std::uint8_t* sizes;
        unsigned width;
    };
    Block block(std::uint64_t number) const;

    Column<std::uint64_t> blocks_;
    Column<std::uint8_t> sizes_;
    std::uint64_t n_terms_ = 0;
};

}  // namespace gnomon
