#include "bm25_device.hpp"

#include <limits>
#include <unordered_map>

#include "bm25_work.hpp"

namespace gnomon::cuda {
namespace {

constexpr int kRangeDocs = 16384;
constexpr std::size_t kQueriesMost = 32768;

}  // namespace

// Postings that do not fit stay where they are.
Bm25Corpus::Bm25Corpus(int device, const std::vector<Bm25Arrays>& segments, const Bm25Formula& formula,
                       int range_docs, std::size_t resident_bytes)
    : device_(device), formula_(formula), range_docs_(range_docs != 0 ? range_docs : kRangeDocs) {
    require_device(device);
    const OnDevice here(device);
    const std::size_t free = free_memory();
    std::size_t room = resident_bytes != 0 ? resident_bytes : free - free / 10;
    for (const Bm25Arrays& given : segments) {
        Segment segment;
        segment.number = segments_.size();
        segment.host = given;
        upload(segment, room);
        find_impact_range(segment);
        segments_.push_back(std::move(segment));
    }
}

void Bm25Corpus::upload(Segment& segment, std::size_t& room) const {
    const Bm25Arrays& host = segment.host;
    const auto place = [&](char* memory) {
        return Lists::at(memory, host.docs.size(), host.starts.size() - 1, host.n_docs, has_fields(formula_));
    };
    const std::size_t bytes = place(nullptr).bytes;
    if (bytes > room) return;
    try {
        segment.memory = Buffer(bytes, "a BM25 segment", "it is streamed instead");
    } catch (const DeviceError&) {
        return;  // what was free before is not free any more
    }
    room -= bytes;
    segment.resident = true;
    segment.lists = place(segment.memory.data());
    const Lists& lists = segment.lists;
    const Stream stream;
    stream.give(lists.docs, host.docs);
    stream.give(lists.tfs, host.tfs);
    stream.give(lists.tildes, host.tildes);
    stream.give(lists.starts, host.starts);
    stream.give(lists.constants, host.constants);
    if (lists.postings == 0) return;
    launch_impacts(lists.view(), lists.postings, lists.constants, rule_of(formula_), lists.impacts, stream);
    check_launches();
    stream.wait();
}

// Of each term; on the host where the postings are there alone: the device makes the same numbers.
void Bm25Corpus::find_impact_range(Segment& segment) const {
    const Bm25Arrays& host = segment.host;
    const std::size_t n_terms = host.starts.size() - 1;
    segment.greatest.assign(n_terms, 0.0F);
    segment.least.assign(n_terms, std::numeric_limits<float>::infinity());
    if (host.docs.empty()) return;
    if (segment.resident) {
        const Buffer ends(2 * n_terms * sizeof(float), "the impacts of terms", "free some of it");
        auto* const greatest = reinterpret_cast<float*>(ends.data());
        const Stream stream;
        launch_impact_range(segment.lists.starts, segment.lists.impacts, static_cast<std::int64_t>(n_terms),
                            greatest, greatest + n_terms, stream);
        check_launches();
        stream.fetch(std::span(segment.greatest), greatest);
        stream.fetch(std::span(segment.least), greatest + n_terms);
        return;
    }
    const bool fields = has_fields(formula_);
    for (std::size_t term = 0; term < n_terms; ++term)
        for (auto i = static_cast<std::size_t>(host.starts[term]);
             i < static_cast<std::size_t>(host.starts[term + 1]); ++i) {
            const auto impact = static_cast<float>(bm25::impact(
                static_cast<bm25::Formula>(formula_.formula),
                fields ? host.tildes[i] : static_cast<double>(host.tfs[i]),
                fields ? formula_.k1 : host.constants[host.docs[i]], formula_.k1, formula_.delta));
            float& greatest = segment.greatest[term];
            if (!(impact <= greatest)) greatest = impact;  // NaN stays
            if (impact > 0.0F) segment.least[term] = std::min(segment.least[term], impact);
        }
}

Bm25Corpus::~Bm25Corpus() = default;

std::size_t Bm25Corpus::n_segments() const { return segments_.size(); }

bool Bm25Corpus::resident() const {
    return std::all_of(segments_.begin(), segments_.end(),
                       [](const Segment& segment) { return segment.resident; });
}

std::size_t Bm25Corpus::bytes() const {
    std::size_t sum = 0;
    for (const Segment& segment : segments_) sum += segment.memory.bytes();
    return sum;
}

// Of n queries that lie together, wherever: those with the most occurrences.
std::size_t Bm25Corpus::part_bytes(const Bm25Batch& batch, std::size_t n, int k, std::size_t capacity) const {
    std::size_t occurrences = 0;
    const std::size_t all = batch.starts.size() - 1;
    for (std::size_t first = 0; first < all; ++first)
        occurrences = std::max(occurrences, static_cast<std::size_t>(batch.starts[std::min(first + n, all)] -
                                                                     batch.starts[first]));
    int ranges = 0;
    std::size_t docs = 0;
    for (const Segment& segment : segments_) {
        ranges = std::max(ranges, segment.ranges(range_docs_));
        docs = std::max(docs, static_cast<std::size_t>(segment.host.n_docs));
    }
    std::size_t room = 2;
    while (room < static_cast<std::size_t>(k)) room *= 2;
    const std::size_t hits = n * static_cast<std::size_t>(k);
    const std::size_t sort = room <= kSortShared ? 0 : n * room * 12;
    const std::size_t sum = n * (7 * 8 + 4 * 4) +
                            occurrences * (8 * 3 + 4 * 4 + 8 * (static_cast<std::size_t>(ranges) + 1)) +
                            docs / 8 + n * capacity * 12 + 2 * hits * 12 + sort + 256 * 32;
    return sum / 256 * 256;
}

Found Bm25Corpus::search(const Bm25Batch& batch, const Bm25Options& options, Did& did) const {
    const OnDevice here(device_);
    const std::size_t n = batch.starts.size() - 1;
    std::size_t slots = 0;
    for (const Segment& segment : segments_) slots += static_cast<std::size_t>(segment.host.n_docs);
    Found found;
    found.k = std::min(options.k, slots);
    found.counts.assign(n, 0);
    found.scores.resize(n * found.k);
    found.rows.resize(n * found.k);
    if (n == 0 || found.k == 0) return found;
    const int k = static_cast<int>(found.k);
    const auto range = static_cast<std::size_t>(range_docs_);
    std::size_t capacity = options.capacity != 0 ? options.capacity : 4 * found.k + 2048;
    capacity = std::min(capacity, range);
    const std::size_t most = options.workspace_bytes;
    std::size_t m = std::min(n, kQueriesMost);
    std::size_t room = streamed_bytes(batch, m);  // of a segment on its way
    const auto fits = [&](std::size_t queries, std::size_t candidates) {
        return part_bytes(batch, queries, k, candidates) + 2 * room <= most;
    };
    while (m > 1 && !(fits(m, capacity) && fits(1, range))) {
        m = (m + 1) / 2;
        room = streamed_bytes(batch, m);
    }
    std::size_t roomy = m;  // queries at once that may have a whole range of candidates each
    while (roomy > 1 && !fits(roomy, range)) roomy = (roomy + 1) / 2;
    const std::size_t own = std::max(part_bytes(batch, m, k, capacity), part_bytes(batch, roomy, k, range));
    const std::size_t bytes = own + 2 * room;
    if (bytes > most)
        throw DeviceError("CUDA: max_workspace_bytes is " + std::to_string(most) +
                          ", but one query with k = " + std::to_string(k) + " needs " +
                          std::to_string(bytes) + "; raise it, or ask for fewer hits");
    const Buffer memory(bytes, "the workspace of a search",
                        "pass a smaller max_workspace_bytes, or free some of it");
    did.workspace_bytes = bytes;
    const Scaled weights = scaled(batch);
    const Room rooms{memory.data(), own, memory.data() + own, room};
    for (std::size_t first = 0; first < n; first += m) {
        const std::size_t here_n = std::min(m, n - first);
        if (search_part(batch, weights, first, here_n, k, capacity, rooms, found, did)) continue;
        ++did.repeated;
        for (std::size_t at = first; at < first + here_n; at += roomy)
            search_part(batch, weights, at, std::min(roomy, first + here_n - at), k, range, rooms, found,
                        did);
    }
    return found;
}

bool Bm25Corpus::search_part(const Bm25Batch& batch, const Scaled& scaled, std::size_t first, std::size_t n,
                             int k, std::size_t capacity, const Room& room, Found& found, Did& did) const {
    Part part;
    part.n = n;
    part.k = k;
    part.batch = &batch;
    const auto from = static_cast<std::size_t>(batch.starts[first]);
    const auto until = static_cast<std::size_t>(batch.starts[first + n]);
    std::vector<std::int32_t> starts(n + 1);
    std::vector<std::int32_t> slots;
    std::unordered_map<std::int32_t, std::int32_t> places;
    for (std::size_t q = 0; q <= n; ++q) starts[q] = batch.starts[first + q] - batch.starts[first];
    for (std::size_t o = from; o < until; ++o) {
        const auto [place, added] =
            places.emplace(batch.slots[o], static_cast<std::int32_t>(part.distinct.size()));
        if (added) part.distinct.push_back(batch.slots[o]);
        slots.push_back(place->second);
    }
    Arena arena(room.own);
    const auto put = [&](auto values) {
        using T = std::remove_const_t<typename decltype(values)::element_type>;
        T* const to = arena.take<T>(values.size());
        part.stream.give(to, std::span<const T>(values));
        return to;
    };
    const auto of_queries = [&](const std::vector<double>& all) {
        return put(std::span(all).subspan(first, n));
    };
    part.queries = {put(std::span(starts)),
                    put(std::span(slots)),
                    put(batch.weights.subspan(from, until - from)),
                    put(batch.absents.subspan(from, until - from)),
                    put(std::span(scaled.weights).subspan(from, until - from)),
                    of_queries(scaled.scales),
                    of_queries(scaled.absent_sums),
                    of_queries(scaled.relatives),
                    of_queries(scaled.slacks),
                    put(batch.at_ends.subspan(first, n))};
    int ranges = 0;
    std::size_t words = 0;
    for (const Segment& segment : segments_) {
        ranges = std::max(ranges, segment.ranges(range_docs_));
        words = std::max(words, static_cast<std::size_t>(segment.host.n_docs + 63) / 64);
    }
    part.terms = arena.take<std::int32_t>(part.distinct.size());
    part.cuts = arena.take<std::int64_t>(part.distinct.size() * (static_cast<std::size_t>(ranges) + 1));
    part.allowed = reinterpret_cast<std::uint32_t*>(arena.take<std::uint64_t>(words));
    part.found.capacity = static_cast<int>(capacity);
    part.found.rows = arena.take<std::uint32_t>(n * capacity);
    part.found.scores = arena.take<double>(n * capacity);
    part.found.counts = arena.take<int>(n + 2);
    part.found.overflow = part.found.counts + n;
    part.not_a_number = part.found.counts + n + 1;
    const std::size_t hits = n * static_cast<std::size_t>(k);
    for (Best& one : part.best) {
        one.scores = arena.take<double>(hits);
        one.rows = arena.take<std::uint32_t>(hits);
        one.counts = arena.take<int>(n);
        one.taus = arena.take<double>(n);
    }
    std::size_t width = 2;
    while (width < static_cast<std::size_t>(k)) width *= 2;
    part.scratch = arena.take<char>(width <= kSortShared ? 0 : n * width * 12);
    if (arena.used() > room.own_bytes) throw DeviceError("CUDA: a search's plan is too small");  // never
    launch_fill(part.best[0].taus, static_cast<std::int64_t>(n), -std::numeric_limits<double>::infinity(),
                part.stream);
    part.stream.clear(part.best[0].counts, n * sizeof(int));
    part.stream.clear(part.found.counts, (n + 2) * sizeof(int));
    if (!part.distinct.empty() && !search_segments(part, room.streamed, room.streamed_bytes, did))
        return false;
    launch_sort(part.best[0], static_cast<int>(n), k, part.scratch, part.stream);
    check_launches();
    part.stream.copy(found.counts.data() + first, part.best[0].counts, n * sizeof(int));
    part.stream.copy(found.scores.data() + first * found.k, part.best[0].scores, hits * sizeof(double));
    part.stream.copy(found.rows.data() + first * found.k, part.best[0].rows, hits * sizeof(std::uint32_t));
    part.stream.wait();
    return true;
}

bool Bm25Corpus::search_lists(const Segment& segment, const Lists& lists, std::span<const std::int32_t> terms,
                              Part& part, Did& did) const {
    part.stream.give(part.terms, terms);
    const std::int64_t n_docs = segment.host.n_docs;
    const std::uint64_t* const allowed = part.batch->allowed[segment.number];
    if (allowed != nullptr)
        part.stream.copy(part.allowed, allowed, static_cast<std::size_t>(n_docs + 63) / 64 * 8);
    const int n_ranges = segment.ranges(range_docs_);
    launch_cuts(lists.docs, lists.starts, part.terms, static_cast<int>(terms.size()), n_ranges, range_docs_,
                part.cuts, part.stream);
    Bm25Block block{lists.view(),
                    part.queries,
                    part.cuts,
                    allowed != nullptr ? part.allowed : nullptr,
                    segment.host.base,
                    n_ranges,
                    0,
                    1,
                    range_docs_,
                    n_docs,
                    static_cast<int>(part.n),
                    part.k,
                    part.best[0],
                    part.found};
    const int usual =
        std::max(1, part.found.capacity / (2 * part.k + 32));  // so many surely fit, but for ties
    std::vector<int> counts(part.n + 2);
    for (int at = 0; at < n_ranges;) {
        block.first_range = at;
        block.ranges = std::min(block.ranges, n_ranges - at);
        block.best = part.best[0];
        part.stream.clear(part.found.counts, (part.n + 1) * sizeof(int));
        launch_bm25(block, part.stream);
        launch_bm25_settle(block, rule_of(formula_), lists.constants, part.stream);
        launch_merge({block.n_queries, part.k, -std::numeric_limits<double>::infinity(), part.found,
                      part.best[0], part.best[1], part.not_a_number},
                     {}, nullptr, part.stream);
        check_launches();
        part.stream.fetch(std::span(counts), part.found.counts);
        if (counts[part.n] != 0) {
            if (block.ranges == 1) return false;
            ++did.repeated;
            block.ranges = (block.ranges + 1) / 2;
            continue;
        }
        for (std::size_t q = 0; q < part.n; ++q) did.settled += static_cast<std::uint64_t>(counts[q]);
        std::swap(part.best[0], part.best[1]);
        ++did.waves;
        at += block.ranges;
        block.ranges = std::max(usual, 2 * block.ranges);
    }
    if (counts[part.n + 1] != 0) throw CorruptIndex("bm25: a score is not a number; build the index again");
    return true;
}

}  // namespace gnomon::cuda
