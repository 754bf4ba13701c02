#include "dense_rotation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr std::size_t kLeastRows = 32768;  // below, whole codes are read as fast
constexpr std::size_t kLeastDim = 128;
constexpr std::size_t kMostDim = 1024;  // finding a rotation takes dim^3
constexpr std::size_t kSample = 4096;
constexpr std::size_t kQueries = 16;
constexpr std::size_t kIterations = 6;

using Wide = std::vector<double>;  // a matrix in float64
using Narrow = std::vector<float>;

Narrow narrow(const Wide& values) {
    Narrow out(values.size());
    std::transform(values.begin(), values.end(), out.begin(), [](double x) { return static_cast<float>(x); });
    return out;
}

Wide wide(const Narrow& values) { return {values.begin(), values.end()}; }

Narrow transposed(const Narrow& matrix, std::size_t rows, std::size_t columns) {
    Narrow out(matrix.size());
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = matrix[r * columns + c];
    return out;
}

// left [n, dim] times the transpose of right [m, dim].
Wide product(const Wide& left, std::size_t n, const Narrow& right, std::size_t m, std::size_t dim,
             std::size_t threads, const Kernels& kernels) {
    constexpr std::size_t kBand = 48;
    Wide out(n * m);
    parallel_for(thread_count(threads), (n + kBand - 1) / kBand, [&](std::size_t, std::size_t band) {
        const std::size_t first = band * kBand;
        constexpr std::size_t kBlock = 64;
        for (std::size_t row = 0; row < m; row += kBlock)
            kernels.dense_dot_tile(left.data() + first * dim, std::min(kBand, n - first),
                                   right.data() + row * dim, std::min(kBlock, m - row), dim,
                                   out.data() + first * m + row, m);
    });
    return out;
}

// A fixed sequence; the sum of twelve uniform numbers is near enough to normal.
class Random {
  public:
    double normal() {
        double sum = -6.0;
        for (int i = 0; i < 12; ++i) {
            state_ = state_ * 6364136223846793005u + 1442695040888963407u;
            sum += static_cast<double>(state_ >> 40) / 16777216.0;
        }
        return sum;
    }

  private:
    std::uint64_t state_ = 88172645463325252u;
};

// Gram-Schmidt over the rows of a square matrix, `passes` times each; what depends on the rows before it is
// replaced by a random direction.
Narrow orthonormal(const Wide& matrix, std::size_t dim, int passes, const Kernels& kernels) {
    Narrow rows(dim * dim);
    Narrow columns(dim * dim, 0.0F);  // its transpose
    Random random;
    Wide along(dim);
    Wide sum(dim);
    for (std::size_t i = 0; i < dim; ++i) {
        Wide vector(matrix.begin() + static_cast<std::ptrdiff_t>(i * dim),
                    matrix.begin() + static_cast<std::ptrdiff_t>((i + 1) * dim));
        double before = 0.0;
        for (const double x : vector) before += x * x;
        for (int tries = 0;; ++tries) {
            for (int pass = 0; i > 0 && pass < std::max(passes, tries); ++pass) {
                kernels.dense_dot(vector.data(), rows.data(), nullptr, i, dim, dim, along.data());
                kernels.dense_dot(along.data(), columns.data(), nullptr, dim, dim, i, sum.data());
                for (std::size_t d = 0; d < dim; ++d) vector[d] -= sum[d];
            }
            double square = 0.0;
            for (const double x : vector) square += x * x;
            if (square > 1e-10 * before && square > 0.0) {
                const double factor = 1.0 / std::sqrt(square);
                for (double& x : vector) x *= factor;
                break;
            }
            for (double& x : vector) x = random.normal();
            before = static_cast<double>(dim);
        }
        for (std::size_t d = 0; d < dim; ++d) {
            rows[i * dim + d] = static_cast<float>(vector[d]);
            columns[d * dim + i] = static_cast<float>(vector[d]);
        }
    }
    return rows;
}

Narrow random_orthonormal(std::size_t dim, const Kernels& kernels) {
    Random random;
    Wide matrix(dim * dim);
    for (double& x : matrix) x = random.normal();
    return orthonormal(matrix, dim, 2, kernels);
}

// Rows evenly spaced, as the screen codes them.
Narrow sampled(Matrix rows, const double* squares, Metric metric, std::size_t n) {
    Narrow out(n * rows.dim);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t row = i * rows.rows / n;
        const double square = squares[row];
        const double factor = metric == Metric::cosine && square > 0.0 ? 1.0 / std::sqrt(square) : 1.0;
        for (std::size_t d = 0; d < rows.dim; ++d)
            out[i * rows.dim + d] =
                static_cast<float>(static_cast<double>(rows.data[row * rows.dim + d]) * factor);
    }
    return out;
}

// The rows' directions of greatest variance about the origin, greatest first.
Narrow principal_axes(const Narrow& sample, std::size_t n, std::size_t dim, std::size_t threads,
                      const Kernels& kernels) {
    const Narrow columns = transposed(sample, n, dim);
    Wide moments = product(wide(columns), dim, columns, dim, n, threads, kernels);
    double most = 0.0;
    for (const double x : moments) most = std::max(most, std::fabs(x));
    if (most > 0.0)
        for (double& x : moments) x /= most;
    const Narrow symmetric = narrow(moments);
    Narrow axes;
    Wide next = moments;
    for (std::size_t round = 0; round < kIterations; ++round) {
        axes = orthonormal(next, dim, round + 1 == kIterations ? 2 : 1, kernels);
        next = product(wide(axes), dim, symmetric, dim, dim, threads, kernels);
    }
    std::vector<double> energy(dim, 0.0);
    for (std::size_t i = 0; i < dim; ++i)
        for (std::size_t d = 0; d < dim; ++d)
            energy[i] += next[i * dim + d] * static_cast<double>(axes[i * dim + d]);
    std::vector<std::size_t> order(dim);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return energy[a] > energy[b]; });
    Narrow sorted(dim * dim);
    for (std::size_t i = 0; i < dim; ++i)
        std::copy_n(axes.begin() + static_cast<std::ptrdiff_t>(order[i] * dim), dim,
                    sorted.begin() + static_cast<std::ptrdiff_t>(i * dim));
    return sorted;
}

// Projections of the sample on the axes, by row.
struct Projected {
    Wide values;  // [n, dim]
    std::size_t n;
    std::size_t dim;

    double tail(std::size_t row, std::size_t head) const {
        double square = 0.0;
        for (std::size_t d = head; d < dim; ++d) square += values[row * dim + d] * values[row * dim + d];
        return std::sqrt(square);
    }
};

// The share of rows that a head of this length leaves at typical thresholds of sampled queries.
double survivors(const Projected& sample, const std::vector<double>& thresholds, Metric metric,
                 std::size_t head) {
    constexpr double kCodes = 0.012;  // what int8 codes add to the bound
    std::vector<double> tails(sample.n);
    std::vector<double> norms(sample.n);
    for (std::size_t row = 0; row < sample.n; ++row) {
        tails[row] = sample.tail(row, head);
        norms[row] = sample.tail(row, 0);
    }
    std::size_t left = 0;
    for (std::size_t i = 0; i < thresholds.size(); ++i) {
        const std::size_t query = i * sample.n / thresholds.size();
        for (std::size_t row = 0; row < sample.n; ++row) {
            double dot = 0.0;
            for (std::size_t d = 0; d < head; ++d)
                dot += sample.values[query * sample.dim + d] * sample.values[row * sample.dim + d];
            double needed = thresholds[i];
            if (metric == Metric::l2)
                needed = (needed + norms[row] * norms[row] + norms[query] * norms[query]) / 2;
            left += dot + tails[query] * tails[row] + kCodes * norms[query] * norms[row] >= needed ? 1 : 0;
        }
    }
    return static_cast<double>(left) / static_cast<double>(thresholds.size() * sample.n);
}

// In nanoseconds a row: codes at the memory's speed, the second pass over the sums, and a row that is left
// (50 were measured for its bounds and its tail; queries leave more rows than the sampled rows do).
std::size_t choose_head(const Projected& sample, const std::vector<double>& thresholds, Metric metric) {
    constexpr double kByte = 0.05;
    constexpr double kSecondPass = 0.3;
    constexpr double kLeft = 200.0;
    std::size_t chosen = 0;
    double least = 0.75 * kByte * static_cast<double>(sample.dim);
    for (std::size_t head = 64; head <= sample.dim / 2; head += 64) {
        const double cost = kByte * static_cast<double>(head) + kSecondPass +
                            kLeft * survivors(sample, thresholds, metric, head);
        if (cost < least) {
            least = cost;
            chosen = head;
        }
    }
    return chosen;
}

// What the k-th best score of a search may be, k about ten: that of evenly sampled rows as queries at rank
// 64, or one in a thousand rows, since a row lies nearer to its neighbours than a query does.
std::vector<double> typical_thresholds(Matrix rows, const double* squares, Metric metric, std::size_t threads,
                                       const Kernels& kernels) {
    const std::size_t spacing = kSample / kQueries;
    Narrow queries(kQueries * rows.dim);
    std::vector<double> own(kQueries);
    for (std::size_t i = 0; i < kQueries; ++i) {
        const std::size_t row = i * spacing * rows.rows / kSample;
        std::copy_n(rows.data + row * rows.dim, rows.dim, &queries[i * rows.dim]);
        own[i] = squares[row];
    }
    const auto best = dense_top_k(rows, squares, {queries.data(), kQueries, rows.dim}, own.data(), metric,
                                  {std::max<std::size_t>(64, rows.rows / 1000)}, threads, kernels);
    std::vector<double> thresholds(kQueries);
    for (std::size_t i = 0; i < kQueries; ++i) thresholds[i] = best[i].back().score;
    return thresholds;
}

bool representable(Matrix rows, const double* squares, Metric metric) {
    if (metric == Metric::cosine) return true;
    return std::all_of(squares, squares + rows.rows,
                       [](double square) { return square == 0.0 || (square > 1e-28 && square < 1e34); });
}

// Random rotations inside head and tail.
Narrow mixed(const Narrow& axes, std::size_t dim, std::size_t head, std::size_t threads,
             const Kernels& kernels) {
    Narrow out;
    for (const auto& [first, n] : {std::pair{std::size_t{0}, head}, std::pair{head, dim - head}}) {
        const Narrow part(axes.begin() + static_cast<std::ptrdiff_t>(first * dim),
                          axes.begin() + static_cast<std::ptrdiff_t>((first + n) * dim));
        const Narrow turned = narrow(product(wide(random_orthonormal(n, kernels)), n,
                                             transposed(part, n, dim), dim, n, threads, kernels));
        out.insert(out.end(), turned.begin(), turned.end());
    }
    return out;
}

// How many times smaller the tail's greatest coordinates are, in powers of two.
int tail_shift_of(const Wide& turned, std::size_t n, std::size_t dim, std::size_t head) {
    double head_sum = 0.0;
    double tail_sum = 0.0;
    for (std::size_t row = 0; row < n; ++row) {
        double most[2] = {0.0, 0.0};
        for (std::size_t d = 0; d < dim; ++d)
            most[d < head ? 0 : 1] = std::max(most[d < head ? 0 : 1], std::fabs(turned[row * dim + d]));
        head_sum += most[0];
        tail_sum += most[1];
    }
    int shift = 0;
    while (shift < 4 && tail_sum > 0.0 && head_sum >= 2.0 * tail_sum * std::ldexp(1.0, shift)) ++shift;
    while (shift > 0 && !Rotation::fits(dim, head, static_cast<std::size_t>(shift))) --shift;
    return shift;
}

}  // namespace

Rotation choose_rotation(Matrix rows, const double* squares, Metric metric, bool insist, std::size_t threads,
                         const Kernels& kernels) {
    const std::size_t dim = rows.dim;
    if ((rows.rows < kLeastRows && !insist) || rows.rows == 0 || dim < kLeastDim || dim > kMostDim ||
        !representable(rows, squares, metric))
        return {};
    const std::size_t n = std::min(kSample, rows.rows);
    const Narrow sample = sampled(rows, squares, metric, n);
    const Narrow axes = principal_axes(sample, n, dim, threads, kernels);
    const Projected projected{product(wide(sample), n, axes, dim, dim, threads, kernels), n, dim};
    std::size_t head = 0;
    if (n == kSample)
        head = choose_head(projected, typical_thresholds(rows, squares, metric, threads, kernels), metric);
    if (head == 0 && insist) head = dim / 2 / 64 * 64;
    if (head == 0) return {};
    Rotation rotation{dim, head, 0, 0.0, mixed(axes, dim, head, threads, kernels), {}};
    rotation.widen();
    const Wide turned = product(wide(sample), n, rotation.matrix, dim, dim, threads, kernels);
    rotation.tail_shift = tail_shift_of(turned, n, dim, head);
    rotation.slack = rotation_slack(rotation.matrix, dim, threads, kernels);
    return rotation.slack < 1e-4 ? rotation : Rotation();
}

// |v.y - (Rv).(Ry)| <= |R'R - I| |v| |y|, and R'R - I has the norm of RR' - I, at most its Frobenius norm F.
// Rounding Rv and Ry to float32 adds 2^-24 of each. Bounds use |v| and |y| where the rotated, rounded vectors
// would be exact: again F and 2^-24 of what they bound, twice.
double rotation_slack(const std::vector<float>& matrix, std::size_t dim, std::size_t threads,
                      const Kernels& kernels) {
    const Wide gram = product(wide(matrix), dim, matrix, dim, dim, threads, kernels);
    double square = 0.0;
    for (std::size_t i = 0; i < dim; ++i)
        for (std::size_t j = 0; j < dim; ++j) {
            const double rest = gram[i * dim + j] - (i == j ? 1.0 : 0.0);
            square += rest * rest;
        }
    return 3.0 * (std::sqrt(square) * (1.0 + 1e-9) + 1.3e-7);
}

void rotate_rows(const Rotation& rotation, Matrix rows, const double* factors, float* out,
                 const Kernels& kernels) {
    std::vector<double> turned(rows.dim * rows.rows);
    if (rows.rows < kTileQueries) {  // reads half the bytes of the matrix; a dot's products commute
        std::vector<double> row(rows.dim);
        std::vector<double> dots(rows.dim);
        for (std::size_t r = 0; r < rows.rows; ++r) {
            std::copy_n(rows.data + r * rows.dim, rows.dim, row.begin());
            kernels.dense_dot(row.data(), rotation.matrix.data(), nullptr, rows.dim, rows.dim, rows.dim,
                              dots.data());
            for (std::size_t d = 0; d < rows.dim; ++d) turned[d * rows.rows + r] = dots[d];
        }
    } else {
        kernels.dense_dot_tile(rotation.wide.data(), rows.dim, rows.data, rows.rows, rows.dim, turned.data(),
                               rows.rows);
    }
    for (std::size_t d = 0; d < rows.dim; ++d)
        for (std::size_t r = 0; r < rows.rows; ++r)
            out[r * rows.dim + d] = static_cast<float>(turned[d * rows.rows + r] * factors[r]);
}

}  // namespace gnomon
