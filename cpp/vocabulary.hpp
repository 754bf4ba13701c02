// Terms <-> term ids 0..V-1. Open addressing over a string arena, in the same form in memory and on disk, so
// that loading is a mapping: `slots` (a power of two, at most 3/4 full) holds id + 1, zero is empty; term i
// is bytes[starts[i], starts[i+1]). Terms are UTF-8; any bytes are allowed.
#pragma once
#include <cstdint>
#include <cstring>
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

// Interning a token is half of what tokenising costs. So the table that is built in is not the one on disk: a
// term of at most kInline bytes lies in its slot, and one cache line and two comparisons find it.
class VocabularyBuilder {
  public:
    static constexpr std::size_t kInline = 16;

    // A term of at most kInline bytes, ready to be looked up.
    struct Key {
        std::uint64_t first = 0;  // its bytes, padded with zeros
        std::uint64_t second = 0;
        std::uint32_t size = 0;
    };
    struct Prepared {
        Key key;
        std::uint64_t hash;
    };

    VocabularyBuilder();
    // The id of the term, new or known.
    std::uint32_t intern(std::string_view term);
    // The same for a term of which kInline bytes can be read, those after its end being zero.
    std::uint32_t intern_padded(std::string_view term) {
        return term.size() > kInline ? intern_long(term) : intern_prepared(prepare(term));
    }
    // The same in two steps, for a padded term of at most kInline bytes: the cache line that the second step
    // will need is on its way after the first.
    Prepared prepare(std::string_view term) const {
        Prepared found{{}, 0};
        found.key.size = static_cast<std::uint32_t>(term.size());
        std::memcpy(&found.key.first, term.data(), 8);
        std::memcpy(&found.key.second, term.data() + 8, 8);
        found.hash = hash_of(found.key);
        __builtin_prefetch(&slots_[found.hash & (slots_.size() - 1)]);
        return found;
    }
    std::uint32_t intern_prepared(const Prepared& term) {
        const std::size_t mask = slots_.size() - 1;
        std::size_t slot = term.hash & mask;
        for (; slots_[slot].id_plus_1 != 0; slot = (slot + 1) & mask) {
            const Key& known = slots_[slot].key;
            if (known.first == term.key.first && known.second == term.key.second &&
                known.size == term.key.size)
                return slots_[slot].id_plus_1 - 1;
        }
        return add_inline(term.key, slot);
    }
    std::uint64_t memory() const {
        return bytes_.capacity() + 8 * starts_.capacity() + sizeof(Slot) * slots_.capacity();
    }
    std::uint32_t size() const { return static_cast<std::uint32_t>(starts_.size() - 1); }
    // Valid until the next intern.
    std::string_view term(std::uint32_t id) const {
        return {bytes_.data() + starts_[id], static_cast<std::size_t>(starts_[id + 1] - starts_[id])};
    }

  private:
    friend class Vocabulary;
    struct Slot {
        Key key;                      // of a longer term its hash, and where it lies in the arena
        std::uint32_t id_plus_1 = 0;  // zero: the slot is empty
    };
    static std::uint64_t hash_of(const Key& key) {
        if (key.size > kInline) return key.first;
        std::uint64_t hash = key.first * 0x9E3779B97F4A7C15u;
        hash = (hash ^ (hash >> 32) ^ key.second) * 0xBF58476D1CE4E5B9u;
        return hash ^ (hash >> 29);
    }
    std::uint32_t intern_long(std::string_view term);
    std::uint32_t add_inline(const Key& key, std::size_t slot);
    std::uint32_t add(std::string_view term, const Key& key, std::size_t slot);
    void grow();
    std::vector<char> bytes_;
    std::vector<std::uint64_t> starts_;
    std::vector<Slot> slots_;
};

// Looks terms up some at a time: each look-up waits for memory, and the waits overlap. Calls done(id) for
// each in order, and ahead(id) somewhat earlier.
class InternBatch {
  public:
    explicit InternBatch(VocabularyBuilder& vocabulary) : vocabulary_(vocabulary) {}

    template <class Ahead, class Done>
    void push(std::string_view padded, const Ahead& ahead, const Done& done) {
        if (padded.size() > VocabularyBuilder::kInline) [[unlikely]] {
            flush(ahead, done);  // terms are numbered in their order
            done(vocabulary_.intern_padded(padded));
            return;
        }
        terms_[size_++] = vocabulary_.prepare(padded);
        if (size_ == kMost) flush(ahead, done);
    }

    template <class Ahead, class Done>
    void flush(const Ahead& ahead, const Done& done) {
        std::uint32_t ids[kMost];
        for (std::size_t i = 0; i < size_; ++i) {
            ids[i] = vocabulary_.intern_prepared(terms_[i]);
            ahead(ids[i]);
        }
        for (std::size_t i = 0; i < size_; ++i) done(ids[i]);
        size_ = 0;
    }

  private:
    static constexpr std::size_t kMost = 16;
    VocabularyBuilder& vocabulary_;
    VocabularyBuilder::Prepared terms_[kMost];
    std::size_t size_ = 0;
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
    static std::vector<std::uint32_t> stored_slots(const VocabularyBuilder& builder);

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
