#include "dense_screen.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "error.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float rounded_up(double value) {
    const float nearest = static_cast<float>(value);
    return static_cast<double>(nearest) < value ? std::nextafter(nearest, kInfinity) : nearest;
}

float rounded_down(double value) { return -rounded_up(-value); }

// The square root of a sum of squares that was itself rounded a few times.
double norm_above(double sum) { return std::sqrt(sum) * (1.0 + 1e-12); }

// 1 / |x| for cosine, so that codes are those of the direction; 1 otherwise, and for zero rows.
double unit(Metric metric, double square) {
    return metric == Metric::cosine && square > 0.0 ? 1.0 / std::sqrt(square) : 1.0;
}

int code_of(double value, double inverse_scale) {
    return static_cast<int>(std::lrint(std::clamp(value * inverse_scale, -127.0, 127.0)));
}

// On a border of 64 bytes, as sections of a file are: one load of the kernel then touches one cache line.
std::shared_ptr<std::uint8_t> aligned_bytes(std::size_t n) {
    constexpr std::align_val_t kLine{64};
    return {static_cast<std::uint8_t*>(::operator new(std::max<std::size_t>(n, 1), kLine)),
            [](std::uint8_t* bytes) { ::operator delete(bytes, kLine); }};
}

struct PanelBuffers {
    std::uint8_t* codes;
    float* scale;
    float* residuals;
    float* bounds;
};

void code_panel(Matrix rows, const double* squares, Metric metric, std::size_t first, std::size_t steps,
                PanelBuffers out) {
    const std::size_t n = std::min(kPanelRows, rows.rows - first);
    double greatest = 0.0;
    for (std::size_t r = 0; r < n; ++r) {
        const float* row = rows.data + (first + r) * rows.dim;
        float most = 0.0F;
        for (std::size_t d = 0; d < rows.dim; ++d) most = std::max(most, std::fabs(row[d]));
        greatest = std::max(greatest, static_cast<double>(most) * unit(metric, squares[first + r]));
    }
    // A float scale, so that the stored one is the one that was used; never zero or subnormal.
    const float scale = std::max(rounded_up(greatest / 127.0), std::numeric_limits<float>::min());
    const double inverse = 1.0 / static_cast<double>(scale);
    std::memset(out.codes, 128, steps * kPanelRows * 4);
    double worst = 0.0;
    double norm = 0.0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < n; ++r) {
        const float* row = rows.data + (first + r) * rows.dim;
        const double factor = unit(metric, squares[first + r]);
        double error = 0.0;
        for (std::size_t d = 0; d < rows.dim; ++d) {
            const double y = static_cast<double>(row[d]) * factor;
            const int code = code_of(y, inverse);
            const double rest = y - static_cast<double>(scale) * code;
            error += rest * rest;
            out.codes[((d / 4) * kPanelRows + r) * 4 + d % 4] = static_cast<std::uint8_t>(code + 128);
        }
        out.residuals[r] = rounded_up(norm_above(error));
        worst = std::max(worst, static_cast<double>(out.residuals[r]));
        norm = std::max(norm, metric == Metric::cosine ? 1.0 : norm_above(squares[first + r]));
        least = std::min(least, squares[first + r]);
    }
    *out.scale = scale;
    out.bounds[0] = rounded_up(worst);
    out.bounds[1] = rounded_up(norm);
    out.bounds[2] = rounded_down(least);
}

}  // namespace

bool DenseScreen::worthwhile(std::size_t rows, std::size_t dim) {
    return rows >= 512 && dim >= 16 && possible(dim);
}

DenseScreen DenseScreen::build(Matrix rows, const double* squares, Metric metric, std::size_t threads) {
    DenseScreen screen;
    screen.steps_ = (rows.dim + 3) / 4;
    const std::size_t panels = (rows.rows + kPanelRows - 1) / kPanelRows;
    const std::size_t bytes = panels * screen.steps_ * kPanelRows * 4;
    const std::shared_ptr<std::uint8_t> codes = aligned_bytes(bytes);
    std::vector<float> scales(panels);
    std::vector<float> residuals(panels * kPanelRows, 0.0F);
    std::vector<float> bounds(panels * 3);
    constexpr std::size_t kPanels = 16;
    parallel_for(thread_count(threads), (panels + kPanels - 1) / kPanels,
                 [&](std::size_t, std::size_t chunk) {
                     for (std::size_t p = chunk * kPanels; p < std::min(panels, (chunk + 1) * kPanels); ++p)
                         code_panel(rows, squares, metric, p * kPanelRows, screen.steps_,
                                    {codes.get() + p * screen.steps_ * kPanelRows * 4, &scales[p],
                                     residuals.data() + p * kPanelRows, bounds.data() + 3 * p});
                 });
    screen.codes_ = Column<std::uint8_t>::of(codes.get(), bytes, codes);
    screen.scales_ = Column<float>::of(std::move(scales));
    screen.residuals_ = Column<float>::of(std::move(residuals));
    screen.bounds_ = Column<float>::of(std::move(bounds));
    // Vectors near the end of float32 have norms beyond it: no bound, no screen.
    return screen.usable() ? screen : DenseScreen();
}

bool DenseScreen::usable() const {
    for (const float scale : scales_.span())
        if (!(scale > 0.0F) || !std::isfinite(scale)) return false;
    for (const float bound : bounds_.span())
        if (!(bound >= 0.0F) || !std::isfinite(bound)) return false;
    return true;
}

std::size_t DenseScreen::bytes() const {
    return codes_.size() + sizeof(float) * (scales_.size() + residuals_.size() + bounds_.size());
}

void DenseScreen::write(ContainerWriter& writer) const {
    writer.section("screen.codes", codes_.span());
    writer.section("screen.scales", scales_.span());
    writer.section("screen.residuals", residuals_.span());
    writer.section("screen.bounds", bounds_.span());
}

DenseScreen DenseScreen::open(const Container& container, std::size_t rows, std::size_t dim) {
    DenseScreen screen;
    screen.steps_ = (dim + 3) / 4;
    screen.codes_ = container.column<std::uint8_t>("screen.codes");
    screen.scales_ = container.column<float>("screen.scales");
    screen.residuals_ = container.column<float>("screen.residuals");
    screen.bounds_ = container.column<float>("screen.bounds");
    const std::size_t panels = (rows + kPanelRows - 1) / kPanelRows;
    if (!possible(dim) || screen.scales_.size() != panels ||
        screen.residuals_.size() != panels * kPanelRows || screen.bounds_.size() != 3 * panels ||
        screen.codes_.size() != panels * screen.steps_ * kPanelRows * 4)
        throw CorruptIndex(container.path() + ": the sections of the screen do not fit the vectors");
    screen.scales_.ensure_all();
    screen.bounds_.ensure_all();
    if (!screen.usable()) throw CorruptIndex(container.path() + ": the screen's bounds are not finite");
    return screen;
}

void DenseScreen::ensure_all() const {
    codes_.ensure_all();
    scales_.ensure_all();
    residuals_.ensure_all();
    bounds_.ensure_all();
}

bool DenseScreen::equals(const DenseScreen& other) const {
    const auto same = [](const auto& a, const auto& b) {
        return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.span().size_bytes()) == 0;
    };
    return steps_ == other.steps_ && same(codes_, other.codes_) && same(scales_, other.scales_) &&
           same(residuals_, other.residuals_) && same(bounds_, other.bounds_);
}

CodedQueries::CodedQueries(Matrix queries, const double* squares, Metric metric, std::size_t steps_)
    : steps(steps_),
      scale(queries.rows),
      inverse(queries.rows),
      norm(queries.rows),
      residual(queries.rows),
      square(squares, squares + queries.rows) {
    codes.assign(tiles() * steps * kTileQueries * 4, 0);
    init.assign(tiles() * kTileQueries, 0);
    for (std::size_t q = 0; q < queries.rows; ++q) {
        const float* query = queries.data + q * queries.dim;
        const double factor = unit(metric, squares[q]);
        double greatest = 0.0;
        for (std::size_t d = 0; d < queries.dim; ++d)
            greatest = std::max(greatest, std::fabs(static_cast<double>(query[d]) * factor));
        scale[q] = greatest > 0.0 ? greatest / 127.0 : 1.0;
        inverse[q] = 1.0 / scale[q];
        std::int8_t* const tile = codes.data() + (q / kTileQueries) * steps * kTileQueries * 4;
        double error = 0.0;
        std::int32_t sum = 0;
        for (std::size_t d = 0; d < queries.dim; ++d) {
            const double v = static_cast<double>(query[d]) * factor;
            const int code = code_of(v, inverse[q]);
            const double rest = v - scale[q] * code;
            error += rest * rest;
            sum += code;
            tile[((d / 4) * kTileQueries + q % kTileQueries) * 4 + d % 4] = static_cast<std::int8_t>(code);
        }
        init[q] = -128 * sum;
        residual[q] = norm_above(error);
        norm[q] = metric == Metric::cosine ? 1.0 + 1e-12 : norm_above(squares[q]);
    }
}

}  // namespace gnomon
