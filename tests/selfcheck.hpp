// The parts of the self-check: each reports what it checked by `check(name, holds)`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "cpu.hpp"
#include "order.hpp"

using Check = void(const std::string& name, bool holds);

void check_bm25_kernels(const gnomon::Kernels& kernels, Check& check);
void check_bm25_index(const std::string& folder, Check& check);
void check_bm25_offsets(Check& check);
void check_bm25_threads(Check& check);
void check_dense_screen(const gnomon::Kernels& kernels, Check& check);

// The same numbers on every machine: the standard distributions are not.
class Random {
  public:
    std::uint32_t below(std::uint32_t bound) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>((state_ >> 33) % bound);
    }
    // Ties, both zeros, subnormals and both ends of the range are common, as they are in nobody's random
    // vectors.
    float value() {
        static constexpr float kEdges[] = {0.0f,    -0.0f,           1.0f,  -1.0f, 1e-45f,
                                           -3e-42f, 1.17549435e-38f, 3e38f, -3e38f};
        if (below(4) == 0) return kEdges[below(std::size(kEdges))];
        return (static_cast<float>(below(1u << 24)) - 8388608.0f) / 8388608.0f;
    }

  private:
    std::uint64_t state_ = 20240229;
};

inline bool same_bits(const double* a, const double* b, std::size_t n) {
    return n == 0 || std::memcmp(a, b, n * sizeof(double)) == 0;
}

inline bool same_hits(const std::vector<gnomon::Hit>& a, const std::vector<gnomon::Hit>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const gnomon::Hit& x, const gnomon::Hit& y) {
        return x.position == y.position && same_bits(&x.score, &y.score, 1);
    });
}

inline std::vector<gnomon::Hit> first_k(std::vector<gnomon::Hit> hits, std::size_t k) {
    std::sort(hits.begin(), hits.end(), gnomon::better);
    hits.resize(std::min(k, hits.size()));
    return hits;
}
