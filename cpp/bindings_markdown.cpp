// The loop over pyromark's events: the compiled twin of gnomon.corpus.markdown_reference, which says what
// each event means. It fills the same lists of a Parsed; what is rare it leaves to methods of the reader.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <string_view>

#include "bindings.hpp"
#include "bindings_corpus.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using std::string_view;

constexpr long kCopied = -1;

string_view text_of(PyObject* text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data == nullptr) throw py::error_already_set();
    return {data, static_cast<std::size_t>(size)};
}

bool is_str(PyObject* given, string_view word) { return PyUnicode_Check(given) && text_of(given) == word; }

// The only item of a dict; false when `given` is no dict or empty.
bool only_item(PyObject* given, PyObject** key, PyObject** value) {
    Py_ssize_t place = 0;
    return PyDict_Check(given) && PyDict_Next(given, &place, key, value) != 0 && PyUnicode_Check(*key);
}

long number_of(PyObject* given) {
    const long value = PyLong_AsLong(given);
    if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return value;
}

void append(PyObject* list, PyObject* item) {
    if (PyList_Append(list, item) != 0) throw py::error_already_set();
}

void append(PyObject* list, long value) { append(list, py::int_(value).ptr()); }

py::list list_of(const py::object& owner, const char* name) {
    const py::object found = owner.attr(name);
    if (!PyList_Check(found.ptr())) throw py::type_error(std::string(name) + " must be a list");
    return py::reinterpret_borrow<py::list>(found);
}

class EventReader {
  public:
    EventReader(const py::object& reader, const py::object& parsed, const py::bytes& data)
        : reader_(reader), parsed_(parsed), data_(static_cast<string_view>(data)) {
        texts_ = list_of(parsed, "texts"), marks_ = list_of(parsed, "marks"),
        atoms_ = list_of(parsed, "atoms");
        links_ = list_of(parsed, "links"), codes_ = list_of(parsed, "codes");
        skips_ = list_of(reader, "skips");
        const auto types = py::module_::import("gnomon.corpus.builder");
        atom_type_ = types.attr("Atom"), link_type_ = types.attr("Link");
        load();
    }

    void read(const py::iterable& events) {
        for (const py::handle given : events) {
            if (!PyTuple_Check(given.ptr()) || PyTuple_GET_SIZE(given.ptr()) != 2)
                throw py::type_error("an event is a pair of the event and its range");
            PyObject* span = PyTuple_GET_ITEM(given.ptr(), 1);
            begin_ = place(span, start_), end_ = place(span, stop_);
            one(PyTuple_GET_ITEM(given.ptr(), 0));
        }
        store();
    }

  private:
    static long place(PyObject* span, const py::str& name) {
        if (!PyDict_Check(span)) throw py::type_error("the range of an event must be a dict");
        PyObject* value = PyDict_GetItemWithError(span, name.ptr());
        if (value == nullptr) throw py::key_error("the range of an event has start and end");
        return number_of(value);
    }

    void one(PyObject* event) {
        PyObject *key = nullptr, *value = nullptr;
        if (!only_item(event, &key, &value)) {
            if (is_str(event, "SoftBreak") || is_str(event, "HardBreak")) put_line();
            return;
        }
        const string_view name = text_of(key);
        if (name == "Text")
            text(value);
        else if (name == "End")
            closed(value);
        else if (name == "Start")
            opened(value);
        else if (name == "Code")
            code(value);
        else if (name == "InlineHtml")
            ask("_inline_html", py::reinterpret_borrow<py::object>(value), begin_, end_);
        else if (name == "FootnoteReference")
            ask("_copy", begin_, end_);
    }

    void text(PyObject* words) {
        if (begin_ < last_) return;  // indentation inside of an HTML block, which was read whole
        if (!in_code_ && may_skip() && ask("_skipped", begin_).cast<bool>()) return;
        const string_view spelled = text_of(words);  // refuses what is no str before it is in the list
        append(texts_.ptr(), words);
        const long size = end_ - begin_;
        if (PyUnicode_GET_LENGTH(words) == size || spelled == slice(begin_, end_)) {
            if (begin_ == last_ && ends_copied())
                lengthen(size);
            else
                mark(begin_ - last_, size, kCopied);
        } else {
            mark(begin_ - last_, size, static_cast<long>(spelled.size()));
        }
        last_ = end_;
    }

    // Whether the place is not before the next line of tags; of them, the next is the last of the list.
    bool may_skip() const {
        const Py_ssize_t n = PyList_GET_SIZE(skips_.ptr());
        return n > 0 && begin_ >= number_of(PyTuple_GetItem(PyList_GET_ITEM(skips_.ptr(), n - 1), 0));
    }

    void code(PyObject* words) {
        const string_view spelled = text_of(words);
        if (slice(begin_ + 1, end_ - 1) != spelled || spelled.find("\\_") != string_view::npos) {
            const py::bytes bytes(spelled.data(), spelled.size());
            ask("_odd_code", begin_, end_, py::reinterpret_borrow<py::object>(words), bytes);
            return;
        }
        append(texts_.ptr(), words);
        mark(begin_ + 1 - last_, end_ - begin_ - 2, kCopied);
        append(codes_.ptr(), py::make_tuple(begin_ + 1, end_ - 1).ptr());
        last_ = end_ - 1;
    }

    void put_line() {
        append(texts_.ptr(), newline_.ptr());
        mark(begin_ - last_, end_ - begin_, 1);
        last_ = end_;
    }

    void closed(PyObject* value) {
        PyObject *key = nullptr, *inner = nullptr;
        if (only_item(value, &key, &inner)) {
            const string_view name = text_of(key);
            if (name == "Heading")
                heading();
            else if (name == "BlockQuote")
                --depth_;
        } else if (is_str(value, "Item") || is_str(value, "FootnoteDefinition")) {
            --depth_;
        } else if (is_str(value, "CodeBlock")) {
            in_code_ = false;
        }
    }

    void heading() {
        if (depth_ == 0) ask("_heading", level_, heading_start_, end_);
    }

    void opened(PyObject* value) {
        PyObject *key = nullptr, *inner = nullptr;
        if (only_item(value, &key, &inner)) {
            opened_with(text_of(key), inner);
            return;
        }
        if (!PyUnicode_Check(value)) return;
        const string_view name = text_of(value);
        if (name == "TableCell") {
            if (!first_cell_) {
                append(texts_.ptr(), bar_.ptr());
                mark(0, begin_ - last_, 3);
                last_ = begin_;
            }
            first_cell_ = false;
        } else if (name == "Item") {
            ++depth_;
            atom(list_, empty_, py::none());
        } else if (name == "Paragraph") {
            atom(depth_ != 0 ? list_ : prose_, empty_, py::none());
        } else if (name == "TableRow") {
            if (head_end_ == 0) head_end_ = begin_;
            first_cell_ = true;
            atom(table_, empty_, py::make_tuple(head_begin_, head_end_));
        } else if (name == "TableHead") {
            head_begin_ = begin_, head_end_ = 0;
            first_cell_ = true;
            atom(table_, empty_, py::none());
        } else if (name == "HtmlBlock") {
            ask("_html_block", begin_, end_);
        }
    }

    void opened_with(string_view name, PyObject* inner) {
        if (name == "Link" || name == "Image") {
            const auto url = py::reinterpret_borrow<py::dict>(inner)["dest_url"];
            append(links_.ptr(), named_tuple(link_type_, py::make_tuple(url, begin_, end_)).ptr());
        } else if (name == "Heading") {
            level_ = text_of(py::reinterpret_borrow<py::dict>(inner)["level"].ptr()).at(1) - '0';
            heading_start_ = begin_;
            atom(depth_ != 0 ? prose_ : heading_, empty_, py::none());
        } else if (name == "CodeBlock") {
            in_code_ = true;
            atom(code_, reader_.attr("_language")(py::reinterpret_borrow<py::object>(inner)), py::none());
        } else if (name == "BlockQuote") {
            ++depth_;
        } else if (name == "FootnoteDefinition") {
            ++depth_;
            atom(list_, empty_, py::none());
        }
    }

    // Parsed.atom
    void atom(const py::str& kind, const py::object& info, const py::object& header) {
        const long start = std::max(begin_, last_);
        const Py_ssize_t n_atoms = PyList_GET_SIZE(atoms_.ptr()), n_texts = PyList_GET_SIZE(texts_.ptr());
        if (n_atoms > 0) {
            PyObject* before = PyList_GET_ITEM(atoms_.ptr(), n_atoms - 1);
            if (number_of(PyTuple_GetItem(before, 2)) + 1 == n_texts &&
                !is_str(PyTuple_GetItem(before, 1), "heading")) {
                const auto old = py::reinterpret_borrow<py::tuple>(before);
                atoms_[static_cast<std::size_t>(n_atoms - 1)] =
                    named_tuple(atom_type_, py::make_tuple(old[0], kind, old[2], old[3], info, header));
                return;
            }
        }
        const auto fields = py::make_tuple(start, kind, n_texts, PyList_GET_SIZE(marks_.ptr()), info, header);
        append(atoms_.ptr(), named_tuple(atom_type_, fields).ptr());
        append(texts_.ptr(), newline_.ptr());
        mark(0, start - last_, 1);
        last_ = start;
    }

    // A method of the reader, which may add to the lists and move `last`.
    template <class... Args>
    py::object ask(const char* method, Args&&... args) {
        store();
        py::object answer = reader_.attr(method)(std::forward<Args>(args)...);
        load();
        return answer;
    }
    void store() { parsed_.attr("last") = last_; }
    void load() { last_ = parsed_.attr("last").cast<long>(); }

    string_view slice(long begin, long end) const {
        if (begin < 0 || end < begin || end > static_cast<long>(data_.size())) return {};
        return data_.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    }
    void mark(long skip, long length, long width) {
        append(marks_.ptr(), skip);
        append(marks_.ptr(), length);
        append(marks_.ptr(), width);
    }
    bool ends_copied() const {
        const Py_ssize_t n = PyList_GET_SIZE(marks_.ptr());
        return n > 0 && number_of(PyList_GET_ITEM(marks_.ptr(), n - 1)) == kCopied;
    }
    void lengthen(long more) {
        const auto at = static_cast<std::size_t>(PyList_GET_SIZE(marks_.ptr()) - 2);
        marks_[at] = py::int_(number_of(PyList_GET_ITEM(marks_.ptr(), static_cast<Py_ssize_t>(at))) + more);
    }

    py::object reader_, parsed_, atom_type_, link_type_;
    string_view data_;
    py::list texts_, marks_, atoms_, links_, codes_, skips_;
    py::str start_{"start"}, stop_{"end"}, newline_{"\n"}, bar_{" | "}, empty_{""};
    py::str list_{"list"}, prose_{"prose"}, table_{"table"}, heading_{"heading"}, code_{"code"};
    long begin_ = 0, end_ = 0, last_ = 0, depth_ = 0, level_ = 0, heading_start_ = 0;
    long head_begin_ = 0, head_end_ = 0;
    bool in_code_ = false, first_cell_ = false;
};

}  // namespace

void register_markdown(py::module_& module) {
    module.def(
        "read_markdown",
        [](const py::object& reader, const py::object& parsed, const py::bytes& data,
           const py::iterable& events) { EventReader(reader, parsed, data).read(events); },
        py::arg("reader"), py::arg("parsed"), py::arg("data"), py::arg("events"),
        "Reads pyromark's events into a Parsed as gnomon.corpus.markdown_reference does.");
}

}  // namespace gnomon
