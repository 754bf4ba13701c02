// Which way a search goes where several are likely: the one that took the least time on this index and this
// machine. Whether a screen pays depends on k, on the batch, on the processor and on the data (bounds that
// decide nothing make a screen an addition to the scan), and answers do not depend on it, so it is measured:
// the first queries of a kind are searched each way three times, at most 64 at a time, and the least time
// wins. The float32 screen is tried only where the int8 screen lost to the plain scan, or is not there.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gnomon {

enum class Way : std::uint8_t { screen, plain, floats };

class DensePlanner {
  public:
    static constexpr std::size_t kTrial = 64;  // queries
    struct Next {
        Way way;
        bool trial;
    };

    // The way of the next queries of a kind. `screened`: whether there is an int8 screen.
    Next next(std::size_t k, std::size_t queries, bool screened) const {
        const Kind& kind = kinds_[place(k, queries)];
        if (screened && kind.tries[0].load(std::memory_order_relaxed) < kTries) return {Way::screen, true};
        if (kind.tries[1].load(std::memory_order_relaxed) < kTries) return {Way::plain, true};
        const std::uint64_t screen = screened ? kind.time(0) : UINT64_MAX;
        const std::uint64_t plain = kind.time(1);
        if (screen <= plain) return {Way::screen, false};
        if (kind.tries[2].load(std::memory_order_relaxed) < kTries) return {Way::floats, true};
        return {kind.time(2) < plain ? Way::floats : Way::plain, false};
    }

    // Two threads may both try: the least of all times stands.
    void record(std::size_t k, std::size_t queries, Way way, std::uint64_t nanoseconds) const {
        Kind& kind = kinds_[place(k, queries)];
        const auto number = static_cast<std::size_t>(way);
        std::atomic<std::uint64_t>& least = kind.least[number];
        const std::uint64_t time = nanoseconds + 1;  // 0: none yet
        std::uint64_t known = least.load(std::memory_order_relaxed);
        while ((known == 0 || time < known) &&
               !least.compare_exchange_weak(known, time, std::memory_order_relaxed)) {
        }
        kind.tries[number].fetch_add(1, std::memory_order_relaxed);
    }

  private:
    static constexpr std::uint32_t kTries = 3;
    static constexpr std::size_t kSizes = 6;
    struct Kind {
        std::array<std::atomic<std::uint64_t>, 3> least{};  // nanoseconds a query
        std::array<std::atomic<std::uint32_t>, 3> tries{};

        std::uint64_t time(std::size_t way) const { return least[way].load(std::memory_order_relaxed); }
    };

    // k below 4, 32, 256, 2,048, 16,384 or more; one query, a few, some tiles of them, many.
    static std::size_t place(std::size_t k, std::size_t queries) {
        const auto size = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(k)) / 3, kSizes - 1);
        const std::size_t batch = queries < 2 ? 0 : queries < 6 ? 1 : queries < 32 ? 2 : 3;
        return size * 4 + batch;
    }

    mutable std::array<Kind, kSizes * 4> kinds_;
};

}  // namespace gnomon
