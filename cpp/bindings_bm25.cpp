// gnomon._core: BM25. Python objects in, arrays out; the work happens with the GIL released.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.hpp"
#include "bm25_search.hpp"
#include "error.hpp"
#include "parallel.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using U32Array = py::array_t<std::uint32_t, py::array::c_style>;
using I64Array = py::array_t<std::int64_t, py::array::c_style>;
using F64Array = py::array_t<double, py::array::c_style>;

// Tokens as a list or tuple; anything else that iterates is copied into one. A str is refused: its characters
// would pass for tokens.
py::object token_sequence(py::handle tokens, const char* what, std::size_t place) {
    const std::string name = std::string(what) + "[" + std::to_string(place) + "]";
    if (PyUnicode_Check(tokens.ptr()) || PyBytes_Check(tokens.ptr()))
        throw py::type_error(name + " is a " + Py_TYPE(tokens.ptr())->tp_name + "; pass a list of tokens");
    PyObject* sequence = PySequence_Fast(tokens.ptr(), "not iterable");
    if (sequence == nullptr) {
        PyErr_Clear();
        throw py::type_error(name + " is a " + Py_TYPE(tokens.ptr())->tp_name + "; pass a list of tokens");
    }
    return py::reinterpret_steal<py::object>(sequence);
}

[[noreturn]] void refuse_token(const char* what, std::size_t place, Py_ssize_t i, py::handle token) {
    throw py::type_error(std::string(what) + "[" + std::to_string(place) + "][" + std::to_string(i) +
                         "] is a " + Py_TYPE(token.ptr())->tp_name +
                         "; tokens are str, or integers in every document");
}

void add_tokens(Bm25Builder& builder, const py::list& documents) {
    const std::size_t first = builder.n_docs();
    for (std::size_t place = 0; place < documents.size(); ++place) {
        const py::object tokens = token_sequence(documents[place], "documents", first + place);
        const Py_ssize_t n = PySequence_Fast_GET_SIZE(tokens.ptr());
        for (Py_ssize_t i = 0; i < n; ++i) {
            const py::handle token = PySequence_Fast_GET_ITEM(tokens.ptr(), i);
            if (!PyUnicode_Check(token.ptr())) refuse_token("documents", first + place, i, token);
            py::object owner;
            builder.add_token(utf8_view(token, owner));
        }
        builder.end_document();
    }
}

void add_texts(Bm25Builder& builder, const py::list& cased, const py::list& lowered,
               std::string_view preset) {
    if (cased.size() != lowered.size()) throw InvalidInput("cased and lowered must have the same length");
    std::vector<std::pair<TextView, TextView>> views;
    views.reserve(cased.size());
    for (std::size_t i = 0; i < cased.size(); ++i)
        views.emplace_back(text_view(cased[i]), text_view(lowered[i]));
    const Preset known = preset_named(preset);
    const py::gil_scoped_release release;
    for (const auto& [text, lower] : views) builder.add_text(known, text, lower);
}

void add_ids(Bm25Builder& builder, const U32Array& ids, const I64Array& offsets) {
    const std::int64_t* const starts = offsets.data();
    const py::ssize_t documents = offsets.size() - 1;
    if (documents < 0 || starts[0] != 0 || starts[documents] != ids.size())
        throw InvalidInput("offsets must start at 0 and end at the number of token ids, " +
                           std::to_string(ids.size()));
    for (py::ssize_t doc = 0; doc < documents; ++doc)
        if (starts[doc] > starts[doc + 1])
            throw InvalidInput("offsets must not fall, but offsets[" + std::to_string(doc + 1) + "] does");
    const py::gil_scoped_release release;
    for (py::ssize_t doc = 0; doc < documents; ++doc) {
        for (std::int64_t i = starts[doc]; i < starts[doc + 1]; ++i) builder.add_term(ids.data()[i]);
        builder.end_document();
    }
}

// bm25_scores: only the query's terms get postings, the other tokens only count. Tokens may be any hashables.
void add_matches(Bm25Builder& builder, const py::list& documents, const py::dict& query_terms) {
    for (std::size_t place = 0; place < documents.size(); ++place) {
        const py::object tokens = token_sequence(documents[place], "documents", place);
        // A token's own __hash__ and __eq__ run in the look-up and may change the list: its length is read
        // anew each time, and the token is held meanwhile.
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tokens.ptr()); ++i) {
            const auto token = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(tokens.ptr(), i));
            PyObject* const id = PyDict_GetItemWithError(query_terms.ptr(), token.ptr());
            if (id != nullptr)
                builder.add_term(static_cast<std::uint32_t>(PyLong_AsUnsignedLong(id)));
            else if (PyErr_Occurred() != nullptr)
                throw py::error_already_set();
            else
                builder.skip_token();
        }
        builder.end_document();
    }
}

// The known terms of each query, flat, with offsets.
py::tuple lookup(const Bm25Index& index, const py::list& queries) {
    if (!index.has_vocabulary())
        throw InvalidInput("this index was built from token ids; query it with token ids");
    std::vector<std::uint32_t> terms;
    I64Array offsets(static_cast<py::ssize_t>(queries.size() + 1));
    offsets.mutable_data()[0] = 0;
    for (std::size_t place = 0; place < queries.size(); ++place) {
        const py::object tokens = token_sequence(queries[place], "queries", place);
        const Py_ssize_t n = PySequence_Fast_GET_SIZE(tokens.ptr());
        for (Py_ssize_t i = 0; i < n; ++i) {
            const py::handle token = PySequence_Fast_GET_ITEM(tokens.ptr(), i);
            if (!PyUnicode_Check(token.ptr())) refuse_token("queries", place, i, token);
            py::object owner;
            if (const auto id = index.vocabulary().find(utf8_view(token, owner))) terms.push_back(*id);
        }
        offsets.mutable_data()[place + 1] = static_cast<std::int64_t>(terms.size());
    }
    return py::make_tuple(U32Array(static_cast<py::ssize_t>(terms.size()), terms.data()), offsets);
}

std::span<const std::uint32_t> term_span(const Bm25Index& index, const U32Array& terms) {
    const std::span<const std::uint32_t> span(terms.data(), static_cast<std::size_t>(terms.size()));
    for (const std::uint32_t term : span)
        if (term >= index.n_terms())
            throw py::index_error("term " + std::to_string(term) + " is not in the index");
    return span;
}

// (offsets, positions, scores) of all queries, flat.
py::tuple search_many(const Bm25Index& index, const U32Array& terms, const I64Array& offsets, std::size_t k,
                      double k1, double b, std::size_t threads, std::string_view level) {
    const std::span<const std::uint32_t> flat = term_span(index, terms);
    require(offsets.size() > 0, "offsets of the queries must start with 0");
    const std::int64_t* const starts = offsets.data();
    const std::size_t n = static_cast<std::size_t>(offsets.size() - 1);
    for (std::size_t q = 0; q <= n; ++q)
        if (starts[q] < 0 || starts[q] > terms.size() || (q > 0 && starts[q] < starts[q - 1]))
            throw InvalidInput("offsets of the queries do not fit their terms");
    std::vector<std::vector<Hit>> results(n);
    {
        const py::gil_scoped_release release;
        const Kernels& kernels = kernels_named(level);
        const auto scoring = index.scoring({k1, b});
        const std::size_t workers = std::min(thread_count(threads), std::max<std::size_t>(n, 1));
        std::vector<Bm25Scratch> scratch(workers);
        parallel_for(workers, n, [&](std::size_t worker, std::size_t q) {
            const auto first = static_cast<std::size_t>(starts[q]);
            const auto count = static_cast<std::size_t>(starts[q + 1]) - first;
            results[q] =
                bm25_search(index, *scoring, flat.subspan(first, count), k, kernels, scratch[worker]);
        });
    }
    I64Array ends(static_cast<py::ssize_t>(n + 1));
    std::int64_t total = 0;
    for (std::size_t q = 0; q <= n; ++q) {
        ends.mutable_data()[q] = total;
        if (q < n) total += static_cast<std::int64_t>(results[q].size());
    }
    I64Array positions(total);
    F64Array scores(total);
    std::int64_t at = 0;
    for (const std::vector<Hit>& hits : results) {
        for (const Hit& hit : hits) {
            positions.mutable_data()[at] = hit.position;
            scores.mutable_data()[at++] = hit.score;
        }
    }
    return py::make_tuple(ends, positions, scores);
}

F64Array score_all(const Bm25Index& index, const U32Array& terms, double k1, double b,
                   std::string_view level) {
    const std::span<const std::uint32_t> span = term_span(index, terms);
    F64Array scores(static_cast<py::ssize_t>(index.n_docs()));
    double* const out = scores.mutable_data();
    const py::gil_scoped_release release;
    bm25_score_all(index, *index.scoring({k1, b}), span, kernels_named(level), out);
    return scores;
}

}  // namespace

void register_bm25(py::module_& module) {
    py::class_<Bm25Builder>(module, "Bm25Builder", py::is_final(),
                            "Collects documents; finish() makes the index.")
        .def(py::init<bool>(), py::arg("with_vocabulary"))
        .def("add_tokens", &add_tokens, py::arg("documents"))
        .def("add_texts", &add_texts, py::arg("cased"), py::arg("lowered"), py::arg("preset"))
        .def("add_ids", &add_ids, py::arg("ids"), py::arg("offsets"))
        .def("add_matches", &add_matches, py::arg("documents"), py::arg("query_terms"))
        .def_property_readonly("n_docs", &Bm25Builder::n_docs)
        .def_property_readonly("n_tokens", &Bm25Builder::n_tokens)
        .def("finish", &Bm25Builder::finish, py::call_guard<py::gil_scoped_release>());

    py::class_<Bm25Index, std::shared_ptr<Bm25Index>>(module, "Bm25Index", py::is_final(),
                                                      "One immutable BM25 segment.")
        .def_property_readonly("n_docs", &Bm25Index::n_docs)
        .def_property_readonly("n_tokens", &Bm25Index::n_tokens)
        .def_property_readonly("n_terms", &Bm25Index::n_terms)
        .def_property_readonly("n_postings", &Bm25Index::n_postings)
        .def_property_readonly("has_vocabulary", &Bm25Index::has_vocabulary)
        .def("lookup", &lookup, py::arg("queries"))
        .def(
            "prepare", [](const Bm25Index& index, double k1, double b) { index.scoring({k1, b}); },
            py::arg("k1"), py::arg("b"), py::call_guard<py::gil_scoped_release>())
        .def("search_many", &search_many, py::arg("terms"), py::arg("offsets"), py::arg("k"), py::arg("k1"),
             py::arg("b"), py::arg("threads") = 0, py::arg("level") = "")
        .def("scores", &score_all, py::arg("terms"), py::arg("k1"), py::arg("b"), py::arg("level") = "")
        .def("write", &Bm25Index::write, py::arg("writer"), py::call_guard<py::gil_scoped_release>())
        .def_static(
            "open",
            [](const std::shared_ptr<Container>& container) {
                return std::const_pointer_cast<Bm25Index>(Bm25Index::open(container));
            },
            py::arg("container"))
        .def("verify", &Bm25Index::verify, py::call_guard<py::gil_scoped_release>());
}

}  // namespace gnomon
