// gnomon._core: dense top-k and MMR. Arrays come in as C-contiguous float32 and float64
// (python/gnomon/dense.py converts); the work happens with the GIL released.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>

#include "bindings.hpp"
#include "dense.hpp"
#include "error.hpp"
#include "mmr.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using F32Array = py::array_t<float, py::array::c_style>;
using F64Array = py::array_t<double, py::array::c_style>;

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
        const std::vector<double> squares =
            checked_squares(rows, "documents", metric, zero, threads, kernels);
        const std::vector<double> own = checked_squares(wanted, "query", metric, zero, threads, kernels);
        results = dense_top_k(rows, squares.data(), wanted, own.data(), metric, k, threads, kernels);
    }
    return to_arrays(results, std::min(k, rows.rows));
}

std::shared_ptr<DenseIndex> make_index(const F32Array& vectors, std::string_view metric,
                                       std::string_view on_zero, std::size_t threads,
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
    const Kernels& kernels = kernels_named(level);
    const py::gil_scoped_release release;
    return std::make_shared<DenseIndex>(column, rows.rows, rows.dim, known, zero, threads, kernels);
}

py::tuple search(const DenseIndex& index, const F32Array& queries, std::size_t k, std::string_view on_zero,
                 std::size_t threads, std::string_view level) {
    const Matrix wanted = matrix_of(queries, "queries");
    const OnZero zero = on_zero_named(on_zero);
    const Kernels& kernels = kernels_named(level);
    std::vector<std::vector<Hit>> results;
    {
        const py::gil_scoped_release release;
        results = index.search(wanted, k, zero, threads, kernels);
    }
    return to_arrays(results, std::min(k, index.matrix().rows));
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

}  // namespace

void register_dense(py::module_& module) {
    module.def("dense_top_k", &top_k, py::arg("vectors"), py::arg("queries"), py::arg("metric"), py::arg("k"),
               py::arg("on_zero") = "zero", py::arg("threads") = 0, py::arg("level") = "");
    py::class_<DenseIndex, std::shared_ptr<DenseIndex>>(module, "DenseIndex", py::is_final(),
                                                        "A float32 matrix ready to search.")
        .def(py::init(&make_index), py::arg("vectors"), py::arg("metric"), py::arg("on_zero") = "zero",
             py::arg("threads") = 0, py::arg("level") = "")
        .def_property_readonly("n_rows", [](const DenseIndex& index) { return index.matrix().rows; })
        .def_property_readonly("dim", [](const DenseIndex& index) { return index.matrix().dim; })
        .def_property_readonly(
            "metric", [](const DenseIndex& index) { return std::string(metric_name(index.metric())); })
        .def("search", &search, py::arg("queries"), py::arg("k"), py::arg("on_zero") = "zero",
             py::arg("threads") = 0, py::arg("level") = "")
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
}

}  // namespace gnomon
