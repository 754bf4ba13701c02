// What the binding files share. Each registers its part of gnomon._core; bindings.cpp calls them in order.
#pragma once
#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "analyze.hpp"

namespace gnomon {

void register_errors(pybind11::module_& module);
void register_storage(pybind11::module_& module);
void register_analyze(pybind11::module_& module);
void register_filter(pybind11::module_& module);  // after register_bm25
void register_bm25(pybind11::module_& module);
void register_bm25_snapshot(pybind11::module_& module);
void register_bm25_arrays(pybind11::module_& module);
void register_impacts(pybind11::module_& module);
void register_query(pybind11::module_& module);
void register_bm25_search(pybind11::module_& module);
void register_bm25_device(pybind11::module_& module);  // after register_bm25_search
void register_dense(pybind11::module_& module);
void register_dense64(pybind11::module_& module);
void register_trigram(pybind11::module_& module);  // after register_storage
void register_lines(pybind11::module_& module);    // after register_storage
void register_corpus(pybind11::module_& module);
void register_markdown(pybind11::module_& module);
void register_chunks(pybind11::module_& module);
void register_names(pybind11::module_& module);
void register_facts(pybind11::module_& module);

// A str's code points where they lie, without a copy. They never move or change while the caller holds a
// reference to `text`, so they may be read with the GIL released.
inline TextView text_view(pybind11::handle text) {
    if (!PyUnicode_Check(text.ptr())) {
        throw pybind11::type_error(std::string("text must be a str, got ") + Py_TYPE(text.ptr())->tp_name);
    }
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(text.ptr()) != 0) throw pybind11::error_already_set();
#endif
    return {PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
            static_cast<int>(PyUnicode_KIND(text.ptr()))};
}

// The str of UTF-8 in which lone surrogates are three bytes.
inline pybind11::object to_str(std::string_view utf8) {
    PyObject* text = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
    if (text == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::object>(text);
}

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

}  // namespace gnomon
