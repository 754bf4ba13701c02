#include "vocabulary.hpp"

#include <cstring>
#include <limits>

#include "error.hpp"
#include "huge_pages.hpp"
#include "vocabulary_sorted.hpp"

namespace gnomon {

namespace {
constexpr std::size_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
}  // namespace

// FNV-1a over eight bytes at a time with a multiply-xorshift finish: short terms take one or two rounds.
std::uint64_t term_hash(std::string_view term) {
    constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15u;
    std::uint64_t hash = 0xCBF29CE484222325u ^ (term.size() * kPrime);
    const char* data = term.data();
    std::size_t left = term.size();
    for (; left >= 8; left -= 8, data += 8) {
        std::uint64_t word;
        std::memcpy(&word, data, 8);
        hash = (hash ^ word) * kPrime;
        hash ^= hash >> 32;
    }
    if (left != 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, data, left);
        hash = (hash ^ word) * kPrime;
    }
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9u;
    return hash ^ (hash >> 32);
}

VocabularyBuilder::VocabularyBuilder() : starts_{0}, slots_(1024) {}

std::uint32_t VocabularyBuilder::intern(std::string_view term) {
    if (term.size() > kInline) return intern_long(term);
    const char* const data = term.data();
    const std::size_t size = term.size();
    Key key;
    key.size = static_cast<std::uint32_t>(size);
    if (size > 8) {  // the last eight bytes, without those that the first eight have too
        std::memcpy(&key.first, data, 8);
        std::memcpy(&key.second, data + size - 8, 8);
        key.second >>= 8 * (16 - size);
    } else if (size >= 4) {
        std::uint32_t first, last;
        std::memcpy(&first, data, 4);
        std::memcpy(&last, data + size - 4, 4);
        key.first = first | (std::uint64_t{last} << (8 * (size - 4)));
    } else if (size != 0) {
        std::memcpy(&key.first, data, size);
    }
    return intern_prepared({key, hash_of(key)});
}

std::uint32_t VocabularyBuilder::add_inline(const Key& key, std::size_t slot) {
    char bytes[kInline];
    std::memcpy(bytes, &key.first, 8);
    std::memcpy(bytes + 8, &key.second, 8);
    return add({bytes, key.size}, key, slot);
}

std::uint32_t VocabularyBuilder::intern_long(std::string_view term) {
    if (term.size() > kMostBytes) throw InvalidInput("a token holds at most 4,294,967,295 bytes; split it");
    const Key key{term_hash(term), bytes_.size(), static_cast<std::uint32_t>(term.size())};
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash_of(key) & mask;
    for (; slots_[slot].id_plus_1 != 0; slot = (slot + 1) & mask) {
        const Key& known = slots_[slot].key;
        if (known.first == key.first && known.size == key.size &&
            std::memcmp(&bytes_[known.second], term.data(), term.size()) == 0)
            return slots_[slot].id_plus_1 - 1;
    }
    return add(term, key, slot);
}

std::uint32_t VocabularyBuilder::add(std::string_view term, const Key& key, std::size_t slot) {
    if (size() >= std::numeric_limits<std::uint32_t>::max() - 2)
        throw InvalidInput("an index holds at most 4,294,967,294 distinct terms; split the collection");
    const std::uint32_t id = size();
    bytes_.insert(bytes_.end(), term.begin(), term.end());
    starts_.push_back(bytes_.size());
    slots_[slot] = {key, id + 1};
    if (std::size_t{size()} * 4 > slots_.size() * 3) grow();
    return id;
}

void VocabularyBuilder::grow() {
    std::vector<Slot> slots = roomy<Slot>(slots_.size() * 2);
    slots.resize(slots_.size() * 2);
    const std::size_t mask = slots.size() - 1;
    for (const Slot& each : slots_) {
        if (each.id_plus_1 == 0) continue;
        std::size_t slot = hash_of(each.key) & mask;
        while (slots[slot].id_plus_1 != 0) slot = (slot + 1) & mask;
        slots[slot] = each;
    }
    slots_.swap(slots);
}

// The table on disk, in the order of the ids, so that equal vocabularies are equal files.
std::vector<std::uint32_t> Vocabulary::stored_slots(const VocabularyBuilder& builder) {
    std::vector<std::uint32_t> slots(builder.slots_.size(), 0);
    const std::size_t mask = slots.size() - 1;
    for (std::uint32_t id = 0; id < builder.size(); ++id) {
        std::size_t slot = term_hash(builder.term(id)) & mask;
        while (slots[slot] != 0) slot = (slot + 1) & mask;
        slots[slot] = id + 1;
    }
    return slots;
}

Vocabulary::Vocabulary(VocabularyBuilder&& builder)
    : size_(builder.size()), slots_(Column<std::uint32_t>::of(stored_slots(builder))) {
    bytes_ =
        Column<std::uint8_t>::of(std::vector<std::uint8_t>(builder.bytes_.begin(), builder.bytes_.end()));
    starts_ = Column<std::uint64_t>::of(std::move(builder.starts_));
}

std::string_view Vocabulary::term(std::uint32_t id) const {
    starts_.ensure(id, 2);
    const std::uint64_t first = starts_.data()[id];
    const std::uint64_t last = starts_.data()[id + 1];
    if (first > last || last > bytes_.size()) throw CorruptIndex("vocabulary: a term lies outside its arena");
    bytes_.ensure(first, last - first);
    return {reinterpret_cast<const char*>(bytes_.data()) + first, last - first};
}

const SortedTerms& Vocabulary::sorted() const {
    std::call_once(lazy_->once, [this] { lazy_->terms = std::make_shared<SortedTerms>(*this); });
    return *lazy_->terms;
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view text) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = term_hash(text) & mask;
    for (std::size_t probes = 0; probes < slots_.size(); ++probes, slot = (slot + 1) & mask) {
        slots_.ensure(slot, 1);
        const std::uint32_t entry = slots_.data()[slot];
        if (entry == 0) return std::nullopt;
        if (entry > size_) throw CorruptIndex("vocabulary: a slot names a term that does not exist");
        if (term(entry - 1) == text) return entry - 1;
    }
    throw CorruptIndex("vocabulary: the table has no empty slot");
}

void Vocabulary::verify() const {
    bytes_.ensure_all();
    slots_.ensure_all();
    for (std::uint32_t id = 0; id < size_; ++id)
        if (find(term(id)) != id)
            throw CorruptIndex("vocabulary: term " + std::to_string(id) + " does not lead back to itself");
}

void Vocabulary::write(ContainerWriter& writer) const {
    bytes_.ensure_all();
    starts_.ensure_all();
    slots_.ensure_all();
    writer.section("vocabulary.bytes", bytes_.span());
    writer.section("vocabulary.starts", starts_.span());
    writer.section("vocabulary.slots", slots_.span());
}

Vocabulary Vocabulary::open(const Container& container, std::uint64_t n_terms) {
    Vocabulary vocabulary;
    vocabulary.bytes_ = container.column<std::uint8_t>("vocabulary.bytes");
    vocabulary.starts_ = container.column<std::uint64_t>("vocabulary.starts");
    vocabulary.slots_ = container.column<std::uint32_t>("vocabulary.slots");
    const std::size_t slots = vocabulary.slots_.size();
    if (n_terms >= std::numeric_limits<std::uint32_t>::max() || vocabulary.starts_.size() != n_terms + 1 ||
        slots == 0 || (slots & (slots - 1)) != 0 || slots <= n_terms)
        throw CorruptIndex(container.path() + ": the vocabulary's sections do not fit together");
    vocabulary.size_ = static_cast<std::uint32_t>(n_terms);
    return vocabulary;
}

}  // namespace gnomon
