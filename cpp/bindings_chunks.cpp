// Chunks of a document as a segment keeps them, from the named tuples of gnomon.corpus.assemble and builder:
// conversion only, corpus_chunks.hpp has the contract.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "corpus_chunks.hpp"
#include "corpus_render.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using std::string_view;

long long number_of(PyObject* given) {
    const long long value = PyLong_AsLongLong(given);
    if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return value;
}

PyObject* field(PyObject* tuple, Py_ssize_t place) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) <= place)
        throw py::type_error("a draft and an atom are named tuples");
    return PyTuple_GET_ITEM(tuple, place);
}

bool truth_of(PyObject* given) {
    const int truth = PyObject_IsTrue(given);
    if (truth < 0) throw py::error_already_set();
    return truth == 1;
}

string_view text_of(PyObject* text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data == nullptr) throw py::error_already_set();
    return {data, static_cast<std::size_t>(size)};
}

ChunkSpan span_of(PyObject* tuple) { return {number_of(field(tuple, 0)), number_of(field(tuple, 1))}; }

class ChunkReader {
  public:
    ChunkReader(const py::list& atoms, const py::bytes& raw, const py::bytes& data, const py::object& chars)
        : given_(atoms), raw_(raw), data_(data), chars_(chars) {
        atoms_.reserve(atoms.size());
        for (const py::handle atom : atoms)
            atoms_.push_back({number_of(field(atom.ptr(), 0)), text_of(field(atom.ptr(), 1)),
                              text_of(field(atom.ptr(), 4))});
        // What a run of the same kinds has in common.
        for (const char* kind : {"prose", "list", "table", "heading", "code"}) kinds_.append(py::str(kind));
    }

    // (records, kinds, bodies, codes, texts) of the drafts.
    py::tuple read(const py::list& drafts) {
        for (const py::handle draft : drafts) one(draft.ptr());
        return py::make_tuple(records_, chunk_kinds_, bodies_, codes_, texts_);
    }

  private:
    void one(PyObject* draft) {
        const auto first = static_cast<std::size_t>(number_of(field(draft, 1)));
        const auto after = std::max(first, static_cast<std::size_t>(number_of(field(draft, 2))));
        const std::int64_t start = number_of(field(draft, 3)), end = number_of(field(draft, 4));
        if (after > atoms_.size() || start < 0 || end < start || end > size(raw_) || end > size(data_))
            throw py::index_error("a draft lies outside of its document");
        const py::handle words = field(draft, 5);
        if (!PyUnicode_Check(words.ptr())) throw py::type_error("the text of a draft is a str");
        py::object owner;
        const string_view text = utf8_view(words, owner);
        const ChunkBlocks parts = blocks_of(std::span(atoms_).subspan(first, after - first), start, end);
        read_marks(field(draft, 6), end - start);

        split(words, text, parts, start);
        chunk_kinds_.append(kind_of(parts.kind));
        texts_.append(py::bytes(text.data(), text.size()));
        ChunkRecord record{number_of(field(draft, 0)),
                           {start, end},
                           chars_of(start, end),
                           lines_of(start, end),
                           {},
                           {},
                           map_of_marks(),
                           truth_of(field(draft, 7)),
                           first < after ? header_of(first, start) : std::nullopt};
        const auto shown =
            raw_.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start));
        if (auto packed = pack_text(shown, record.map, text)) {
            record.map = std::move(packed->map);
            record.pieces = std::move(packed->pieces);
        } else {
            record.text = text_of(words.ptr());
        }
        records_.append(py::bytes(encode_chunk(record, parts)));
    }

    static std::int64_t size(string_view bytes) { return static_cast<std::int64_t>(bytes.size()); }

    // The marks; none where the text is the raw bytes.
    void read_marks(PyObject* given, std::int64_t length) {
        marks_.clear();
        if (given == Py_None) return;
        if (!PyList_Check(given)) throw py::type_error("marks are a list or None");
        const Py_ssize_t n = PyList_GET_SIZE(given);
        for (Py_ssize_t i = 0; i < n; ++i) {
            const long long mark = number_of(PyList_GET_ITEM(given, i));
            if (mark < INT32_MIN || mark > INT32_MAX) throw py::value_error("a mark does not fit 32 bits");
            marks_.push_back(static_cast<std::int32_t>(mark));
        }
        if (n == 3 && marks_[0] == 0 && marks_[1] == length && marks_[2] == -1) marks_.clear();
    }

    std::string map_of_marks() const {
        std::string map;
        map.reserve(4 * marks_.size());
        for (const std::int32_t mark : marks_)
            for (int i = 0; i < 4; ++i)
                map.push_back(static_cast<char>(static_cast<std::uint32_t>(mark) >> (8 * i) & 0xFF));
        return map;
    }

    void split(py::handle words, string_view text, const ChunkBlocks& parts, std::int64_t start) {
        const auto n_code = std::count_if(parts.blocks.begin(), parts.blocks.end(),
                                          [](const ChunkBlock& block) { return block.kind == "code"; });
        if (n_code == 0 && parts.kind != "code") {
            bodies_.append(words), codes_.append(empty_);
        } else if (static_cast<std::size_t>(n_code) == parts.blocks.size()) {
            bodies_.append(empty_), codes_.append(words);
        } else {
            const auto [body, code] = split_code(text, parts.blocks, marks_, start);
            bodies_.append(to_str(body)), codes_.append(to_str(code));
        }
    }

    py::object kind_of(string_view kind) const {
        for (const py::handle known : kinds_)
            if (text_of(known.ptr()) == kind) return py::reinterpret_borrow<py::object>(known);
        return py::str(kind.data(), kind.size());
    }

    ChunkSpan chars_of(std::int64_t start, std::int64_t end) const {
        if (chars_.is_none()) return {start, end};
        return {number_of(chars_[py::int_(start)].ptr()), number_of(chars_[py::int_(end)].ptr())};
    }

    // The first and the last line of a chunk; chunks come in order.
    ChunkSpan lines_of(std::int64_t start, std::int64_t end) {
        line_ += line_feeds(counted_, start);
        counted_ = start;
        return {line_, line_ + line_feeds(start, end - 1)};
    }
    std::int64_t line_feeds(std::int64_t begin, std::int64_t end) const {
        if (end <= begin) return 0;
        return std::count(data_.begin() + begin, data_.begin() + end, '\n');
    }

    std::optional<ChunkSpan> header_of(std::size_t atom, std::int64_t start) const {
        PyObject* given = field(PyList_GET_ITEM(given_.ptr(), static_cast<Py_ssize_t>(atom)), 5);
        if (given == Py_None) return {};
        const ChunkSpan header = span_of(given);
        return header.second <= start ? std::optional(header) : std::nullopt;
    }

    py::list given_;
    string_view raw_, data_;
    py::object chars_;
    std::vector<AtomView> atoms_;
    std::vector<std::int32_t> marks_;
    std::int64_t line_ = 1, counted_ = 0;
    py::list kinds_, records_, chunk_kinds_, bodies_, codes_, texts_;
    py::str empty_{""};
};

}  // namespace

void register_chunks(py::module_& module) {
    module.def(
        "chunk_records",
        [](const py::list& drafts, const py::list& atoms, const py::bytes& raw, const py::bytes& data,
           const py::object& chars) { return ChunkReader(atoms, raw, data, chars).read(drafts); },
        py::arg("drafts"), py::arg("atoms"), py::arg("raw"), py::arg("data"), py::arg("chars"),
        "(records, kinds, bodies, codes, texts in UTF-8) of a document's drafts, as stored_chunks and\n"
        "split_code make them of the finished chunks. `data` are the parser's bytes, `chars` the\n"
        "characters before each end of a chunk, or None where they are the bytes.");
}

}  // namespace gnomon
