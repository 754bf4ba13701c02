// gnomon._core: the tokenizer over str. Texts are read in place; only the tokens are copied.
#include <pybind11/pybind11.h>

#include <string_view>

#include "analyze.hpp"
#include "bindings.hpp"
#include "porter.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

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

py::list marked_spans(std::string_view preset, const py::str& cased, const py::str& lowered) {
    py::list found;
    auto sink = [](void* context, const Token& token) {
        static_cast<py::list*>(context)->append(
            py::make_tuple(to_str(token.text), token.start, token.end, token.whole));
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

py::list porter_stems(const py::list& words) {
    py::list found;
    for (const py::handle word : words) {
        if (!PyUnicode_Check(word.ptr())) throw py::type_error("words must hold str");
        py::object owner;
        found.append(to_str(porter_stem(utf8_view(word, owner))));
    }
    return found;
}

}  // namespace

void register_analyze(py::module_& module) {
    module.def("tokenize", &tokens, py::arg("preset"), py::arg("cased"), py::arg("lowered"),
               "Tokens of the two aligned views of a text (Analyzer.views), in order.");
    module.def("token_spans", &token_spans, py::arg("preset"), py::arg("cased"), py::arg("lowered"),
               "(token, start, end) of each token, in code points of `cased`.");
    module.def("marked_spans", &marked_spans, py::arg("preset"), py::arg("cased"), py::arg("lowered"),
               "(token, start, end, whole): `whole` of an identifier whose parts follow.");
    module.def(
        "unstable_segments", &segments, py::arg("text"),
        "(start, end) of each stretch that normalisation may change; each for itself, and nothing else.");
    module.def("porter_stems", &porter_stems, py::arg("words"), "The Porter stem of each word, in order.");
    module.def(
        "unicode_version", [] { return py::str(std::string(unicode_version())); },
        "The Unicode version that the tokenizer's tables come from.");
}

}  // namespace gnomon
