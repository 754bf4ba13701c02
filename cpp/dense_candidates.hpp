// Rows that one query's screen could not exclude, with bounds on their scores. When the collection is full it
// is cut: the k-th best lower bound becomes the threshold, and what lies wholly below it goes. It grows when
// the bounds cannot decide, up to `most`; beyond that it gives up, and the query is scanned plainly.
//
// Bounds lie in arrays of their own, so that a kernel writes sixteen at a time and a cut reads only what it
// compares. Rows that are given in ascending order stay so.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernels.hpp"

namespace gnomon {

// What selecting takes: the level's kernel and memory that is used again.
struct Selection {
    const Kernels* kernels;
    std::vector<std::int32_t> keys;

    // A threshold that at least k of the n values reach, and hardly more than k: 1 <= k <= n, none is NaN.
    float kth_greatest(const float* values, std::size_t n, std::size_t k) {
        keys.resize(n);
        return kernels->screen_kth(values, n, k, keys.data());
    }
};

class Candidates {
  public:
    Candidates(std::size_t k, std::size_t most, float threshold)
        : k_(k),
          most_(most),
          room_(k > SIZE_MAX / 4 ? most : std::max(2 * k, k + 64)),
          threshold_(threshold) {
        room_ = std::min(room_, most_);
        reserve(room_);
    }

    // A new candidate's upper bound has to reach this. It only rises.
    float threshold() const { return threshold_; }
    void raise(float threshold) { threshold_ = std::max(threshold_, threshold); }
    bool gave_up() const { return gave_up_; }

    // Where a kernel writes up to kPanelRows more, before grow() counts them in.
    float* lower_end() { return lower_.data() + size_; }
    float* upper_end() { return upper_.data() + size_; }
    std::uint32_t* rows_end() { return rows_.data() + size_; }

    // How many of the n candidates behind the end reach the threshold: they are moved to the front.
    std::size_t reaching(std::size_t n) {
        std::size_t kept = size_;
        for (std::size_t i = size_; i < size_ + n; ++i) {
            lower_[kept] = lower_[i];
            upper_[kept] = upper_[i];
            rows_[kept] = rows_[i];
            kept += static_cast<std::size_t>(!(upper_[i] < threshold_));
        }
        return kept - size_;
    }

    // Says whether the threshold rose, or the collection gave up.
    bool grow(std::size_t n, Selection& selection) {
        size_ += n;
        return size_ >= room_ && cut(selection);
    }

    bool cut(Selection& selection) {
        const float before = threshold_;
        if (size_ >= k_) {
            raise(selection.kth_greatest(lower_.data(), size_, k_));
            drop();
        }
        if (size_ > most_) {
            give_up();
        } else if (size_ * 4 > room_ * 3) {
            room_ *= 2;
            reserve(room_);
        }
        return threshold_ > before || gave_up_;
    }

    // How many surely reach the threshold.
    std::size_t proved() const {
        return static_cast<std::size_t>(std::count_if(lower_.begin(),
                                                      lower_.begin() + static_cast<std::ptrdiff_t>(size_),
                                                      [this](float lower) { return lower >= threshold_; }));
    }

    void append(const Candidates& other) {
        reserve(size_ + other.size_);
        std::copy_n(other.lower_.begin(), other.size_, lower_.begin() + static_cast<std::ptrdiff_t>(size_));
        std::copy_n(other.upper_.begin(), other.size_, upper_.begin() + static_cast<std::ptrdiff_t>(size_));
        std::copy_n(other.rows_.begin(), other.size_, rows_.begin() + static_cast<std::ptrdiff_t>(size_));
        size_ += other.size_;
        gave_up_ = gave_up_ || other.gave_up_;
        raise(other.threshold_);
    }

    // Drops what lies wholly below the threshold.
    void drop() {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < size_; ++i) {
            lower_[kept] = lower_[i];
            upper_[kept] = upper_[i];
            rows_[kept] = rows_[i];
            kept += static_cast<std::size_t>(!(upper_[i] < threshold_));
        }
        size_ = kept;
    }

    // The arrays themselves, [size()]; the collection is empty afterwards.
    void release(std::vector<std::uint32_t>& rows, std::vector<float>& upper) {
        rows_.resize(size_);
        upper_.resize(size_);
        rows = std::move(rows_);
        upper = std::move(upper_);
        size_ = 0;
    }

    std::size_t size() const { return size_; }
    const float* upper() const { return upper_.data(); }
    const float* lower() const { return lower_.data(); }
    const std::uint32_t* rows() const { return rows_.data(); }

  private:
    void give_up() {
        gave_up_ = true;
        size_ = 0;
        lower_ = {};
        upper_ = {};
        rows_ = {};
    }
    void reserve(std::size_t n) {
        constexpr std::size_t kSpare = kPanelRows + 16;
        if (lower_.size() >= n + kSpare) return;
        lower_.resize(n + kSpare);
        upper_.resize(n + kSpare);
        rows_.resize(n + kSpare);
    }

    std::size_t k_;
    std::size_t most_;
    std::size_t room_;
    std::size_t size_ = 0;
    float threshold_;
    bool gave_up_ = false;
    std::vector<float> lower_;
    std::vector<float> upper_;
    std::vector<std::uint32_t> rows_;
};

}  // namespace gnomon
