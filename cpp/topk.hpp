// The best k hits under order.hpp. Candidates gather in a buffer of 2k (at least 64) and are cut to k by
// nth_element when it is full: amortised O(1) per push, no heap to sift, and k may be as large as N.
// threshold() is the score that a new candidate has to reach: an equal score may still win by position.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "order.hpp"

namespace gnomon {

// A lambda, not the function: the algorithms then inline the comparison.
inline constexpr auto kBetter = [](const Hit& a, const Hit& b) { return better(a, b); };

// Leaves the best min(k, n) hits, best first. Many hits are sorted by what their scores are in 2^20 equal
// steps of their range first (what is subtracted and multiplied is monotone, so no order is lost): two
// counting passes over numbers, without a branch to mispredict. Few hits share a step: what is left is an
// insertion here and there, and a sort where a step is crowded. 5 ns a hit, where sorting all takes 50.
inline void keep_best(std::vector<Hit>& hits, std::size_t k) {
    constexpr std::size_t kFew = 128;
    constexpr std::size_t kCrowd = 8;
    constexpr std::size_t kDigit = 1024;
    const std::size_t n = hits.size();
    k = std::min(k, n);
    double least = std::numeric_limits<double>::infinity();
    double top = -least;
    for (const Hit& hit : hits) {
        least = hit.score < least ? hit.score : least;
        top = hit.score > top ? hit.score : top;
    }
    const double width = n > kFew && n <= UINT32_MAX ? top - least : 0.0;
    const double factor = static_cast<double>(kDigit * kDigit - 1) / width;
    if (!(width > 0.0) || !std::isfinite(width) || !std::isfinite(factor)) {
        const auto last = hits.begin() + static_cast<std::ptrdiff_t>(k);
        if (last != hits.end() && k > 0) std::nth_element(hits.begin(), last - 1, hits.end(), kBetter);
        hits.erase(last, hits.end());
        std::sort(hits.begin(), hits.end(), kBetter);
        return;
    }
    struct Key {
        std::uint32_t step, place;
    };
    std::vector<Key> keys(2 * n);
    std::uint32_t low[kDigit] = {};
    std::uint32_t high[kDigit] = {};
    for (std::size_t i = 0; i < n; ++i) {
        const auto step =
            static_cast<std::uint32_t>(static_cast<std::int64_t>((top - hits[i].score) * factor));
        keys[i] = {step, static_cast<std::uint32_t>(i)};
        ++low[step % kDigit];
        ++high[step / kDigit];
    }
    std::uint32_t before_low = 0;
    std::uint32_t before_high = 0;
    for (std::size_t digit = 0; digit < kDigit; ++digit) {
        before_low += std::exchange(low[digit], before_low);
        before_high += std::exchange(high[digit], before_high);
    }
    Key* const half = keys.data() + n;
    for (std::size_t i = 0; i < n; ++i) half[low[keys[i].step % kDigit]++] = keys[i];
    for (std::size_t i = 0; i < n; ++i) keys[high[half[i].step / kDigit]++] = half[i];
    std::size_t used = k;  // whole steps
    while (used < n && used > 0 && keys[used].step == keys[used - 1].step) ++used;
    std::vector<Hit> sorted(used);
    for (std::size_t i = 0; i < used; ++i) sorted[i] = hits[keys[i].place];
    for (std::size_t i = 1, first = 0; i <= used; ++i) {
        if (i < used && keys[i].step == keys[first].step) continue;
        if (i - first > kCrowd)
            std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(first),
                      sorted.begin() + static_cast<std::ptrdiff_t>(i), kBetter);
        first = i;
    }
    for (std::size_t i = 1; i < used; ++i) {
        if (!better(sorted[i], sorted[i - 1])) continue;
        const Hit hit = sorted[i];
        std::size_t at = i;
        for (; at > 0 && better(hit, sorted[at - 1]); --at) sorted[at] = sorted[at - 1];
        sorted[at] = hit;
    }
    sorted.resize(k);
    hits = std::move(sorted);
}

class TopK {
  public:
    explicit TopK(std::size_t k) : k_(k), limit_(std::max<std::size_t>(2 * k, 64)) {}

    double threshold() const { return threshold_; }
    // Only scores that reach it are wanted.
    void raise(double threshold) { threshold_ = std::max(threshold_, threshold); }

    void push(Hit hit) {
        if (k_ == 0 || hit.score < threshold_) return;
        hits_.push_back(hit);
        if (hits_.size() >= limit_) cut();
    }

    // Hits that surely do not fill the collection, without a look at the threshold: room() many at most.
    std::size_t room() const { return k_ == 0 || limit_ <= hits_.size() ? 0 : limit_ - hits_.size(); }
    void add(Hit hit) { hits_.push_back(hit); }
    void cut_if_full() {
        if (hits_.size() >= limit_) cut();
    }

    void merge(const TopK& other) {
        for (const Hit& hit : other.hits_) push(hit);
    }

    // Best first. The collection is empty afterwards.
    std::vector<Hit> take() {
        keep_best(hits_, k_);
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
    static constexpr double kNone = -std::numeric_limits<double>::infinity();

    std::size_t k_;
    std::size_t limit_;
    double threshold_ = kNone;
    std::vector<Hit> hits_;
};

}  // namespace gnomon
