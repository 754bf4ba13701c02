// The self-check's share for the kernels of the dense screen: each against loops written out here.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dense_index.hpp"
#include "selfcheck.hpp"

using namespace gnomon;

namespace {

using Engine = std::mt19937;  // its numbers, unlike those of the distributions, are the same everywhere

std::int32_t code(Engine& engine) { return static_cast<std::int32_t>(engine() % 255) - 127; }

float value(Engine& engine) { return (static_cast<float>(engine() % 20001) - 10000.0F) / 8192.0F; }

void check_sums(const Kernels& kernels, Check& check) {
    Engine engine(7);
    bool holds = true;
    const std::size_t width = kernels.tile_queries;
    for (const std::size_t steps : {1, 3, 15, 16, 17, 40}) {
        for (const std::size_t head : {0, 16}) {
            if (head != 0 && head >= steps) continue;
            const ScreenShape shape{head, steps, steps, head == 0 ? 0 : 3, true};
            std::vector<std::uint8_t> panel(2 * steps * kPanelRows * 4);
            std::vector<std::int8_t> queries(steps * width * 4);
            for (auto& x : panel) x = static_cast<std::uint8_t>(code(engine) + 128);
            for (auto& x : queries) x = static_cast<std::int8_t>(code(engine));
            for (std::size_t n = 1; n <= width; ++n) {
                std::vector<std::int32_t> init(width), limits(width), acc(width * kPanelRows),
                    want(kPanelRows);
                std::vector<std::uint64_t> masks(width);
                for (auto& x : init) x = code(engine) * 1000;
                for (auto& x : limits) x = code(engine) * 5000;
                kernels.dense_screen(panel.data(), queries.data(), shape, init.data(), limits.data(), n,
                                     acc.data(), masks.data());
                for (std::size_t q = 0; q < n; ++q)
                    for (std::size_t r = 0; r < kPanelRows; ++r) {
                        std::int64_t sums[2] = {0, 0};
                        for (std::size_t s = 0; s < steps; ++s) {
                            const std::size_t place = width == kTileQueries ? s * width + q : q * steps + s;
                            for (std::size_t j = 0; j < 4; ++j)
                                sums[s < head ? 0 : 1] +=
                                    panel[(s * kPanelRows + r) * 4 + j] * queries[place * 4 + j];
                        }
                        const auto sum =
                            static_cast<std::int32_t>(init[q] + (sums[0] << shape.shift) + sums[1]);
                        holds = holds && acc[q * kPanelRows + r] == sum;
                        holds = holds && ((masks[q] >> r) & 1) == (sum >= limits[q] ? 1u : 0u);
                    }
            }
        }
    }
    check(std::string(kernels.level) + ": dense_screen, heads and rests, every count of queries", holds);
}

void check_limits(const Kernels& kernels, Check& check) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    Engine engine(11);
    bool holds = true;
    for (std::size_t n = 1; n <= 16; ++n) {
        std::vector<double> needed(n), norm(n), residual(n), tail(n), inverse(n);
        for (std::size_t q = 0; q < n; ++q) {
            const double edges[] = {-kInfinity, kInfinity, std::nan(""), 0.0, 1e300};
            needed[q] = q % 3 == 0 ? edges[engine() % 5] : static_cast<double>(value(engine));
            norm[q] = std::fabs(static_cast<double>(value(engine)));
            residual[q] = std::fabs(static_cast<double>(value(engine))) / 64;
            tail[q] = std::fabs(static_cast<double>(value(engine)));
            inverse[q] = 4096.0;
        }
        const PanelLimits panel{0.25, 0.01, 1.01, 0.5, 127.0};
        std::vector<std::int32_t> got(n);
        kernels.screen_limits(
            panel, {needed.data(), norm.data(), residual.data(), tail.data(), inverse.data()}, n, got.data());
        for (std::size_t q = 0; q < n; ++q) {
            const double wanted = needed[q] + panel.offset - norm[q] * panel.per_norm -
                                  residual[q] * panel.per_residual - tail[q] * panel.per_tail;
            double sum = wanted * panel.inverse * inverse[q];
            sum = std::isnan(sum) ? -2147483000.0 : std::clamp(sum, -2147483000.0, 2147483000.0);
            holds = holds && static_cast<double>(got[q]) == std::nearbyint(sum) - 1.0;
        }
    }
    check(std::string(kernels.level) + ": screen_limits, what is no number asks for every row", holds);
}

void check_take(const Kernels& kernels, Check& check) {
    Engine engine(13);
    bool holds = true;
    for (int round = 0; round < 200; ++round) {
        std::vector<std::int32_t> acc(kPanelRows);
        std::vector<float> residuals(kPanelRows), tails(kPanelRows);
        std::vector<double> squares(kPanelRows);
        for (auto& x : acc) x = code(engine) * 9999;
        for (auto& x : residuals) x = std::fabs(value(engine));
        for (auto& x : tails) x = std::fabs(value(engine));
        for (auto& x : squares) x = std::fabs(static_cast<double>(value(engine)));
        if (round % 5 == 0) residuals[3] = std::numeric_limits<float>::quiet_NaN();
        const std::uint64_t mask = (static_cast<std::uint64_t>(engine()) << 32 | engine()) &
                                   (round % 2 == 0 ? ~std::uint64_t{0} : 0xFFFF0000000000FFu);
        const TakeBounds bounds{value(engine), value(engine), 0.125F, 0.75F, 0.5F};
        const bool with_tails = round % 3 == 0, with_squares = round % 4 == 0;
        std::vector<float> lower(kPanelRows + 16), upper(kPanelRows + 16);
        std::vector<std::uint32_t> rows(kPanelRows + 16);
        const std::size_t n = kernels.screen_take(
            acc.data(), mask, bounds, residuals.data(), with_tails ? tails.data() : nullptr,
            with_squares ? squares.data() : nullptr, 640, lower.data(), upper.data(), rows.data());
        std::size_t i = 0;
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            if (((mask >> r) & 1) == 0) continue;
            float middle = bounds.scale * static_cast<float>(acc[r]);
            middle += bounds.base;
            if (with_squares) middle -= static_cast<float>(squares[r]);
            float width = bounds.fixed + bounds.slope * residuals[r];
            if (with_tails) width += bounds.tail_slope * tails[r];
            const bool number = width == width;
            const float low = number ? middle - width : -std::numeric_limits<float>::infinity();
            const float high = number ? middle + width : std::numeric_limits<float>::infinity();
            holds = holds && lower[i] == low && upper[i] == high && rows[i] == 640 + r;
            ++i;
        }
        holds = holds && n == i;
    }
    check(std::string(kernels.level) + ": screen_take", holds);
}

void check_code(const Kernels& kernels, Check& check) {
    Engine engine(17);
    bool holds = true;
    for (std::size_t dim = 0; dim <= 70; ++dim) {
        std::vector<float> x(dim);
        for (auto& y : x) y = value(engine);
        const double scale = 0.0078125 * 1.3, factor = 0.77;
        std::vector<std::int8_t> got(dim + 1, 99);
        const double error = kernels.screen_code(x.data(), dim, factor, scale, 1.0 / scale, got.data());
        double lane[8] = {};
        float most = 0.0F;
        for (std::size_t d = 0; d < dim; ++d) {
            const double y = static_cast<double>(x[d]) * factor;
            const double whole = std::nearbyint(std::clamp(y * (1.0 / scale), -127.0, 127.0));
            const double rest = y - scale * whole;
            lane[d % 8] += rest * rest;
            most = std::max(most, std::fabs(x[d]));
            holds = holds && got[d] == static_cast<std::int8_t>(whole);
        }
        const double want =
            ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        holds = holds && error == want && got[dim] == 99;
        holds = holds && kernels.screen_greatest(x.data(), dim) == most;
    }
    check(std::string(kernels.level) + ": screen_code and screen_greatest, dimensions 0..70", holds);
}

void check_tiles(const Kernels& kernels, Check& check) {
    Engine engine(19);
    bool holds = true;
    for (const std::size_t dim : {1, 7, 8, 9, 40, 129})
        for (const std::size_t n : {1, 5, 6, 7, 13}) {
            const std::size_t n_rows = 11, stride = 16;
            std::vector<double> queries(n * dim), got(n * stride), want(n * n_rows);
            std::vector<float> rows(n_rows * dim);
            for (auto& x : queries) x = static_cast<double>(value(engine));
            for (auto& x : rows) x = value(engine);
            for (const bool l2 : {false, true}) {
                (l2 ? kernels.dense_l2_tile : kernels.dense_dot_tile)(queries.data(), n, rows.data(), n_rows,
                                                                      dim, got.data(), stride);
                for (std::size_t q = 0; q < n; ++q) {
                    const Kernels& scalar = kernels_named("scalar");
                    (l2 ? scalar.dense_l2 : scalar.dense_dot)(&queries[q * dim], rows.data(), nullptr, n_rows,
                                                              dim, dim, &want[q * n_rows]);
                    holds = holds &&
                            std::memcmp(&got[q * stride], &want[q * n_rows], n_rows * sizeof(double)) == 0;
                }
            }
        }
    check(std::string(kernels.level) + ": tiles of dots and distances", holds);
}

// Tails row by row: untangled, a panel is one of dense_screen; tails after the head's sums give the whole
// sums.
void check_tails(const Kernels& kernels, Check& check) {
    Engine engine(29);
    bool holds = true;
    for (const std::size_t head : {16, 32})
        for (const std::size_t rest : {1, 2, 7, 16, 17, 32, 48}) {
            const std::size_t steps = head + rest, bytes = rest * 4;
            constexpr std::size_t kStep = kPanelRows * 4;
            std::vector<std::uint8_t> tangled(2 * steps * kStep), want(steps * kStep), got(steps * kStep);
            for (auto& x : tangled) x = static_cast<std::uint8_t>(1 + engine() % 255);
            std::copy_n(tangled.begin(), head * kStep, want.begin());
            const std::uint8_t* const tails = tangled.data() + head * kStep;
            std::vector<std::int8_t> query(bytes);
            for (auto& x : query) x = static_cast<std::int8_t>(static_cast<int>(engine() % 255) - 127);
            const std::uint64_t mask = (std::uint64_t{engine()} << 32 | engine()) & ~std::uint64_t{4};
            std::vector<std::int32_t> sums(kPanelRows), before(kPanelRows), expected(kPanelRows);
            for (std::size_t r = 0; r < kPanelRows; ++r) {
                before[r] = static_cast<std::int32_t>(engine() % 20001) - 10000;
                std::int32_t dot = 0;
                for (std::size_t i = 0; i < bytes; ++i) {
                    dot += static_cast<std::int32_t>(tails[r * bytes + i]) * query[i];
                    want[(head + i / 4) * kStep + r * 4 + i % 4] = tails[r * bytes + i];
                }
                expected[r] = ((mask >> r) & 1) != 0 ? before[r] * 8 - 77 + dot : before[r];
            }
            kernels.screen_untangle(tangled.data(), head, steps, got.data());
            sums = before;
            kernels.screen_tails(tails, bytes, mask, query.data(), 3, -77, sums.data());
            holds = holds && got == want && sums == expected;
            for (const std::int32_t limit : {INT32_MIN, -9000, 0, sums[5], INT32_MAX}) {
                std::uint64_t reach = 0;
                for (std::size_t r = 0; r < kPanelRows; ++r)
                    reach |= static_cast<std::uint64_t>(sums[r] >= limit ? 1 : 0) << r;
                holds = holds && kernels.screen_reach(sums.data(), limit) == reach;
            }
        }
    check(std::string(kernels.level) + ": screen_untangle, screen_tails and screen_reach", holds);
}

// Float32 dots lie within their bound.
void check_float_dots(const Kernels& kernels, Check& check) {
    Engine engine(21);
    bool float_holds = true;
    for (const std::size_t dim : {1, 7, 8, 9, 15, 16, 17, 40, 129})
        for (const std::size_t n : {1, 2, 3, 4, 5, 6, 7, 13}) {
            const std::size_t n_rows = 11, stride = 16;
            std::vector<float> queries(n * dim), rows(n_rows * dim), got(n * stride);
            for (auto& x : queries) x = value(engine);
            for (auto& x : rows) x = value(engine);
            const std::vector<double> wide(rows.begin(), rows.end());
            kernels.dense_float(queries.data(), n, rows.data(), n_rows, dim, got.data(), stride);
            for (std::size_t q = 0; q < n; ++q) {
                const std::vector<double> query(&queries[q * dim], &queries[q * dim] + dim);
                for (std::size_t r = 0; r < n_rows; ++r) {
                    double exact = 0.0;
                    double magnitude = 0.0;
                    for (std::size_t d = 0; d < dim; ++d) {
                        const double term = query[d] * wide[r * dim + d];
                        exact += term;
                        magnitude += std::fabs(term);
                    }
                    const double roundings = static_cast<double>(dim) / 4 + 8;
                    float_holds =
                        float_holds && std::fabs(static_cast<double>(got[q * stride + r]) - exact) <=
                                           1.01 * roundings * std::ldexp(magnitude, -24);
                }
            }
        }
    check(std::string(kernels.level) + ": float32 dots within their bound", float_holds);
}

// Float64 dots have the bits of the written order, and a quick code's rest lies within its bound.
void check_float64_and_quick_codes(const Kernels& kernels, Check& check) {
    Engine engine(22);
    bool bits = true;
    bool bounded = true;
    for (const std::size_t dim : {1, 7, 8, 9, 15, 16, 17, 40, 129}) {
        const std::size_t n = 7;
        std::vector<double> query(dim), rows(n * dim), factors(n), got(n);
        for (auto& x : query) x = static_cast<double>(value(engine)) / 3;
        for (auto& x : rows) x = static_cast<double>(value(engine)) / 7;
        for (auto& x : factors) x = static_cast<double>(value(engine)) / 11;
        const std::vector<std::uint32_t> ids = {6, 0, 3, 3, 5, 1, 2};
        for (const bool l2 : {false, true}) {
            (l2 ? kernels.dense_l2_64 : kernels.dense_dot_64)(query.data(), rows.data(), factors.data(),
                                                              ids.data(), n, dim, got.data());
            for (std::size_t i = 0; i < n; ++i) {
                double lane[8] = {};
                for (std::size_t d = 0; d < dim; ++d) {
                    const double x = rows[ids[i] * dim + d];
                    const double y = l2 ? x - query[d] : x * factors[ids[i]];
                    lane[d % 8] += y * (l2 ? y : query[d]);
                }
                bits = bits && got[i] == ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                                             ((lane[1] + lane[5]) + (lane[3] + lane[7]));
            }
        }
        std::vector<float> row(dim);
        std::vector<std::uint8_t> codes(dim);
        float greatest = 0.0F;
        double norm = 0.0;
        for (auto& x : row) x = value(engine);
        for (const float x : row) {
            greatest = std::max(greatest, std::fabs(x));
            norm += static_cast<double>(x) * static_cast<double>(x);
        }
        const float factor = 0.3F;
        const float scale = greatest * factor * 1.000001F / 127.0F;
        const float sum = kernels.screen_quick(row.data(), dim, factor, scale, 1.0F / scale, codes.data());
        double rest = 0.0;
        for (std::size_t d = 0; d < dim; ++d) {
            const double y = static_cast<double>(row[d] * factor);
            const double error = y - static_cast<double>(scale) * (static_cast<double>(codes[d]) - 128.0);
            bounded = bounded && std::fabs(error) <= static_cast<double>(scale) * 0.501;
            rest += error * error;
        }
        const double wide = 1.0 + (static_cast<double>(dim) / 16 + 16) * std::ldexp(1.0, -23);
        bounded = bounded && std::sqrt(rest) <= std::sqrt(static_cast<double>(sum)) * wide +
                                                    std::sqrt(norm) * 0.3 * std::ldexp(1.0, -22);
    }
    check(std::string(kernels.level) + ": float64 dots", bits);
    check(std::string(kernels.level) + ": quick codes within their bound", bounded);
}

// Every way to search, with threads, gives what the plain scan of one thread gives at the portable level.
void check_searches(const Kernels& kernels, Check& check) {
    Engine engine(23);
    const std::size_t n = 2000, dim = 144, n_queries = 19;
    std::vector<float> rows(n * dim), queries(n_queries * dim);
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = value(engine) / static_cast<float>(1 + i % dim);  // variance in few dims
    for (std::size_t i = 0; i < queries.size(); ++i)
        queries[i] = value(engine) / static_cast<float>(1 + i % dim);
    std::copy_n(rows.begin(), dim, rows.end() - static_cast<std::ptrdiff_t>(dim));
    std::copy_n(rows.begin(), dim, queries.begin());
    std::vector<std::uint64_t> allowed((n + 63) / 64);
    for (auto& word : allowed) word = static_cast<std::uint64_t>(engine()) << 32 | engine();
    for (const Metric metric : {Metric::cosine, Metric::ip, Metric::l2}) {
        const DenseIndex index(Column<float>::of(rows), n, dim, metric, OnZero::score_zero, ScreenUse::heads,
                               2, kernels);
        bool holds = true;
        for (const std::size_t k : {1, 10, 300})
            for (const bool filtered : {false, true}) {
                const DenseWanted wanted{k, metric == Metric::cosine ? -0.5 : -1e30,
                                         filtered ? allowed.data() : nullptr};
                DenseStats stats;
                const Matrix matrix{queries.data(), n_queries, dim};
                const auto want = index.search(matrix, wanted, OnZero::score_zero, ScreenUse::never, 1,
                                               kernels_named("scalar"), stats);
                for (const ScreenUse use : {ScreenUse::whole, ScreenUse::heads, ScreenUse::floats,
                                            ScreenUse::automatic, ScreenUse::never})
                    for (const std::size_t threads : {1, 3}) {
                        const auto got =
                            index.search(matrix, wanted, OnZero::score_zero, use, threads, kernels, stats);
                        for (std::size_t q = 0; q < n_queries; ++q)
                            holds =
                                holds && std::equal(got[q].begin(), got[q].end(), want[q].begin(),
                                                    want[q].end(), [](const Hit& a, const Hit& b) {
                                                        return a.position == b.position && a.score == b.score;
                                                    });
                    }
                holds = holds && stats.heads > 0;
            }
        check(std::string(kernels.level) + ": screens, filters and threads by " +
                  std::string(metric_name(metric)),
              holds);
    }
}

}  // namespace

void check_dense_screen(const Kernels& kernels, Check& check) {
    check_sums(kernels, check);
    check_limits(kernels, check);
    check_take(kernels, check);
    check_code(kernels, check);
    check_tiles(kernels, check);
    check_tails(kernels, check);
    check_float_dots(kernels, check);
    check_float64_and_quick_codes(kernels, check);
    check_searches(kernels, check);
}
