#include "dense_work.hpp"

#include <limits>

namespace gnomon::cuda {
namespace {

int planes_of(const DenseOptions& options, bool bf16, int n) {
    if (bf16) return 1;
    if (options.planes != 0) return options.planes;
    return n <= kTwoPlanesMost ? 2 : 1;
}

Family family_of(const DenseOptions& options) {
    if (options.family == "mma") return Family::mma;
    if (!options.family.empty() && options.family != "wgmma")
        throw InvalidInput("family must be 'mma' or 'wgmma', got '" + options.family + "'");
    int device = 0;
    cudaDeviceProp properties;
    check(cudaGetDevice(&device), "asking for the device in use");
    check(cudaGetDeviceProperties(&properties, device), "asking what the device can do");
    const bool hopper = properties.major == 9;
    if (!options.family.empty() && !hopper)
        throw DeviceError("family 'wgmma' needs compute capability 9.0; leave it to the device");
    return hopper ? Family::wgmma : Family::mma;
}

}  // namespace

DenseCorpus::Arrays::Arrays(const DenseSource& source, const Plan& plan, bool bf16, int n_, int capacity,
                            const DenseOptions& options, char* memory)
    : n(n_), k(plan.k), planes(plan.planes != 0 ? plan.planes : planes_of(options, bf16, n_)) {
    Arena arena(memory);
    const auto m = static_cast<std::size_t>(n);
    const auto dim = static_cast<std::size_t>(source.dim);
    const auto hits = m * static_cast<std::size_t>(k);
    const std::size_t width = dim * (bf16 ? 2 : 1);
    coded.row_bytes = static_cast<std::int64_t>((width + kRowBytes - 1) / kRowBytes * kRowBytes);
    own_queries = arena.take<float>(m * dim);
    squares = arena.take<double>(m);
    coded.squares = squares;
    coded.codes =
        arena.take<char>(m * static_cast<std::size_t>(planes) * static_cast<std::size_t>(coded.row_bytes));
    coded.scales = arena.take<float>(m);
    coded.per_residual = arena.take<float>(m);
    coded.per_norm = arena.take<float>(m);
    coded.norms = arena.take<double>(m);
    limits = arena.take<float>(m);
    allowed = reinterpret_cast<std::uint32_t*>(arena.take<std::uint64_t>(plan.allowed_words));
    if (plan.allowed_words == 0) allowed = nullptr;
    found.capacity = capacity;
    found.rows = arena.take<std::uint32_t>(m * static_cast<std::size_t>(capacity));
    found.scores = arena.take<double>(m * static_cast<std::size_t>(capacity));
    found.counts = arena.take<int>(m + 2);  // cleared, and the flags read, in one go
    found.overflow = found.counts == nullptr ? nullptr : found.counts + m;
    not_a_number = found.counts == nullptr ? nullptr : found.counts + m + 1;
    for (Best& one : best) {
        one.scores = arena.take<double>(hits);
        one.rows = arena.take<std::uint32_t>(hits);
        one.counts = arena.take<int>(m);
        one.taus = arena.take<double>(m);
    }
    std::size_t room = 2;
    while (room < static_cast<std::size_t>(k)) room *= 2;
    scratch = arena.take<char>(room <= kSortShared ? 0 : m * room * 12);
    rows64 = arena.take<std::int64_t>(hits);
    flags = arena.take<unsigned long long>(2);
    used = arena.used();
}

DenseCorpus::Work::Work(const DenseSource& source, const Plan& plan, bool bf16, int n_,
                        const DenseOptions& options, char* memory)
    : Arrays(source, plan, bf16, n_, plan.capacity, options, memory),
      family(family_of(options)),
      least(options.min_score) {}

void DenseCorpus::Work::start(const float* given, bool on_device, std::int64_t first_query,
                              const DenseSource& source, bool bf16, const DenseOptions& options) {
    const auto m = static_cast<std::size_t>(n);
    queries = on_device ? given : own_queries;
    if (!on_device) stream.copy(own_queries, given, m * static_cast<std::size_t>(source.dim) * sizeof(float));
    if (allowed != nullptr)
        stream.copy(allowed, options.allowed,
                    (static_cast<std::size_t>(source.n) + 63) / 64 * sizeof(std::uint64_t));
    clear_flags(flags, stream);
    launch_squares(queries, n, source.dim, first_query, squares, flags, flags + 1, stream);
    launch_code_queries(queries, n, source.dim, source.metric == kCosine, bf16, planes, coded, stream);
    launch_fill(best[0].taus, n, options.min_score, stream);
    stream.clear(best[0].counts, m * sizeof(int));
    stream.clear(found.counts, (m + 2) * sizeof(int));
    check_launches();
    refuse_bad_rows(options.query_name, flags_of(flags, stream),
                    options.refuse_zero && source.metric == kCosine);
    rule = {source.metric, static_cast<std::size_t>(source.dim) > kScreenDims, squares, coded.norms, nullptr};
}

// All rows pass until there are k hits; then some 6 k rows are left of a wave that multiplies what is done by
// e, so capacity / 8 k times as many as before leave room. Short steps from a wave that did not fit.
std::int64_t DenseCorpus::Work::next_wave() const {
    const std::int64_t room = found.capacity;
    const std::int64_t first = std::min<std::int64_t>(room, std::max<std::int64_t>(k, kFirstWave));
    if (done < k) return first;
    const std::int64_t grown = done * std::max<std::int64_t>(1, room / (8 * std::max(1, k)));
    return std::clamp<std::int64_t>(std::min(grown, 8 * last_wave), std::min<std::int64_t>(room, 128),
                                    kWaveMost);
}

bool DenseCorpus::Work::run(const Chunk& chunk, std::int64_t first, int n_rows, const DenseSource& source,
                            bool bf16, Did& did) {
    const auto m = static_cast<std::size_t>(n);
    stream.clear(found.counts, (m + 1) * sizeof(int));
    const ScreenArgs screen{chunk.coded.codes + first * chunk.coded.row_bytes,
                            coded.codes,
                            coded.row_bytes,
                            chunk.coded.scales + first,
                            chunk.coded.residuals + first,
                            chunk.coded.norms + first,
                            source.metric == kL2 ? chunk.coded.halves + first : nullptr,
                            allowed,
                            chunk.first + first,
                            n_rows,
                            n,
                            coded.scales,
                            coded.per_residual,
                            coded.per_norm,
                            limits,
                            found};
    launch_screen(screen, bf16, planes, family, stream);
    launch_settle(
        {chunk.rows, chunk.squares, chunk.first, queries, squares, source.dim, source.metric, n, found},
        stream);
    launch_merge({n, k, least, found, best[0], best[1], not_a_number}, rule, limits, stream);
    check_launches();
    std::vector<int> counts(m + 2);
    stream.fetch(std::span(counts), found.counts);
    if (counts[m] != 0) return false;
    if (counts[m + 1] != 0)
        throw CorruptIndex(
            "dense: a score is not a number: the vectors are damaged, or were written to during the search; "
            "build the index again");
    for (std::size_t q = 0; q < m; ++q) did.settled += static_cast<std::uint64_t>(counts[q]);
    std::swap(best[0], best[1]);
    return true;
}

void DenseCorpus::Work::finish(const DenseOutput& out) const {
    const auto m = static_cast<std::size_t>(n);
    const std::size_t hits = m * static_cast<std::size_t>(k);
    stream.copy(out.counts, best[0].counts, m * sizeof(int));
    if (hits != 0) {
        launch_sort(best[0], n, k, scratch, stream);
        launch_rows64(best[0], n, k, rows64, stream);
        check_launches();
        stream.copy(out.scores, best[0].scores, hits * sizeof(double));
        stream.copy(out.rows, rows64, hits * sizeof(std::int64_t));
    }
    stream.wait();
}

}  // namespace gnomon::cuda
