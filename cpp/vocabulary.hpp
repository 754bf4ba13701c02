// Terms <-> term ids 0..V-1. Open addressing over a string arena, in the same form in memory and on disk, so
// that loading is a mapping: `slots` (a power of two, at most 3/4 full) holds id + 1, zero is empty; term i
// is bytes[starts[i], starts[i+1]). Terms are UTF-8; any bytes are allowed.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage.hpp"

namespace gnomon {

// Part of the file format: changing it needs a new format version.
std::uint64_t term_hash(std::string_view term);

class SortedTerms;

class VocabularyBuilder {
  public:
    VocabularyBuilder();
    // The id of the term, new or known.
    std::uint32_t intern(std::string_view term);
    std::uint32_t size() const { return static_cast<std::uint32_t>(hashes_.size()); }
    std::uint64_t memory() const {
        return bytes_.capacity() + 8 * (starts_.capacity() + hashes_.capacity()) + 4 * slots_.capacity();
    }

  private:
    friend class Vocabulary;
    void grow();
    std::vector<char> bytes_;
    std::vector<std::uint64_t> starts_;
    std::vector<std::uint64_t> hashes_;
    std::vector<std::uint32_t> slots_;
};

class Vocabulary {
  public:
    Vocabulary() = default;
    explicit Vocabulary(VocabularyBuilder&& builder);

    std::uint32_t size() const { return size_; }
    std::uint64_t memory() const { return bytes_.size() + 8 * starts_.size() + 4 * slots_.size(); }
    // Throws CorruptIndex when what it reads of a mapped file is inconsistent.
    std::optional<std::uint32_t> find(std::string_view term) const;
    std::string_view term(std::uint32_t id) const;
    // The terms in order, made when first asked for. Thread safe; lives as long as the vocabulary.
    const SortedTerms& sorted() const;
    // Every byte, and that every term leads back to itself.
    void verify() const;

    void write(ContainerWriter& writer) const;
    static Vocabulary open(const Container& container, std::uint64_t n_terms);

  private:
    std::uint32_t size_ = 0;
    Column<std::uint8_t> bytes_;
    Column<std::uint64_t> starts_;
    Column<std::uint32_t> slots_;

    struct Lazy {
        std::once_flag once;
        std::shared_ptr<const SortedTerms> terms;
    };
    std::shared_ptr<Lazy> lazy_ = std::make_shared<Lazy>();
};

}  // namespace gnomon
