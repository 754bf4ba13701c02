#include "bm25_packed.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "bm25_index.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kBlock = PackedLists::kBlock;
constexpr unsigned kWidthBits = 6;
constexpr unsigned kWider = 3;            // the width of the frequencies is a byte of its own
constexpr std::size_t kBuffer = 1 << 18;  // bytes between two appends to a file

void put_number(std::uint32_t value, std::vector<std::uint8_t>& out) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
    out.push_back(static_cast<std::uint8_t>(value));
}

// Reads one list and refuses to leave it.
class Reader {
  public:
    Reader(std::uint64_t term, std::span<const std::uint8_t> data)
        : term_(term), at_(data.data()), end_(data.data() + data.size()) {}

    std::uint8_t byte() {
        if (at_ == end_) fail("they end too early");
        return *at_++;
    }
    std::uint32_t number() {
        std::uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            const std::uint8_t next = byte();
            value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
            if ((next & 0x80) == 0) break;
            if (shift == 28) fail("a number is too long");
        }
        if (value > UINT32_MAX) fail("a number is too large");
        return static_cast<std::uint32_t>(value);
    }
    // The values of a block, of which the bytes after the list may be looked at.
    void unpack(std::size_t n, unsigned width, std::uint32_t* out) {
        const std::size_t bytes = packed_bytes(n, width);
        if (width > 32) fail("a width is above 32 bits");
        if (static_cast<std::size_t>(end_ - at_) < bytes) fail("they end too early");
        unpack_bits(at_, n, width, out);
        at_ += bytes;
    }
    bool done() const { return at_ == end_; }

    [[noreturn]] void fail(const char* what) const {
        throw CorruptIndex("postings of term " + std::to_string(term_) + ": " + what +
                           "; build the index again or restore the file");
    }

  private:
    std::uint64_t term_;
    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

}  // namespace

struct PackedLists::Decoded {
    explicit Decoded(std::size_t size)
        : n(size),
          docs(std::make_unique_for_overwrite<std::uint32_t[]>(size)),
          tfs(std::make_unique_for_overwrite<std::uint8_t[]>(size)) {}

    void put_tfs(std::size_t first, std::span<const std::uint32_t> less_1) {
        for (std::size_t i = 0; i < less_1.size(); ++i)
            tfs[first + i] =
                static_cast<std::uint8_t>(std::min<std::uint32_t>(less_1[i], Bm25Field::kWide - 1) + 1);
        const bool exceeds = std::any_of(less_1.begin(), less_1.end(),
                                         [](std::uint32_t tf) { return tf >= Bm25Field::kWide; });
        if (exceeds && wide.empty()) {
            wide.assign(tfs.get(), tfs.get() + first);
            wide.resize(n);
        }
        for (std::size_t i = 0; !wide.empty() && i < less_1.size(); ++i) wide[first + i] = less_1[i] + 1;
    }

    std::size_t bytes() const { return sizeof *this + n * 5 + wide.size() * 4; }

    std::size_t n;
    std::unique_ptr<std::uint32_t[]> docs;
    std::unique_ptr<std::uint8_t[]> tfs;
    std::vector<std::uint32_t> wide;  // as in Postings
};

PackedLists::PackedLists(const Container& container, const std::string& name, std::uint64_t n_docs,
                         std::uint64_t n_terms, std::uint64_t n_postings)
    : directory_(container, name, n_terms),
      bytes_(container.column<std::uint8_t>(name)),
      n_docs_(n_docs),
      n_postings_(n_postings) {
    if (bytes_.size() < kBehind) throw CorruptIndex(container.path() + ": the packed postings are too short");
}

std::span<const std::uint8_t> PackedLists::data(std::uint64_t term) const {
    const PackedDirectory::Range range = directory_.of(term, total());
    bytes_.ensure(range.first, range.size);
    return bytes_.span().subspan(range.first, range.size);
}

std::uint64_t PackedLists::count_of(std::uint64_t term, std::span<const std::uint8_t> data) const {
    if (data.empty()) return 0;
    Reader reader(term, data);
    const std::uint64_t n = reader.number();
    // Each block has a byte at least: what is to be decoded is at most so many times as large as its bytes.
    if (n == 0 || n > n_docs_ || n > data.size() * kBlock) reader.fail("they are too many or none");
    return n;
}

std::uint64_t PackedLists::count(std::uint64_t term) const { return count_of(term, data(term)); }

Postings PackedLists::postings(std::uint64_t term) const {
    const std::span<const std::uint8_t> packed = data(term);
    const std::uint64_t n = count_of(term, packed);
    if (n == 0) return {};
    std::shared_ptr<const Decoded> list;
    if (n >= kKeptLeast) {
        const std::shared_lock<std::shared_mutex> guard(lock_);
        if (const auto known = kept_.find(term); known != kept_.end()) list = known->second;
    }
    if (list == nullptr) list = decode(term, packed);
    const Decoded& d = *list;
    return {{d.docs.get(), d.n}, {d.tfs.get(), d.n}, d.wide, std::move(list)};
}

std::shared_ptr<const PackedLists::Decoded> PackedLists::decode(std::uint64_t term,
                                                                std::span<const std::uint8_t> data) const {
    Reader reader(term, data);
    const std::size_t n = reader.number();
    std::uint64_t doc = reader.number();
    auto list = std::make_shared<Decoded>(n);
    std::array<std::uint32_t, kBlock> block;
    for (std::size_t first = 0; first < n; first += kBlock) {
        const std::size_t size = std::min(kBlock, n - first);
        const unsigned widths = reader.byte();
        unsigned tf_width = widths >> kWidthBits;
        if (tf_width == kWider) tf_width = reader.byte();
        const std::size_t skipped = first == 0 ? 1 : 0;
        std::uint32_t* const docs = list->docs.get() + first;
        reader.unpack(size - skipped, widths & ((1U << kWidthBits) - 1), block.data());
        if (skipped != 0) docs[0] = static_cast<std::uint32_t>(doc);
        for (std::size_t i = skipped; i < size; ++i) {
            doc += std::uint64_t{1} + block[i - skipped];
            docs[i] = static_cast<std::uint32_t>(doc);
        }
        // The last is the greatest, and 64 bits hold it.
        if (doc >= n_docs_) reader.fail("a document does not exist");
        reader.unpack(size, tf_width, block.data());
        if (tf_width == 32 &&
            std::find(block.begin(), block.begin() + size, UINT32_MAX) != block.begin() + size)
            reader.fail("a term frequency is too large");
        list->put_tfs(first, {block.data(), size});
    }
    if (!reader.done()) reader.fail("there are bytes behind the last");
    return n >= kKeptLeast ? keep(term, std::move(list)) : list;
}

std::shared_ptr<const PackedLists::Decoded> PackedLists::keep(std::uint64_t term,
                                                              std::shared_ptr<const Decoded> list) const {
    if (list->bytes() > kKeptBytes) return list;
    const std::unique_lock<std::shared_mutex> guard(lock_);
    const auto [place, is_new] = kept_.emplace(term, list);
    if (!is_new) return place->second;  // another thread was faster
    kept_bytes_ += list->bytes();
    order_.push_back(term);
    while (kept_bytes_ > kKeptBytes) {
        const auto oldest = kept_.find(order_.front());
        kept_bytes_ -= oldest->second->bytes();
        kept_.erase(oldest);
        order_.pop_front();
    }
    return list;
}

std::size_t PackedLists::kept() const {
    const std::shared_lock<std::shared_mutex> guard(lock_);
    return kept_bytes_;
}

void PackedLists::copy(ContainerWriter& writer, const std::string& name) const {
    bytes_.ensure_all();
    writer.section(name, bytes_.span());
    directory_.copy(writer, name);
}

PackedWriter::PackedWriter(ContainerWriter& writer, const std::string& name) : writer_(writer), name_(name) {
    writer_.begin(name, Dtype::u8);
}

void PackedWriter::encode_block(std::size_t first, std::size_t last) {
    std::array<std::uint32_t, kBlock> steps;
    const std::size_t skipped = first == 0 ? 1 : 0;
    for (std::size_t i = first + skipped; i < last; ++i)
        steps[i - first - skipped] = docs_[i] - docs_[i - 1] - 1;
    const std::span<const std::uint32_t> docs(steps.data(), last - first - skipped);
    const std::span<const std::uint32_t> tfs(tfs_.data() + first, last - first);
    const unsigned doc_width = width_of(docs);
    const unsigned tf_width = width_of(tfs);
    bytes_.push_back(static_cast<std::uint8_t>(doc_width | std::min(tf_width, kWider) << kWidthBits));
    if (tf_width >= kWider) bytes_.push_back(static_cast<std::uint8_t>(tf_width));
    pack_bits(docs, doc_width, bytes_);
    pack_bits(tfs, tf_width, bytes_);
}

void PackedWriter::end_term() {
    if (!docs_.empty()) {
        put_number(static_cast<std::uint32_t>(docs_.size()), bytes_);
        put_number(docs_[0], bytes_);
        for (std::size_t first = 0; first < docs_.size(); first += kBlock)
            encode_block(first, std::min(first + kBlock, docs_.size()));
        docs_.clear();
        tfs_.clear();
    }
    starts_.push_back(written_ + bytes_.size());
    if (bytes_.size() >= kBuffer) flush();
}

void PackedWriter::flush() {
    writer_.append(bytes_.data(), bytes_.size());
    written_ += bytes_.size();
    bytes_.clear();
}

void PackedWriter::end() {
    bytes_.resize(bytes_.size() + kBehind, 0);
    flush();
    writer_.end();
    PackedDirectory::write(writer_, name_, starts_);
}

}  // namespace gnomon
