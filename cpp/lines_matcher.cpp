#include <algorithm>

#include "error.hpp"
#include "lines.hpp"

namespace gnomon {
namespace {

using Op = LineProgram::Op;

bool is_word(std::uint8_t byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           byte == '_';
}

bool at_word_end(std::span<const std::uint8_t> line, std::size_t place) {
    const bool before = place > 0 && is_word(line[place - 1]);
    return before != (place < line.size() && is_word(line[place]));
}

}  // namespace

LineProgram::LineProgram(std::vector<Step> steps, const std::vector<Set>& sets, bool wide,
                         const ByteWindow& window, std::size_t anchor, std::size_t offset, bool edges,
                         const std::vector<Set>& lead)
    : steps_(std::move(steps)),
      sets_(sets.size()),
      wide_(wide),
      window_(window),
      anchor_(anchor),
      offset_(offset),
      edges_(edges) {
    require(!steps_.empty() && steps_.back().op == Op::kMatch, "a program ends in a match");
    require(window_.width >= 1 && window_.width <= ByteWindow::kMost && anchor_ < window_.width,
            "a window has one to eight classes, and its anchor is one of them");
    for (std::size_t j = 0; j < window_.width; ++j)
        require(window_.order[j] < window_.width, "the order of a window names its classes");
    for (Step& step : steps_) {
        const bool jumps = step.op == Op::kJump || step.op == Op::kSplit;
        require(!jumps || (step.x < steps_.size() && step.y < steps_.size()),
                "a step leads out of the program");
        require(step.op != Op::kSet || step.x < sets.size(), "a step names a set that is not there");
        if (step.op == Op::kSplit) step.number = n_splits_++;
    }
    for (std::uint32_t at = 0; at < steps_.size(); ++at)
        if (steps_[at].op == Op::kSplit) steps_[at].run = is_run(at);
    for (std::size_t i = 0; i < sets.size(); ++i)
        for (std::size_t byte = 0; byte < 256; ++byte) sets_[i][byte] = sets[i][byte] ? 1 : 0;
    begins_with_run_ = steps_.size() > 2 && steps_[0].op == Op::kSet && steps_[1].op == Op::kSplit &&
                       (steps_[1].x == 0 || steps_[1].y == 0);
    bool may_be_empty = false;
    const Set first = first_bytes(may_be_empty);
    if (may_be_empty) return;
    n_lead_ = std::max<std::size_t>(std::min(lead.size(), kMostLead), 1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
        unsigned places = first[byte] ? 1 : 0;
        for (std::size_t k = 1; k < n_lead_; ++k) places |= (lead[k][byte] ? 1U : 0U) << k;
        lead_[byte] = static_cast<std::uint8_t>(places);
    }
}

// X* and the last part of X+, greedy: set and split, or split, set and jump.
bool LineProgram::is_run(std::uint32_t split) const {
    const std::uint32_t set = steps_[split].x;
    if (steps_[set].op != Op::kSet || set + 1 >= steps_.size()) return false;
    return set + 1 == split || (steps_[set + 1].op == Op::kJump && steps_[set + 1].x == split);
}

// Follows what takes no byte, as if every condition held.
LineProgram::Set LineProgram::first_bytes(bool& may_be_empty) const {
    Set first;
    std::vector<bool> seen(steps_.size(), false);
    std::vector<std::size_t> waiting{0};
    while (!waiting.empty()) {
        const std::size_t at = waiting.back();
        waiting.pop_back();
        if (seen[at]) continue;
        seen[at] = true;
        const Step& step = steps_[at];
        if (step.op == Op::kMatch) {
            may_be_empty = true;
        } else if (step.op == Op::kSet) {
            for (std::size_t byte = 0; byte < 256; ++byte)
                if (sets_[step.x][byte] != 0) first.set(byte);
        } else if (step.op == Op::kJump) {
            waiting.push_back(step.x);
        } else if (step.op == Op::kSplit) {
            waiting.push_back(step.y);
            waiting.push_back(step.x);
        } else {
            waiting.push_back(at + 1);
        }
    }
    return first;
}

// As the single steps would: the split is marked at every place of the run, up to one that was reached
// before, and what follows is tried from the last place on, backwards.
void LineMatcher::enter_run(const LineProgram::Step& step, std::span<const std::uint8_t> line,
                            std::size_t place) {
    const std::uint32_t set = program_.steps()[step.x].x;
    std::size_t last = place;
    if (!mark(last, step.number)) return;
    while (last < line.size() && program_.in(set, line[last]) && mark(last + 1, step.number)) ++last;
    waiting_.push_back({step.y, last, place});
}

bool LineMatcher::match_at(std::span<const std::uint8_t> line, std::size_t start, std::size_t& end) {
    const auto& steps = program_.steps();
    waiting_.clear();
    waiting_.push_back({0, start, start});
    while (!waiting_.empty()) {
        auto [at, place, least] = waiting_.back();
        if (place > least)
            --waiting_.back().place;
        else
            waiting_.pop_back();
        for (bool holds = true; holds;) {
            const LineProgram::Step& step = steps[at];
            switch (step.op) {
                case Op::kSet:
                    holds = place < line.size() && program_.in(step.x, line[place]);
                    ++place;
                    break;
                case Op::kJump:
                    at = step.x;
                    continue;
                case Op::kSplit:
                    if (step.run) {
                        holds = false;
                        enter_run(step, line, place);
                        continue;
                    }
                    holds = mark(place, step.number);
                    if (holds) waiting_.push_back({step.y, place, place});
                    at = step.x;
                    continue;
                case Op::kBegin:
                    holds = place == 0;
                    break;
                case Op::kEnd:
                    holds = place == line.size();
                    break;
                case Op::kWord:
                    holds = at_word_end(line, place);
                    break;
                case Op::kNotWord:
                    holds = !at_word_end(line, place);
                    break;
                case Op::kMatch:
                    end = place;
                    return true;
            }
            ++at;
        }
    }
    return false;
}

bool LineMatcher::find(std::span<const std::uint8_t> line, std::size_t from, std::size_t last,
                       std::vector<std::pair<std::uint32_t, std::uint32_t>>& matches) {
    // The splits of a place lie together, so that a match can unmark its end.
    const std::size_t width = program_.n_splits();
    const std::size_t n_marks = width * (line.size() + 1);
    if (n_marks > kMostMarks || line.size() > kMostMarks) return false;
    marks_.assign((n_marks + 63) / 64, 0);
    last = std::min(last, line.size());
    for (std::size_t start = from; start <= last; ++start) {
        if (!program_.may_begin(line, start)) continue;
        std::size_t end = 0;
        if (!match_at(line, start, end)) {
            // A pattern X+... that fails from a place fails from the rest of its run of X, too: what matched
            // from there would match from here.
            if (program_.begins_with_run())
                while (start + 1 < line.size() && start < last &&
                       program_.in(program_.steps()[0].x, line[start + 1]))
                    ++start;
            continue;
        }
        matches.emplace_back(static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(end));
        for (std::size_t bit = end * width; bit < (end + 1) * width; ++bit)
            marks_[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
        if (end > start) start = end - 1;
    }
    return true;
}

}  // namespace gnomon
