#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "lines.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kTask = std::size_t{1} << 18;  // bytes of documents that one task searches
constexpr std::size_t kBlocks = 256;                 // of 64 bytes, that are screened at a time

using Bytes = std::span<const std::uint8_t>;

// Eight bytes are looked at together for one that is a line feed.
std::size_t line_begin(Bytes text, std::size_t least, std::size_t place) {
    constexpr std::uint64_t kOnes = 0x0101010101010101u;
    for (; place - least >= 8; place -= 8) {
        std::uint64_t word;
        std::memcpy(&word, text.data() + place - 8, 8);
        word ^= kOnes * '\n';
        if (((word - kOnes) & ~word & kOnes << 7) != 0) break;
    }
    while (place > least && text[place - 1] != '\n') --place;
    return place;
}

std::size_t line_end(Bytes text, std::size_t place) {
    const void* const found = std::memchr(text.data() + place, '\n', text.size() - place);
    if (found == nullptr) return text.size();
    return static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - text.data());
}

bool is_ascii(Bytes text) {
    std::uint8_t all = 0;
    for (const std::uint8_t byte : text) all |= byte;
    return all < 0x80;
}

std::size_t mark_bytes(Bytes text) {
    return text.size() >= 3 && text[0] == 0xEF && text[1] == 0xBB && text[2] == 0xBF ? 3 : 0;
}

}  // namespace

// Searches document after document on one thread.
class LineScan::Worker {
  public:
    Worker(const LineProgram& program, const Kernels& kernels, std::uint64_t most)
        : program_(program), window_(kernels.lines_window), most_(most), matcher_(program) {}

    // Whether a line of the document is known to match.
    bool search(Bytes text, std::uint32_t owner, Part& part) {
        const std::uint64_t before = part.n_lines;
        const std::size_t first = mark_bytes(text);
        text_ = text;
        owner_ = owner;
        part_ = &part;
        next_ = first;
        if (first == text.size()) return false;
        if (program_.edges()) open_whole(first);
        const std::size_t width = program_.window().width;
        for (std::size_t base = first; base + width <= text.size(); base += kBlocks * 64) {
            const std::size_t n = screen(text, base);
            for (std::size_t b = 0; b < n; ++b)
                for (std::uint64_t mask = masks_[b]; mask != 0; mask &= mask - 1) {
                    const std::size_t place =
                        base + b * 64 + static_cast<std::size_t>(std::countr_zero(mask));
                    if (place + width <= text.size()) note(place + program_.anchor());
                }
        }
        if (program_.edges() && text.back() != '\n') open_whole(text.size() - 1);
        judge();
        return part.n_lines > before;
    }

  private:
    // The masks of the next blocks; how many. The last block is read from a copy with zeros behind it.
    std::size_t screen(Bytes text, std::size_t base) {
        const std::size_t bytes = std::min(kBlocks * 64, text.size() - base);
        const std::size_t n = (bytes + 63) / 64;
        std::size_t whole = n;
        while (whole > 0 && base + whole * 64 + ByteWindow::kMost - 1 > text.size()) --whole;
        window_(text.data() + base, whole, program_.window(), masks_);
        for (std::size_t b = whole; b < n; ++b) {
            std::uint8_t padded[64 + ByteWindow::kMost] = {};
            const Bytes rest = text.subspan(base + b * 64);
            std::memcpy(padded, rest.data(), std::min(rest.size(), sizeof padded));
            window_(padded, 1, program_.window(), masks_ + b);
        }
        return n;
    }

    // The window stands in the text, its anchor at `place`.
    void note(std::size_t place) {
        if (is_open_ && place <= end_) {
            last_ = std::max(last_, place);
            return;
        }
        judge();
        open(place);
        last_ = place;
        if (program_.offset() != LineProgram::kAnywhere)
            from_ = std::max(begin_, place - std::min(place, program_.offset()));
    }

    // The line that holds a place lacks a line feed of the window: matches may begin anywhere in it.
    void open_whole(std::size_t place) {
        if (!is_open_ || place > end_) {
            judge();
            open(place);
        }
        from_ = begin_;
        last_ = end_;
    }

    void open(std::size_t place) {
        begin_ = from_ = line_begin(text_, next_, place);
        end_ = line_end(text_, place);
        next_ = end_ + 1;
        is_open_ = true;
    }

    // Looks for matches in the line that is open.
    void judge() {
        if (!is_open_) return;
        is_open_ = false;
        const Bytes line = text_.subspan(begin_, end_ - begin_);
        const std::size_t first = part_->matches.size();
        if ((program_.wide() && !is_ascii(line)) ||
            !matcher_.find(line, from_ - begin_, last_ - begin_, part_->matches)) {
            part_->lines.push_back({begin_, end_, 0, 0, owner_, true});
            part_->unsure += line.size() + 1;
            return;
        }
        const std::size_t last = part_->matches.size();
        if (last == first) return;
        part_->n_matches += last - first;
        if (part_->n_lines++ < most_)
            part_->lines.push_back({begin_, end_, first, last, owner_, false});
        else
            part_->matches.resize(first);
    }

    const LineProgram& program_;
    LinesWindow* const window_;
    const std::uint64_t most_;
    LineMatcher matcher_;
    Bytes text_;
    std::uint32_t owner_ = 0;
    Part* part_ = nullptr;
    std::size_t next_ = 0;  // where lines begin that have not been opened
    bool is_open_ = false;
    std::size_t begin_ = 0, end_ = 0;  // of the line that is open
    std::size_t from_ = 0, last_ = 0;  // where its matches can begin
    std::uint64_t masks_[kBlocks] = {};
};

LineScan::LineScan(const LineProgram& program, std::vector<Column<std::uint8_t>> sources,
                   std::vector<LineDocument> documents, std::uint64_t most, std::uint64_t most_unsure,
                   std::size_t threads, const Kernels& kernels)
    : sources_(std::move(sources)), documents_(std::move(documents)), hit_(documents_.size(), 0) {
    std::vector<std::size_t> tasks{0};  // the first document of each, and the end
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
        const LineDocument& each = documents_[i];
        require(each.source < sources_.size() && each.begin <= each.end &&
                    each.end <= sources_[each.source].size(),
                "a document leaves its source");
        bytes += each.end - each.begin;
        if (bytes >= kTask || i + 1 == documents_.size()) {
            tasks.push_back(i + 1);
            bytes = 0;
        }
    }
    parts_.resize(tasks.size() - 1);
    threads = std::min(thread_count(threads), parts_.size());
    std::vector<Worker> workers(std::max<std::size_t>(threads, 1), Worker(program, kernels, most));
    std::atomic<std::uint64_t> unsure{0};
    parallel_for(threads, parts_.size(), [&](std::size_t worker, std::size_t task) {
        for (std::size_t i = tasks[task]; i < tasks[task + 1] && unsure <= most_unsure; ++i) {
            const LineDocument& each = documents_[i];
            sources_[each.source].ensure(each.begin, each.end - each.begin);
            const auto owner = static_cast<std::uint32_t>(i);
            const std::uint64_t before = parts_[task].unsure;
            hit_[i] = workers[worker].search(text(owner), owner, parts_[task]) ? 1 : 0;
            unsure += parts_[task].unsure - before;
        }
    });
    has_given_up_ = unsure > most_unsure;
}

std::span<const std::uint8_t> LineScan::text(std::uint32_t owner) const {
    const LineDocument& each = documents_[owner];
    return sources_[each.source].span().subspan(each.begin, each.end - each.begin);
}

std::string LineScan::unsure() const {
    std::string all;
    for (const Part& part : parts_)
        for (const Line& line : part.lines) {
            if (!line.unsure) continue;
            const Bytes bytes = text(line.owner).subspan(line.begin, line.end - line.begin);
            all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            all.push_back('\n');
        }
    return all;
}

void LineScan::settle(std::span<const std::int64_t> begins, std::span<const std::int64_t> stops) {
    require(begins.size() == stops.size(), "a match has a begin and a stop");
    std::size_t next = 0;
    std::int64_t base = 0;
    for (Part& part : parts_)
        for (Line& line : part.lines) {
            if (!line.unsure) continue;
            const auto size = static_cast<std::int64_t>(line.end - line.begin);
            line.first = part.matches.size();
            for (; next < begins.size() && begins[next] <= base + size; ++next) {
                require(begins[next] >= base && stops[next] >= begins[next] && stops[next] <= base + size,
                        "a match spans lines, or they do not ascend");
                part.matches.emplace_back(static_cast<std::uint32_t>(begins[next] - base),
                                          static_cast<std::uint32_t>(stops[next] - base));
            }
            line.last = part.matches.size();
            line.unsure = false;
            base += size + 1;
            if (line.last == line.first) continue;
            ++part.n_lines;
            part.n_matches += line.last - line.first;
            hit_[line.owner] = 1;
        }
}

LineScan::Totals LineScan::totals() const {
    Totals totals;
    for (const Part& part : parts_) {
        totals.lines += part.n_lines;
        totals.matches += part.n_matches;
    }
    for (const std::uint8_t hit : hit_) totals.documents += hit;
    return totals;
}

LineScan::Page LineScan::page(std::uint64_t skip, std::uint64_t stop) const {
    Page page;
    std::uint64_t index = 0, number = 1;
    std::size_t counted = 0;
    std::uint32_t owner = 0;
    for (const Part& part : parts_) {
        for (const Line& line : part.lines) {
            if (line.first == line.last || index++ < skip) continue;
            if (index > stop) return page;
            if (line.owner != owner || page.owner.empty()) {
                owner = line.owner;
                number = 1;
                counted = 0;
            }
            const Bytes bytes = text(owner);
            number += static_cast<std::uint64_t>(
                std::count(bytes.begin() + static_cast<std::ptrdiff_t>(counted),
                           bytes.begin() + static_cast<std::ptrdiff_t>(line.begin), std::uint8_t{'\n'}));
            counted = line.begin;
            page.owner.push_back(owner);
            page.number.push_back(number);
            page.begin.push_back(line.begin);
            page.end.push_back(line.end);
            for (std::uint64_t i = line.first; i < line.last; ++i) {
                page.begins.push_back(line.begin + part.matches[i].first);
                page.stops.push_back(line.begin + part.matches[i].second);
            }
            page.first.push_back(page.begins.size());
        }
    }
    return page;
}

}  // namespace gnomon
