#include "corpus_chunks.hpp"

#include <algorithm>
#include <cstddef>

namespace gnomon {
namespace {

constexpr std::int32_t kCopied = -1;

// MessagePack in the shortest forms, as msgspec writes it.
class Packer {
  public:
    void array(std::size_t n) { head(n, 16, 0x90, 0, 0xDC); }
    void str(std::string_view text) {
        head(text.size(), 32, 0xA0, 0xD9, 0xDA);
        out_ += text;
    }
    void bin(std::string_view data) {
        head(data.size(), 0, 0, 0xC4, 0xC5);
        out_ += data;
    }
    void nil() { byte(0xC0); }
    void boolean(bool value) { byte(value ? 0xC3 : 0xC2); }
    void integer(std::int64_t value) {  // none is negative
        const auto n = static_cast<std::uint64_t>(value);
        if (n < 0x80)
            byte(static_cast<unsigned>(n));
        else if (n <= 0xFF)
            byte(0xCC), big(n, 1);
        else if (n <= 0xFFFF)
            byte(0xCD), big(n, 2);
        else if (n <= 0xFFFFFFFF)
            byte(0xCE), big(n, 4);
        else
            byte(0xCF), big(n, 8);
    }
    void span(ChunkSpan span) {
        array(2);
        integer(span.first), integer(span.second);
    }
    std::string take() { return std::move(out_); }

  private:
    void byte(unsigned value) { out_.push_back(static_cast<char>(value)); }
    void big(std::uint64_t value, int width) {
        for (int i = width - 1; i >= 0; --i) byte(static_cast<unsigned>(value >> (8 * i) & 0xFF));
    }
    // `fixed` sizes are in the first byte; then come forms of 8 (where there is one), 16 and 32 bits.
    void head(std::size_t n, std::size_t fixed, unsigned small, unsigned eight, unsigned sixteen) {
        if (n < fixed)
            byte(small | static_cast<unsigned>(n));
        else if (n <= 0xFF && eight != 0)
            byte(eight), big(n, 1);
        else if (n <= 0xFFFF)
            byte(sixteen), big(n, 2);
        else
            byte(sixteen + 1), big(n, 4);
    }

    std::string out_;
};

std::string_view stripped(std::string_view text) {  // as bytes.strip()
    constexpr std::string_view kSpace = " \t\n\r\x0b\x0c";
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// The bytes of a text that show raw places, which rise: gnomon.corpus.rawmap.rendered_many.
class Rendered {
  public:
    explicit Rendered(std::span<const std::int32_t> marks) : marks_(marks) {}
    std::int64_t at(std::int64_t place) {
        if (marks_.empty()) return place;
        for (; i_ + 2 < marks_.size(); i_ += 3) {
            const bool copied = marks_[i_ + 2] == kCopied;
            const std::int64_t start = raw_ + marks_[i_], length = marks_[i_ + 1];
            if (place < start + length)
                return text_ + (copied ? std::max<std::int64_t>(place - start, 0) : 0);
            raw_ = start + length;
            text_ += copied ? length : marks_[i_ + 2];
        }
        return text_;
    }

  private:
    std::span<const std::int32_t> marks_;
    std::size_t i_ = 0;
    std::int64_t raw_ = 0, text_ = 0;  // behind the runs before i_
};

// `place`, or the next one at which a character begins.
std::size_t boundary(std::string_view text, std::int64_t place) {
    auto at = std::min(static_cast<std::size_t>(place), text.size());
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
}

// The kind of most bytes; headings count where there is nothing else, the first of equals wins.
std::string_view most_of(std::span<const ChunkBlock> blocks) {
    std::vector<std::pair<std::string_view, std::int64_t>> sizes;
    for (const ChunkBlock& block : blocks) {
        const auto same = [&](const auto& known) { return known.first == block.kind; };
        auto known = std::find_if(sizes.begin(), sizes.end(), same);
        if (known == sizes.end()) known = sizes.insert(known, {block.kind, 0});
        known->second += block.end - block.start;
    }
    if (sizes.size() > 1) std::erase_if(sizes, [](const auto& known) { return known.first == "heading"; });
    if (sizes.empty()) return "prose";
    return std::max_element(sizes.begin(), sizes.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

}  // namespace

ChunkBlocks blocks_of(std::span<const AtomView> atoms, std::int64_t start, std::int64_t end) {
    ChunkBlocks made;
    if (atoms.empty()) return {{}, "prose"};
    if (atoms.size() == 1) return {{{atoms[0].kind, start, end, atoms[0].info}}, atoms[0].kind};
    std::string_view kind = atoms[0].kind, info = atoms[0].info;
    std::int64_t begin = start;
    for (std::size_t i = 1; i <= atoms.size(); ++i) {
        const bool more = i < atoms.size();
        if (more && atoms[i].kind == kind && atoms[i].info == info) continue;
        const std::int64_t stop = more ? std::min(std::max(atoms[i].start, start), end) : end;
        if (stop > begin) made.blocks.push_back({kind, begin, stop, info});
        if (more) kind = atoms[i].kind, info = atoms[i].info, begin = stop;
    }
    made.kind = most_of(made.blocks);
    return made;
}

std::pair<std::string, std::string> split_code(std::string_view text, std::span<const ChunkBlock> blocks,
                                               std::span<const std::int32_t> marks, std::int64_t start) {
    std::string body, code;
    std::size_t at = 0;
    bool first_code = true;
    const auto outside = [&](std::string_view part) {
        part = stripped(part);
        if (part.empty()) return;
        if (!body.empty()) body += '\n';
        body += part;
    };
    Rendered rendered(marks);
    for (const ChunkBlock& block : blocks) {
        if (block.kind != "code") continue;
        const std::int64_t from = rendered.at(block.start - start), to = rendered.at(block.end - start);
        const std::size_t begin = std::max(at, boundary(text, from));
        const std::size_t stop = std::max(begin, boundary(text, to));
        outside(text.substr(at, begin - at));
        if (!first_code) code += '\n';
        first_code = false;
        code += text.substr(begin, stop - begin);
        at = stop;
    }
    outside(text.substr(at));
    return {std::move(body), std::move(code)};
}

std::string encode_chunk(const ChunkRecord& record, const ChunkBlocks& parts) {
    Packer out;
    out.array(11);
    out.integer(record.section);
    out.str(parts.kind);
    out.span(record.span), out.span(record.chars), out.span(record.lines);
    out.str(record.text);
    if (record.pieces)
        out.bin(*record.pieces);
    else
        out.nil();
    out.bin(record.map);
    out.array(parts.blocks.size());
    for (const ChunkBlock& block : parts.blocks) {
        out.array(4);
        out.str(block.kind);
        out.integer(block.start), out.integer(block.end);
        out.str(block.info);
    }
    out.boolean(record.continued);
    if (record.header)
        out.span(*record.header);
    else
        out.nil();
    return out.take();
}

}  // namespace gnomon
