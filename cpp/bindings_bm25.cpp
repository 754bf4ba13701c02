// gnomon._core: BM25. Python objects in, arrays out; the work happens with the GIL released.
#include "bindings_bm25.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "bm25_builder.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

// Documents come flat, all fields of one after the other: part i is field i % n_fields of document i /
// n_fields.
class PartWalk {
  public:
    PartWalk(Bm25Builder& builder, std::size_t n_parts, std::size_t first = 0)
        : builder_(builder), first_(first) {
        if (n_parts % builder.n_fields() != 0)
            throw InvalidInput("documents must have " + std::to_string(builder.n_fields()) + " parts each");
    }
    std::size_t document(std::size_t part) const { return first_ + part / builder_.n_fields(); }
    void begin(std::size_t part) const { builder_.begin_field(part % builder_.n_fields()); }
    void end(std::size_t part) const {
        if ((part + 1) % builder_.n_fields() == 0) builder_.end_document();
    }

  private:
    Bm25Builder& builder_;
    std::size_t first_;
};

// `first` is the number of the first document, for messages.
void add_tokens(Bm25Builder& builder, const py::list& parts, std::size_t first) {
    const PartWalk walk(builder, parts.size(), first);
    for (std::size_t part = 0; part < parts.size(); ++part) {
        const std::size_t place = walk.document(part);
        const py::object tokens = token_sequence(parts[part], "documents", place);
        const Py_ssize_t n = PySequence_Fast_GET_SIZE(tokens.ptr());
        walk.begin(part);
        for (Py_ssize_t i = 0; i < n; ++i) {
            const py::handle token = PySequence_Fast_GET_ITEM(tokens.ptr(), i);
            if (!PyUnicode_Check(token.ptr())) refuse_token("documents", place, i, token);
            py::object owner;
            builder.add_token(utf8_view(token, owner));
        }
        walk.end(part);
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
    const PartWalk walk(builder, views.size());
    const py::gil_scoped_release release;
    for (std::size_t part = 0; part < views.size(); ++part) {
        walk.begin(part);
        builder.add_text(known, views[part].first, views[part].second);
        walk.end(part);
    }
}

void add_ids(Bm25Builder& builder, const U32Array& ids, const I64Array& offsets) {
    const std::int64_t* const starts = offsets.data();
    const py::ssize_t parts = offsets.size() - 1;
    if (parts < 0 || starts[0] != 0 || starts[parts] != ids.size())
        throw InvalidInput("offsets must start at 0 and end at the number of token ids, " +
                           std::to_string(ids.size()));
    for (py::ssize_t part = 0; part < parts; ++part)
        if (starts[part] > starts[part + 1])
            throw InvalidInput("offsets must not fall, but offsets[" + std::to_string(part + 1) + "] does");
    const PartWalk walk(builder, static_cast<std::size_t>(parts));
    const py::gil_scoped_release release;
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part) {
        walk.begin(part);
        for (std::int64_t i = starts[part]; i < starts[part + 1]; ++i) builder.add_term(ids.data()[i]);
        walk.end(part);
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

std::size_t known_field(const Bm25Index& index, std::size_t field) {
    if (field >= index.n_fields())
        throw py::index_error("field " + std::to_string(field) + " is not in the index");
    return field;
}

// Copies of a term's documents and frequencies, both u32.
py::tuple postings(const Bm25Index& index, std::uint64_t term, std::size_t field) {
    if (term >= index.n_terms())
        throw py::index_error("term " + std::to_string(term) + " is not in the index");
    const Postings list = index.postings(term, known_field(index, field));
    U32Array tfs(static_cast<py::ssize_t>(list.docs.size()));
    for (std::size_t i = 0; i < list.docs.size(); ++i) tfs.mutable_data()[i] = list.tf(i);
    return py::make_tuple(U32Array(static_cast<py::ssize_t>(list.docs.size()), list.docs.data()), tfs);
}

// The positions of a term in each of its documents, as lists.
py::list positions(const Bm25Index& index, std::uint64_t term, std::size_t field) {
    if (!index.has_positions()) throw InvalidInput("this index was built without positions");
    if (term >= index.n_terms())
        throw py::index_error("term " + std::to_string(term) + " is not in the index");
    const Postings list = index.postings(term, known_field(index, field));
    PositionsCursor cursor = index.positions(term, list, field);
    py::list found;
    std::vector<std::uint32_t> one;
    for (std::size_t i = 0; i < list.docs.size(); ++i) {
        cursor.read(i, one);
        found.append(py::cast(one));
    }
    return found;
}

}  // namespace

void register_bm25(py::module_& module) {
    py::class_<Bm25Builder>(module, "Bm25Builder", py::is_final(),
                            "Collects documents; finish() makes the index.")
        .def(py::init<bool, std::size_t, bool>(), py::arg("with_vocabulary"), py::arg("n_fields") = 1,
             py::arg("with_positions") = false)
        .def("add_tokens", &add_tokens, py::arg("documents"), py::arg("first") = 0)
        .def("add_texts", &add_texts, py::arg("cased"), py::arg("lowered"), py::arg("preset"))
        .def("add_ids", &add_ids, py::arg("ids"), py::arg("offsets"))
        .def("add_matches", &add_matches, py::arg("documents"), py::arg("query_terms"))
        .def_property_readonly("n_docs", &Bm25Builder::n_docs)
        .def_property_readonly("n_tokens", &Bm25Builder::n_tokens)
        .def_property_readonly("memory", &Bm25Builder::memory)
        .def("finish", &Bm25Builder::finish, py::call_guard<py::gil_scoped_release>());

    py::class_<Bm25Index, std::shared_ptr<Bm25Index>>(module, "Bm25Index", py::is_final(),
                                                      "One immutable BM25 segment.")
        .def_property_readonly("n_docs", &Bm25Index::n_docs)
        .def_property_readonly("n_fields", &Bm25Index::n_fields)
        .def_property_readonly("has_positions", &Bm25Index::has_positions)
        .def("positions", &positions, py::arg("term"), py::arg("field") = 0)
        .def(
            "n_tokens",
            [](const Bm25Index& index, std::size_t field) {
                return index.n_tokens(known_field(index, field));
            },
            py::arg("field") = 0)
        .def_property_readonly("n_terms", &Bm25Index::n_terms)
        .def(
            "n_postings",
            [](const Bm25Index& index, std::size_t field) {
                return index.n_postings(known_field(index, field));
            },
            py::arg("field") = 0)
        .def_property_readonly("is_mapped", &Bm25Index::is_mapped)
        .def_property_readonly("memory", &Bm25Index::memory)
        .def("postings", &postings, py::arg("term"), py::arg("field") = 0)
        .def(
            "length",
            [](const Bm25Index& index, std::uint32_t doc, std::size_t field) {
                if (doc >= index.n_docs())
                    throw py::index_error("document " + std::to_string(doc) + " is not in the index");
                return index.length(doc, known_field(index, field));
            },
            py::arg("doc"), py::arg("field") = 0)
        .def_property_readonly("has_vocabulary", &Bm25Index::has_vocabulary)
        .def("lookup", &lookup, py::arg("queries"))
        .def_property_readonly("is_packed", &Bm25Index::is_packed)
        .def_property_readonly("kept", &Bm25Index::kept)
        .def("write", &Bm25Index::write, py::arg("writer"), py::arg("packed") = false,
             py::call_guard<py::gil_scoped_release>())
        .def_static(
            "open",
            [](const std::shared_ptr<Container>& container) {
                return std::const_pointer_cast<Bm25Index>(Bm25Index::open(container));
            },
            py::arg("container"))
        .def("verify", &Bm25Index::verify, py::call_guard<py::gil_scoped_release>());
}

}  // namespace gnomon
