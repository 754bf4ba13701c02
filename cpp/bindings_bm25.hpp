// What the binding files of BM25 share: arrays, and tokens as Python gives them.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gnomon {

using U32Array = pybind11::array_t<std::uint32_t, pybind11::array::c_style>;
using I64Array = pybind11::array_t<std::int64_t, pybind11::array::c_style>;
using F64Array = pybind11::array_t<double, pybind11::array::c_style>;

// The UTF-8 of a str, lone surrogates as three bytes; `owner` keeps it alive. ASCII is not copied.
inline std::string_view utf8_view(pybind11::handle token, pybind11::object& owner) {
    if (PyUnicode_IS_ASCII(token.ptr()))
        return {static_cast<const char*>(PyUnicode_DATA(token.ptr())),
                static_cast<std::size_t>(PyUnicode_GET_LENGTH(token.ptr()))};
    owner = pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_AsEncodedString(token.ptr(), "utf-8", "surrogatepass"));
    if (!owner) throw pybind11::error_already_set();
    return {PyBytes_AS_STRING(owner.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(owner.ptr()))};
}

// Tokens as a list or tuple; anything else that iterates is copied into one. A str is refused: its characters
// would pass for tokens.
inline pybind11::object token_sequence(pybind11::handle tokens, const char* what, std::size_t place) {
    const std::string name = std::string(what) + "[" + std::to_string(place) + "]";
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

[[noreturn]] inline void refuse_token(const char* what, std::size_t place, Py_ssize_t i,
                                      pybind11::handle token) {
    throw pybind11::type_error(std::string(what) + "[" + std::to_string(place) + "][" + std::to_string(i) +
                               "] is a " + Py_TYPE(token.ptr())->tp_name +
                               "; tokens are str, or integers in every document");
}

}  // namespace gnomon
