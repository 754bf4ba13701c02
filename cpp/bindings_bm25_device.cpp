// gnomon._core: what a device needs of BM25: a scorer's arrays, and a batch of queries laid out flat.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <unordered_map>

#include "bindings.hpp"
#include "bindings_bm25.hpp"
#include "bm25_paths.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using I32Array = py::array_t<std::int32_t, py::array::c_style>;
using U64Array = py::array_t<std::uint64_t, py::array::c_style>;

template <class T>
py::array_t<T> array_of(const std::vector<T>& values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::dict formula_of(const Bm25Scorer& scorer) {
    const Bm25Model& model = scorer.model();
    py::dict formula;
    formula["formula"] = static_cast<int>(model.formula);
    formula["k1"] = model.k1;
    formula["delta"] = model.delta;
    formula["in_order"] = bm25::absent(model.formula) == bm25::Absent::kInOrder;
    formula["at_end"] = bm25::absent(model.formula) == bm25::Absent::kAtEnd;
    return formula;
}

// Without a copy: the array owns the values.
template <class T>
py::array_t<T> array_from(std::vector<T>&& values) {
    auto held = std::make_unique<std::vector<T>>(std::move(values));
    const T* const data = held->data();
    const auto n = static_cast<py::ssize_t>(held->size());
    const py::capsule owner(held.get(), [](void* one) { delete static_cast<std::vector<T>*>(one); });
    held.release();
    return py::array_t<T>(n, data, owner);
}

struct Flat {
    std::vector<std::int64_t> starts = {0};
    std::vector<std::uint32_t> docs;
    std::vector<std::uint32_t> tfs;
    std::vector<double> tildes;
    std::vector<double> constants;
};

void append_term(const Bm25Index& index, std::uint64_t term, Flat& flat) {
    const Postings list = index.postings(term);
    flat.docs.insert(flat.docs.end(), list.docs.begin(), list.docs.end());
    for (std::size_t i = 0; i < list.docs.size(); ++i) flat.tfs.push_back(list.tf(i));
}

// One list over all fields. A tf~ that is 0 (a tiny weight) does not count as an occurrence.
void append_fields(const Bm25Scorer& scorer, std::size_t segment, std::uint64_t term, Flat& flat) {
    const Bm25Index& index = *scorer.snapshot().segments()[segment].segment;
    std::vector<Postings> lists;
    for (std::size_t field = 0; field < index.n_fields(); ++field)
        lists.push_back(index.postings(term, field));
    std::vector<std::uint32_t> docs;
    const std::vector<double> tildes = scorer.merge_fields(lists.data(), segment, docs);
    for (std::size_t i = 0; i < docs.size(); ++i) {
        if (!(tildes[i] > 0.0)) continue;
        flat.docs.push_back(docs[i]);
        flat.tildes.push_back(tildes[i]);
    }
}

// A mapped segment is verified as a whole first: a kernel relies on what a CPU path checks term by term.
py::dict segment_of(const Bm25Scorer& scorer, std::size_t number) {
    const SegmentView& view = scorer.snapshot().segments()[number];
    const Bm25Index& index = *view.segment;
    const bool fields = scorer.model().formula == bm25::Formula::kBm25f;
    Flat flat;
    {
        const py::gil_scoped_release release;
        if (index.is_mapped()) index.verify();
        for (std::uint64_t term = 0; term < index.n_terms(); ++term) {
            if (fields)
                append_fields(scorer, number, term, flat);
            else
                append_term(index, term, flat);
            flat.starts.push_back(static_cast<std::int64_t>(flat.docs.size()));
        }
        if (!fields) {
            const double* const constants = scorer.constants(number);
            flat.constants.assign(constants, constants + index.n_docs());
        }
    }
    py::dict out;
    out["starts"] = array_from(std::move(flat.starts));
    out["docs"] = array_from(std::move(flat.docs));
    out["tfs"] = array_from(std::move(flat.tfs));
    out["tildes"] = array_from(std::move(flat.tildes));
    out["constants"] = array_from(std::move(flat.constants));
    out["n_docs"] = index.n_docs();
    out["base"] = view.base;
    return out;
}

py::list segments_of(const Bm25Scorer& scorer) {
    py::list segments;
    for (std::size_t i = 0; i < scorer.snapshot().segments().size(); ++i)
        segments.append(segment_of(scorer, i));
    return segments;
}

// For each segment the words of the documents that are not deleted, or None for all.
py::list live_of(const Bm25Scorer& scorer) {
    py::list sets;
    for (const SegmentView& view : scorer.snapshot().segments()) {
        if (view.dead == nullptr) {
            sets.append(py::none());
            continue;
        }
        U64Array words(static_cast<py::ssize_t>(view.dead->words().size()));
        for (std::size_t i = 0; i < view.dead->words().size(); ++i)
            words.mutable_data()[i] = ~view.dead->words()[i];
        sets.append(words);
    }
    return sets;
}

// Occurrences of all queries, flat; what they mean: Bm25Batch of cuda/bm25_device.hpp.
py::dict plan_of(const Bm25Scorer& scorer, const py::list& queries,
                 const std::optional<std::vector<QueryWeights>>& weights, bool once) {
    require(!weights || weights->size() == queries.size(), "pass one list of weights for each query");
    std::vector<std::int32_t> starts = {0};
    std::vector<std::int32_t> slots;
    std::vector<double> idfs;
    std::vector<double> absents;
    std::vector<double> at_ends;
    std::vector<std::shared_ptr<const Bm25Term>> distinct;
    std::unordered_map<const Bm25Term*, std::int32_t> places;
    for (std::size_t q = 0; q < queries.size(); ++q) {
        const Bm25Query query = query_of(scorer, queries[q], weights ? (*weights)[q] : std::nullopt, once, q);
        const Prepared prepared(scorer, query);
        for (std::size_t i = 0; i < query.size(); ++i) {
            const auto [place, added] =
                places.emplace(query[i].term.get(), static_cast<std::int32_t>(distinct.size()));
            if (added) distinct.push_back(query[i].term);
            slots.push_back(place->second);
            idfs.push_back(prepared.order[i].idf);
            absents.push_back(prepared.order[i].absent);
        }
        at_ends.push_back(prepared.at_end);
        require(slots.size() < INT32_MAX, "a batch has 2^31 - 2 query terms at most; pass it in parts");
        starts.push_back(static_cast<std::int32_t>(slots.size()));
    }
    py::list terms;
    for (std::size_t segment = 0; segment < scorer.snapshot().segments().size(); ++segment) {
        std::vector<std::int32_t> numbers;
        for (const auto& term : distinct) {
            const auto& number = term->ref.by_segment[segment];
            numbers.push_back(number ? static_cast<std::int32_t>(*number) : -1);
        }
        terms.append(array_of(numbers));
    }
    py::dict plan;
    plan["starts"] = array_of(starts);
    plan["slots"] = array_of(slots);
    plan["weights"] = array_of(idfs);
    plan["absents"] = array_of(absents);
    plan["at_ends"] = array_of(at_ends);
    plan["terms"] = terms;
    return plan;
}

}  // namespace

void register_bm25_device(py::module_& module) {
    module.def("bm25_device_formula", &formula_of, py::arg("scorer"));
    module.def("bm25_device_segments", &segments_of, py::arg("scorer"));
    module.def("bm25_device_live", &live_of, py::arg("scorer"));
    module.def("bm25_device_plan", &plan_of, py::arg("scorer"), py::arg("queries"),
               py::arg("weights") = py::none(), py::arg("once") = false);
}

}  // namespace gnomon
