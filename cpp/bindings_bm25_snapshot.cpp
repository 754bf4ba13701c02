// gnomon._core: segments together, with deletions; merging them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.hpp"
#include "bindings_bm25.hpp"
#include "bm25_merge.hpp"
#include "bm25_snapshot.hpp"
#include "error.hpp"
#include "parallel.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using I64Array = py::array_t<std::int64_t, py::array::c_style>;
using U64Array = py::array_t<std::uint64_t, py::array::c_style>;

// Pairs of a segment and None or the words of its deletions: bit d % 64 of word d / 64 for document d.
std::vector<SegmentView> segment_views(const py::list& segments) {
    std::vector<SegmentView> views;
    for (const py::handle item : segments) {
        const auto pair = py::cast<py::tuple>(item);
        require(pair.size() == 2, "a segment comes with its deletions, or None");
        SegmentView view;
        view.segment = py::cast<std::shared_ptr<Bm25Index>>(pair[0]);
        if (!pair[1].is_none()) {
            const auto words = py::cast<U64Array>(pair[1]);
            DocSet dead(view.segment->n_docs());
            require(static_cast<std::size_t>(words.size()) == dead.words().size(),
                    "the deletions of a segment must cover its documents");
            std::copy_n(words.data(), words.size(), dead.words().begin());
            DocSet all(view.segment->n_docs(), true);
            all.intersect(dead);
            require(all.count() == dead.count(), "a document that does not exist is deleted");
            view.dead = std::make_shared<const DocSet>(std::move(dead));
        }
        views.push_back(std::move(view));
    }
    return views;
}

TermRef term_of(const Bm25Snapshot& snapshot, py::handle token, const char* what, std::size_t place,
                Py_ssize_t i) {
    if (!snapshot.has_vocabulary()) return snapshot.find(py::cast<std::uint32_t>(token));
    if (!PyUnicode_Check(token.ptr())) refuse_token(what, place, i, token);
    py::object owner;
    return snapshot.find(utf8_view(token, owner));
}

// Whole-number ids by slot, over segments. In numpy a search of segments would spend a dozen calls on them,
// which for a thousand hits is a quarter of the search.
class SlotIds {
  public:
    // Of each segment, with the slot behind its last one: the id of its first document, from which they count
    // on, or all its ids.
    SlotIds(std::vector<std::int64_t> ends, const py::list& ids) : ends_(std::move(ends)) {
        require(ends_.size() == ids.size(), "there must be ids for each segment");
        std::int64_t base = 0;
        for (std::size_t i = 0; i < ends_.size(); ++i) {
            require(ends_[i] >= base, "ends must not fall");
            if (py::isinstance<py::int_>(ids[i])) {
                parts_.push_back({nullptr, py::cast<std::int64_t>(ids[i]) - base});
            } else {
                arrays_.push_back(py::cast<I64Array>(ids[i]));
                require(arrays_.back().size() == ends_[i] - base, "there must be an id for each document");
                parts_.push_back({arrays_.back().data(), -base});
            }
            base = ends_[i];
        }
    }

    I64Array take(const I64Array& slots) const {
        const std::int64_t* const wanted = slots.data();
        I64Array found(slots.size());
        std::int64_t* const out = found.mutable_data();
        for (py::ssize_t i = 0; i < slots.size(); ++i) {
            if (wanted[i] < 0 || ends_.empty() || wanted[i] >= ends_.back())
                throw py::index_error("there is no slot " + std::to_string(wanted[i]));
            std::size_t part = 0;
            while (wanted[i] >= ends_[part]) ++part;  // the first segment is the largest
            const auto& [values, shift] = parts_[part];
            out[i] = values == nullptr ? wanted[i] + shift : values[wanted[i] + shift];
        }
        return found;
    }

  private:
    struct Part {
        const std::int64_t* values;
        std::int64_t shift;
    };
    std::vector<std::int64_t> ends_;
    std::vector<Part> parts_;
    std::vector<I64Array> arrays_;  // keeps them alive
};

}  // namespace

void register_bm25_snapshot(py::module_& module) {
    py::class_<Bm25Snapshot, std::shared_ptr<Bm25Snapshot>>(module, "Bm25Snapshot", py::is_final(),
                                                            "Segments without their deleted documents.")
        .def(py::init([](const py::list& segments) {
                 std::vector<SegmentView> views = segment_views(segments);
                 const py::gil_scoped_release release;
                 return std::const_pointer_cast<Bm25Snapshot>(Bm25Snapshot::of(std::move(views)));
             }),
             py::arg("segments"))
        .def_property_readonly("n_slots", &Bm25Snapshot::n_slots)
        .def_property_readonly("n_docs", &Bm25Snapshot::n_docs)
        .def_property_readonly("n_fields", &Bm25Snapshot::n_fields)
        .def_property_readonly("n_terms", &Bm25Snapshot::n_terms)
        .def_property_readonly("has_vocabulary", &Bm25Snapshot::has_vocabulary)
        .def(
            "n_tokens",
            [](const Bm25Snapshot& snapshot, std::size_t field) {
                if (field >= snapshot.n_fields())
                    throw py::index_error("field " + std::to_string(field) + " is not in the index");
                return snapshot.n_tokens(field);
            },
            py::arg("field") = 0)
        .def(
            "df",
            [](const Bm25Snapshot& snapshot, const py::object& token) {
                const TermRef term = term_of(snapshot, token, "tokens", 0, 0);
                const py::gil_scoped_release release;
                return snapshot.df(term);
            },
            py::arg("token"));

    py::class_<SlotIds>(module, "SlotIds", py::is_final(), "Whole-number ids of the slots of segments.")
        .def(py::init<std::vector<std::int64_t>, const py::list&>(), py::arg("ends"), py::arg("ids"))
        .def("take", &SlotIds::take, py::arg("slots"));

    module.def(
        "merge_segments",
        [](const py::list& segments, std::size_t threads) {
            const std::vector<SegmentView> views = segment_views(segments);
            const py::gil_scoped_release release;
            return std::const_pointer_cast<Bm25Index>(merge_segments(views, thread_count(threads)));
        },
        py::arg("segments"), py::arg("threads") = 1, "The live documents of segments as one segment.");
    module.def(
        "merge_segments_to",
        [](const py::list& segments, ContainerWriter& writer, bool packed) {
            const std::vector<SegmentView> views = segment_views(segments);
            const py::gil_scoped_release release;
            merge_segments_to(views, writer, packed);
        },
        py::arg("segments"), py::arg("writer"), py::arg("packed") = false,
        "The same into a file, which may be larger than the memory.");
}

}  // namespace gnomon
