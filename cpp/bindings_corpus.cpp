// Python's view of what processing documents needs compiled: conversion only, corpus_*.hpp have the
// contracts.
#include "bindings_corpus.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "corpus_render.hpp"
#include "corpus_tokens.hpp"
#include "corpus_words.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

// A word or a part of words, with the flags of a word that is it, holds it, begins with it.
using Flagged = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>;

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// What gnomon.corpus.words says of a word of ASCII.
WordFacts facts_of(std::string_view word, const std::vector<Flagged>& flagged) {
    WordFacts facts;
    for (const auto& [part, is, holds, begins] : flagged) {
        if (is != 0 && word == part) facts.flags |= is;
        if ((holds | begins) != 0 && word.find(part) != std::string_view::npos) facts.flags |= holds;
        if (begins != 0 && word.starts_with(part)) facts.flags |= begins;
    }
    find_tokens(word, facts.hits);
    return facts;
}

py::tuple word_facts(const std::string& word, const std::vector<Flagged>& flagged) {
    if (!is_ascii(word)) throw py::value_error("only words of ASCII");
    const WordFacts facts = facts_of(word, flagged);
    py::list hits;
    for (const WordHit& hit : facts.hits) hits.append(py::make_tuple(hit.begin, hit.end, hit.group));
    return py::make_tuple(facts.flags, hits);
}

// A scanner with the function that knows words, and the names of the groups. With `flagged` it is asked for
// words of other letters than ASCII only.
class Words {
  public:
    Words(py::function lookup, const std::vector<std::string>& groups, std::vector<std::string> parts,
          std::vector<Flagged> flagged)
        : lookup_(std::move(lookup)), scanner_(std::move(parts)), flagged_(std::move(flagged)) {
        for (const std::string& group : groups) groups_.append(py::str(group));
    }

    // ([(start, end, group)], flags)
    py::tuple hits(const py::str& text) {
        std::vector<WordHit> found;
        const auto unknown = [&](std::size_t begin, std::size_t end) { return facts(text, begin, end); };
        const std::uint32_t flags = scanner_.scan(text_view(text), unknown, found);
        py::list hits(found.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            const WordHit& hit = found[i];
            hits[i] = py::make_tuple(hit.begin, hit.end, py::object(groups_[hit.group]));
        }
        return py::make_tuple(hits, flags);
    }
    std::size_t size() const { return scanner_.size(); }

  private:
    WordFacts facts(const py::str& text, std::size_t begin, std::size_t end) const {
        if (!flagged_.empty() && PyUnicode_KIND(text.ptr()) == PyUnicode_1BYTE_KIND) {
            const auto* letters = reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(text.ptr()));
            const std::string_view word(letters + begin, end - begin);
            if (is_ascii(word)) return facts_of(word, flagged_);
        }
        PyObject* part =
            PyUnicode_Substring(text.ptr(), static_cast<Py_ssize_t>(begin), static_cast<Py_ssize_t>(end));
        if (part == nullptr) throw py::error_already_set();
        const auto said = lookup_(py::reinterpret_steal<py::object>(part)).cast<py::tuple>();
        WordFacts facts;
        facts.flags = said[0].cast<std::uint32_t>();
        for (const py::handle each : said[1]) {
            const auto hit = each.cast<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>();
            if (std::get<2>(hit) >= groups_.size()) throw py::index_error("there is no such group");
            facts.hits.push_back({std::get<0>(hit), std::get<1>(hit), std::get<2>(hit)});
        }
        return facts;
    }

    py::function lookup_;
    py::list groups_;
    WordScanner scanner_;
    std::vector<Flagged> flagged_;
};

py::bytes plain_names(const py::str& text, const py::list& spans) {
    std::string found;
    for (const RawSpan& span : spans_of(spans)) found += stands_plain(text_view(text), span) ? '\1' : '\0';
    return found;
}

py::list located_spans(const py::str& text, const py::object& marks, std::int64_t base,
                       const py::list& spans) {
    const std::vector<RawSpan> places = located(text, marks, spans_of(spans));
    py::list found(places.size());
    for (std::size_t i = 0; i < places.size(); ++i)
        found[i] = py::make_tuple(base + places[i].start, base + places[i].end);
    return found;
}

// A buffer's bytes while it is held.
class Held {
  public:
    explicit Held(const py::object& given) {
        if (PyObject_GetBuffer(given.ptr(), &view_, PyBUF_C_CONTIGUOUS) != 0) throw py::error_already_set();
    }
    ~Held() { PyBuffer_Release(&view_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::string_view bytes() const {
        return {static_cast<const char*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

  private:
    Py_buffer view_{};
};

py::object packed(const py::object& raw, const py::bytes& marks, const py::bytes& text) {
    const Held held(raw);
    const auto made = pack_text(held.bytes(), std::string_view(marks), std::string_view(text));
    if (!made) return py::none();
    return py::make_tuple(py::bytes(made->map), py::bytes(made->pieces));
}

py::tuple unpacked(const py::object& raw, const py::bytes& map, const py::bytes& pieces) {
    const Held held(raw);
    const RenderedText made = unpack_text(held.bytes(), std::string_view(map), std::string_view(pieces));
    return py::make_tuple(py::bytes(made.marks), py::bytes(made.text));
}

}  // namespace

std::vector<RawSpan> spans_of(const py::list& given) {
    std::vector<RawSpan> spans;
    spans.reserve(given.size());
    for (const py::handle span : given) {
        if (!PyTuple_Check(span.ptr()) || PyTuple_GET_SIZE(span.ptr()) < 2)
            throw py::type_error("a span is a tuple (start, end)");
        const std::int64_t start = PyLong_AsLongLong(PyTuple_GET_ITEM(span.ptr(), 0));
        const std::int64_t end = PyLong_AsLongLong(PyTuple_GET_ITEM(span.ptr(), 1));
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        if (start < 0 || end < start) throw py::value_error("require 0 <= start <= end");
        spans.push_back({start, end});
    }
    return spans;
}

std::vector<RawSpan> located(const py::str& text, const py::object& marks, std::vector<RawSpan> spans) {
    std::vector<std::int64_t> numbers;
    if (!marks.is_none()) {
        const auto given = marks.cast<py::list>();
        numbers.reserve(given.size());
        for (const py::handle number : given) numbers.push_back(PyLong_AsLongLong(number.ptr()));
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    }
    locate_spans(text_view(text), numbers, spans);
    return spans;
}

void register_corpus(py::module_& module) {
    py::class_<Words>(
        module, "WordScanner", py::is_final(),
        "Finds what stands in the words of texts; each different word is looked at once.\n\n"
        "`lookup(word)` gives (flags, [(start, end, place in `groups`)]). With `parts` it is not\n"
        "asked for a word of letters and signs that has none of them (corpus_words.hpp). With\n"
        "`flagged` it is asked for words that are not ASCII only; word_facts tells of the others.")
        .def(py::init<py::function, const std::vector<std::string>&, std::vector<std::string>,
                      std::vector<Flagged>>(),
             py::arg("lookup"), py::arg("groups"), py::arg("parts") = std::vector<std::string>(),
             py::arg("flagged") = std::vector<Flagged>())
        .def("hits", &Words::hits, py::arg("text"),
             "([(start, end, group)] in order, the flags of all words or-ed).")
        .def("__len__", &Words::size);
    module.def("word_facts", &word_facts, py::arg("word"), py::arg("flagged"),
               "(flags, [(start, end, place of the group)]) of a word of ASCII, as\n"
               "gnomon.corpus.words finds them. `flagged` are words or parts, each with the flags of a\n"
               "word that is it, that holds it, that begins with it. ValueError for other words.");
    module.def("locate_spans", &located_spans, py::arg("text"), py::arg("marks"), py::arg("base"),
               py::arg("spans"),
               "Raw bytes, `base` added, that show character spans of a text; their starts rise.\n\n"
               "`marks` are flat triples as in gnomon.corpus.rawmap; None: the text is the raw bytes.");
    module.def("plain_names", &plain_names, py::arg("text"), py::arg("spans"),
               "A byte for each name of a text: 1 where nothing near it can say what it is.");
    module.def("pack_text", &packed, py::arg("raw"), py::arg("marks"), py::arg("text"),
               "A rendered text (UTF-8) as (map, pieces): what its raw bytes do not say. None where they\n"
               "do not have it.");
    module.def("unpack_text", &unpacked, py::arg("raw"), py::arg("map"), py::arg("pieces"),
               "(marks, text) of what pack_text made of these raw bytes. CorruptIndex when they do not fit.");
}

}  // namespace gnomon
