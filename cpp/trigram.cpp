#include "trigram.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kBlockKeys = 64;
constexpr std::uint32_t kMostKeys = 1U << 24;

constexpr std::array<std::uint8_t, 256> lower_table() {
    std::array<std::uint8_t, 256> table{};
    for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = static_cast<std::uint8_t>(i >= 'A' && i <= 'Z' ? i + 32 : i);
    return table;
}
constexpr auto kLower = lower_table();

// fn(byte) for each byte of the folded text.
template <class Fn>
void fold_each(std::string_view text, const Fn& fn) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<std::uint8_t>(text[i]);
        if (byte == 0xE2 && text.substr(i, 3) == "\xE2\x84\xAA") {
            fn(std::uint8_t{'k'});
            i += 2;
        } else if (byte == 0xC5 && text.substr(i, 2) == "\xC5\xBF") {
            fn(std::uint8_t{'s'});
            i += 1;
        } else {
            fn(kLower[byte]);
        }
    }
}

// Turns bytes into trigrams: fn(key) for each that no line feed cuts.
template <class Fn>
class Window {
  public:
    explicit Window(const Fn& fn) : fn_(fn) {}
    void take(std::uint8_t byte) {
        if (byte == '\n') {
            length_ = 0;
            return;
        }
        key_ = (key_ << 8 | byte) & 0xFFFFFF;
        if (++length_ >= 3) fn_(key_);
    }

  private:
    const Fn& fn_;
    std::uint32_t key_ = 0;
    std::size_t length_ = 0;
};

void put_varint(std::vector<std::uint8_t>& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
    out.push_back(static_cast<std::uint8_t>(value));
}

// Bits from the lowest of each byte on.
class BitWriter {
  public:
    explicit BitWriter(std::vector<std::uint8_t>& out) : out_(out) {}
    void zeros(std::uint64_t count) {
        while (count >= 32) {
            put(0, 32);
            count -= 32;
        }
        put(0, static_cast<unsigned>(count));
    }
    void put(std::uint32_t bits, unsigned count) {  // count <= 32
        held_ |= static_cast<std::uint64_t>(bits) << used_;
        for (used_ += count; used_ >= 8; used_ -= 8, held_ >>= 8)
            out_.push_back(static_cast<std::uint8_t>(held_));
    }
    void flush() {
        if (used_ > 0) out_.push_back(static_cast<std::uint8_t>(held_));
        used_ = 0;
        held_ = 0;
    }

  private:
    std::vector<std::uint8_t>& out_;
    std::uint64_t held_ = 0;
    unsigned used_ = 0;
};

// The other way; reading behind the end gives zeros, and the caller asks overrun().
class BitReader {
  public:
    BitReader(const std::uint8_t* data, std::size_t bytes) : data_(data), bits_(bytes * 8) {}
    bool overrun() const { return at_ > bits_; }
    std::uint64_t unary() {  // zeros before the next one, which is taken too
        std::uint64_t zeros = 0;
        while (at_ < bits_) {
            const std::uint64_t word = peek();
            if (word != 0) {
                const auto here = static_cast<std::uint64_t>(std::countr_zero(word));
                at_ += here + 1;
                return zeros + here;
            }
            zeros += 56;
            at_ += 56;
        }
        at_ = bits_ + 1;
        return zeros;
    }
    std::uint64_t low(unsigned count) {  // count <= 32
        const std::uint64_t bits = peek() & ((std::uint64_t{1} << count) - 1);
        at_ += count;
        return bits;
    }

  private:
    std::uint64_t peek() const {  // the next 56 bits
        const std::size_t byte = at_ / 8;
        std::uint64_t word = 0;
        if (byte * 8 + 64 <= bits_) {
            std::memcpy(&word, data_ + byte, 8);
            if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
        } else {
            for (std::size_t i = byte; i * 8 < bits_; ++i)
                word |= static_cast<std::uint64_t>(data_[i]) << ((i - byte) * 8);
        }
        return word >> (at_ % 8) & ((std::uint64_t{1} << 56) - 1);
    }
    const std::uint8_t* data_;
    std::size_t bits_;
    std::size_t at_ = 0;
};

void put_list(std::vector<std::uint8_t>& out, std::span<const std::uint32_t> docs, std::uint64_t n_docs) {
    const unsigned bits = rice_bits(n_docs, docs.size());
    BitWriter writer(out);
    std::uint64_t next = 0;
    for (const std::uint32_t doc : docs) {
        const std::uint64_t gap = doc - next;
        writer.zeros(gap >> bits);
        writer.put(1, 1);
        writer.put(static_cast<std::uint32_t>(gap & ((std::uint64_t{1} << bits) - 1)), bits);
        next = std::uint64_t{doc} + 1;
    }
    writer.flush();
}

}  // namespace

std::string trigram_fold(std::string_view text) {
    std::string folded;
    folded.reserve(text.size());
    fold_each(text, [&](std::uint8_t byte) { folded.push_back(static_cast<char>(byte)); });
    return folded;
}

std::vector<std::uint32_t> trigrams_of(std::string_view folded) {
    std::vector<std::uint32_t> keys;
    const auto keep = [&](std::uint32_t key) { keys.push_back(key); };
    Window window(keep);
    for (const char byte : folded) window.take(static_cast<std::uint8_t>(byte));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

// The shortest code of a geometric distribution has about log2(0.69 * mean gap) low bits (Gallager and
// Van Voorhis 1975).
unsigned rice_bits(std::uint64_t n_docs, std::uint64_t df) {
    const std::uint64_t mean = n_docs * 11 / 16 / std::max<std::uint64_t>(df, 1);
    return mean == 0 ? 0 : static_cast<unsigned>(std::bit_width(mean)) - 1;
}

TrigramBuilder::TrigramBuilder() : seen_(kMostKeys / 64), table_(1024) {}

void TrigramBuilder::add(std::span<const std::string_view> parts) {
    if (n_docs_ == std::numeric_limits<std::uint32_t>::max() - 1)
        throw InvalidInput("a segment holds at most 4,294,967,294 documents; split it");
    for (const std::string_view part : parts) collect(part);
    for (const std::uint32_t key : fresh_) {
        seen_[key / 64] &= ~(std::uint64_t{1} << (key % 64));
        append(entry_of(key), n_docs_);
    }
    fresh_.clear();
    ++n_docs_;
}

void TrigramBuilder::collect(std::string_view text) {
    const auto note = [this](std::uint32_t key) {
        std::uint64_t& word = seen_[key / 64];
        const std::uint64_t bit = std::uint64_t{1} << (key % 64);
        if ((word & bit) != 0) return;
        word |= bit;
        fresh_.push_back(key);
    };
    Window window(note);
    fold_each(text, [&](std::uint8_t byte) { window.take(byte); });
}

TrigramBuilder::Entry& TrigramBuilder::entry_of(std::uint32_t key) {
    if (2 * used_ >= table_.size()) grow();
    const std::size_t mask = table_.size() - 1;
    std::size_t at = (key * std::uint32_t{2654435761}) >> 8 & mask;
    while (table_[at].key != key && table_[at].key != kNone) at = (at + 1) & mask;
    if (table_[at].key == kNone) {
        table_[at].key = key;
        ++used_;
    }
    return table_[at];
}

void TrigramBuilder::grow() {
    std::vector<Entry> old(table_.size() * 2);
    old.swap(table_);
    used_ = 0;
    for (const Entry& entry : old)
        if (entry.key != kNone) entry_of(entry.key) = entry;
}

void TrigramBuilder::append(Entry& entry, std::uint32_t doc) {
    std::uint32_t gap = doc - entry.last;
    for (; gap >= 0x80; gap >>= 7) push(entry, static_cast<std::uint8_t>(gap | 0x80));
    push(entry, static_cast<std::uint8_t>(gap));
    entry.last = doc;
    ++entry.df;
}

void TrigramBuilder::push(Entry& entry, std::uint8_t byte) {
    if (entry.room == 0) {
        const auto size = static_cast<std::uint16_t>(entry.size == 0 ? 4 : std::min(entry.size * 2, 256));
        const std::uint32_t block = new_block(size);
        if (entry.size == 0)
            entry.first = block;
        else
            std::memcpy(&arena_[entry.tail], &block, 4);
        entry.tail = block;
        entry.size = entry.room = size;
    }
    arena_[entry.tail + 4U + entry.size - entry.room] = byte;
    --entry.room;
}

std::uint32_t TrigramBuilder::new_block(std::uint16_t size) {
    const std::size_t at = arena_.size();
    if (at > std::numeric_limits<std::uint32_t>::max() - 4096)
        throw InvalidInput("a trigram index takes some 10 GB of text at a time; split it");
    arena_.resize(at + 4 + size);
    return static_cast<std::uint32_t>(at);
}

std::vector<std::uint32_t> TrigramBuilder::docs_of(const Entry& entry) const {
    std::vector<std::uint32_t> docs;
    docs.reserve(entry.df);
    std::uint32_t block = entry.first, doc = 0, at = 0, size = 4;
    while (docs.size() < entry.df) {
        std::uint32_t gap = 0;
        for (unsigned shift = 0;; shift += 7) {
            if (at == size) {
                std::memcpy(&block, &arena_[block], 4);
                at = 0;
                size = std::min(size * 2, 256U);
            }
            const std::uint8_t byte = arena_[block + 4 + at++];
            gap |= static_cast<std::uint32_t>(byte & 0x7F) << shift;
            if (byte < 0x80) break;
        }
        doc += gap;
        docs.push_back(doc);
    }
    return docs;
}

void TrigramBuilder::write(ContainerWriter& writer) const {
    std::vector<const Entry*> entries;
    entries.reserve(used_);
    for (const Entry& entry : table_)
        if (entry.key != kNone) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->key < b->key; });
    std::vector<std::uint32_t> first;
    std::vector<std::uint64_t> entry_starts, list_starts;
    std::vector<std::uint8_t> codes, lists;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const bool opens = i % kBlockKeys == 0;
        if (opens) {
            first.push_back(entries[i]->key);
            entry_starts.push_back(codes.size());
            list_starts.push_back(lists.size());
        }
        const std::size_t before = lists.size();
        put_list(lists, docs_of(*entries[i]), n_docs_);
        put_varint(codes, opens ? 0 : entries[i]->key - entries[i - 1]->key);
        put_varint(codes, entries[i]->df);
        put_varint(codes, lists.size() - before);
    }
    const std::array<std::uint32_t, 3> head{kVersion, n_docs_, static_cast<std::uint32_t>(entries.size())};
    writer.section("head", std::span<const std::uint32_t>(head));
    writer.section("first", std::span<const std::uint32_t>(first));
    writer.section("entry", std::span<const std::uint64_t>(entry_starts));
    writer.section("list", std::span<const std::uint64_t>(list_starts));
    writer.section("entries", std::span<const std::uint8_t>(codes));
    writer.section("lists", std::span<const std::uint8_t>(lists));
}

// Reading

std::shared_ptr<const TrigramIndex> TrigramIndex::open(std::shared_ptr<const Container> container) {
    const std::shared_ptr<TrigramIndex> index(new TrigramIndex);
    index->container_ = container;
    const Column<std::uint32_t> head = container->column<std::uint32_t>("head");
    head.ensure_all();
    if (head.size() != 3) index->corrupt("its head");
    if (head.data()[0] != kVersion) index->corrupt("another format version of the trigram index");
    index->n_docs_ = head.data()[1];
    index->n_keys_ = head.data()[2];
    index->first_ = container->column<std::uint32_t>("first");
    index->entry_ = container->column<std::uint64_t>("entry");
    index->list_ = container->column<std::uint64_t>("list");
    index->entries_ = container->column<std::uint8_t>("entries");
    index->lists_ = container->column<std::uint8_t>("lists");
    const std::size_t blocks = (index->n_keys_ + kBlockKeys - 1) / kBlockKeys;
    if (index->n_keys_ > kMostKeys || index->first_.size() != blocks || index->entry_.size() != blocks ||
        index->list_.size() != blocks)
        index->corrupt("its blocks");
    index->first_.ensure_all();
    index->entry_.ensure_all();
    index->list_.ensure_all();
    return index;
}

void TrigramIndex::corrupt(const char* what) const {
    throw CorruptIndex(container_->path() + ": the trigram index is damaged (" + what + "); index again");
}

template <class Fn>
void TrigramIndex::each_entry(std::size_t block, const Fn& fn) const {
    const std::uint64_t begin = entry_.data()[block];
    const std::uint64_t end = block + 1 < entry_.size() ? entry_.data()[block + 1] : entries_.size();
    if (begin > end) corrupt("the order of its blocks");
    entries_.ensure(begin, end - begin);
    const std::uint8_t* at = entries_.data() + begin;
    const std::uint8_t* const stop = entries_.data() + end;
    const auto varint = [&] {
        std::uint64_t value = 0;
        for (unsigned shift = 0; at < stop && shift < 63; shift += 7) {
            const std::uint8_t byte = *at++;
            value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
            if (byte < 0x80) return value;
        }
        corrupt("an entry");
    };
    std::uint64_t key = first_.data()[block];
    List list{list_.data()[block], 0, 0};
    const std::size_t keys = std::min<std::size_t>(kBlockKeys, n_keys_ - block * kBlockKeys);
    for (std::size_t i = 0; i < keys; ++i) {
        key += varint();
        const std::uint64_t df = varint();
        list.bytes = varint();
        if (key >= kMostKeys || df == 0 || df > n_docs_) corrupt("an entry");
        list.df = static_cast<std::uint32_t>(df);
        if (!fn(static_cast<std::uint32_t>(key), list)) return;
        list.begin += list.bytes;
    }
}

bool TrigramIndex::find(std::uint32_t key, List& list) const {
    const std::span<const std::uint32_t> first = first_.span();
    const auto behind = std::upper_bound(first.begin(), first.end(), key);
    if (behind == first.begin()) return false;
    bool found = false;
    each_entry(static_cast<std::size_t>(behind - first.begin()) - 1, [&](std::uint32_t here, const List& l) {
        if (here == key) {
            list = l;
            found = true;
        }
        return here < key;
    });
    return found;
}

template <class Fn>
void TrigramIndex::decode(const List& list, const Fn& fn) const {
    lists_.ensure(list.begin, list.bytes);
    BitReader reader(lists_.data() + list.begin, list.bytes);
    const unsigned bits = rice_bits(n_docs_, list.df);
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < list.df; ++i) {
        const std::uint64_t zeros = reader.unary();
        const std::uint64_t low = bits == 0 ? 0 : reader.low(bits);
        if (reader.overrun() || zeros > n_docs_) corrupt("a list ends early");
        const std::uint64_t doc = next + (zeros << bits | low);
        if (doc >= n_docs_) corrupt("a document that is not there");
        fn(static_cast<std::uint32_t>(doc));
        next = doc + 1;
    }
}

std::vector<std::uint32_t> TrigramIndex::docs(std::uint32_t key) const {
    std::vector<std::uint32_t> found;
    List list;
    if (find(key, list)) decode(list, [&](std::uint32_t doc) { found.push_back(doc); });
    return found;
}

DocSet TrigramIndex::literal(std::string_view text) const {
    std::vector<List> lists;
    for (const std::uint32_t key : trigrams_of(trigram_fold(text))) {
        List list;
        if (!find(key, list)) return DocSet(n_docs_);
        lists.push_back(list);
    }
    if (lists.empty()) return DocSet(n_docs_, true);
    std::sort(lists.begin(), lists.end(), [](const List& a, const List& b) { return a.df < b.df; });
    DocSet found(n_docs_);
    decode(lists.front(), [&](std::uint32_t doc) { found.add(doc); });
    for (std::size_t i = 1; i < lists.size(); ++i) {
        if (lists[i].df == n_docs_) break;  // and so are all behind it
        DocSet also(n_docs_);
        decode(lists[i], [&](std::uint32_t doc) { also.add(doc); });
        found.intersect(also);
    }
    return found;
}

DocSet TrigramIndex::candidates(const TrigramQuery& query) const {
    if (query.kind == TrigramQuery::Kind::literal) return literal(query.literal);
    const bool all = query.kind == TrigramQuery::Kind::all;
    DocSet found(n_docs_, all);
    for (const TrigramQuery& part : query.parts) {
        if (all)
            found.intersect(candidates(part));
        else
            found.unite(candidates(part));
    }
    return found;
}

void TrigramIndex::verify() const {
    container_->verify();
    std::uint64_t end = 0, count = 0;
    std::int64_t last = -1;
    for (std::size_t block = 0; block < first_.size(); ++block) {
        each_entry(block, [&](std::uint32_t key, const List& list) {
            if (key <= last || list.begin != end) corrupt("the order of its trigrams");
            decode(list, [](std::uint32_t) {});
            last = key;
            end += list.bytes;
            ++count;
            return true;
        });
    }
    if (end != lists_.size() || count != n_keys_) corrupt("lists that no trigram has");
}

}  // namespace gnomon
