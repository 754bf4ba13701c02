// The best k hits under order.hpp. Candidates gather in a buffer of 2k (at least 64) and are cut to k by
// nth_element when it is full: amortised O(1) per push, no heap to sift, and k may be as large as N.
// threshold() is the score that a new candidate has to reach: an equal score may still win by position.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "order.hpp"
#include "radix.hpp"

namespace gnomon {

class TopK {
  public:
    explicit TopK(std::size_t k) : k_(k), limit_(std::max<std::size_t>(2 * k, 64)) {}

    double threshold() const { return threshold_; }

    void push(Hit hit) {
        if (k_ == 0 || hit.score < threshold_) return;
        hits_.push_back(hit);
        if (hits_.size() >= limit_) cut();
    }

    void merge(const TopK& other) {
        for (const Hit& hit : other.hits_) push(hit);
    }

    // Best first. The collection is empty afterwards.
    std::vector<Hit> take() {
        if (hits_.size() >= kRadixLeast) {
            sort_many();
        } else {
            cut();
            std::sort(hits_.begin(), hits_.end(), kBetter);
        }
        threshold_ = kNone;
        return std::move(hits_);
    }

    // Drops what is not among the best k and says the k-th best score: the threshold from now on.
    double cut() {
        if (k_ == 0 || hits_.size() < k_) return threshold_;
        const auto last = hits_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
        std::nth_element(hits_.begin(), last, hits_.end(), kBetter);
        threshold_ = last->score;
        hits_.resize(k_);
        return threshold_;
    }

  private:
    // As a lambda it is inlined; through a pointer to better() sorting takes twice as long.
    static constexpr auto kBetter = [](const Hit& a, const Hit& b) { return better(a, b); };
    // The upper half of a score in falling order; -0.0 is 0.0 there too.
    static std::uint32_t rank(const Hit& hit) {
        const auto bits = std::bit_cast<std::uint64_t>(hit.score + 0.0);
        const auto upper = static_cast<std::uint32_t>(bits >> 32);
        return (upper & 0x80000000U) != 0 ? upper : ~(upper | 0x80000000U);
    }

    // By the upper halves, then each run of equal ones by comparisons.
    void sort_many() {
        radix_sort(hits_, rank);
        for (auto first = hits_.begin(); first != hits_.end();) {
            auto last = first + 1;
            while (last != hits_.end() && rank(*last) == rank(*first)) ++last;
            if (last - first > 1) std::sort(first, last, kBetter);
            first = last;
        }
        if (hits_.size() > k_) hits_.resize(k_);
    }

    static constexpr double kNone = -std::numeric_limits<double>::infinity();

    std::size_t k_;
    std::size_t limit_;
    double threshold_ = kNone;
    std::vector<Hit> hits_;
};

}  // namespace gnomon
