// The best k hits under order.hpp. Candidates gather in a buffer of 2k (at least 64) and are cut to k by
// nth_element when it is full: amortised O(1) per push, no heap to sift, and k may be as large as N.
// threshold() is the score that a new candidate has to reach: an equal score may still win by position.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "order.hpp"

namespace gnomon {

// A lambda, not the function: the algorithms then inline the comparison.
inline constexpr auto kBetter = [](const Hit& a, const Hit& b) { return better(a, b); };

// Leaves the best min(k, n) hits, best first. Many hits are dealt into buckets of equal score ranges first
// (what is subtracted and multiplied is monotone, so no order is lost), and only the buckets that reach into
// the best k are sorted: 10 ns a hit where sorting all takes 50.
inline void keep_best(std::vector<Hit>& hits, std::size_t k) {
    constexpr std::size_t kFew = 128;
    constexpr std::size_t kCrowd = 8;
    k = std::min(k, hits.size());
    const auto [least, most] = std::minmax_element(
        hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.score < b.score; });
    const double width = hits.size() > kFew ? most->score - least->score : 0.0;
    if (!(width > 0.0) || !std::isfinite(width)) {
        const auto last = hits.begin() + static_cast<std::ptrdiff_t>(k);
        if (last != hits.end() && k > 0) std::nth_element(hits.begin(), last - 1, hits.end(), kBetter);
        hits.erase(last, hits.end());
        std::sort(hits.begin(), hits.end(), kBetter);
        return;
    }
    const std::size_t buckets = hits.size();
    const double top = most->score;
    const double factor = static_cast<double>(buckets) / width;
    std::vector<std::uint32_t> bucket(hits.size());
    std::vector<std::uint32_t> places(buckets + 1, 0);
    for (std::size_t i = 0; i < hits.size(); ++i) {
        const auto place = static_cast<std::int64_t>((top - hits[i].score) * factor);
        bucket[i] = static_cast<std::uint32_t>(std::min(place, static_cast<std::int64_t>(buckets) - 1));
        ++places[bucket[i] + 1];
    }
    std::size_t used = 0;
    for (; used < buckets && places[used] < k; ++used) places[used + 1] += places[used];
    std::vector<Hit> sorted(places[used]);
    for (std::size_t i = 0; i < hits.size(); ++i)  // places[b] moves from the bucket's start to its end
        if (bucket[i] < used) sorted[places[bucket[i]]++] = hits[i];
    // Buckets are in order, most hold one hit or none: what is left is few steps of insertion. Many hits
    // in one bucket are sorted first.
    std::size_t first = 0;
    for (std::size_t b = 0; b < used; ++b) {
        if (places[b] - first > kCrowd)
            std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(first),
                      sorted.begin() + static_cast<std::ptrdiff_t>(places[b]), kBetter);
        first = places[b];
    }
    for (std::size_t i = 1; i < sorted.size(); ++i) {
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
