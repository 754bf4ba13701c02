// gnomon._core: query trees and sets of documents. Python objects in, packed words out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.hpp"
#include "bm25_snapshot.hpp"
#include "error.hpp"
#include "parallel.hpp"
#include "query.hpp"
#include "query_match.hpp"
#include "query_near.hpp"
#include "query_rank.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using U64Array = py::array_t<std::uint64_t, py::array::c_style>;
using U8Array = py::array_t<std::uint8_t, py::array::c_style>;

constexpr std::pair<std::string_view, QueryNode::Kind> kKinds[] = {
    {"term", QueryNode::Kind::term},       {"prefix", QueryNode::Kind::prefix},
    {"fuzzy", QueryNode::Kind::fuzzy},     {"any_of", QueryNode::Kind::any_of},
    {"phrase", QueryNode::Kind::phrase},   {"near", QueryNode::Kind::near},
    {"boolean", QueryNode::Kind::boolean}, {"all", QueryNode::Kind::all},
    {"docs", QueryNode::Kind::docs},
};

DocSet doc_set(const U64Array& words, std::size_t n_docs) {
    DocSet set(n_docs);
    require(static_cast<std::size_t>(words.size()) == set.words().size(),
            "a set of documents must have one bit for each document of its segment");
    std::copy_n(words.data(), words.size(), set.words().begin());
    if (n_docs % 64 != 0)
        require(set.words().back() >> (n_docs % 64) == 0, "a set holds a document that does not exist");
    return set;
}

std::vector<DocSet> doc_sets(const std::vector<U64Array>& words, const std::vector<std::size_t>& sizes) {
    require(words.size() == sizes.size(), "a set of documents has one array for each segment");
    std::vector<DocSet> sets;
    for (std::size_t i = 0; i < words.size(); ++i) sets.push_back(doc_set(words[i], sizes[i]));
    return sets;
}

std::vector<std::size_t> sizes_of(const Bm25Snapshot& snapshot) {
    std::vector<std::size_t> sizes;
    for (const SegmentView& view : snapshot.segments()) sizes.push_back(view.segment->n_docs());
    return sizes;
}

QueryNode::Kind kind_named(std::string_view name) {
    for (const auto& [known, kind] : kKinds)
        if (known == name) return kind;
    throw InvalidInput("no kind of query is called " + std::string(name));
}

std::vector<DocSet> match_all(const QueryNode& node, const Bm25Snapshot& snapshot,
                              const std::optional<std::vector<U64Array>>& allowed) {
    std::vector<DocSet> sets;
    if (allowed) sets = doc_sets(*allowed, sizes_of(snapshot));
    const py::gil_scoped_release release;
    check_query(node, snapshot);
    std::vector<DocSet> found;
    for (std::size_t i = 0; i < snapshot.segments().size(); ++i)
        found.push_back(query_match(node, snapshot, i, allowed ? &sets[i] : nullptr));
    return found;
}

py::list match(const QueryNode& node, const Bm25Snapshot& snapshot,
               const std::optional<std::vector<U64Array>>& allowed) {
    py::list words;
    for (const DocSet& set : match_all(node, snapshot, allowed))
        words.append(U64Array(static_cast<py::ssize_t>(set.words().size()), set.words().data()));
    return words;
}

std::uint64_t count(const QueryNode& node, const Bm25Snapshot& snapshot,
                    const std::optional<std::vector<U64Array>>& allowed) {
    std::uint64_t n = 0;
    for (const DocSet& set : match_all(node, snapshot, allowed)) n += set.count();
    return n;
}

// The tokens that a node of single tokens names in the index, each once, in the order of first appearance.
py::list tokens(const QueryNode& node, const Bm25Snapshot& snapshot) {
    require(node.names_tokens(), "only a term, prefix, fuzzy or any_of names tokens");
    check_query(node, snapshot);
    py::set seen;
    py::list found;
    for (const SegmentView& view : snapshot.segments())
        for (const std::uint32_t term : query_terms(node, *view.segment)) {
            py::object token;
            if (snapshot.has_vocabulary()) {
                const std::string_view text = view.segment->vocabulary().term(term);
                token = py::reinterpret_steal<py::object>(
                    PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
                if (!token) {
                    PyErr_Clear();
                    throw CorruptIndex("vocabulary: a term is not UTF-8");
                }
            } else {
                token = py::int_(term);
            }
            if (seen.contains(token)) continue;
            seen.add(token);
            found.append(token);
        }
    return found;
}

std::vector<std::uint32_t> positions(const QueryNode& node, const Bm25Snapshot& snapshot, std::uint64_t slot,
                                     std::size_t field) {
    require(node.names_tokens(), "only a term, prefix, fuzzy or any_of names tokens");
    check_query(node, snapshot);
    if (field >= snapshot.n_fields()) throw py::index_error("the field is not in the index");
    for (const SegmentView& view : snapshot.segments()) {
        if (slot >= view.base + view.segment->n_docs()) continue;
        require(view.segment->has_positions(),
                "this index has no token positions; build it with positions=True");
        return token_positions(node, *view.segment, static_cast<std::uint32_t>(slot - view.base), field);
    }
    throw py::index_error("the slot is not in the index");
}

bool window_fits(const std::vector<std::vector<std::uint32_t>>& lists,
                 const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& slacks) {
    require(!lists.empty() && lists.size() <= QueryNode::kMostSloppy && offsets.size() == lists.size() &&
                slacks.size() == lists.size(),
            "1 to 64 lists, with an offset and a slack for each");
    std::vector<Part> parts;
    for (std::size_t i = 0; i < lists.size(); ++i) parts.push_back({offsets[i], slacks[i]});
    return fit_window(lists, parts);
}

bool order_fits(const std::vector<std::vector<std::uint32_t>>& lists,
                const std::vector<std::uint32_t>& lengths, std::uint64_t window) {
    require(!lists.empty() && lengths.size() == lists.size(), "a length for each list, at least one");
    return fit_order(lists, lengths, window);
}

std::string kind_name(const QueryNode& node) {
    for (const auto& [name, kind] : kKinds)
        if (kind == node.kind) return std::string(name);
    throw InvalidInput("the node has no kind");
}

// (slots, scores), best first, and how many match.
py::tuple answer(const QueryNode& node, const Bm25Scorer& scorer, std::size_t k,
                 const std::optional<std::vector<U64Array>>& allowed, std::size_t threads,
                 std::string_view level, bool counted) {
    Allowed sets;
    if (allowed)
        for (DocSet& set : doc_sets(*allowed, sizes_of(scorer.snapshot())))
            sets.push_back(std::make_shared<const DocSet>(std::move(set)));
    std::vector<Hit> hits;
    std::uint64_t total = 0;
    {
        const py::gil_scoped_release release;
        Bm25Search own(kernels_named(level));
        hits = query_top_k(node, scorer, k, sets, own, thread_count(threads), counted ? &total : nullptr);
    }
    py::array_t<std::int64_t> slots(static_cast<py::ssize_t>(hits.size()));
    py::array_t<double> scores(static_cast<py::ssize_t>(hits.size()));
    for (std::size_t i = 0; i < hits.size(); ++i) {
        slots.mutable_data()[i] = hits[i].position;
        scores.mutable_data()[i] = hits[i].score;
    }
    if (counted) return py::make_tuple(std::move(slots), std::move(scores), total);
    return py::make_tuple(std::move(slots), std::move(scores));
}

template <class Code>
void having(const std::uint8_t* wanted, const Code* codes, const std::uint64_t* starts, std::size_t n,
            std::uint64_t* words) {
    std::uint64_t word = 0;
    for (std::size_t doc = 0; doc < n; ++doc) {
        std::uint8_t any = 0;
        for (std::uint64_t i = starts[doc]; i < starts[doc + 1]; ++i) any |= wanted[codes[i]];
        word |= std::uint64_t{any} << (doc % 64);
        if (doc % 64 == 63 || doc + 1 == n) {
            words[doc / 64] = word;
            word = 0;
        }
    }
}

// Bit d is set where wanted[codes[i]] is 1 for some i from starts[d] to starts[d + 1]. The caller has checked
// that starts and codes fit (column_check.py).
template <class Code>
U64Array docs_having(const U8Array& wanted, const py::array_t<Code, py::array::c_style>& codes,
                     const U64Array& starts) {
    require(starts.size() > 0, "starts has one entry more than there are documents");
    const auto n = static_cast<std::size_t>(starts.size() - 1);
    require(starts.data()[n] <= static_cast<std::uint64_t>(codes.size()), "starts lead beyond the codes");
    U64Array words(static_cast<py::ssize_t>((n + 63) / 64));
    std::uint64_t* const out = words.mutable_data();
    const py::gil_scoped_release release;
    having(wanted.data(), codes.data(), starts.data(), n, out);
    return words;
}

QueryNode make_node(std::string_view kind, double boost, std::string text, std::optional<std::uint32_t> id,
                    std::vector<std::size_t> fields, unsigned edits, std::size_t exact, bool swaps,
                    std::uint64_t slop, bool ordered, std::vector<QueryNode> children,
                    std::vector<QueryNode> should, std::vector<QueryNode> must_not, std::size_t minimum,
                    const std::vector<U64Array>& docs, const std::vector<std::size_t>& sizes) {
    QueryNode node;
    node.kind = kind_named(kind);
    node.boost = boost;
    node.text = std::move(text);
    node.id = id;
    node.fields = std::move(fields);
    node.edits = edits;
    node.exact = exact;
    node.swaps = swaps;
    node.slop = slop;
    node.ordered = ordered;
    node.children = std::move(children);
    node.should = std::move(should);
    node.must_not = std::move(must_not);
    node.minimum = minimum;
    node.docs = doc_sets(docs, sizes);
    return node;
}

}  // namespace

void register_query(py::module_& module) {
    py::class_<QueryNode>(module, "QueryNode", py::is_final(), "One node of a query (cpp/query.hpp).")
        .def(py::init([](const std::string& kind, double boost, const py::bytes& text,
                         std::optional<std::uint32_t> id, std::vector<std::size_t> fields, unsigned edits,
                         std::size_t exact, bool swaps, std::uint64_t slop, bool ordered,
                         std::vector<QueryNode> children, std::vector<QueryNode> should,
                         std::vector<QueryNode> must_not, std::size_t minimum,
                         const std::vector<U64Array>& docs, const std::vector<std::size_t>& sizes) {
                 return make_node(kind, boost, text, id, std::move(fields), edits, exact, swaps, slop,
                                  ordered, std::move(children), std::move(should), std::move(must_not),
                                  minimum, docs, sizes);
             }),
             py::arg("kind"), py::kw_only(), py::arg("boost") = 1.0, py::arg("text") = py::bytes(),
             py::arg("id") = py::none(), py::arg("fields") = std::vector<std::size_t>(), py::arg("edits") = 0,
             py::arg("exact") = 0, py::arg("swaps") = true, py::arg("slop") = 0, py::arg("ordered") = false,
             py::arg("children") = std::vector<QueryNode>(), py::arg("should") = std::vector<QueryNode>(),
             py::arg("must_not") = std::vector<QueryNode>(), py::arg("minimum") = 0,
             py::arg("docs") = std::vector<U64Array>(), py::arg("sizes") = std::vector<std::size_t>())
        .def_property_readonly("kind", &kind_name)
        .def_property_readonly("names_tokens", &QueryNode::names_tokens)
        .def_readonly("children", &QueryNode::children, "Of a boolean: must.")
        .def_readonly("should", &QueryNode::should)
        .def_property_readonly("text", [](const QueryNode& node) { return py::bytes(node.text); })
        .def_readonly("id", &QueryNode::id)
        .def_readonly("edits", &QueryNode::edits)
        .def_readonly("fields", &QueryNode::fields)
        .def_readonly("slop", &QueryNode::slop, "Of a near: the window.")
        .def_readonly("ordered", &QueryNode::ordered);
    module.def("fit_window", &window_fits, py::arg("lists"), py::arg("offsets"), py::arg("slacks"),
               "See cpp/query_near.hpp.");
    module.def("fit_order", &order_fits, py::arg("lists"), py::arg("lengths"), py::arg("window"),
               "See cpp/query_near.hpp.");
    module.def("query_positions", &positions, py::arg("node"), py::arg("snapshot"), py::arg("slot"),
               py::arg("field"), "Where the tokens of a term, prefix, fuzzy or any_of stand in a document.");
    module.def("query_match", &match, py::arg("node"), py::arg("snapshot"), py::arg("allowed") = py::none(),
               "Packed words of the live documents that match, for each segment.");
    module.def("query_count", &count, py::arg("node"), py::arg("snapshot"), py::arg("allowed") = py::none(),
               "How many live documents match.");
    module.def("query_tokens", &tokens, py::arg("node"), py::arg("snapshot"),
               "The tokens of the index that a term, prefix, fuzzy or any_of stands for.");
    module.def(
        "query_search",
        [](const QueryNode& node, const Bm25Scorer& scorer, std::size_t k,
           const std::optional<std::vector<U64Array>>& allowed, std::size_t threads,
           std::string_view level) { return answer(node, scorer, k, allowed, threads, level, false); },
        py::arg("node"), py::arg("scorer"), py::arg("k"), py::arg("allowed") = py::none(),
        py::arg("threads") = 1, py::arg("level") = "",
        "(slots, scores) of the best k live documents that match.");
    module.def(
        "query_answer",
        [](const QueryNode& node, const Bm25Scorer& scorer, std::size_t k,
           const std::optional<std::vector<U64Array>>& allowed, std::size_t threads,
           std::string_view level) { return answer(node, scorer, k, allowed, threads, level, true); },
        py::arg("node"), py::arg("scorer"), py::arg("k"), py::arg("allowed") = py::none(),
        py::arg("threads") = 1, py::arg("level") = "", "The same and how many match, for the price of one.");
    constexpr const char* kHaving = "Packed words of the documents that have one of the wanted codes.";
    module.def("docs_having", &docs_having<std::uint8_t>, py::arg("wanted"), py::arg("codes").noconvert(),
               py::arg("starts"), kHaving);
    module.def("docs_having", &docs_having<std::uint16_t>, py::arg("wanted"), py::arg("codes").noconvert(),
               py::arg("starts"), kHaving);
    module.def("docs_having", &docs_having<std::uint32_t>, py::arg("wanted"), py::arg("codes").noconvert(),
               py::arg("starts"), kHaving);
}

}  // namespace gnomon
