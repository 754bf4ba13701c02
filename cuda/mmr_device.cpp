#include "mmr_device.hpp"

#include "dense_work.hpp"

namespace gnomon::cuda {
namespace {

struct Arrays {
    float* queries;
    double* query_squares;
    double* relevance;
    double* redundancy;
    unsigned char* taken;
    int* selected;
    int* starts;
    int* picks;
    double* scores;
    std::size_t used;
};

Arrays share_out(char* memory, const MmrWanted& wanted, std::size_t m, std::size_t selected) {
    Arena arena(memory);
    const auto n = static_cast<std::size_t>(wanted.n);
    const auto limit = static_cast<std::size_t>(wanted.limit);
    const bool by_query = wanted.relevance == nullptr;
    Arrays out{};
    out.queries = arena.take<float>(
        by_query && !wanted.queries_on_device ? m * static_cast<std::size_t>(wanted.dim) : 0);
    out.query_squares = arena.take<double>(m);
    out.relevance = arena.take<double>(m * n);
    out.redundancy = arena.take<double>(m * n);
    out.taken = arena.take<unsigned char>(m * n);
    out.selected = arena.take<int>(selected);
    out.starts = arena.take<int>(m + 1);
    out.picks = arena.take<int>(m * limit);
    out.scores = arena.take<double>(m * limit);
    out.used = arena.used();
    return out;
}

// Rows, their squares and flags; checks them.
struct Rows {
    Buffer memory;
    const float* rows;
    double* squares;
    unsigned long long* flags;

    Rows(const MmrWanted& wanted, const Stream& stream) {
        const auto n = static_cast<std::size_t>(wanted.n);
        const std::size_t values = n * static_cast<std::size_t>(wanted.dim);
        const auto place = [&](Arena arena) {
            float* const own = arena.take<float>(wanted.rows_on_device ? 0 : values);
            rows = wanted.rows_on_device ? wanted.rows : own;
            squares = arena.take<double>(n);
            flags = arena.take<unsigned long long>(2);
            return arena.used();
        };
        memory = Buffer(place(Arena()), "the candidates of MMR", "pass fewer of them");
        place(Arena(memory.data()));
        if (!wanted.rows_on_device)
            stream.copy(const_cast<float*>(rows), wanted.rows, values * sizeof(float));
        clear_flags(flags, stream);
        launch_squares(rows, wanted.n, wanted.dim, 0, squares, flags, flags + 1, stream);
        refuse_bad_rows("vectors", flags_of(flags, stream), false);
    }
};

void find_relevance(const MmrWanted& wanted, const Rows& rows, const Arrays& arrays, std::size_t first,
                    std::size_t m, const Stream& stream) {
    const auto n = static_cast<std::size_t>(wanted.n);
    if (wanted.relevance != nullptr) {
        stream.copy(arrays.relevance, wanted.relevance + first * n, m * n * sizeof(double));
        return;
    }
    const auto dim = static_cast<std::size_t>(wanted.dim);
    const float* queries = wanted.queries + first * dim;
    if (!wanted.queries_on_device) {
        stream.copy(arrays.queries, queries, m * dim * sizeof(float));
        queries = arrays.queries;
    }
    clear_flags(rows.flags, stream);
    launch_squares(queries, static_cast<std::int64_t>(m), wanted.dim, static_cast<std::int64_t>(first),
                   arrays.query_squares, rows.flags, rows.flags + 1, stream);
    refuse_bad_rows("query", flags_of(rows.flags, stream), false);
    launch_cosines(rows.rows, rows.squares, wanted.n, queries, arrays.query_squares, static_cast<int>(m),
                   wanted.dim, arrays.relevance, stream);
}

}  // namespace

MmrPicks mmr_on_device(int device, const MmrWanted& wanted) {
    require_device(device);
    const OnDevice here(device);
    const Stream stream;
    const auto n_queries = static_cast<std::size_t>(wanted.n_queries);
    const auto limit = static_cast<std::size_t>(wanted.limit);
    MmrPicks result{std::vector<std::int32_t>(n_queries * limit, -1), std::vector<double>(n_queries * limit)};
    if (n_queries == 0 || wanted.n == 0 || limit == 0) return result;
    const Rows rows(wanted, stream);
    std::size_t selected = 0;
    for (const auto& one : *wanted.selected) selected = std::max(selected, one.size());
    std::size_t m = std::min<std::size_t>(n_queries, kQueriesMost);
    while (m > 1 && share_out(nullptr, wanted, m, m * selected).used > wanted.workspace_bytes)
        m = (m + 1) / 2;
    const std::size_t bytes = share_out(nullptr, wanted, m, m * selected).used;
    if (bytes > wanted.workspace_bytes)
        throw DeviceError("CUDA: max_workspace_bytes is " + std::to_string(wanted.workspace_bytes) +
                          ", but MMR over " + std::to_string(wanted.n) + " candidates needs " +
                          std::to_string(bytes) + " for one query; raise it, or pass fewer candidates");
    const Buffer memory(bytes, "the workspace of MMR", "pass a smaller max_workspace_bytes");
    const Arrays arrays = share_out(memory.data(), wanted, m, m * selected);
    for (std::size_t first = 0; first < n_queries; first += m) {
        const std::size_t part = std::min(m, n_queries - first);
        const auto n = static_cast<std::size_t>(wanted.n);
        std::vector<int> before;
        std::vector<int> starts = {0};
        std::vector<unsigned char> taken(part * n, 0);
        for (std::size_t q = 0; q < part; ++q) {
            for (const std::int32_t pick : (*wanted.selected)[first + q]) {
                before.push_back(pick);
                taken[q * n + static_cast<std::size_t>(pick)] = 1;
            }
            starts.push_back(static_cast<int>(before.size()));
        }
        find_relevance(wanted, rows, arrays, first, part, stream);
        stream.give(arrays.taken, std::span<const unsigned char>(taken));
        stream.give(arrays.selected, std::span<const int>(before));
        stream.give(arrays.starts, std::span<const int>(starts));
        check(cudaMemsetAsync(arrays.picks, 0xFF, part * limit * sizeof(int), stream), "clearing memory");
        launch_mmr({rows.rows, rows.squares, wanted.n, wanted.dim, arrays.relevance, arrays.redundancy,
                    arrays.taken, arrays.selected, arrays.starts, wanted.limit, wanted.diversity,
                    wanted.last_only, static_cast<int>(part), arrays.picks, arrays.scores},
                   stream);
        check_launches();
        stream.fetch(std::span(result.picks).subspan(first * limit, part * limit), arrays.picks);
        stream.fetch(std::span(result.scores).subspan(first * limit, part * limit), arrays.scores);
    }
    return result;
}

}  // namespace gnomon::cuda
