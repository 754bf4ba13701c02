// Rows that one query's screen could not exclude, with bounds on their scores. When the collection is full it
// is cut: the k-th best lower bound becomes the threshold, and what lies wholly below it goes. It grows when
// the bounds cannot decide, up to `most`; beyond that it gives up, and the query is scanned plainly.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gnomon {

struct Candidate {
    float upper;
    float lower;
    std::uint32_t row;
};

class Candidates {
  public:
    Candidates() = default;
    Candidates(std::size_t k, std::size_t most) : k_(k), room_(std::max(2 * k, k + 64)), most_(most) {}

    // A new candidate's upper bound has to reach this. It only rises.
    float threshold() const { return threshold_; }
    void raise(float threshold) { threshold_ = std::max(threshold_, threshold); }
    bool gave_up() const { return gave_up_; }

    // Says whether the threshold rose.
    bool push(Candidate candidate) {
        if (gave_up_) return false;
        items_.push_back(candidate);
        return items_.size() >= room_ && cut();
    }

    bool cut() {
        const float before = threshold_;
        if (items_.size() >= k_) {
            const auto last = items_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
            std::nth_element(items_.begin(), last, items_.end(),
                             [](const Candidate& a, const Candidate& b) { return a.lower > b.lower; });
            raise(last->lower);
            std::erase_if(items_, [this](const Candidate& item) { return item.upper < threshold_; });
        }
        if (items_.size() * 4 > room_ * 3) room_ *= 2;
        if (items_.size() > most_) {
            gave_up_ = true;
            items_ = {};
        }
        return threshold_ > before;
    }

    const std::vector<Candidate>& items() const { return items_; }

  private:
    std::size_t k_ = 0;
    std::size_t room_ = 0;
    std::size_t most_ = 0;
    float threshold_ = -std::numeric_limits<float>::infinity();
    bool gave_up_ = false;
    std::vector<Candidate> items_;
};

}  // namespace gnomon
