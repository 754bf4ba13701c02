// gnomon._core: eager scores by column, which are read where they lie; impacts.hpp has the contracts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bindings.hpp"
#include "bindings_bm25.hpp"
#include "error.hpp"
#include "impacts.hpp"
#include "parallel.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using AnyImpacts = std::variant<Impacts<float, std::int32_t>, Impacts<float, std::int64_t>,
                                Impacts<double, std::int32_t>, Impacts<double, std::int64_t>>;

template <class T>
std::span<const T> span_of(const py::array& array) {
    return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

struct Held {
    py::array data, indices;  // kept alive
    I64Array indptr;
    AnyImpacts impacts;
};

template <class T, class I>
std::unique_ptr<Held> made(const py::array& data, const py::array& indices, const I64Array& indptr,
                           std::uint64_t n_docs) {
    const std::span<const T> values = span_of<T>(data);
    const std::span<const I> documents = span_of<I>(indices);
    const std::span<const std::int64_t> starts = span_of<std::int64_t>(indptr);
    std::optional<Impacts<T, I>> impacts;
    {
        const py::gil_scoped_release release;
        impacts.emplace(values, documents, starts, n_docs);
    }
    return std::make_unique<Held>(Held{data, indices, indptr, std::move(*impacts)});
}

std::unique_ptr<Held> held(const py::array& data, const py::array& indices, const I64Array& indptr,
                           std::uint64_t n_docs) {
    for (const py::array& array : {data, indices, static_cast<const py::array&>(indptr)})
        require(array.ndim() == 1 && (array.flags() & py::array::c_style) != 0,
                "arrays must be flat and contiguous");
    const bool wide = py::isinstance<py::array_t<std::int64_t>>(indices);
    require(wide || py::isinstance<py::array_t<std::int32_t>>(indices), "indices must be int32 or int64");
    if (py::isinstance<py::array_t<float>>(data))
        return wide ? made<float, std::int64_t>(data, indices, indptr, n_docs)
                    : made<float, std::int32_t>(data, indices, indptr, n_docs);
    require(py::isinstance<py::array_t<double>>(data), "data must be float32 or float64");
    return wide ? made<double, std::int64_t>(data, indices, indptr, n_docs)
                : made<double, std::int32_t>(data, indices, indptr, n_docs);
}

void check_columns(std::span<const std::int64_t> columns, std::size_t n_columns) {
    for (const std::int64_t column : columns)
        if (column < 0 || static_cast<std::uint64_t>(column) >= n_columns)
            throw InvalidInput("the query holds the token id " + std::to_string(column) + "; the index has " +
                               std::to_string(n_columns));
}

py::array sums(const Held& self, const I64Array& columns) {
    return std::visit(
        [&]<class T, class I>(const Impacts<T, I>& impacts) -> py::array {
            const std::span<const std::int64_t> wanted = span_of<std::int64_t>(columns);
            check_columns(wanted, impacts.n_columns());
            py::array_t<T> result(static_cast<py::ssize_t>(impacts.n_docs()));
            T* const values = result.mutable_data();
            const py::gil_scoped_release release;
            std::fill_n(values, impacts.n_docs(), T{0});
            impacts.add(wanted, values);
            return result;
        },
        self.impacts);
}

py::object top_k(const Held& self, const I64Array& columns, const I64Array& offsets, std::size_t k,
                 const std::optional<py::array>& shifts, std::size_t threads) {
    return std::visit(
        [&]<class T, class I>(const Impacts<T, I>& impacts) -> py::object {
            const std::span<const std::int64_t> all = span_of<std::int64_t>(columns);
            const std::span<const std::int64_t> ends = span_of<std::int64_t>(offsets);
            check_columns(all, impacts.n_columns());
            require(!ends.empty() && ends.front() == 0 && std::is_sorted(ends.begin(), ends.end()) &&
                        ends.back() == static_cast<std::int64_t>(all.size()),
                    "offsets must rise from 0 to the number of columns");
            require(k <= impacts.n_docs(), "k must be at most the number of documents");
            const std::size_t n = ends.size() - 1;
            std::span<const T> shift;
            if (shifts) {
                require(py::isinstance<py::array_t<T>>(*shifts) && shifts->ndim() == 1 &&
                            (shifts->flags() & py::array::c_style) != 0 &&
                            static_cast<std::size_t>(shifts->size()) == n,
                        "shifts must hold a number of the data's type for each query");
                shift = span_of<T>(*shifts);
            }
            for (const T value : shift)
                if (!std::isfinite(value)) return py::none();
            for (std::size_t query = 0; query < n; ++query)
                if (!impacts.bounded(static_cast<std::size_t>(ends[query + 1] - ends[query])))
                    return py::none();
            const auto rows = static_cast<py::ssize_t>(n);
            py::array_t<T> scores({rows, static_cast<py::ssize_t>(k)});
            py::array_t<std::int64_t> found({rows, static_cast<py::ssize_t>(k)});
            T* const scores_at = scores.mutable_data();
            std::int64_t* const found_at = found.mutable_data();
            {
                const py::gil_scoped_release release;
                const std::size_t workers = std::min(thread_count(threads), std::max<std::size_t>(n, 1));
                std::vector<typename Impacts<T, I>::Scratch> scratch(workers);
                parallel_for(workers, n, [&](std::size_t worker, std::size_t query) {
                    const auto first = static_cast<std::size_t>(ends[query]);
                    const auto last = static_cast<std::size_t>(ends[query + 1]);
                    impacts.top_k(all.subspan(first, last - first), shift.empty() ? T{0} : shift[query], k,
                                  scratch[worker], scores_at + query * k, found_at + query * k);
                });
            }
            return py::make_tuple(scores, found);
        },
        self.impacts);
}

}  // namespace

void register_impacts(py::module_& module) {
    py::class_<Held>(
        module, "Impacts", py::is_final(),
        "Scores by column, float32 or float64, of documents int32 or int64; views of the arrays.")
        .def(py::init(&held), py::arg("data"), py::arg("indices"), py::arg("indptr"), py::arg("n_docs"))
        .def("sums", &sums, py::arg("columns"), "The sum of some columns, left to right: [n_docs].")
        .def("top_k", &top_k, py::arg("columns"), py::arg("offsets"), py::arg("k"),
             py::arg("shifts") = py::none(), py::arg("threads") = 0,
             "Scores and documents [Q, k] of the best; query i has columns[offsets[i]:offsets[i + 1]].\n"
             "None where a score might not be finite.");
}

}  // namespace gnomon
