// gnomon._core: BM25 segments from arrays, which are read where they lie.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "bindings.hpp"
#include "bindings_bm25.hpp"
#include "bm25_arrays.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

template <class T>
std::span<const T> span_of(const py::array& array) {
    return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

// fn of a null pointer to the element type, which must be one of Ts.
template <class... Ts, class Fn>
std::shared_ptr<const Bm25Index> by_type(const py::array& array, const char* name, const Fn& fn) {
    std::shared_ptr<const Bm25Index> made;
    require(array.ndim() == 1 && (array.flags() & py::array::c_style) != 0,
            "arrays must be flat and contiguous");
    const bool known =
        ((py::isinstance<py::array_t<Ts>>(array) ? (made = fn(static_cast<const Ts*>(nullptr)), true)
                                                 : false) ||
         ...);
    if (!known)
        throw InvalidInput(std::string(name) +
                           " has an element type that is not served: " + std::string(py::str(array.dtype())));
    return made;
}

template <class T>
using Element = std::remove_cv_t<std::remove_pointer_t<T>>;

std::shared_ptr<Bm25Index> of_tokens(const py::array& ids, const I64Array& offsets) {
    return std::const_pointer_cast<Bm25Index>(
        by_type<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>(ids, "token_ids", [&](auto type) {
            using T = Element<decltype(type)>;
            const std::span<const std::int64_t> starts = span_of<std::int64_t>(offsets);
            const std::span<const T> tokens = span_of<T>(ids);
            const py::gil_scoped_release release;
            return segment_of_tokens(tokens, starts);
        }));
}

std::shared_ptr<Bm25Index> of_counts(const py::array& indptr, const py::array& indices, const py::array& data,
                                     std::uint64_t n_terms) {
    if (!indptr.dtype().equal(indices.dtype()))
        throw InvalidInput("indptr and indices must have the same element type");
    return std::const_pointer_cast<Bm25Index>(
        by_type<std::int32_t, std::int64_t>(indices, "indices", [&](auto index) {
            using T = Element<decltype(index)>;
            return by_type<std::int32_t, std::int64_t, float, double>(data, "data", [&](auto value) {
                using C = Element<decltype(value)>;
                const std::span<const T> starts = span_of<T>(indptr), columns = span_of<T>(indices);
                const std::span<const C> counts = span_of<C>(data);
                const py::gil_scoped_release release;
                return segment_of_counts(starts, columns, counts, n_terms);
            });
        }));
}

}  // namespace

void register_bm25_arrays(py::module_& module) {
    module.def("segment_of_tokens", &of_tokens, py::arg("token_ids"), py::arg("offsets"),
               "A segment of token ids (int32, uint32, int64, uint64), document i from offsets[i] on.");
    module.def("segment_of_counts", &of_counts, py::arg("indptr"), py::arg("indices"), py::arg("data"),
               py::arg("n_terms"), "A segment of a CSR matrix of term frequencies, a row for each document.");
}

}  // namespace gnomon
