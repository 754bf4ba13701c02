// What the bindings of the corpus share.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "corpus_words.hpp"

namespace gnomon {

// (start, end, ...) of each tuple. Throws TypeError or ValueError.
std::vector<RawSpan> spans_of(const pybind11::list& given);

// `locate_spans` with marks as Python has them: a list of flat triples, or None.
std::vector<RawSpan> located(const pybind11::str& text, const pybind11::object& marks,
                             std::vector<RawSpan> spans);

// A named tuple without its Python constructor. Throws TypeError where `type` is none.
inline pybind11::object named_tuple(const pybind11::object& type, const pybind11::tuple& fields) {
    if (!PyType_Check(type.ptr()) ||
        !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type.ptr()), Py_TPFLAGS_TUPLE_SUBCLASS))
        throw pybind11::type_error("what is made is a type of tuples");
    const pybind11::tuple arguments = pybind11::make_tuple(fields);
    PyObject* tuple =
        PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments.ptr(), nullptr);
    if (tuple == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::object>(tuple);
}

}  // namespace gnomon
