// The loop over the names of a chunk: the compiled half of gnomon.corpus.mentions.Finder, which decides what
// is asked for here.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "bindings_corpus.hpp"
#include "corpus_names.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using std::string_view;

// Ranges [start, end) with rising starts, by place: of those that start before it, the last one counts.
class Ranges {
  public:
    void add(std::int64_t start, std::int64_t end) { starts_.push_back(start), ends_.push_back(end); }
    bool hold(std::int64_t place) const {
        const auto after = std::upper_bound(starts_.begin(), starts_.end(), place);
        return after != starts_.begin() &&
               place < ends_[static_cast<std::size_t>(after - starts_.begin() - 1)];
    }

  private:
    std::vector<std::int64_t> starts_, ends_;
};

std::int64_t at(py::handle tuple, Py_ssize_t place) {
    PyObject* item = PyTuple_GetItem(tuple.ptr(), place);
    if (item == nullptr) throw py::error_already_set();
    const long long value = PyLong_AsLongLong(item);
    if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return value;
}

// One document's places, and what the names of its chunks are.
class NameJudge {
  public:
    NameJudge(py::object mention, const py::dict& fixed, const py::list& atoms, const py::list& codes,
              const py::list& links, const py::set& titled, bool source)
        : mention_(std::move(mention)), source_(source) {
        for (const auto& [group, kind] : fixed)
            fixed_[group.cast<std::string>()] = py::reinterpret_borrow<py::str>(kind);
        for (const py::handle atom : atoms) {
            starts_.push_back(at(atom, 0));
            code_.push_back(py::reinterpret_borrow<py::tuple>(atom)[1].cast<string_view>() == "code");
        }
        for (const py::handle code : codes) codes_.add(at(code, 0), at(code, 1));
        for (const py::handle link : links) links_.add(at(link, 1), at(link, 2));
        for (const py::handle place : titled) titled_.insert(place.cast<std::int64_t>());
    }

    // Mentions, and where one is not decided (start, end, group, first and last raw byte, whether in code,
    // what is near).
    py::list names(const py::str& text, const py::object& marks, std::int64_t base,
                   const py::list& hits) const {
        const std::vector<RawSpan> spans = spans_of(hits);
        const std::vector<RawSpan> places = located(text, marks, spans);
        py::list found;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            const py::object group = py::reinterpret_borrow<py::tuple>(hits[i])[2];
            one(text, spans[i], group, {base + places[i].start, base + places[i].end}, found);
        }
        return found;
    }

  private:
    void one(const py::str& text, RawSpan span, const py::object& group, RawSpan raw, py::list& found) const {
        const bool code = in_code(raw.start);
        const auto ask = [&](unsigned near) {
            found.append(py::make_tuple(span.start, span.end, group, raw.start, raw.end, code, near));
        };
        const auto spelling = group.cast<string_view>();
        if (const auto known = fixed_.find(std::string(spelling)); known != fixed_.end()) {
            if (py::len(known->second) > 0)
                found.append(mention(known->second, part(text, span), raw, code));
            else if (code || codes_.hold(raw.start))
                ask(0);
            return;
        }
        const NamePlace place = place_of(text, span, raw.start, code);
        const py::object name = part(text, span);
        py::object owner;
        switch (judge_name(name_group(spelling), place, utf8_view(name, owner))) {
            case NameVerdict::nothing:
                return;
            case NameVerdict::ask:
                return ask(place.near);
            case NameVerdict::identifier:
                found.append(mention(identifier_, name, raw, code));
                return;
            case NameVerdict::klass:
                found.append(mention(class_, name, raw, code));
                return;
        }
    }

    NamePlace place_of(const py::str& text, RawSpan span, std::int64_t start, bool code) const {
        char sign = '\0';
        if (span.end < PyUnicode_GET_LENGTH(text.ptr())) {
            const Py_UCS4 c = PyUnicode_READ_CHAR(text.ptr(), static_cast<Py_ssize_t>(span.end));
            sign = c < 0x80 ? static_cast<char>(c) : '\0';
        }
        return {code,
                source_,
                titled_.contains(start),
                codes_.hold(start),
                links_.hold(start),
                near_of(text_view(text), span),
                sign};
    }

    bool in_code(std::int64_t place) const {
        const auto after = std::upper_bound(starts_.begin(), starts_.end(), place);
        return after != starts_.begin() && code_[static_cast<std::size_t>(after - starts_.begin() - 1)];
    }

    static py::object part(const py::str& text, RawSpan span) {
        PyObject* made = PyUnicode_Substring(text.ptr(), static_cast<Py_ssize_t>(span.start),
                                             static_cast<Py_ssize_t>(span.end));
        if (made == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(made);
    }

    py::object mention(const py::str& kind, const py::object& name, RawSpan raw, bool code) const {
        const auto fields =
            py::make_tuple(kind, name, raw.start, raw.end, code && !source_ ? example_ : mentions_);
        return named_tuple(mention_, fields);
    }

    py::object mention_;
    bool source_;
    std::unordered_map<std::string, py::str> fixed_;
    std::vector<std::int64_t> starts_;  // of atoms
    std::vector<char> code_;            // whether an atom is code
    Ranges codes_, links_;
    std::unordered_set<std::int64_t> titled_;
    py::str identifier_{"identifier"}, class_{"class"}, example_{"example"}, mentions_{"mentions"};
};

}  // namespace

void register_names(py::module_& module) {
    py::class_<NameJudge>(
        module, "NameJudge", py::is_final(),
        "What the names in the chunks of one document are, as far as their places and shapes say so\n"
        "(corpus_names.hpp).\n\n"
        "`fixed` are types by group, `atoms`, `codes` and `links` those of the document in order,\n"
        "`titled` the places where headings define something; `source`: it is source code.")
        .def(py::init<py::object, const py::dict&, const py::list&, const py::list&, const py::list&,
                      const py::set&, bool>(),
             py::arg("mention"), py::arg("fixed"), py::arg("atoms"), py::arg("codes"), py::arg("links"),
             py::arg("titled"), py::arg("source"))
        .def("names", &NameJudge::names, py::arg("text"), py::arg("marks"), py::arg("base"), py::arg("hits"),
             "Of each hit (start, end, group) of a chunk nothing, a mention, or what must be decided:\n"
             "(start, end, group, first raw byte, last, whether in code, bits of what is near).");
}

}  // namespace gnomon
