#include "packed_directory.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kTerms = PackedDirectory::kTerms;

[[noreturn]] void fail(const char* what) {
    throw CorruptIndex(std::string("the directory of the terms: ") + what +
                       "; build the index again or restore the file");
}

}  // namespace

PackedDirectory::PackedDirectory(const Container& container, const std::string& name, std::uint64_t n_terms)
    : blocks_(container.column<std::uint64_t>(name + "_blocks")),
      sizes_(container.column<std::uint8_t>(name + "_sizes")),
      n_terms_(n_terms) {
    if (blocks_.size() != 2 * ((n_terms + kTerms - 1) / kTerms + 1) || sizes_.size() < kBehind)
        fail("it is not one of so many terms");
}

PackedDirectory::Block PackedDirectory::block(std::uint64_t number) const {
    blocks_.ensure(2 * number, 4);
    const std::uint64_t* const at = blocks_.data() + 2 * number;
    const std::uint64_t end = sizes_.size() - kBehind;
    if (at[1] > at[3] || at[3] > end) fail("sizes lie outside their section");
    const std::uint64_t bytes = at[3] - at[1];
    if (bytes % (kTerms / 8) != 0 || bytes > kTerms / 8 * 32) fail("sizes of no width");
    sizes_.ensure(at[1], bytes + kBehind);
    return {at[0], sizes_.data() + at[1], static_cast<unsigned>(bytes / (kTerms / 8))};
}

PackedDirectory::Range PackedDirectory::of(std::uint64_t term, std::uint64_t total) const {
    const Block here = block(term / kTerms);
    std::uint64_t before = 0;
    for (std::size_t i = 0; here.width != 0 && i < term % kTerms; ++i)
        before += packed_at(here.sizes, i, here.width);
    const std::uint64_t size = packed_at(here.sizes, term % kTerms, here.width);
    if (here.first > total || before + size > total - here.first)
        fail("the data of a term lie outside their section");
    return {here.first + before, size};
}

void PackedDirectory::verify(std::uint64_t total) const {
    std::uint64_t expected = 0;
    const std::uint64_t n_blocks = blocks_.size() / 2 - 1;
    for (std::uint64_t number = 0; number < n_blocks; ++number) {
        const Block here = block(number);
        if (here.first != expected) fail("the terms leave a gap or overlap");
        for (std::size_t i = 0; i < kTerms; ++i) {
            const std::uint64_t size = packed_at(here.sizes, i, here.width);
            if (number * kTerms + i >= n_terms_ && size != 0) fail("there are more sizes than terms");
            expected += size;
        }
    }
    blocks_.ensure_all();
    if (blocks_.data()[1] != 0 || blocks_.data()[2 * n_blocks] != expected || expected != total ||
        blocks_.data()[2 * n_blocks + 1] != sizes_.size() - kBehind)
        fail("some data belong to no term");
}

void PackedDirectory::copy(ContainerWriter& writer, const std::string& name) const {
    blocks_.ensure_all();
    sizes_.ensure_all();
    writer.section(name + "_blocks", blocks_.span());
    writer.section(name + "_sizes", sizes_.span());
}

void PackedDirectory::write(ContainerWriter& writer, const std::string& name,
                            std::span<const std::uint64_t> starts) {
    std::vector<std::uint64_t> blocks;
    std::vector<std::uint8_t> bytes;
    const std::size_t n_terms = starts.size() - 1;
    for (std::size_t first = 0; first < n_terms; first += kTerms) {
        blocks.push_back(starts[first]);
        blocks.push_back(bytes.size());
        std::array<std::uint32_t, kTerms> sizes{};
        for (std::size_t term = first; term < std::min(first + kTerms, n_terms); ++term) {
            const std::uint64_t size = starts[term + 1] - starts[term];
            if (size > std::numeric_limits<std::uint32_t>::max())
                throw InvalidInput("the postings of one term take more than 4 GiB; shard the index");
            sizes[term - first] = static_cast<std::uint32_t>(size);
        }
        pack_bits(sizes, width_of(sizes), bytes);
    }
    blocks.push_back(starts.back());
    blocks.push_back(bytes.size());
    bytes.resize(bytes.size() + kBehind, 0);
    writer.section(name + "_blocks", std::span<const std::uint64_t>(blocks));
    writer.section(name + "_sizes", std::span<const std::uint8_t>(bytes));
}

}  // namespace gnomon
