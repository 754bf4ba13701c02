// Settling: canonical float64 scores of the rows that a screen left.
//
// Many rows of many queries are taken by blocks of rows that stay in the second-level cache while every query
// takes its own from them; few are taken query by query. (Rows widened to float64 once for all queries were
// slower, 14.9 against 12.5 ms for 100 queries of 1,700 rows in 10,000: twice the bytes.) Where more rows are
// left than wanted, the k of greatest upper bound come first: their worst score then excludes most of the
// others.
#include <algorithm>
#include <cmath>

#include "dense_batch.hpp"
#include "parallel.hpp"
#include "topk.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kBlockBytes = 256 << 10;  // of rows that every query of a group visits
constexpr std::size_t kGroup = 64;              // queries that one thread takes at a time
constexpr std::size_t kDense = 3;               // rows of a query in a block that make blocks worthwhile

constexpr std::size_t kAtOnce = 64;             // roots and divisions
constexpr std::size_t kPrefetched = 8;          // rows that are asked for while as many are scored
constexpr std::size_t kCachedBytes = 32 << 20;  // of vectors that may lie in the last-level cache

struct Query {
    const double* values;
    const std::vector<std::uint32_t>* rows;
    std::vector<double> scores;
};

// A share of the next block into the second-level cache while this one is scored.
void fetch_rows(Matrix rows, std::size_t first, std::size_t last) {
    const char* byte = reinterpret_cast<const char*>(rows.data + first * rows.dim);
    const char* const end = reinterpret_cast<const char*>(rows.data + std::min(last, rows.rows) * rows.dim);
    for (; byte < end; byte += 64) __builtin_prefetch(byte, 0, 2);
}

void score_group(const ScreenBatch& batch, std::span<const std::size_t> numbers, std::vector<Query>& group) {
    std::size_t total = 0;
    for (Query& query : group) {
        query.scores.resize(query.rows->size());
        total += query.rows->size();
    }
    const std::size_t block =
        std::max<std::size_t>(8, kBlockBytes / std::max<std::size_t>(1, batch.rows.dim * sizeof(float)));
    const std::size_t blocks = (batch.rows.rows + block - 1) / block;
    const bool by_block =
        batch.exact == nullptr && group.size() > 1 && total >= kDense * blocks * group.size();
    if (!by_block) {
        for (std::size_t g = 0; g < group.size(); ++g)
            score_rows(batch, numbers[g], group[g].values, *group[g].rows, Reach::far,
                       group[g].scores.data());
        return;
    }
    std::vector<std::size_t> next(group.size(), 0);
    const std::size_t share = (block + group.size() - 1) / group.size();
    for (std::size_t end = block; end < batch.rows.rows + block; end += block)
        for (std::size_t g = 0; g < group.size(); ++g) {
            const std::vector<std::uint32_t>& rows = *group[g].rows;
            fetch_rows(batch.rows, end + g * share, std::min(end + (g + 1) * share, end + block));
            const std::size_t first = next[g];
            while (next[g] < rows.size() && rows[next[g]] < end) ++next[g];
            if (next[g] == first) continue;
            score_rows(batch, numbers[g], group[g].values, std::span(rows).subspan(first, next[g] - first),
                       Reach::near, group[g].scores.data() + first);
        }
}

void collect(const ScreenBatch& batch, const Query& query, Settled& settled) {
    settled.rows += query.rows->size();
    settled.hits.reserve(settled.hits.size() + query.scores.size());
    for (std::size_t i = 0; i < query.scores.size(); ++i) {
        const double score = query.scores[i];
        if (score != score) throw_not_a_number();
        if (score >= batch.wanted.min_score) settled.hits.push_back({score, (*query.rows)[i]});
    }
}

// The k rows of greatest upper bound, and hardly more, ascending.
std::vector<std::uint32_t> foremost(const Remaining& remaining, std::size_t k, const Kernels& kernels) {
    Selection selection{&kernels, {}};
    const float least = selection.kth_greatest(remaining.upper.data(), remaining.upper.size(), k);
    std::vector<std::uint32_t> rows(remaining.rows.size());
    std::size_t n = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[n] = remaining.rows[i];
        n += static_cast<std::size_t>(remaining.upper[i] >= least);
    }
    rows.resize(n);
    return rows;
}

// Those not among `done` that can reach the worst of the hits so far.
std::vector<std::uint32_t> others(const Remaining& remaining, const std::vector<std::uint32_t>& done,
                                  double worst) {
    std::vector<std::uint32_t> rows;
    auto next = done.begin();
    for (std::size_t i = 0; i < remaining.rows.size(); ++i) {
        while (next != done.end() && *next < remaining.rows[i]) ++next;
        const bool was_done = next != done.end() && *next == remaining.rows[i];
        if (!was_done && !(static_cast<double>(remaining.upper[i]) < worst))
            rows.push_back(remaining.rows[i]);
    }
    return rows;
}

void settle_group(const ScreenBatch& batch, std::span<const std::size_t> numbers, Remaining* remaining,
                  Settled* settled) {
    const std::size_t k = batch.k;
    const std::size_t dim = batch.rows.dim;
    const bool cached = batch.rows.rows * dim * sizeof(float) <= kCachedBytes;
    std::vector<Query> group(numbers.size());
    std::vector<double> values(numbers.size() * dim);
    std::vector<std::vector<std::uint32_t>> first(numbers.size());
    for (std::size_t g = 0; g < group.size(); ++g) {
        const float* const raw = batch.raw + numbers[g] * dim;
        std::copy(raw, raw + dim, values.begin() + static_cast<std::ptrdiff_t>(g * dim));
        group[g].values = values.data() + g * dim;
        // A second round costs a selection: it has to spare rows enough.
        const bool two_rounds = remaining[g].rows.size() > k + (cached ? k : k / 4) + 16;
        if (two_rounds) first[g] = foremost(remaining[g], k, batch.kernels);
        group[g].rows = two_rounds ? &first[g] : &remaining[g].rows;
    }
    score_group(batch, numbers, group);
    bool again = false;
    for (std::size_t g = 0; g < group.size(); ++g) {
        collect(batch, group[g], settled[g]);
        const bool two_rounds = group[g].rows == &first[g];
        group[g].scores.clear();
        if (!two_rounds) {
            remaining[g] = {};
        } else {
            const std::vector<Hit>& hits = settled[g].hits;
            double worst = hits.size() < k ? batch.wanted.min_score : hits[0].score;
            for (std::size_t i = 0; hits.size() >= k && i < hits.size(); ++i)
                worst = std::min(worst, hits[i].score);  // the worst of hardly more than k
            remaining[g].rows = others(remaining[g], first[g], batch.coded(worst));
            again = again || !remaining[g].rows.empty();
        }
        group[g].rows = &remaining[g].rows;
    }
    if (again) {
        score_group(batch, numbers, group);
        for (std::size_t g = 0; g < group.size(); ++g) collect(batch, group[g], settled[g]);
    }
    for (std::size_t g = 0; g < group.size(); ++g) keep_best(settled[g].hits, k);
}

}  // namespace

void score_rows(const ScreenBatch& batch, std::size_t q, const double* query,
                std::span<const std::uint32_t> rows, Reach reach, double* scores) {
    if (batch.exact != nullptr) {
        batch.exact->score(batch.numbers[q], rows, scores);
        return;
    }
    DenseDot* const kernel = batch.metric == Metric::l2 ? batch.kernels.dense_l2 : batch.kernels.dense_dot;
    const bool cosine = batch.metric == Metric::cosine;
    const std::size_t dim = batch.rows.dim;
    const std::size_t at_once = reach == Reach::far ? kPrefetched : kAtOnce;
    double squares[kAtOnce];
    if (reach == Reach::far) prefetch_rows(batch.rows, rows.first(std::min(at_once, rows.size())));
    for (std::size_t first = 0; first < rows.size(); first += at_once) {
        const auto part = rows.subspan(first, std::min(at_once, rows.size() - first));
        if (reach == Reach::far && first + at_once < rows.size())
            prefetch_rows(batch.rows,
                          rows.subspan(first + at_once, std::min(at_once, rows.size() - first - at_once)));
        kernel(query, batch.rows.data, part.data(), part.size(), dim, dim, scores + first);
        for (std::size_t i = 0; cosine && i < part.size(); ++i) squares[i] = batch.squares[part[i]];
        finish_scores(batch.metric, batch.queries.square[q], squares, part.size(), batch.kernels,
                      scores + first);
    }
}

std::vector<Settled> settle(const ScreenBatch& batch, std::span<const std::size_t> queries,
                            std::vector<Remaining> remaining) {
    std::vector<Settled> settled(queries.size());
    const std::size_t workers = thread_count(batch.threads);
    const std::size_t each = std::clamp<std::size_t>(queries.size() / workers, 1, kGroup);
    parallel_for(workers, (queries.size() + each - 1) / each, [&](std::size_t, std::size_t group) {
        const std::size_t first = group * each;
        const std::size_t n = std::min(each, queries.size() - first);
        settle_group(batch, queries.subspan(first, n), remaining.data() + first, settled.data() + first);
    });
    return settled;
}

}  // namespace gnomon
