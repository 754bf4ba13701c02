// gnomon._core: dense top-k and MMR. Arrays come in as C-contiguous float32 and float64
// (python/gnomon/dense.py converts); the work happens with the GIL released.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "bindings.hpp"
#include "dense_index.hpp"
#include "dense_once.hpp"
#include "error.hpp"
#include "mmr.hpp"
#include "parallel.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using F32Array = py::array_t<float, py::array::c_style>;
using F64Array = py::array_t<double, py::array::c_style>;
using U64Array = py::array_t<std::uint64_t, py::array::c_style>;

Matrix matrix_of(const F32Array& array, const char* what) {
    if (array.ndim() != 2) throw InvalidInput(std::string(what) + " must be a matrix [rows, dimensions]");
    return {array.data(), static_cast<std::size_t>(array.shape(0)), static_cast<std::size_t>(array.shape(1))};
}

OnZero on_zero_named(std::string_view name) {
    if (name == "zero") return OnZero::score_zero;
    if (name == "error") return OnZero::refuse;
    throw InvalidInput("on_zero must be 'zero' or 'error', got '" + std::string(name) + "'");
}

// (positions int64 [Q, k'], scores float64 [Q, k']); every query has the same number of hits.
py::tuple to_arrays(const std::vector<std::vector<Hit>>& results, std::size_t k) {
    const auto rows = static_cast<py::ssize_t>(results.size());
    const auto columns = static_cast<py::ssize_t>(k);
    py::array_t<std::int64_t> positions({rows, columns});
    F64Array scores({rows, columns});
    std::int64_t* position = positions.mutable_data();
    double* score = scores.mutable_data();
    for (const std::vector<Hit>& hits : results) {
        for (const Hit& hit : hits) {
            *position++ = hit.position;
            *score++ = hit.score;
        }
    }
    return py::make_tuple(positions, scores);
}

py::tuple top_k(const F32Array& vectors, const F32Array& queries, std::string_view metric_name, std::size_t k,
                std::string_view on_zero, std::size_t threads, std::string_view level) {
    const Matrix rows = matrix_of(vectors, "documents");
    const Matrix wanted = matrix_of(queries, "query");
    const Metric metric = metric_named(metric_name);
    const OnZero zero = on_zero_named(on_zero);
    const Kernels& kernels = kernels_named(level);
    std::vector<std::vector<Hit>> results;
    {
        const py::gil_scoped_release release;
        results = once_top_k(rows, wanted, metric, zero, k, threads, kernels);
    }
    return to_arrays(results, std::min(k, rows.rows));
}

std::shared_ptr<DenseIndex> make_index(const F32Array& vectors, std::string_view metric,
                                       std::string_view on_zero, std::string_view screen, std::size_t threads,
                                       std::string_view level) {
    const Matrix rows = matrix_of(vectors, "vectors");
    // The array is kept, not copied: python/gnomon/dense.py hands over one that nobody else writes to.
    const auto owner = std::shared_ptr<const void>(new py::array(vectors), [](const void* array) {
        const py::gil_scoped_acquire acquire;
        delete static_cast<const py::array*>(array);
    });
    const Column<float> column = Column<float>::of(rows.data, rows.rows * rows.dim, owner);
    const Metric known = metric_named(metric);
    const OnZero zero = on_zero_named(on_zero);
    const ScreenUse use = screen_use_named(screen);
    const Kernels& kernels = kernels_named(level);
    const py::gil_scoped_release release;
    return std::make_shared<DenseIndex>(column, rows.rows, rows.dim, known, zero, use, threads, kernels);
}

// The bitmap of the wanted rows, if one is given: a bit for each row, in whole words.
const std::uint64_t* allowed_rows(const std::optional<U64Array>& allowed, std::size_t rows) {
    if (!allowed) return nullptr;
    if (allowed->ndim() != 1 || static_cast<std::size_t>(allowed->size()) != (rows + 63) / 64)
        throw InvalidInput("allowed must hold " + std::to_string((rows + 63) / 64) +
                           " words, one bit for each of " + std::to_string(rows) + " rows");
    return allowed->data();
}

py::dict stats_dict(const DenseStats& stats) {
    py::dict did;
    did["screened"] = stats.screened;
    did["candidates"] = stats.candidates;
    did["settled"] = stats.settled;
    did["plain"] = stats.plain;
    did["heads"] = stats.heads;
    did["slack"] = stats.slack;
    return did;
}

// (positions int64, scores float64, hits of each query int64, what the search did): one query after the
// other.
py::tuple search(const DenseIndex& index, const F32Array& queries, std::size_t k, std::string_view on_zero,
                 std::string_view screen, std::size_t threads, std::string_view level, double min_score,
                 const std::optional<U64Array>& allowed) {
    const Matrix rows = matrix_of(queries, "queries");
    const OnZero zero = on_zero_named(on_zero);
    const ScreenUse use = screen_use_named(screen);
    if (std::isnan(min_score)) throw InvalidInput("min_score must be a number, got NaN");
    const DenseWanted wanted{k, min_score, allowed_rows(allowed, index.matrix().rows)};
    DenseStats stats;
    const Kernels& kernels = kernels_named(level);
    std::vector<std::vector<Hit>> results;
    {
        const py::gil_scoped_release release;
        results = index.search(rows, wanted, zero, use, threads, kernels, stats);
    }
    std::size_t total = 0;
    for (const std::vector<Hit>& hits : results) total += hits.size();
    py::array_t<std::int64_t> positions(static_cast<py::ssize_t>(total));
    F64Array scores(static_cast<py::ssize_t>(total));
    py::array_t<std::int64_t> counts(static_cast<py::ssize_t>(results.size()));
    std::int64_t* position = positions.mutable_data();
    double* score = scores.mutable_data();
    std::int64_t* count = counts.mutable_data();
    for (const std::vector<Hit>& hits : results) {
        *count++ = static_cast<std::int64_t>(hits.size());
        for (const Hit& hit : hits) {
            *position++ = hit.position;
            *score++ = hit.score;
        }
    }
    return py::make_tuple(positions, scores, counts, stats_dict(stats));
}

// The same without a least score and without stats, (positions int64 [Q, k'], scores float64 [Q, k']): what
// most searches ask for, a third of the border's cost.
py::tuple best(const DenseIndex& index, const F32Array& queries, std::size_t k, std::string_view on_zero,
               std::string_view screen, std::size_t threads, std::string_view level,
               const std::optional<U64Array>& allowed) {
    const Matrix rows = matrix_of(queries, "queries");
    const OnZero zero = on_zero_named(on_zero);
    const ScreenUse use = screen_use_named(screen);
    DenseWanted wanted{k};
    wanted.allowed = allowed_rows(allowed, index.matrix().rows);
    const Kernels& kernels = kernels_named(level);
    std::vector<std::vector<Hit>> results;
    {
        const py::gil_scoped_release release;
        DenseStats stats;
        results = index.search(rows, wanted, zero, use, threads, kernels, stats);
    }
    return to_arrays(results, results.empty() ? 0 : results[0].size());
}

// The vectors themselves, not writable; the array keeps the index alive. A file's are checked first.
py::array vectors_of(const std::shared_ptr<DenseIndex>& index) {
    {
        const py::gil_scoped_release release;
        index->ensure_vectors();
    }
    const Matrix rows = index->matrix();
    const py::capsule owner(new std::shared_ptr<DenseIndex>(index),
                            [](void* pointer) { delete static_cast<std::shared_ptr<DenseIndex>*>(pointer); });
    py::array array(py::dtype::of<float>(),
                    {static_cast<py::ssize_t>(rows.rows), static_cast<py::ssize_t>(rows.dim)}, {}, rows.data,
                    owner);
    array.attr("flags").attr("writeable") = false;
    return array;
}

py::array_t<std::int64_t> select(const F64Array& relevance, const F64Array& similarity, std::size_t limit,
                                 double diversity, std::string_view level) {
    const py::ssize_t n = relevance.size();
    if (relevance.ndim() != 1 || similarity.ndim() != 2 || similarity.shape(0) != n ||
        similarity.shape(1) != n)
        throw InvalidInput("invalid MMR inputs: query_score must be [N] and pair_similarity [N, N]");
    const Kernels& kernels = kernels_named(level);
    std::vector<std::int64_t> picks;
    {
        const py::gil_scoped_release release;
        picks =
            mmr(relevance.data(), similarity.data(), static_cast<std::size_t>(n), limit, diversity, kernels);
    }
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(picks.size()), picks.data());
}

MmrPenalty penalty_named(std::string_view name) {
    if (name == "all") return MmrPenalty::all;
    if (name == "last") return MmrPenalty::last;
    throw InvalidInput("penalty must be 'all' or 'last', got '" + std::string(name) + "'");
}

// A list of (indices int64, scores float64), one for each row of relevance [Q, N].
py::list select_vectors(const F32Array& vectors, const F64Array& relevance, const py::list& selected,
                        std::size_t limit, double diversity, std::string_view penalty, std::size_t threads,
                        std::string_view level) {
    const Matrix rows = matrix_of(vectors, "vectors");
    const auto queries = static_cast<std::size_t>(relevance.shape(0));
    std::vector<std::vector<std::uint32_t>> before(queries);
    for (std::size_t q = 0; q < queries; ++q) before[q] = selected[q].cast<std::vector<std::uint32_t>>();
    const MmrPenalty rule = penalty_named(penalty);
    const Kernels& kernels = kernels_named(level);
    std::vector<std::vector<MmrPick>> results(queries);
    {
        const py::gil_scoped_release release;
        const std::vector<double> squares =
            checked_squares(rows, "vectors", Metric::cosine, OnZero::score_zero, threads, kernels);
        parallel_for(thread_count(threads), queries, [&](std::size_t, std::size_t q) {
            results[q] = mmr_vectors(rows, squares.data(), relevance.data() + q * rows.rows, before[q], limit,
                                     diversity, rule, kernels);
        });
    }
    py::list lists;
    for (const std::vector<MmrPick>& picks : results) {
        py::array_t<std::int64_t> indices(static_cast<py::ssize_t>(picks.size()));
        F64Array scores(static_cast<py::ssize_t>(picks.size()));
        for (std::size_t i = 0; i < picks.size(); ++i) {
            indices.mutable_data()[i] = static_cast<std::int64_t>(picks[i].index);
            scores.mutable_data()[i] = picks[i].score;
        }
        lists.append(py::make_tuple(indices, scores));
    }
    return lists;
}

// Cosines of every row to every query, [Q, N].
F64Array cosines(const F32Array& vectors, const F32Array& queries, std::size_t threads,
                 std::string_view level) {
    const Matrix rows = matrix_of(vectors, "vectors");
    const Matrix wanted = matrix_of(queries, "query");
    if (rows.dim != wanted.dim)
        throw InvalidInput("query has " + std::to_string(wanted.dim) + " dimensions but the vectors have " +
                           std::to_string(rows.dim));
    const Kernels& kernels = kernels_named(level);
    F64Array scores({static_cast<py::ssize_t>(wanted.rows), static_cast<py::ssize_t>(rows.rows)});
    double* const out = scores.mutable_data();
    const py::gil_scoped_release release;
    const std::vector<double> squares =
        checked_squares(rows, "vectors", Metric::cosine, OnZero::score_zero, threads, kernels);
    const std::vector<double> own =
        checked_squares(wanted, "query", Metric::cosine, OnZero::score_zero, threads, kernels);
    parallel_for(thread_count(threads), wanted.rows, [&](std::size_t, std::size_t q) {
        const std::vector<double> query(wanted.data + q * wanted.dim, wanted.data + (q + 1) * wanted.dim);
        kernels.dense_dot(query.data(), rows.data, nullptr, rows.rows, rows.dim, rows.dim,
                          out + q * rows.rows);
        finish_scores(Metric::cosine, own[q], squares.data(), rows.rows, kernels, out + q * rows.rows);
    });
    return scores;
}

}  // namespace

void register_dense(py::module_& module) {
    module.def("dense_top_k", &top_k, py::arg("vectors"), py::arg("queries"), py::arg("metric"), py::arg("k"),
               py::arg("on_zero") = "zero", py::arg("threads") = 0, py::arg("level") = "");
    py::class_<DenseIndex, std::shared_ptr<DenseIndex>>(module, "DenseIndex", py::is_final(),
                                                        "A float32 matrix ready to search.")
        .def(py::init(&make_index), py::arg("vectors"), py::arg("metric"), py::arg("on_zero") = "zero",
             py::arg("screen") = "auto", py::arg("threads") = 0, py::arg("level") = "")
        .def_property_readonly("n_rows", [](const DenseIndex& index) { return index.matrix().rows; })
        .def_property_readonly("dim", [](const DenseIndex& index) { return index.matrix().dim; })
        .def_property_readonly("screen_bytes", &DenseIndex::screen_bytes)
        .def_property_readonly("head_dims", &DenseIndex::head_dims)
        .def_property_readonly(
            "metric", [](const DenseIndex& index) { return std::string(metric_name(index.metric())); })
        .def("search", &search, py::arg("queries"), py::arg("k"), py::arg("on_zero") = "zero",
             py::arg("screen") = "auto", py::arg("threads") = 0, py::arg("level") = "",
             py::arg("min_score") = -std::numeric_limits<double>::infinity(), py::arg("allowed") = py::none())
        .def("best", &best, py::arg("queries"), py::arg("k"), py::arg("on_zero") = "zero",
             py::arg("screen") = "auto", py::arg("threads") = 0, py::arg("level") = "",
             py::arg("allowed") = py::none())
        .def_property_readonly("vectors", &vectors_of)
        .def("write", &DenseIndex::write, py::arg("writer"), py::call_guard<py::gil_scoped_release>())
        .def_static(
            "open",
            [](const std::shared_ptr<Container>& container) {
                return std::const_pointer_cast<DenseIndex>(DenseIndex::open(*container));
            },
            py::arg("container"))
        .def("verify", &DenseIndex::verify, py::call_guard<py::gil_scoped_release>());
    module.def("mmr", &select, py::arg("relevance"), py::arg("similarity"), py::arg("limit"),
               py::arg("diversity"), py::arg("level") = "");
    module.def("mmr_vectors", &select_vectors, py::arg("vectors"), py::arg("relevance"), py::arg("selected"),
               py::arg("limit"), py::arg("diversity"), py::arg("penalty") = "all", py::arg("threads") = 0,
               py::arg("level") = "");
    module.def("cosines", &cosines, py::arg("vectors"), py::arg("queries"), py::arg("threads") = 0,
               py::arg("level") = "");
}

}  // namespace gnomon
