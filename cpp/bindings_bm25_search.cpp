// gnomon._core: searching a snapshot of BM25 segments. Tokens in, arrays out; the work happens with the GIL
// released, but for small indexes, where letting go of it costs more than the search.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bindings.hpp"
#include "bindings_bm25.hpp"
#include "bm25_search.hpp"
#include "error.hpp"
#include "parallel.hpp"
#include "query_rank.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using U64Array = py::array_t<std::uint64_t, py::array::c_style>;
using Weights = QueryWeights;

// What one thread keeps between its calls, for each level that it uses.
Bm25Search& own_search(const Kernels& kernels) {
    static thread_local std::vector<std::pair<const Kernels*, std::unique_ptr<Bm25Search>>> searches;
    for (const auto& [known, search] : searches)
        if (known == &kernels) return *search;
    return *searches.emplace_back(&kernels, std::make_unique<Bm25Search>(kernels)).second;
}

std::string token_name(std::size_t place, Py_ssize_t i) {
    return place_name(place == kAlone ? "query" : "queries", place) + "[" + std::to_string(i) + "]";
}

// A token id: a whole number >= 0; the greatest there is for one beyond 64 bits, which no index holds.
std::uint64_t id_of(py::handle token, std::size_t place, Py_ssize_t i) {
    py::object number = py::reinterpret_borrow<py::object>(token);
    if (!PyLong_CheckExact(token.ptr())) {
        PyObject* const index = PyBool_Check(token.ptr()) ? nullptr : PyNumber_Index(token.ptr());
        if (index == nullptr) {
            PyErr_Clear();
            throw py::type_error(token_name(place, i) + " must be a whole number, got a " +
                                 Py_TYPE(token.ptr())->tp_name + "; this index was built from token ids");
        }
        number = py::reinterpret_steal<py::object>(index);
    }
    int overflow = 0;
    const long long id = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow < 0 || (overflow == 0 && id < 0))  // beyond 64 bits it is -1
        throw InvalidInput(token_name(place, i) + " must be at least 0, got " +
                           (overflow < 0 ? "a number below -2**63" : std::to_string(id)));
    return overflow > 0 ? UINT64_MAX : static_cast<std::uint64_t>(id);
}

std::shared_ptr<const Bm25Term> find_term(const Bm25Scorer& scorer, py::handle token, std::size_t place,
                                          Py_ssize_t i) {
    if (!scorer.snapshot().has_vocabulary()) {
        const std::uint64_t id = id_of(token, place, i);
        return id > UINT32_MAX ? nullptr : scorer.find(static_cast<std::uint32_t>(id));
    }
    if (!PyUnicode_Check(token.ptr())) refuse_token(place == kAlone ? "query" : "queries", place, i, token);
    py::object owner;
    return scorer.find(utf8_view(token, owner));
}

void check_weight(double weight, std::size_t i) {
    if (weight == 0.0 || (std::abs(weight) >= 1e-100 && std::abs(weight) <= 1e100)) return;
    throw InvalidInput("weights[" + std::to_string(i) +
                       "] must be 0, or between 1e-100 and 1e100 or the negative of such, got " +
                       weight_text(weight));
}

}  // namespace

Bm25Query query_of(const Bm25Scorer& scorer, py::handle tokens_, const QueryWeights& weights, bool once,
                   std::size_t place, std::vector<std::int64_t>* places) {
    const py::object tokens = token_sequence(tokens_, place == kAlone ? "query" : "queries", place);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(tokens.ptr());
    if (weights && weights->size() != static_cast<std::size_t>(n))
        throw InvalidInput("a query of " + std::to_string(n) + " tokens has " +
                           std::to_string(weights->size()) + " weights; pass one each");
    Bm25Query query;
    query.reserve(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
        const double weight = weights ? (*weights)[static_cast<std::size_t>(i)] : 1.0;
        check_weight(weight, static_cast<std::size_t>(i));
        auto term = find_term(scorer, PySequence_Fast_GET_ITEM(tokens.ptr(), i), place, i);
        if (term == nullptr) continue;
        const bool repeated =
            once && std::any_of(query.begin(), query.end(), [&](const auto& t) { return t.term == term; });
        if (repeated) continue;
        query.push_back({std::move(term), weight});
        if (places != nullptr) places->push_back(i);
    }
    return query;
}

namespace {

// None, or for each segment None or the words of a set of its documents.
Allowed allowed_of(const Bm25Scorer& scorer, const py::object& filter) {
    if (filter.is_none()) return {};
    const auto& segments = scorer.snapshot().segments();
    const auto sets = py::cast<py::list>(filter);
    require(sets.size() == segments.size(), "a filter must have one set for each segment");
    Allowed allowed;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        allowed.push_back(nullptr);
        if (sets[i].is_none()) continue;
        const auto words = py::cast<U64Array>(sets[i]);
        DocSet set(segments[i].segment->n_docs());
        require(static_cast<std::size_t>(words.size()) == set.words().size(),
                "a filter's set must cover the documents of its segment");
        std::copy_n(words.data(), words.size(), set.words().begin());
        DocSet all(segments[i].segment->n_docs(), true);
        set.intersect(all);
        allowed.back() = std::make_shared<const DocSet>(std::move(set));
    }
    return allowed;
}

py::tuple arrays_of(const std::vector<Hit>& hits) {
    I64Array slots(static_cast<py::ssize_t>(hits.size()));
    F64Array scores(static_cast<py::ssize_t>(hits.size()));
    std::int64_t* const slot = slots.mutable_data();
    double* const score = scores.mutable_data();
    for (std::size_t i = 0; i < hits.size(); ++i) {
        slot[i] = hits[i].position;
        score[i] = hits[i].score;
    }
    return py::make_tuple(std::move(slots), std::move(scores));
}

// (slots, scores), best first.
py::tuple search(const Bm25Scorer& scorer, const py::object& tokens, std::size_t k, const Weights& weights,
                 bool once, const py::object& filter, std::size_t threads, std::string_view level,
                 std::string_view path) {
    constexpr std::uint64_t kSmall = 20000;
    const std::size_t workers = threads == 1 ? 1 : thread_count(threads);
    const Bm25Query query = query_of(scorer, tokens, weights, once);
    const Allowed allowed = allowed_of(scorer, filter);
    const Path wanted = path.empty() ? Path::kAuto : path_named(path);
    Bm25Search& own = own_search(kernels_named(level));
    if (scorer.snapshot().n_slots() <= kSmall)
        return arrays_of(own.top_k(scorer, query, k, allowed, wanted, 1));
    std::vector<Hit> hits;
    {
        const py::gil_scoped_release release;
        hits = own.top_k(scorer, query, k, allowed, wanted, workers);
    }
    return arrays_of(hits);
}

// (offsets, slots, scores) of all queries, flat.
py::tuple search_many(const Bm25Scorer& scorer, const py::list& queries, std::size_t k,
                      const std::optional<std::vector<Weights>>& weights, bool once, const py::object& filter,
                      std::size_t threads, std::string_view level, std::string_view path) {
    require(!weights || weights->size() == queries.size(), "pass one list of weights for each query");
    std::vector<Bm25Query> known;
    for (std::size_t q = 0; q < queries.size(); ++q)
        known.push_back(query_of(scorer, queries[q], weights ? (*weights)[q] : std::nullopt, once, q));
    const Allowed allowed = allowed_of(scorer, filter);
    const Path wanted = path.empty() ? Path::kAuto : path_named(path);
    std::vector<std::vector<Hit>> results(known.size());
    {
        const py::gil_scoped_release release;
        const Kernels& kernels = kernels_named(level);
        const std::size_t workers = std::min(thread_count(threads), std::max<std::size_t>(known.size(), 1));
        std::vector<std::unique_ptr<Bm25Search>> searches(workers);
        for (auto& search : searches) search = std::make_unique<Bm25Search>(kernels, true);
        parallel_for(workers, known.size(), [&](std::size_t worker, std::size_t q) {
            results[q] = searches[worker]->top_k(scorer, known[q], k, allowed, wanted);
        });
    }
    I64Array ends(static_cast<py::ssize_t>(results.size() + 1));
    ends.mutable_data()[0] = 0;
    for (std::size_t q = 0; q < results.size(); ++q)
        ends.mutable_data()[q + 1] = ends.data()[q] + static_cast<std::int64_t>(results[q].size());
    I64Array slots(ends.data()[results.size()]);
    F64Array scores(ends.data()[results.size()]);
    std::size_t at = 0;
    for (const std::vector<Hit>& hits : results) {
        for (const Hit& hit : hits) {
            slots.mutable_data()[at] = hit.position;
            scores.mutable_data()[at++] = hit.score;
        }
    }
    return py::make_tuple(ends, slots, scores);
}

F64Array scores_of_all(const Bm25Scorer& scorer, const py::object& tokens, const Weights& weights, bool once,
                       std::string_view level) {
    const Bm25Query query = query_of(scorer, tokens, weights, once);
    F64Array scores(static_cast<py::ssize_t>(scorer.snapshot().n_slots()));
    double* const out = scores.mutable_data();
    const py::gil_scoped_release release;
    bm25_score_all(scorer, query, kernels_named(level), out);
    return scores;
}

// (scores [n], parts [n, terms], frequencies [n, terms], at_end).
py::tuple parts_of(const Bm25Scorer& scorer, const Bm25Query& query, const I64Array& slots) {
    std::vector<std::uint32_t> wanted;
    const auto n = static_cast<std::size_t>(slots.size());
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t slot = slots.data()[i];
        require(slot >= 0 && static_cast<std::uint64_t>(slot) < scorer.snapshot().n_slots() &&
                    (i == 0 || slot > slots.data()[i - 1]),
                "slots must ascend and lie in the snapshot");
        wanted.push_back(static_cast<std::uint32_t>(slot));
    }
    Bm25Parts result;
    {
        const py::gil_scoped_release release;
        result = bm25_parts(scorer, query, wanted);
    }
    const auto rows = static_cast<py::ssize_t>(n);
    const std::vector<py::ssize_t> shape = {rows, static_cast<py::ssize_t>(query.size())};
    return py::make_tuple(F64Array(rows, result.scores.data()), F64Array(shape, result.parts.data()),
                          F64Array(shape, result.frequencies.data()), result.at_end);
}

// What parts_of gives, and the place [terms] of each term in the query.
py::tuple parts(const Bm25Scorer& scorer, const py::object& tokens, const I64Array& slots,
                const Weights& weights, bool once) {
    std::vector<std::int64_t> places;
    const Bm25Query query = query_of(scorer, tokens, weights, once, kAlone, &places);
    const I64Array places_of(static_cast<py::ssize_t>(places.size()), places.data());
    return py::make_tuple(parts_of(scorer, query, slots), places_of);
}

// What parts_of gives, and (node, weight, df, idf) of each positive term.
py::tuple query_parts(const Bm25Scorer& scorer, const QueryNode& node, const I64Array& slots) {
    check_query(node, scorer.snapshot());
    const QueryTerms positive = positive_terms(node, scorer);
    py::list terms;
    for (std::size_t i = 0; i < positive.terms.size(); ++i) {
        const QueryTerm& one = positive.terms[i];
        terms.append(py::make_tuple(*positive.nodes[i], one.weight, one.term->df, one.term->idf));
    }
    return py::make_tuple(parts_of(scorer, positive.terms, slots), terms);
}

std::string plan(const Bm25Scorer& scorer, const py::object& tokens, std::size_t k, const Weights& weights,
                 const py::object& filter, std::string_view path) {
    const Bm25Query query = query_of(scorer, tokens, weights, false);
    Bm25Search& own = own_search(default_kernels());
    own.top_k(scorer, query, k, allowed_of(scorer, filter), path.empty() ? Path::kAuto : path_named(path));
    return path_name(own.used());
}

}  // namespace

void register_bm25_search(py::module_& module) {
    module.def("bm25_formulas", &formula_names, "Names of the formulas, the default one first.");
    py::class_<Bm25Scorer, std::shared_ptr<Bm25Scorer>>(module, "Bm25Scorer", py::is_final(),
                                                        "A snapshot under a formula and its parameters.")
        .def(py::init([](std::shared_ptr<Bm25Snapshot> snapshot, std::string_view formula, double k1,
                         double b, double delta, double epsilon, std::optional<double> floor,
                         std::vector<double> field_weights, std::vector<double> field_b,
                         std::size_t screen_bytes) {
                 Bm25Model model{
                     formula_named(formula), k1, b, delta, epsilon, floor, std::move(field_weights),
                     std::move(field_b)};
                 return std::make_shared<Bm25Scorer>(std::move(snapshot), std::move(model), screen_bytes);
             }),
             py::arg("snapshot"), py::arg("formula") = "default", py::arg("k1") = 1.2, py::arg("b") = 0.75,
             py::arg("delta") = 0.5, py::arg("epsilon") = 0.25, py::arg("idf_floor") = py::none(),
             py::arg("field_weights") = std::vector<double>(), py::arg("field_b") = std::vector<double>(),
             py::arg("screen_bytes") = Bm25Scorer::kScreenBytes)
        .def("search", &search, py::arg("tokens"), py::arg("k"), py::arg("weights") = py::none(),
             py::arg("once") = false, py::arg("allowed") = py::none(), py::arg("threads") = 1,
             py::arg("level") = "", py::arg("path") = "")
        .def("search_many", &search_many, py::arg("queries"), py::arg("k"), py::arg("weights") = py::none(),
             py::arg("once") = false, py::arg("allowed") = py::none(), py::arg("threads") = 0,
             py::arg("level") = "", py::arg("path") = "")
        .def("scores", &scores_of_all, py::arg("tokens"), py::arg("weights") = py::none(),
             py::arg("once") = false, py::arg("level") = "")
        .def("parts", &parts, py::arg("tokens"), py::arg("slots"), py::arg("weights") = py::none(),
             py::arg("once") = false,
             "((scores, parts, frequencies, at_end), places of the terms in the query).")
        .def("query_parts", &query_parts, py::arg("node"), py::arg("slots"),
             "((scores, parts, frequencies, at_end), [(node, weight, df, idf)] of the positive terms).")
        .def("plan", &plan, py::arg("tokens"), py::arg("k"), py::arg("weights") = py::none(),
             py::arg("allowed") = py::none(), py::arg("path") = "",
             "Runs the query and names the path that answered.")
        .def(
            "term",
            [](const Bm25Scorer& scorer, const py::object& token) -> py::object {
                const auto term = find_term(scorer, token, kAlone, 0);
                if (term == nullptr) return py::none();
                return py::make_tuple(term->df, term->idf);
            },
            py::arg("token"), "(live documents that hold the token, idf), or None.")
        .def_property_readonly("screen_bytes", &Bm25Scorer::screen_bytes);
}

}  // namespace gnomon
