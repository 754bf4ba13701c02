// BM25 kernels, aarch64. There is no gather and no scatter; what is won is the division of two at once, and
// the passes over rows, sums and bounds.
#include <arm_neon.h>

#include "../bm25.hpp"
#include "bm25_blocks.hpp"
#include "kernels.hpp"

namespace gnomon::neon {

static float64x2_t pair_at(const double* values, std::uint32_t first, std::uint32_t second) noexcept {
    return vcombine_f64(vld1_f64(values + first), vld1_f64(values + second));
}

static bool any(uint32x4_t mask) noexcept { return vmaxvq_u32(mask) != 0; }

void bm25_add(const std::uint32_t* docs, const std::uint8_t* tfs, std::size_t n, std::uint32_t base,
              const double* norms, double idf, double k1_plus_1, double* scores) noexcept {
    const float64x2_t idfs = vdupq_n_f64(idf);
    const float64x2_t factor = vdupq_n_f64(k1_plus_1);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        std::uint32_t four;
        __builtin_memcpy(&four, tfs + i, sizeof four);
        const uint32x4_t counts = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
        const float64x2_t tf[2] = {vcvtq_f64_u64(vmovl_u32(vget_low_u32(counts))),
                                   vcvtq_f64_u64(vmovl_u32(vget_high_u32(counts)))};
        for (std::size_t half = 0; half < 2; ++half) {
            const std::uint32_t first = docs[i + 2 * half] - base;
            const std::uint32_t second = docs[i + 2 * half + 1] - base;
            const float64x2_t norm = vaddq_f64(tf[half], pair_at(norms, first, second));
            const float64x2_t weight = vdivq_f64(vmulq_f64(vmulq_f64(idfs, tf[half]), factor), norm);
            const float64x2_t sum = vaddq_f64(pair_at(scores, first, second), weight);
            vst1q_lane_f64(scores + first, sum, 0);
            vst1q_lane_f64(scores + second, sum, 1);
        }
    }
    for (; i < n; ++i) {
        const std::uint32_t offset = docs[i] - base;
        scores[offset] += bm25::weight(idf, static_cast<double>(tfs[i]), k1_plus_1, norms[offset]);
    }
}

static std::size_t select_each(const double* scores, std::size_t first, std::size_t last, double threshold,
                               std::uint32_t* out, std::size_t count) noexcept {
    for (std::size_t i = first; i < last; ++i) {
        std::uint64_t bits;
        __builtin_memcpy(&bits, scores + i, sizeof bits);
        if (scores[i] >= threshold && bits != 0x8000000000000000u)
            out[count++] = static_cast<std::uint32_t>(i);
    }
    return count;
}

std::size_t bm25_select(const double* scores, std::size_t n, double threshold, std::uint32_t* out) noexcept {
    const float64x2_t limit = vdupq_n_f64(threshold);
    const uint64x2_t untouched = vdupq_n_u64(0x8000000000000000u);
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64x2_t found = vdupq_n_u64(0);
        for (std::size_t half = 0; half < 2; ++half) {
            const float64x2_t two = vld1q_f64(scores + i + 2 * half);
            const uint64x2_t same = vceqq_u64(vreinterpretq_u64_f64(two), untouched);
            found = vorrq_u64(found, vbicq_u64(vcgeq_f64(two, limit), same));
        }
        if (any(vreinterpretq_u32_u64(found)))  // rare once the threshold has risen
            count = select_each(scores, i, i + 4, threshold, out, count);
    }
    return select_each(scores, i, n, threshold, out, count);
}

void bm25_row(const float* row, std::size_t n, float weight, float* sums) noexcept {
    const float32x4_t weights = vdupq_n_f32(weight);
    for (std::size_t i = 0; i < n; i += 4) {
        const float32x4_t parts = vmulq_f32(weights, vld1q_f32(row + i));  // no FMA: each operation rounded
        vst1q_f32(sums + i, vaddq_f32(vld1q_f32(sums + i), parts));
    }
}

// Looks at 16 sums at once: most hold none that is wanted.
std::size_t bm25_pick(float* sums, std::size_t n, float threshold, std::uint32_t* out,
                      float* out_sums) noexcept {
    const float32x4_t limit = vdupq_n_f32(threshold);
    const float32x4_t zero = vdupq_n_f32(0.0F);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 16) {
        uint32x4_t found = vdupq_n_u32(0);
        for (std::size_t part = 0; part < 16; part += 4) {
            const float32x4_t four = vld1q_f32(sums + i + part);
            found = vorrq_u32(found, vandq_u32(vcgeq_f32(four, limit), vcgtq_f32(four, zero)));
        }
        if (any(found)) {
            for (std::size_t at = i; at < i + 16; ++at) {
                out[count] = static_cast<std::uint32_t>(at);
                out_sums[count] = sums[at];
                count += static_cast<std::size_t>(sums[at] >= threshold && sums[at] > 0.0F);
            }
        }
        for (std::size_t part = 0; part < 16; part += 4) vst1q_f32(sums + i + part, zero);
    }
    return count;
}

void bm25_find(const std::uint32_t* list, const std::uint32_t* starts, const std::uint8_t* tfs,
               const std::uint32_t* docs, std::size_t n, double* out) noexcept {
    find_by_steps(list, starts, tfs, docs, n, out);
}

void bm25_settle(const double* tfs, const double* norms, std::size_t n, double idf, double k1_plus_1,
                 double* scores) noexcept {
    settle_each(tfs, norms, n, idf, k1_plus_1, scores);
}

void bm25_bound(const std::uint8_t* maxima, std::size_t n, std::uint16_t weight, bool add,
                std::uint16_t* bounds) noexcept {
    const uint16x8_t one = vdupq_n_u16(1);
    for (std::size_t i = 0; i < n; i += 8) {
        const uint16x8_t bytes = vmovl_u8(vld1_u8(maxima + i));
        const uint16x4_t low = vshrn_n_u32(vmull_n_u16(vget_low_u16(bytes), weight), 8);
        const uint16x4_t high = vshrn_n_u32(vmull_n_u16(vget_high_u16(bytes), weight), 8);
        uint16x8_t bound = vaddq_u16(vcombine_u16(low, high), one);
        if (add) bound = vaddq_u16(bound, vld1q_u16(bounds + i));
        vst1q_u16(bounds + i, bound);
    }
}

void bm25_levels(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t n_rows,
                 std::size_t n, std::uint16_t* sums) noexcept {
    for (std::size_t r = 0; r < n_rows; ++r) bm25_bound(rows[r], n, weights[r], r > 0, sums);
}

std::size_t bm25_blocks(const std::uint16_t* bounds, std::size_t n, std::uint16_t threshold,
                        std::uint32_t* out) noexcept {
    const uint16x8_t limit = vdupq_n_u16(threshold);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += 16) {
        const uint16x8_t found =
            vorrq_u16(vcgeq_u16(vld1q_u16(bounds + i), limit), vcgeq_u16(vld1q_u16(bounds + i + 8), limit));
        if (vmaxvq_u16(found) == 0) continue;
        for (std::size_t at = i; at < i + 16; ++at) {
            out[count] = static_cast<std::uint32_t>(at);
            count += static_cast<std::size_t>(bounds[at] >= threshold);
        }
    }
    return count;
}

std::size_t bm25_above(const float* impacts, std::size_t n, float least, std::uint32_t* out) noexcept {
    const float32x4_t limit = vdupq_n_f32(least);
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint32x4_t found = vdupq_n_u32(0);
        for (std::size_t part = 0; part < 16; part += 4)
            found = vorrq_u32(found, vcgeq_f32(vld1q_f32(impacts + i + part), limit));
        if (any(found)) count = above_each(impacts, i, i + 16, least, out, count);
    }
    return above_each(impacts, i, n, least, out, count);
}

}  // namespace gnomon::neon
