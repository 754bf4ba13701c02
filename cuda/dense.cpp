#include "dense.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dense_work.hpp"

namespace gnomon::cuda {
namespace {

constexpr std::int64_t kSample = 65536;  // rows whose residuals choose the format
// Mean |r| of int8 in units of the mean |y|: about 0.008 where values are spread evenly, and every outlier of
// a row raises it. bfloat16's is 0.0017 whatever the row; beyond this its products, which cost twice as much,
// leave fewer rows to settle.
constexpr double kInt8Worst = 0.03;
constexpr std::size_t kFitRows = 128;

void refuse(const char* name, unsigned long long row, const char* what) {
    throw InvalidInput(std::string(name) + ": row " + std::to_string(row) + what);
}

}  // namespace

void refuse_bad_rows(const char* name, const RowFlags& flags, bool refuse_zero) {
    if (flags.bad != kNoRow)
        refuse(name, flags.bad, " holds a NaN or a value that is infinite as float32; remove or replace it");
    if (refuse_zero && flags.zero != kNoRow)
        refuse(name, flags.zero,
               " is a zero vector, which has no direction; remove it or pass on_zero=\"zero\"");
}

struct DenseCorpus::Resident {
    Buffer memory;
    Chunk chunk;
};

DenseCorpus::DenseCorpus(int device, DenseSource source, Format format, std::size_t resident_bytes,
                         std::size_t workspace_bytes)
    : device_(device), source_(source), bf16_(format == Format::bf16) {
    require_device(device);
    const OnDevice here(device);
    if (source_.n == 0) return;
    const std::size_t free = free_memory();
    const std::size_t most = resident_bytes != 0 ? resident_bytes : free - free / 10;
    const Stream stream;
    const auto prepare = [&](const Chunk& chunk, std::int64_t n) {
        if (!source_.on_device)
            stream.copy(const_cast<float*>(chunk.rows), source_.rows,
                        static_cast<std::size_t>(n) * static_cast<std::size_t>(source_.dim) * sizeof(float));
        code(chunk, stream);
        refuse_bad_rows(source_.name, flags_of(chunk.flags, stream),
                        source_.refuse_zero && source_.metric == kCosine);
    };
    if (format == Format::automatic) {
        const std::int64_t n = std::min(
            source_.n,
            std::max<std::int64_t>(
                kFitRows,
                std::min<std::int64_t>(
                    kSample, static_cast<std::int64_t>(workspace_bytes /
                                                       (8 * static_cast<std::size_t>(source_.dim) + 128)))));
        const Buffer memory(chunk_bytes(n), "choosing the format of codes", "free some of it");
        const Chunk chunk = chunk_at(memory.data(), n);
        prepare(chunk, n);
        choose_format(chunk);
    }
    const std::size_t wanted = chunk_bytes(source_.n);
    if (wanted > most) return;
    auto made = std::make_unique<Resident>();
    try {
        made->memory = Buffer(wanted, "the corpus", "it is streamed instead");
    } catch (const DeviceError&) {
        return;  // what was free before is not free any more
    }
    made->chunk = chunk_at(made->memory.data(), source_.n);
    prepare(made->chunk, source_.n);
    resident_ = std::move(made);
}

DenseCorpus::~DenseCorpus() = default;

bool DenseCorpus::resident() const { return resident_ != nullptr || source_.n == 0; }
std::size_t DenseCorpus::bytes() const { return resident_ == nullptr ? 0 : resident_->memory.bytes(); }

DenseCorpus::Chunk DenseCorpus::chunk_at(char* memory, std::int64_t rows) const {
    Arena arena(memory);
    Chunk chunk;
    const auto n = static_cast<std::size_t>(rows);
    const auto dim = static_cast<std::size_t>(source_.dim);
    const std::size_t bytes = dim * (bf16_ ? 2 : 1);
    chunk.n = rows;
    chunk.coded.row_bytes = static_cast<std::int64_t>((bytes + kRowBytes - 1) / kRowBytes * kRowBytes);
    chunk.rows = source_.on_device ? source_.rows : arena.take<float>(n * dim);
    chunk.squares = arena.take<double>(n);
    chunk.coded.squares = chunk.squares;
    chunk.coded.codes = arena.take<char>(n * static_cast<std::size_t>(chunk.coded.row_bytes));
    chunk.coded.scales = arena.take<float>(n);
    chunk.coded.residuals = arena.take<float>(n);
    chunk.coded.norms = arena.take<float>(n);
    chunk.coded.halves = arena.take<float>(n);
    chunk.coded.greatest_norm = arena.take<unsigned>(1);
    chunk.flags = arena.take<unsigned long long>(2);
    chunk.bytes = arena.used();
    return chunk;
}

std::size_t DenseCorpus::chunk_bytes(std::int64_t rows) const { return chunk_at(nullptr, rows).bytes; }

void DenseCorpus::code(const Chunk& chunk, const Stream& stream) const {
    stream.clear(chunk.coded.greatest_norm, sizeof(unsigned));
    clear_flags(chunk.flags, stream);
    launch_squares(chunk.rows, chunk.n, source_.dim, chunk.first, chunk.squares, chunk.flags, chunk.flags + 1,
                   stream);
    launch_code_rows(chunk.rows, chunk.n, source_.dim, source_.metric == kCosine, bf16_, chunk.coded, stream);
    check_launches();
}

// By the residuals that int8 leaves.
void DenseCorpus::choose_format(const Chunk& chunk) {
    const Stream stream;
    std::vector<float> residuals(static_cast<std::size_t>(chunk.n));
    std::vector<float> norms(residuals.size());
    stream.fetch(std::span(residuals), chunk.coded.residuals);
    stream.fetch(std::span(norms), chunk.coded.norms);
    double residual = 0.0;
    double norm = 0.0;
    for (const float one : residuals) residual += static_cast<double>(one);
    for (const float one : norms) norm += static_cast<double>(one);
    bf16_ = residual > kInt8Worst * norm;
}

DenseCorpus::Plan DenseCorpus::plan(std::int64_t n_queries, std::size_t k,
                                    const DenseOptions& options) const {
    Plan plan;
    plan.k = static_cast<int>(k);
    const auto n = static_cast<std::size_t>(source_.n);
    std::size_t capacity = options.capacity != 0 ? options.capacity : std::max<std::size_t>(4096, 8 * k);
    capacity = std::min({capacity, n, std::size_t{1} << 30});
    plan.allowed_words = options.allowed != nullptr ? (n + 63) / 64 : 0;
    std::size_t most = options.workspace_bytes;
    const auto bytes_of = [&](std::int64_t m, std::size_t room) {
        return Arrays(source_, plan, bf16_, static_cast<int>(m), static_cast<int>(room), options, nullptr)
            .used;
    };
    const auto too_small = [&](std::size_t needed) {
        return DeviceError("CUDA: max_workspace_bytes is " + std::to_string(options.workspace_bytes) +
                           ", but one query with k = " + std::to_string(k) + " over " + std::to_string(n) +
                           " rows needs " + std::to_string(needed) + "; raise it, or ask for fewer hits");
    };
    if (resident_ == nullptr) {
        const std::size_t least = 2 * chunk_bytes(kTileRowsLeast);
        plan.chunk_rows = kTileRowsLeast;
        while (plan.chunk_rows < source_.n && 2 * chunk_bytes(2 * plan.chunk_rows) <= most / 2)
            plan.chunk_rows *= 2;
        plan.chunk_rows = std::min(plan.chunk_rows, source_.n);
        plan.chunk_bytes = chunk_bytes(plan.chunk_rows);
        const std::size_t smallest = bytes_of(1, 1) + least;
        if (2 * plan.chunk_bytes >= most) throw too_small(smallest);
        most -= 2 * plan.chunk_bytes;
    }
    std::int64_t m = std::min<std::int64_t>(n_queries, kQueriesMost);
    const auto fits = [&] { return bytes_of(m, capacity) <= most; };
    while (m > 1 && !fits()) m = (m + 1) / 2;
    while (capacity > 1 && !fits()) capacity = (capacity + 1) / 2;
    if (!fits()) throw too_small(bytes_of(1, 1) + 2 * plan.chunk_bytes);
    plan.queries = static_cast<int>(m);
    plan.capacity = static_cast<int>(capacity);
    plan.bytes = bytes_of(m, capacity);
    // For the last part as well, which may be so small that it would have two.
    plan.planes = Arrays(source_, plan, bf16_, plan.queries, plan.capacity, options, nullptr).planes;
    return plan;
}

void DenseCorpus::search(const float* queries, bool on_device, std::int64_t n_queries,
                         const DenseOptions& options, const DenseOutput& out, Did& did) const {
    const OnDevice here(device_);
    did.format = format();
    if (n_queries == 0) return;
    const std::size_t k = std::min(options.k, static_cast<std::size_t>(source_.n));
    const Plan planned = plan(n_queries, k, options);
    const Buffer memory(planned.bytes + 2 * planned.chunk_bytes, "the workspace of a search",
                        "pass a smaller max_workspace_bytes, or free some of it");
    did.workspace_bytes = std::max(did.workspace_bytes, memory.bytes());
    for (std::int64_t first = 0; first < n_queries; first += planned.queries) {
        const int n = static_cast<int>(std::min<std::int64_t>(planned.queries, n_queries - first));
        const DenseOutput part{out.scores + static_cast<std::size_t>(first) * k,
                               out.rows + static_cast<std::size_t>(first) * k, out.counts + first};
        search_part(queries + first * source_.dim, on_device, first, n, options, planned, memory.data(), part,
                    did);
    }
}

void DenseCorpus::search_part(const float* queries, bool on_device, std::int64_t first_query, int n,
                              const DenseOptions& options, const Plan& plan, char* memory,
                              const DenseOutput& out, Did& did) const {
    Work work(source_, plan, bf16_, n, options, memory);
    work.start(queries, on_device, first_query, source_, bf16_, options);
    if (plan.k > 0 && resident_ != nullptr)
        search_chunk(resident_->chunk, work, did);
    else if (plan.k > 0)
        stream_chunks(work, memory + plan.bytes, plan, did);
    work.finish(out);
}

// The waves over one chunk of rows.
void DenseCorpus::search_chunk(const Chunk& chunk, Work& work, Did& did) const {
    work.rule.greatest_norm = chunk.coded.greatest_norm;
    launch_limits(work.rule, work.n, work.best[0].taus, work.limits, work.stream);
    for (std::int64_t at = 0; at < chunk.n;) {
        std::int64_t wave = std::min(work.next_wave(), chunk.n - at);
        while (!work.run(chunk, at, static_cast<int>(wave), source_, bf16_, did)) {
            ++did.repeated;
            wave = (wave + 1) / 2;
        }
        ++did.waves;
        at += wave;
        work.last_wave = wave;
        work.done += wave;
    }
}

// Chunk c + 1 is on its way to one buffer while chunk c is searched in the other. A search ends with the host
// waiting for it, so that its buffer, and the staging memory that filled it, are free for chunk c + 2.
void DenseCorpus::stream_chunks(Work& work, char* memory, const Plan& plan, Did& did) const {
    const std::int64_t chunks = (source_.n + plan.chunk_rows - 1) / plan.chunk_rows;
    const std::size_t row = static_cast<std::size_t>(source_.dim) * sizeof(float);
    const std::size_t bytes = source_.on_device ? 0 : static_cast<std::size_t>(plan.chunk_rows) * row;
    const Pinned staging[2] = {Pinned(bytes), Pinned(bytes)};
    const Stream copies;
    const Event ready[2];  // the chunk has arrived
    const auto chunk_of = [&](std::int64_t c) {
        const std::int64_t first = c * plan.chunk_rows;
        const std::int64_t rows = std::min(plan.chunk_rows, source_.n - first);
        Chunk chunk = chunk_at(memory + static_cast<std::size_t>(c % 2) * plan.chunk_bytes, rows);
        chunk.first = first;
        if (source_.on_device) chunk.rows = source_.rows + first * source_.dim;
        return chunk;
    };
    const auto fetch = [&](std::int64_t c) {
        const Chunk chunk = chunk_of(c);
        const int side = static_cast<int>(c % 2);
        if (source_.on_device) return;
        const std::size_t size = static_cast<std::size_t>(chunk.n) * row;
        std::memcpy(staging[side].data(), source_.rows + chunk.first * source_.dim, size);
        copies.copy(const_cast<float*>(chunk.rows), staging[side].data(), size);
        ready[side].record(copies);
    };
    fetch(0);
    for (std::int64_t c = 0; c < chunks; ++c) {
        if (c + 1 < chunks) fetch(c + 1);
        const int side = static_cast<int>(c % 2);
        const Chunk chunk = chunk_of(c);
        if (!source_.on_device)
            check(cudaStreamWaitEvent(work.stream, ready[side].get()), "waiting for a chunk");
        code(chunk, work.stream);
        refuse_bad_rows(source_.name, flags_of(chunk.flags, work.stream),
                        source_.refuse_zero && source_.metric == kCosine);
        search_chunk(chunk, work, did);
        ++did.chunks;
    }
}

}  // namespace gnomon::cuda
