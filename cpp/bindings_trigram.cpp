// Python's view of the trigram index: conversion only, trigram.hpp has the contracts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "storage.hpp"
#include "trigram.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

constexpr int kDeepest = 200;  // of a query: it is walked by recursion

// bytes, or ("all" | "any", [parts])
TrigramQuery query_of(const py::handle& value, int depth = 0) {
    TrigramQuery query;
    if (py::isinstance<py::bytes>(value)) {
        query.kind = TrigramQuery::Kind::literal;
        query.literal = py::cast<std::string>(value);
        return query;
    }
    if (!py::isinstance<py::tuple>(value) || py::len(value) != 2)
        throw py::type_error("a trigram query is bytes or a tuple ('all' or 'any', parts)");
    if (depth == kDeepest) throw py::value_error("a trigram query is nested at most 200 deep");
    const auto pair = py::reinterpret_borrow<py::tuple>(value);
    const auto kind = py::cast<std::string>(pair[0]);
    if (kind != "all" && kind != "any")
        throw py::value_error("a trigram query is 'all' or 'any' of parts, got '" + kind + "'");
    query.kind = kind == "all" ? TrigramQuery::Kind::all : TrigramQuery::Kind::any;
    for (const py::handle part : pair[1]) query.parts.push_back(query_of(part, depth + 1));
    return query;
}

// Held while the views of its bytes are in use.
class Parts {
  public:
    explicit Parts(const py::iterable& parts) {
        for (const py::handle part : parts) {
            auto& view = views_.emplace_back();
            if (PyObject_GetBuffer(part.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) {
                views_.pop_back();
                release();
                throw py::error_already_set();
            }
            texts_.emplace_back(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
        }
    }
    ~Parts() { release(); }
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;
    const std::vector<std::string_view>& texts() const { return texts_; }

  private:
    void release() {
        for (Py_buffer& view : views_) PyBuffer_Release(&view);
        views_.clear();
    }
    std::vector<Py_buffer> views_;
    std::vector<std::string_view> texts_;
};

py::array_t<std::uint64_t> words_of(const DocSet& docs) {
    const auto words = docs.words();
    return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(words.size()), words.data());
}

}  // namespace

void register_trigram(py::module_& module) {
    module.def(
        "trigram_fold", [](const py::bytes& text) { return py::bytes(trigram_fold(std::string(text))); },
        py::arg("text"), "The bytes of which trigrams are taken.");
    py::class_<TrigramBuilder>(module, "TrigramBuilder", py::is_final(),
                               "Collects the trigrams of documents, which are numbered from 0.")
        .def(py::init<>())
        .def(
            "add",
            [](TrigramBuilder& builder, const py::iterable& parts) {
                const Parts held(parts);
                const py::gil_scoped_release unlocked;
                builder.add(held.texts());
            },
            py::arg("parts"), "Add the next document, given as its buffers.")
        .def_property_readonly("n_docs", &TrigramBuilder::n_docs)
        .def("write", &TrigramBuilder::write, py::arg("writer"), py::call_guard<py::gil_scoped_release>(),
             "Write the sections; the caller finishes the file.");
    py::class_<TrigramIndex, std::shared_ptr<TrigramIndex>>(
        module, "TrigramIndex", py::is_final(), "The trigrams of a segment's documents, in a mapped file.")
        .def_static(
            "open",
            [](const std::shared_ptr<Container>& container) {
                return std::const_pointer_cast<TrigramIndex>(TrigramIndex::open(container));
            },
            py::arg("container"))
        .def_property_readonly("n_docs", &TrigramIndex::n_docs)
        .def_property_readonly("n_trigrams", &TrigramIndex::n_trigrams)
        .def(
            "candidates",
            [](const TrigramIndex& index, const py::object& query) {
                const TrigramQuery wanted = query_of(query);
                DocSet found;
                {
                    const py::gil_scoped_release unlocked;
                    found = index.candidates(wanted);
                }
                return words_of(found);
            },
            py::arg("query"),
            "A bitmap of the documents that hold all trigrams that the query needs: bytes, or\n"
            "('all', parts), or ('any', parts).")
        .def(
            "docs", [](const TrigramIndex& index, std::uint32_t key) { return index.docs(key); },
            py::arg("key"), "The documents that hold a trigram, its first byte highest.")
        .def("verify", &TrigramIndex::verify, py::call_guard<py::gil_scoped_release>(),
             "Read and check everything; CorruptIndex names the damage.");
}

}  // namespace gnomon
