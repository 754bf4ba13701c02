#include "dense_screen.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "error.hpp"
#include "parallel.hpp"

namespace gnomon {
namespace {

constexpr double kQuickRounding = 1.0 / (1 << 22);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t kLayout = 2;  // of rotated panels in a file: tails row by row

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

// On a border of 64 bytes, as sections of a file are: one load of the kernel then touches one cache line.
// Large ones on huge pages, where the system has them: a scan then misses no address translation.
std::shared_ptr<std::uint8_t> aligned_bytes(std::size_t n) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    const std::align_val_t border{n >= 2 * kHuge ? kHuge : 64};
    const std::shared_ptr<std::uint8_t> bytes(
        static_cast<std::uint8_t*>(::operator new(std::max<std::size_t>(n, 1), border)),
        [border](std::uint8_t* first) { ::operator delete(first, border); });
#ifdef MADV_HUGEPAGE
    if (n >= 2 * kHuge) madvise(bytes.get(), n, MADV_HUGEPAGE);
#endif
    return bytes;
}

struct PanelBuffers {
    std::uint8_t* codes;
    float* scale;
    float* residuals;
    float* bounds;
    float* tails;  // null without a rotation
    float* greatest_tail;
};

// What is coded: values times factor, the rotated ones where there is a rotation.
struct Coding {
    const float* values;
    std::size_t dim;
    std::size_t head;  // dims; those behind it have the scale / 2^tail_shift
    int tail_shift;

    double greatest(std::size_t row, const Kernels& kernels) const {
        const float* const first = values + row * dim;
        const double head_most = static_cast<double>(kernels.screen_greatest(first, head));
        const double tail_most = static_cast<double>(kernels.screen_greatest(first + head, dim - head));
        return std::max(head_most, std::ldexp(tail_most, tail_shift));
    }
    // The sum of squared errors.
    double code(std::size_t row, double factor, double scale, std::int8_t* codes,
                const Kernels& kernels) const {
        const float* const first = values + row * dim;
        const double tail_scale = std::ldexp(scale, -tail_shift);
        return kernels.screen_code(first, head, factor, scale, 1.0 / scale, codes) +
               kernels.screen_code(first + head, dim - head, factor, tail_scale, 1.0 / tail_scale,
                                   codes + head);
    }
    double tail_norm(std::size_t row, const Kernels& kernels) const {
        double square = 0.0;
        kernels.dense_square(values + row * dim + head, 1, dim - head, dim - head, &square);
        return norm_above(square);
    }
};

// Codes d, d + 1, d + 2, d + 3 of a row lie together, those of the panel's next row behind them; the tail of
// a rotated row lies in one piece.
void scatter(const std::int8_t* codes, std::size_t head, std::size_t steps, std::size_t row,
             std::uint8_t* panel) {
    std::uint8_t* const tails = panel + head * kPanelRows * 4 + row * (steps - head) * 4;
    for (std::size_t s = 0; s < steps; ++s) {
        std::uint32_t word;
        std::memcpy(&word, codes + s * 4, 4);
        word ^= 0x80808080u;  // + 128 in each byte
        std::memcpy(s < head ? panel + (s * kPanelRows + row) * 4 : tails + (s - head) * 4, &word, 4);
    }
}

void code_panel(const Coding& coding, const double* squares, const double* factors, Metric metric,
                std::size_t n, std::size_t steps, const Kernels& kernels, PanelBuffers out) {
    double greatest = 0.0;
    for (std::size_t r = 0; r < n; ++r)
        greatest = std::max(greatest, coding.greatest(r, kernels) * factors[r]);
    // A float scale, so that the stored one is the one that was used; its tail's is never subnormal either.
    const float scale = std::max(rounded_up(greatest / 127.0), std::numeric_limits<float>::min());
    std::memset(out.codes, 128, steps * kPanelRows * 4);
    std::vector<std::int8_t> codes(steps * 4, 0);
    double worst = 0.0;
    double norm = 0.0;
    double tail = 0.0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < n; ++r) {
        const double error = coding.code(r, factors[r], static_cast<double>(scale), codes.data(), kernels);
        scatter(codes.data(), out.tails == nullptr ? steps : coding.head / 4, steps, r, out.codes);
        out.residuals[r] = rounded_up(norm_above(error));
        worst = std::max(worst, static_cast<double>(out.residuals[r]));
        norm = std::max(norm, metric == Metric::cosine ? 1.0 : norm_above(squares[r]));
        least = std::min(least, squares[r]);
        if (out.tails == nullptr) continue;
        out.tails[r] = rounded_up(coding.tail_norm(r, kernels) * factors[r]);
        tail = std::max(tail, static_cast<double>(out.tails[r]));
    }
    *out.scale = scale;
    out.bounds[0] = rounded_up(worst);
    out.bounds[1] = rounded_up(norm);
    out.bounds[2] = rounded_down(least);
    if (out.tails != nullptr) *out.greatest_tail = rounded_up(tail);
}

// code_panel in float32, u = 2^-24. The coded row is y = fl(f x) with f = fl(1 / |x|) for cosine, 1
// otherwise: |y - x / |x|| <= 2.02 u, which kQuickRounding covers. The rest of a component is y - a c with an
// error of at most u |a c| + u |rest| <= u |y| + 3 u |rest|, its square's sum in sixteen lanes errs by (D /
// 16 + 8) u of itself, and what underflows by sqrt(D) 2^-74 in the root: below u |y| / 4, as norms are at
// least 1e-12. So
//   |r| <= sqrt(sum) (1 + (D / 16 + 16) 2u) + 4 u |y|.
void quick_panel(Matrix part, const double* squares, Metric metric, std::size_t steps,
                 std::vector<std::uint8_t>& lines, const float* next, const Kernels& kernels,
                 PanelBuffers out) {
    constexpr double kLeast = 1e-24;
    constexpr double kMost = 1e36;
    float factors[kPanelRows];
    double greatest = 0.0;
    for (std::size_t r = 0; r < part.rows; ++r) {
        if (squares[r] != 0.0 && !(squares[r] >= kLeast && squares[r] <= kMost)) throw DenseScreen::Unfit();
        factors[r] = static_cast<float>(unit(metric, squares[r]));
        greatest = std::max(greatest,
                            static_cast<double>(kernels.screen_greatest(part.data + r * part.dim, part.dim)) *
                                static_cast<double>(factors[r]));
    }
    const float scale =
        std::max(rounded_up(greatest * (1.0 + 1e-6) / 127.0), std::numeric_limits<float>::min());
    lines.assign(steps * kPanelRows * 4, 128);
    const double wide = 1.0 + (static_cast<double>(part.dim) / 16 + 16) * std::ldexp(1.0, -23);
    double worst = 0.0;
    double norm = 0.0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < part.rows; ++r) {
        for (std::size_t d = 0; next != nullptr && d < part.dim; d += 16)
            __builtin_prefetch(next + r * part.dim + d, 0, 2);
        const float sum = kernels.screen_quick(part.data + r * part.dim, part.dim, factors[r], scale,
                                               1.0F / scale, lines.data() + r * steps * 4);
        const double own = metric == Metric::cosine ? 1.0 : norm_above(squares[r]);
        out.residuals[r] =
            rounded_up(std::sqrt(static_cast<double>(sum)) * wide + own * std::ldexp(1.0, -22));
        worst = std::max(worst, static_cast<double>(out.residuals[r]));
        norm = std::max(norm, own);
        least = std::min(least, squares[r]);
    }
    kernels.screen_untangle(lines.data(), 0, steps, out.codes);
    *out.scale = scale;
    out.bounds[0] = rounded_up(worst);
    out.bounds[1] = rounded_up(norm);
    out.bounds[2] = rounded_down(least);
}

}  // namespace

DenseScreen DenseScreen::shaped(std::size_t dim) {
    DenseScreen screen;
    screen.steps_ = (dim + 3) / 4;
    screen.rounding_ = kQuickRounding;
    return screen;
}

DenseScreen DenseScreen::quick(Matrix rows, Metric metric, double* squares, const Kernels& kernels) {
    DenseScreen screen = shaped(rows.dim);
    const std::size_t steps = screen.steps_;
    const std::size_t panels = (rows.rows + kPanelRows - 1) / kPanelRows;
    const std::size_t bytes = steps * kPanelRows * 4;
    const std::shared_ptr<std::uint8_t> codes = aligned_bytes(panels * bytes);
    std::vector<float> scales(panels);
    std::vector<float> residuals(panels * kPanelRows, 0.0F);
    std::vector<float> bounds(panels * 3);
    std::vector<std::uint8_t> lines;
    for (std::size_t p = 0; p < panels; ++p) {
        const std::size_t first = p * kPanelRows;
        const Matrix part{rows.data + first * rows.dim, std::min(kPanelRows, rows.rows - first), rows.dim};
        kernels.dense_square(part.data, part.rows, rows.dim, rows.dim, squares + first);
        const std::size_t end = first + kPanelRows;  // whole panels behind it are on their way meanwhile
        const float* const next = end + kPanelRows <= rows.rows ? rows.data + end * rows.dim : nullptr;
        quick_panel(part, squares + first, metric, steps, lines, next, kernels,
                    {codes.get() + p * bytes, &scales[p], residuals.data() + first, bounds.data() + 3 * p,
                     nullptr, nullptr});
    }
    screen.codes_ = Column<std::uint8_t>::of(codes.get(), panels * bytes, codes);
    screen.scales_ = Column<float>::of(std::move(scales));
    screen.residuals_ = Column<float>::of(std::move(residuals));
    screen.bounds_ = Column<float>::of(std::move(bounds));
    if (!screen.usable()) throw Unfit();
    return screen;
}

bool DenseScreen::worthwhile(std::size_t rows, std::size_t dim) {
    return rows >= 512 && dim >= 16 && possible(dim);
}

DenseScreen DenseScreen::build(Matrix rows, const double* squares, Metric metric, const Rotation& rotation,
                               std::size_t threads, const Kernels& kernels) {
    const auto panel = [&](std::size_t first, std::size_t, std::vector<float>&) {
        return rows.data + first * rows.dim;
    };
    return build(rows.rows, rows.dim, panel, squares, metric, rotation, 0.0, threads, kernels);
}

DenseScreen DenseScreen::build(std::size_t rows, std::size_t dim, const PanelRows& panel,
                               const double* squares, Metric metric, const Rotation& rotation,
                               double rounding, std::size_t threads, const Kernels& kernels) {
    DenseScreen screen;
    screen.steps_ = (dim + 3) / 4;
    screen.rotation_ = rotation;
    screen.rounding_ = rounding;
    const std::size_t steps = screen.steps_;
    const std::size_t panels = (rows + kPanelRows - 1) / kPanelRows;
    const std::size_t bytes = panels * steps * kPanelRows * 4;
    const std::shared_ptr<std::uint8_t> codes = aligned_bytes(bytes);
    std::vector<float> scales(panels);
    std::vector<float> residuals(panels * kPanelRows, 0.0F);
    std::vector<float> bounds(panels * 3);
    std::vector<float> tails(rotation.empty() ? 0 : panels * (kPanelRows + 1), 0.0F);
    constexpr std::size_t kPanels = 16;
    const auto code_one = [&](std::size_t p, std::vector<float>& memory, std::vector<float>& rotated) {
        const std::size_t first = p * kPanelRows;
        const std::size_t n = std::min(kPanelRows, rows - first);
        const Matrix part{panel(first, n, memory), n, dim};
        double factors[kPanelRows];
        for (std::size_t r = 0; r < part.rows; ++r) factors[r] = unit(metric, squares[first + r]);
        Coding coding{part.data, dim, rotation.head, rotation.tail_shift};
        if (!rotation.empty()) {
            rotated.resize(kPanelRows * dim);
            rotate_rows(rotation, part, factors, rotated.data(), kernels);
            std::fill_n(factors, part.rows, 1.0);
            coding.values = rotated.data();
        }
        float* const tail = rotation.empty() ? nullptr : tails.data() + first;
        code_panel(coding, squares + first, factors, metric, part.rows, steps, kernels,
                   {codes.get() + p * steps * kPanelRows * 4, &scales[p], residuals.data() + first,
                    bounds.data() + 3 * p, tail,
                    tail == nullptr ? nullptr : tails.data() + panels * kPanelRows + p});
    };
    parallel_for(thread_count(threads), (panels + kPanels - 1) / kPanels,
                 [&](std::size_t, std::size_t chunk) {
                     std::vector<float> memory;
                     std::vector<float> rotated;
                     for (std::size_t p = chunk * kPanels; p < std::min(panels, (chunk + 1) * kPanels); ++p)
                         code_one(p, memory, rotated);
                 });
    screen.codes_ = Column<std::uint8_t>::of(codes.get(), bytes, codes);
    screen.scales_ = Column<float>::of(std::move(scales));
    screen.residuals_ = Column<float>::of(std::move(residuals));
    screen.bounds_ = Column<float>::of(std::move(bounds));
    screen.tails_ = Column<float>::of(std::move(tails));
    // Vectors near the end of float32 have norms beyond it: no bound, no screen.
    return screen.usable() ? screen : DenseScreen();
}

bool DenseScreen::usable() {
    for (const float scale : scales_.span())
        if (!(scale > 0.0F) || !std::isfinite(scale)) return false;
    for (const float bound : bounds_.span())
        if (!(bound >= 0.0F) || !std::isfinite(bound)) return false;
    for (std::size_t p = 0; p < panels(); ++p) {
        most_ = std::max(most_, greatest_norm(p));
        if (!rotation_.empty() && !(greatest_tail(p) >= 0.0 && std::isfinite(greatest_tail(p)))) return false;
    }
    return true;
}

std::size_t DenseScreen::bytes() const {
    return codes_.size() + sizeof(float) * (scales_.size() + residuals_.size() + bounds_.size() +
                                            tails_.size() + rotation_.matrix.size());
}

void DenseScreen::write(ContainerWriter& writer) const {
    writer.section("screen.codes", codes_.span());
    writer.section("screen.scales", scales_.span());
    writer.section("screen.residuals", residuals_.span());
    writer.section("screen.bounds", bounds_.span());
    if (rotation_.empty()) return;
    const std::uint64_t shape[] = {rotation_.head, static_cast<std::uint64_t>(rotation_.tail_shift), kLayout};
    writer.section("screen.shape", std::span<const std::uint64_t>(shape));
    writer.section("screen.slack", std::span<const double>(&rotation_.slack, 1));
    writer.section("screen.rotation", std::span<const float>(rotation_.matrix));
    writer.section("screen.tails", tails_.span());
}

void DenseScreen::open_rotation(const Container& container, std::size_t dim) {
    const Column<std::uint64_t> shape = container.column<std::uint64_t>("screen.shape");
    const Column<double> slack = container.column<double>("screen.slack");
    const Column<float> matrix = container.column<float>("screen.rotation");
    tails_ = container.column<float>("screen.tails");
    shape.ensure_all();
    slack.ensure_all();
    matrix.ensure_all();
    tails_.ensure_all();
    if (shape.size() != 3 || shape.data()[2] != kLayout || slack.size() != 1 || dim > kScreenDims ||
        matrix.size() != dim * dim || tails_.size() != panels() * (kPanelRows + 1) ||
        !Rotation::fits(dim, shape.data()[0], shape.data()[1]) ||
        !(slack.data()[0] >= 0.0 && slack.data()[0] < 1.0))
        throw CorruptIndex(container.path() + ": the rotation of the screen does not fit the vectors");
    rotation_ = {dim,
                 shape.data()[0],
                 static_cast<int>(shape.data()[1]),
                 slack.data()[0],
                 std::vector<float>(matrix.span().begin(), matrix.span().end()),
                 {}};
    rotation_.widen();
    for (const float value : rotation_.matrix)
        if (!std::isfinite(value))
            throw CorruptIndex(container.path() + ": the rotation of the screen holds no number");
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
    if (container.has("screen.shape")) screen.open_rotation(container, dim);
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
        // An empty column has no address, which memcmp may not be given.
        return a.size() == b.size() &&
               (a.size() == 0 || std::memcmp(a.data(), b.data(), a.span().size_bytes()) == 0);
    };
    return steps_ == other.steps_ && rotation_.matrix == other.rotation_.matrix &&
           rotation_.head == other.rotation_.head && rotation_.tail_shift == other.rotation_.tail_shift &&
           rotation_.slack == other.rotation_.slack && same(tails_, other.tails_) &&
           same(codes_, other.codes_) && same(scales_, other.scales_) && same(residuals_, other.residuals_) &&
           same(bounds_, other.bounds_);
}

CodedQueries::CodedQueries(Matrix queries, const double* squares, Metric metric, const DenseScreen& screen,
                           const Kernels& kernels)
    : n(queries.rows),
      steps(screen.steps()),
      tile_queries(kernels.tile_queries),
      scale(n),
      inverse(n),
      norm(n),
      residual(n),
      tail(n, 0.0),
      square(squares, squares + n) {
    codes.assign(tiles() * steps * tile_queries * 4, 0);
    tails.assign(n * screen.tail_bytes(), 0);
    init_tail.assign(n, 0);
    init.assign(tiles() * tile_queries, 0);
    init_head.assign(tiles() * tile_queries, 0);
    const Rotation& rotation = screen.rotation();
    std::vector<float> rotated;
    std::vector<double> factors(n);
    for (std::size_t q = 0; q < n; ++q) factors[q] = unit(metric, squares[q]);
    const float* values = queries.data;
    if (!rotation.empty()) {
        rotated.resize(n * queries.dim);
        rotate_rows(rotation, queries, factors.data(), rotated.data(), kernels);
        values = rotated.data();
        std::fill(factors.begin(), factors.end(), 1.0);
    }
    std::vector<std::int8_t> line(steps * 4, 0);
    for (std::size_t q = 0; q < n; ++q) {
        norm[q] = metric == Metric::cosine ? 1.0 + 1e-12 : norm_above(squares[q]);
        code(q, values, factors[q], queries.dim, screen, line, kernels);
    }
}

void CodedQueries::code(std::size_t q, const float* values, double factor, std::size_t dim,
                        const DenseScreen& screen, std::vector<std::int8_t>& line, const Kernels& kernels) {
    const Rotation& rotation = screen.rotation();
    const Coding coding{values, dim, rotation.head, rotation.tail_shift};
    const double greatest = coding.greatest(q, kernels) * factor;
    scale[q] = greatest > 0.0 ? greatest / 127.0 : 1.0;
    inverse[q] = 1.0 / scale[q];
    residual[q] = norm_above(coding.code(q, factor, scale[q], line.data(), kernels));
    if (!rotation.empty()) tail[q] = coding.tail_norm(q, kernels) * factor;
    std::int64_t head_sum = 0;
    std::int64_t tail_sum = 0;
    for (std::size_t d = 0; d < dim; ++d) (d < rotation.head ? head_sum : tail_sum) += line[d];
    init_head[q] = static_cast<std::int32_t>(-128 * head_sum);
    init_tail[q] = static_cast<std::int32_t>(-128 * tail_sum);
    std::copy(line.begin() + static_cast<std::ptrdiff_t>(rotation.head), line.end(),
              tails.begin() + static_cast<std::ptrdiff_t>(q * screen.tail_bytes()));
    // Wraps with a head, as the sums do.
    init[q] = static_cast<std::int32_t>(
        static_cast<std::uint32_t>(-128 * (head_sum * (std::int64_t{1} << rotation.shift()) + tail_sum)));
    const bool wide = tile_queries == kWideTileQueries;
    std::int8_t* const tile = codes.data() + (q / tile_queries) * steps * tile_queries * 4;
    const std::size_t place = q % tile_queries;
    for (std::size_t s = 0; s < steps; ++s)
        std::memcpy(tile + (wide ? place * steps + s : s * tile_queries + place) * 4, line.data() + s * 4, 4);
}

}  // namespace gnomon
