#include "bm25_positions.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "bm25_index.hpp"
#include "error.hpp"

namespace gnomon {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();

std::size_t skip_bytes(std::size_t n_postings) {
    return n_postings == 0 ? 0 : (n_postings - 1) / Bm25Positions::kSkip * 4;
}

std::uint32_t load_u32(const std::uint8_t* at) {
    std::uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
}

std::uint32_t decode(const std::uint8_t*& at) {
    std::uint32_t value = *at & 0x7F;
    for (unsigned shift = 7; (*at++ & 0x80) != 0; shift += 7)
        value |= static_cast<std::uint32_t>(*at & 0x7F) << shift;
    return value;
}

// Behind the next n numbers. A byte below 0x80 ends a number: eight are looked at together.
const std::uint8_t* behind(const std::uint8_t* at, const std::uint8_t* end, std::uint64_t n) {
    while (n >= 8 && end - at >= 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        n -= static_cast<std::uint64_t>(std::popcount(~word & 0x8080808080808080u));
        at += 8;
    }
    while (n > 0) n -= (*at++ & 0x80) == 0 ? 1 : 0;
    return at;
}

}  // namespace

PositionsCursor::PositionsCursor(const Postings& list, std::span<const std::uint8_t> data)
    : tfs_(list.tfs.data()),
      wide_(list.wide.empty() ? nullptr : list.wide.data()),
      skips_(data.data()),
      bytes_(data.data() + skip_bytes(list.docs.size())),
      end_(data.data() + data.size()),
      at_(bytes_),
      owner_(list.owner) {}

void PositionsCursor::seek(std::size_t i) {
    constexpr std::size_t kSkip = Bm25Positions::kSkip;
    const std::size_t block = i / kSkip;
    if (i < next_ || block != next_ / kSkip) {
        next_ = block * kSkip;
        at_ = bytes_ + (block == 0 ? 0 : load_u32(skips_ + (block - 1) * 4));
    }
    std::uint64_t numbers = 0;
    for (; next_ < i; ++next_) numbers += tf(next_);
    at_ = behind(at_, end_, numbers);
}

void PositionsCursor::read(std::size_t i, std::vector<std::uint32_t>& out) {
    seek(i);
    const std::uint32_t n = tf(i);
    out.resize(n);
    std::uint32_t position = 0;
    for (std::uint32_t j = 0; j < n; ++j) out[j] = position += decode(at_);
    ++next_;
}

std::span<const std::uint8_t> PositionsCursor::raw(std::size_t i) {
    seek(i);
    const std::uint8_t* const first = at_;
    at_ = behind(at_, end_, tf(i));
    ++next_;
    return {first, at_};
}

Bm25Positions::Bm25Positions(Column<std::uint64_t> starts, Column<std::uint8_t> bytes)
    : starts_(std::move(starts)), bytes_(std::move(bytes)) {}

// Inside of the section only when that was checked.
PackedDirectory::Range Bm25Positions::range(std::uint64_t term) const {
    if (packed_) return directory_.of(term, bytes_.size());
    const std::uint64_t first = starts_.data()[term];
    return {first, starts_.data()[term + 1] - first};
}

PositionsCursor Bm25Positions::term(std::uint64_t term, const Postings& list,
                                    const Column<std::uint32_t>& lengths) const {
    if (checked_ != nullptr && !checked_[term].load(std::memory_order_acquire)) {
        check(term, list, lengths);
        checked_[term].store(true, std::memory_order_release);
    }
    const PackedDirectory::Range data = range(term);
    return {list, bytes_.span().subspan(data.first, data.size)};
}

void Bm25Positions::check(std::uint64_t term, const Postings& list,
                          const Column<std::uint32_t>& lengths) const {
    const auto require_that = [term](bool holds, const char* what) {
        if (!holds)
            throw CorruptIndex("positions of term " + std::to_string(term) + ": " + what +
                               "; build the index again or restore the file");
    };
    if (!packed_) {
        starts_.ensure(term, 2);
        require_that(
            starts_.data()[term] <= starts_.data()[term + 1] && starts_.data()[term + 1] <= bytes_.size(),
            "they lie outside their section");
    }
    const auto [first, size] = range(term);
    const std::uint64_t last = first + size;
    bytes_.ensure(first, last - first);
    const std::uint64_t skips = skip_bytes(list.docs.size());
    require_that(last - first >= skips, "the skips lie outside their section");
    const std::uint8_t* const begin = bytes_.data() + first + skips;
    const std::uint8_t* const end = bytes_.data() + last;
    const std::uint8_t* at = begin;
    for (std::size_t i = 0; i < list.docs.size(); ++i) {
        if (i != 0 && i % kSkip == 0)
            require_that(load_u32(bytes_.data() + first + (i / kSkip - 1) * 4) == at - begin,
                         "a skip leads elsewhere");
        lengths.ensure(list.docs[i], 1);
        const std::uint64_t length = lengths.data()[list.docs[i]];
        std::uint64_t position = 0;
        for (std::uint32_t j = 0; j < list.tf(i); ++j) {
            std::uint64_t step = 0;
            for (unsigned shift = 0;; shift += 7) {
                require_that(at < end && shift < 35, "a posting has too few or too long ones");
                step |= static_cast<std::uint64_t>(*at & 0x7F) << shift;
                if ((*at++ & 0x80) == 0) break;
            }
            require_that(j == 0 || step != 0, "they do not ascend");
            position += step;
            require_that(position < length, "one lies beyond its document");
        }
    }
    require_that(at == end, "some belong to no posting");
}

void Bm25Positions::write(ContainerWriter& writer, std::size_t field, bool packed) const {
    starts_.ensure_all();
    bytes_.ensure_all();
    if (packed_)
        directory_.copy(writer, field_section(field, "pos"));
    else if (packed)
        PackedDirectory::write(writer, field_section(field, "pos"), starts_.span());
    else
        writer.section(field_section(field, "pos_starts"), starts_.span());
    writer.section(field_section(field, "pos_bytes"), bytes_.span());
}

std::shared_ptr<const Bm25Positions> Bm25Positions::open(const Container& container, std::size_t field,
                                                         std::uint64_t n_terms, bool packed) {
    const std::shared_ptr<Bm25Positions> positions(new Bm25Positions);
    positions->packed_ = packed;
    if (packed) {
        positions->directory_ = PackedDirectory(container, field_section(field, "pos"), n_terms);
    } else {
        positions->starts_ = container.column<std::uint64_t>(field_section(field, "pos_starts"));
        if (positions->starts_.size() != n_terms + 1)
            throw CorruptIndex(container.path() + ": the positions are not those of the vocabulary");
    }
    positions->bytes_ = container.column<std::uint8_t>(field_section(field, "pos_bytes"));
    positions->checked_ = std::make_unique<std::atomic<bool>[]>(n_terms);
    return positions;
}

void Bm25Positions::verify_starts() const {
    if (packed_) return directory_.verify(bytes_.size());
    starts_.ensure_all();
    bool good = starts_.data()[0] == 0 && starts_.span().back() == bytes_.size();
    for (std::uint64_t term = 0; good && term + 1 < starts_.size(); ++term)
        good = starts_.data()[term] <= starts_.data()[term + 1];
    if (!good) throw CorruptIndex("positions: the terms leave a gap or overlap; build the index again");
}

void PositionsEncoder::skip() {
    if (postings_ != 0 && postings_ % Bm25Positions::kSkip == 0) {
        if (bytes_.size() > kMostBytes)
            throw InvalidInput("the positions of one term take more than 4 GiB; shard the index");
        skips_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    }
    ++postings_;
}

void PositionsEncoder::add(std::span<const std::uint32_t> positions) {
    skip();
    std::uint32_t before = 0;
    for (const std::uint32_t position : positions) {
        std::uint32_t step = position - before;
        before = position;
        for (; step >= 0x80; step >>= 7) bytes_.push_back(static_cast<std::uint8_t>(step | 0x80));
        bytes_.push_back(static_cast<std::uint8_t>(step));
    }
}

void PositionsEncoder::add_raw(std::span<const std::uint8_t> raw) {
    skip();
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
}

void PositionsEncoder::end_term() {
    const auto* const skips = reinterpret_cast<const std::uint8_t*>(skips_.data());
    done_.insert(done_.end(), skips, skips + skips_.size() * 4);
    done_.insert(done_.end(), bytes_.begin(), bytes_.end());
    starts_.push_back(starts_.back() + skips_.size() * 4 + bytes_.size());
    skips_.clear();
    bytes_.clear();
    postings_ = 0;
}

std::vector<std::uint8_t> PositionsEncoder::drain() { return std::exchange(done_, {}); }

std::vector<std::uint64_t> PositionsEncoder::take_starts() { return std::exchange(starts_, {0}); }

std::shared_ptr<const Bm25Positions> PositionsEncoder::finish() {
    return std::make_shared<Bm25Positions>(Column<std::uint64_t>::of(take_starts()),
                                           Column<std::uint8_t>::of(drain()));
}

// A counting sort by term keeps the order of documents and of positions within each term.
std::shared_ptr<const Bm25Positions> PositionsBuilder::finish(std::span<const std::uint32_t> lengths,
                                                              const PostingsOf& postings,
                                                              std::size_t n_terms) {
    std::vector<std::uint64_t> next(n_terms + 1, 0);
    for (std::size_t term = 0; term < n_terms; ++term) {
        const Postings list = postings(term);
        std::uint64_t tokens = 0;
        for (std::size_t i = 0; i < list.docs.size(); ++i) tokens += list.tf(i);
        next[term + 1] = next[term] + tokens;
    }
    std::vector<std::uint32_t> sorted(next.back());
    std::size_t doc = 0;
    std::uint32_t position = 0;
    order_.each([&](const std::uint32_t* terms, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            for (; position == lengths[doc]; position = 0) ++doc;
            if (terms[i] != kNone) sorted[next[terms[i]]++] = position;
            ++position;
        }
    });
    order_.clear();
    PositionsEncoder encoder;
    const std::uint32_t* at = sorted.data();
    for (std::size_t term = 0; term < n_terms; ++term) {
        const Postings list = postings(term);
        for (std::size_t i = 0; i < list.docs.size(); at += list.tf(i++)) encoder.add({at, list.tf(i)});
        encoder.end_term();
    }
    return encoder.finish();
}

}  // namespace gnomon
