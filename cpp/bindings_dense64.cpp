// Search over float64 rows.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "dense64.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using F64Array = py::array_t<double, py::array::c_style>;

std::shared_ptr<Dense64> make(const F64Array& rows, std::string_view metric,
                              const std::vector<double>& centre, int exponent, bool screened,
                              std::size_t threads, std::string_view level) {
    if (rows.ndim() != 2) throw InvalidInput("vectors must be a matrix [rows, dimensions]");
    const auto owner = std::shared_ptr<const void>(new py::array(rows), [](const void* array) {
        const py::gil_scoped_acquire acquire;
        delete static_cast<const py::array*>(array);
    });
    const Metric known = metric_named(metric);
    const Kernels& kernels = kernels_named(level);
    const double* const data = rows.data();
    const auto n = static_cast<std::size_t>(rows.shape(0));
    const auto dim = static_cast<std::size_t>(rows.shape(1));
    const py::gil_scoped_release release;
    return std::make_shared<Dense64>(data, n, dim, owner, known, centre, exponent, screened, threads,
                                     kernels);
}

// (positions int64, scores float64, hits of each query int64): one query after the other.
py::tuple search(const Dense64& index, const F64Array& queries, std::size_t k, double min_score,
                 std::size_t threads, std::string_view level) {
    if (queries.ndim() != 2 || static_cast<std::size_t>(queries.shape(1)) != index.dim())
        throw InvalidInput("queries must be a matrix [Q, " + std::to_string(index.dim()) + "]");
    if (min_score != min_score) throw InvalidInput("min_score must be a number, got NaN");
    const Kernels& kernels = kernels_named(level);
    const double* const data = queries.data();
    const auto n = static_cast<std::size_t>(queries.shape(0));
    std::vector<std::vector<Hit>> results;
    {
        const py::gil_scoped_release release;
        results = index.search(data, n, {k, min_score}, threads, kernels);
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
    return py::make_tuple(positions, scores, counts);
}

}  // namespace

void register_dense64(py::module_& module) {
    py::class_<Dense64, std::shared_ptr<Dense64>>(module, "Dense64", py::is_final(),
                                                  "A float64 matrix ready to search.")
        .def(py::init(&make), py::arg("vectors"), py::arg("metric"), py::arg("centre"), py::arg("exponent"),
             py::arg("screened"), py::arg("threads") = 0, py::arg("level") = "")
        .def_property_readonly("screen_bytes", &Dense64::screen_bytes)
        .def("search", &search, py::arg("queries"), py::arg("k"),
             py::arg("min_score") = -std::numeric_limits<double>::infinity(), py::arg("threads") = 0,
             py::arg("level") = "");
}

}  // namespace gnomon
