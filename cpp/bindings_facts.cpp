// Names and relations of a document in the numbers of a segment, as gnomon.corpus.prepare packs them from the
// finished document; and where links lead.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "corpus_links.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using std::string_view;
using Place = std::array<std::uint32_t, 5>;  // chunk, start, length, role, origin

// Strs as UTF-8, valid while this lives.
class Views {
  public:
    string_view of(py::handle text) {
        if (!PyUnicode_Check(text.ptr())) throw py::type_error("a name, a node and a type are str");
        py::object owner;
        const string_view view = utf8_view(text, owner);
        if (owner) owners_.push_back(std::move(owner));
        return view;
    }

  private:
    std::vector<py::object> owners_;
};

py::handle field(py::handle tuple, Py_ssize_t place) {
    PyObject* item = PyTuple_GetItem(tuple.ptr(), place);
    if (item == nullptr) throw py::error_already_set();
    return item;
}

long long number_of(py::handle given) {
    const long long value = PyLong_AsLongLong(given.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return value;
}

std::vector<long long> numbers_of(const py::list& given) {
    std::vector<long long> numbers;
    numbers.reserve(given.size());
    for (const py::handle number : given) numbers.push_back(number_of(number));
    return numbers;
}

// The chunks of a document.
class Chunks {
  public:
    Chunks(const py::list& starts, const py::list& ends)
        : starts_(numbers_of(starts)), ends_(numbers_of(ends)) {
        if (starts_.size() != ends_.size()) throw py::value_error("as many starts as ends");
    }
    // The place of [start, end) in its chunk; what crosses chunks counts for the first.
    std::optional<Place> place(long long start, long long end, std::uint32_t role) const {
        const auto after = std::upper_bound(starts_.begin(), starts_.end(), start);
        if (after == starts_.begin()) return {};
        const auto chunk = static_cast<std::size_t>(after - starts_.begin() - 1);
        const long long length = std::max(std::min(end, ends_[chunk]) - start, 0LL);
        if (start < 0 || start > UINT32_MAX || length > UINT32_MAX)
            throw py::value_error("a document takes less than 4 GiB");
        return Place{static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(start),
                     static_cast<std::uint32_t>(length), role, 0};
    }

  private:
    std::vector<long long> starts_, ends_;
};

void put(std::string& out, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

void put(std::string& out, const Place& place) {
    for (const std::uint32_t value : place) put(out, value);
}

// (keys, names, rows of entity, chunk, start, length, role, origin)
py::tuple pack_mentions(const py::list& mentions, const py::function& normalise, const py::dict& roles,
                        const py::list& starts, const py::list& ends) {
    struct Row {
        string_view kind, word;
        py::handle name;
        Place place;
    };
    const Chunks chunks(starts, ends);
    Views views;
    std::vector<py::object> words;
    std::vector<Row> rows;
    for (const py::handle mention : mentions) {
        const py::handle kind = field(mention, 0), name = field(mention, 1), role = field(mention, 4);
        PyObject* number = PyDict_GetItemWithError(roles.ptr(), role.ptr());
        if (number == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
        const auto place =
            chunks.place(number_of(field(mention, 2)), number_of(field(mention, 3)),
                         number == nullptr ? 0 : static_cast<std::uint32_t>(number_of(number)));
        if (!place) continue;
        words.push_back(normalise(kind, name));
        rows.push_back({views.of(kind), views.of(words.back()), name, *place});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
        return std::tie(a.kind, a.word) < std::tie(b.kind, b.word);
    });
    py::list keys, names;
    std::string packed;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        if (row.word.empty()) continue;
        if (i == 0 || rows[i - 1].kind != row.kind || rows[i - 1].word != row.word) {
            keys.append(to_str(std::string(row.kind).append(":").append(row.word)));
            names.append(row.name);
            ++number;
        }
        put(packed, number - 1);
        put(packed, row.place);
    }
    return py::make_tuple(keys, names, py::bytes(packed));
}

// Numbers of strs in the order in which they are asked for.
class Numbers {
  public:
    std::uint32_t of(string_view text) {
        const auto [known, fresh] = numbers_.try_emplace(text, static_cast<std::uint32_t>(numbers_.size()));
        if (fresh) list_.append(to_str(text));
        return known->second;
    }
    py::list list() const { return list_; }

  private:
    std::unordered_map<string_view, std::uint32_t> numbers_;
    py::list list_;
};

// (types, nodes, rows of type, source, target and evidence, rows of the evidence)
py::tuple pack_relations(const py::list& edges, const py::tuple& left_out, const py::list& starts,
                         const py::list& ends) {
    struct Row {
        string_view kind, source, target;
        Place place;
        std::tuple<string_view, string_view, string_view> key() const { return {kind, source, target}; }
    };
    const Chunks chunks(starts, ends);
    Views views;
    std::vector<string_view> without;
    for (const py::handle kind : left_out) without.push_back(views.of(kind));
    std::vector<Row> rows;
    for (const py::handle edge : edges) {
        const string_view kind = views.of(field(edge, 0));
        if (std::find(without.begin(), without.end(), kind) != without.end()) continue;
        const auto place = chunks.place(number_of(field(edge, 3)), number_of(field(edge, 4)), 0);
        if (place) rows.push_back({kind, views.of(field(edge, 1)), views.of(field(edge, 2)), *place});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key() < b.key(); });
    Numbers types, nodes;
    std::string packed, proofs;
    std::vector<Place> shown, known;
    for (std::size_t i = 0; i < rows.size();) {
        const Row& row = rows[i];
        shown.clear(), known.clear();
        for (; i < rows.size() && rows[i].key() == row.key(); ++i) {  // each place once, as it came
            const auto at = std::lower_bound(known.begin(), known.end(), rows[i].place);
            if (at != known.end() && *at == rows[i].place) continue;
            known.insert(at, rows[i].place);
            shown.push_back(rows[i].place);
        }
        put(packed, types.of(row.kind));
        put(packed, nodes.of(row.source));
        put(packed, nodes.of(row.target));
        put(packed, static_cast<std::uint32_t>(shown.size()));
        for (const Place& place : shown) put(proofs, place);
    }
    return py::make_tuple(types.list(), nodes.list(), py::bytes(packed), py::bytes(proofs));
}

py::object target_of(const py::str& folder, const py::str& url) {
    Views views;
    const auto node = link_target(views.of(folder), views.of(url));
    return node ? to_str(*node) : py::none();
}

}  // namespace

void register_facts(py::module_& module) {
    module.def("pack_mentions", &pack_mentions, py::arg("mentions"), py::arg("normalise"), py::arg("roles"),
               py::arg("starts"), py::arg("ends"),
               "(keys, names, rows) of a document's mentions as Prepared has them; `normalise(kind, name)`\n"
               "gives a name's word, `roles` are the numbers of roles, `starts` and `ends` of the chunks.");
    module.def("pack_relations", &pack_relations, py::arg("edges"), py::arg("left_out"), py::arg("starts"),
               py::arg("ends"),
               "(types, nodes, edges, proofs) of a document's relations as Prepared has them, without the\n"
               "types `left_out`.");
    module.def("link_target", &target_of, py::arg("folder"), py::arg("url"),
               "The node that an address on a page in a folder leads to, \"\" for none; None where only\n"
               "gnomon.corpus.relations can say it (corpus_links.hpp).");
}

}  // namespace gnomon
