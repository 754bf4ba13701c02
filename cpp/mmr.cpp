#include "mmr.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "error.hpp"

namespace gnomon {

std::vector<std::int64_t> mmr(const double* relevance, const double* similarity, std::size_t n,
                              std::size_t limit, double diversity, const Kernels& kernels) {
    if (!(diversity >= 0.0 && diversity <= 1.0))
        throw InvalidInput("invalid MMR inputs: diversity must lie between 0 and 1, got " +
                           std::to_string(diversity));
    for (std::size_t i = 0; i < n; ++i)
        if (!std::isfinite(relevance[i]))
            throw InvalidInput("invalid MMR inputs: query_score[" + std::to_string(i) + "] is not finite");
    for (std::size_t i = 0; i < n * n; ++i)
        if (!std::isfinite(similarity[i]))
            throw InvalidInput("invalid MMR inputs: pair_similarity[" + std::to_string(i / n) + ", " +
                               std::to_string(i % n) + "] is not finite");
    std::vector<std::int64_t> selected;
    limit = std::min(limit, n);
    if (limit == 0) return selected;
    selected.reserve(limit);
    std::vector<double> redundancy(n, -std::numeric_limits<double>::infinity());
    std::vector<double> column(n);
    std::vector<std::uint8_t> taken(n, 0);
    // max_element keeps the first of equals: the lower index.
    std::size_t choice = static_cast<std::size_t>(std::max_element(relevance, relevance + n) - relevance);
    for (;;) {
        taken[choice] = 1;
        selected.push_back(static_cast<std::int64_t>(choice));
        if (selected.size() == limit) return selected;
        // Column, not row: similarity[i, j] of candidate i to the selected j need not be symmetric.
        for (std::size_t i = 0; i < n; ++i) column[i] = similarity[i * n + choice];
        choice = kernels.mmr_step(relevance, column.data(), redundancy.data(), taken.data(), n, diversity);
    }
}

}  // namespace gnomon
