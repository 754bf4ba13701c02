// What the binding files of BM25 share: arrays, and tokens as Python gives them.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "bm25_search.hpp"

namespace gnomon {

using U32Array = pybind11::array_t<std::uint32_t, pybind11::array::c_style>;
using I64Array = pybind11::array_t<std::int64_t, pybind11::array::c_style>;
using F64Array = pybind11::array_t<double, pybind11::array::c_style>;

// Tokens of one query, not of a list of them.
constexpr std::size_t kAlone = SIZE_MAX;

inline std::string place_name(const char* what, std::size_t place) {
    return place == kAlone ? what : std::string(what) + "[" + std::to_string(place) + "]";
}

// Tokens as a list or tuple; anything else that iterates is copied into one. A str is refused: its characters
// would pass for tokens.
inline pybind11::object token_sequence(pybind11::handle tokens, const char* what, std::size_t place) {
    const std::string name = place_name(what, place);
    if (PyUnicode_Check(tokens.ptr()) || PyBytes_Check(tokens.ptr()))
        throw pybind11::type_error(name + " is a " + Py_TYPE(tokens.ptr())->tp_name +
                                   "; pass a list of tokens");
    PyObject* sequence = PySequence_Fast(tokens.ptr(), "not iterable");
    if (sequence == nullptr) {
        PyErr_Clear();
        throw pybind11::type_error(name + " is a " + Py_TYPE(tokens.ptr())->tp_name +
                                   "; pass a list of tokens");
    }
    return pybind11::reinterpret_steal<pybind11::object>(sequence);
}

using QueryWeights = std::optional<std::vector<double>>;

// The known terms of a query; with `once` the first of equal ones only. places, if given, takes where in the
// query each stands.
Bm25Query query_of(const Bm25Scorer& scorer, pybind11::handle tokens, const QueryWeights& weights, bool once,
                   std::size_t place = kAlone, std::vector<std::int64_t>* places = nullptr);

[[noreturn]] inline void refuse_token(const char* what, std::size_t place, Py_ssize_t i,
                                      pybind11::handle token) {
    throw pybind11::type_error(place_name(what, place) + "[" + std::to_string(i) + "] is a " +
                               Py_TYPE(token.ptr())->tp_name +
                               "; tokens are str, or integers in every document");
}

}  // namespace gnomon
