// gnomon._core: the tokenizer over str. Texts are read in place; only the tokens are copied.
#include <pybind11/pybind11.h>

#include <string_view>

#include "analyze.hpp"
#include "bindings.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

py::object to_str(std::string_view utf8) {
    PyObject* text = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
    if (text == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(text);
}

py::list tokens(std::string_view preset, const py::str& cased, const py::str& lowered) {
    py::list found;
    auto sink = [](void* context, const Token& token) {
        static_cast<py::list*>(context)->append(to_str(token.text));
    };
    tokenize(preset_named(preset), text_view(cased), text_view(lowered), sink, &found);
    return found;
}

py::list token_spans(std::string_view preset, const py::str& cased, const py::str& lowered) {
    py::list found;
    auto sink = [](void* context, const Token& token) {
        static_cast<py::list*>(context)->append(py::make_tuple(to_str(token.text), token.start, token.end));
    };
    tokenize(preset_named(preset), text_view(cased), text_view(lowered), sink, &found);
    return found;
}

py::list segments(const py::str& text) {
    py::list found;
    for (const auto& [start, end] : unstable_segments(text_view(text)))
        found.append(py::make_tuple(start, end));
    return found;
}

}  // namespace

void register_analyze(py::module_& module) {
    module.def("tokenize", &tokens, py::arg("preset"), py::arg("cased"), py::arg("lowered"),
               "Tokens of the two aligned views of a text (Analyzer.views), in order.");
    module.def("token_spans", &token_spans, py::arg("preset"), py::arg("cased"), py::arg("lowered"),
               "(token, start, end) of each token, in code points of `cased`.");
    module.def(
        "unstable_segments", &segments, py::arg("text"),
        "(start, end) of each stretch that normalisation may change; each for itself, and nothing else.");
    module.def(
        "unicode_version", [] { return py::str(std::string(unicode_version())); },
        "The Unicode version that the tokenizer's tables come from.");
}

}  // namespace gnomon
