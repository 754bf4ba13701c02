// The screen's weights of a batch, and the limits that make it certain (bm25.cuh).
#include <cmath>
#include <limits>

#include "bm25_work.hpp"

namespace gnomon::cuda {

// As Screened of cpp/bm25_prepare.cpp, but for occurrences in the place of terms: the device adds those.
Bm25Corpus::Scaled Bm25Corpus::scaled(const Bm25Batch& batch) const {
    const std::size_t n = batch.starts.size() - 1;
    Scaled out;
    out.weights.assign(batch.slots.size(), 0.0F);
    out.scales.assign(n, 0.0);
    out.absent_sums.assign(n, 0.0);
    out.relatives.assign(n, 0.0);
    out.slacks.assign(n, 0.0);
    for (std::size_t q = 0; q < n; ++q) {
        const auto first = static_cast<std::size_t>(batch.starts[q]);
        const auto last = static_cast<std::size_t>(batch.starts[q + 1]);
        double scale = 0.0;
        double absent = 0.0;
        bool ok = last > first && last - first <= kTermsMost;
        std::vector<float> least(last - first, std::numeric_limits<float>::infinity());
        for (std::size_t o = first; o < last; ++o) {
            float greatest = 0.0F;
            for (const Segment& segment : segments_) {
                const std::int32_t term =
                    batch.terms[segment.number][static_cast<std::size_t>(batch.slots[o])];
                if (term < 0) continue;
                const float most = segment.greatest[static_cast<std::size_t>(term)];
                if (!(most <= greatest)) greatest = most;  // NaN stays
                least[o - first] = std::min(least[o - first], segment.least[static_cast<std::size_t>(term)]);
            }
            ok = ok && batch.weights[o] > 0.0 && std::isfinite(greatest);
            scale += batch.weights[o] * static_cast<double>(greatest);
            absent += std::fabs(batch.absents[o]);
            out.absent_sums[q] += batch.absents[o];
        }
        ok = ok && scale > 0.0 && std::isfinite(scale);
        const auto terms = static_cast<double>(last - first);
        const double slack = (terms + 8.0) * 0x1p-50 * (1.0 + absent / scale);
        ok = ok && std::isfinite(slack);
        for (std::size_t o = first; ok && o < last; ++o)
            ok = static_cast<double>(static_cast<float>(batch.weights[o] / scale)) *
                     static_cast<double>(least[o - first]) >=
                 1e-30;
        if (!ok) continue;
        for (std::size_t o = first; o < last; ++o)
            out.weights[o] = static_cast<float>(batch.weights[o] / scale);
        out.scales[q] = scale;
        out.relatives[q] = (terms + 6.0) * 0x1p-23;
        out.slacks[q] = slack;
    }
    return out;
}

}  // namespace gnomon::cuda
