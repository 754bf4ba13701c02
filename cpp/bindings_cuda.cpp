// gnomon._cuda: exact search on NVIDIA GPUs (cuda/*.hpp). Its own extension, so that gnomon._core never loads
// CUDA's runtime. Tests build the same file over an emulated device, as gnomon._cuda_emulated.
#include "bindings_cuda.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>
#include <optional>

#include "../cuda/bm25_device.hpp"
#include "../cuda/dense.hpp"
#include "../cuda/mmr_device.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon::cuda {
namespace {

using F32Array = py::array_t<float, py::array::c_style>;
using F64Array = py::array_t<double, py::array::c_style>;
using I64Array = py::array_t<std::int64_t, py::array::c_style>;
using I32Array = py::array_t<std::int32_t, py::array::c_style>;
using U32Array = py::array_t<std::uint32_t, py::array::c_style>;
using U64Array = py::array_t<std::uint64_t, py::array::c_style>;

template <class T>
std::span<const T> span_of(const py::array_t<T, py::array::c_style>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

py::dict did_dict(const Did& did) {
    py::dict out;
    out["waves"] = did.waves;
    out["repeated"] = did.repeated;
    out["settled"] = did.settled;
    out["chunks"] = did.chunks;
    out["workspace_bytes"] = did.workspace_bytes;
    if (!did.format.empty()) out["format"] = did.format;
    return out;
}

py::dict all_devices() {
    const Devices all = devices();
    py::list found;
    for (const DeviceInfo& info : all.found) {
        py::dict one;
        one["number"] = info.number;
        one["name"] = info.name;
        one["capability"] = py::make_tuple(info.major, info.minor);
        one["bytes"] = info.bytes;
        one["usable"] = info.usable;
        one["why"] = info.why;
        found.append(one);
    }
    py::dict out;
    out["devices"] = found;
    out["why"] = all.why;
    out["driver"] = all.driver;
    out["runtime"] = all.runtime;
    return out;
}

int metric_named(std::string_view name) {
    if (name == "cosine") return 1;
    if (name == "ip") return 2;
    if (name == "l2") return 3;
    throw InvalidInput("metric must be 'cosine', 'ip' or 'l2', got '" + std::string(name) + "'");
}

bool refuses_zero(std::string_view name) {
    if (name == "zero") return false;
    if (name == "error") return true;
    throw InvalidInput("on_zero must be 'zero' or 'error', got '" + std::string(name) + "'");
}

Format format_named(std::string_view name) {
    if (name == "auto") return Format::automatic;
    if (name == "int8") return Format::int8;
    if (name == "bf16") return Format::bf16;
    throw InvalidInput("format must be 'auto', 'int8' or 'bf16', got '" + std::string(name) + "'");
}

// A matrix in host memory or on the device; keeps it alive.
struct Matrix {
    Matrix(const py::object& given, const char* what, int device) : owner(given) {
        if (py::isinstance<DeviceArray>(given)) {
            const auto& array = given.cast<const DeviceArray&>();
            if (array.device() != device)
                throw InvalidInput(std::string(what) + " is on device " + std::to_string(array.device()) +
                                   " and the search runs on device " + std::to_string(device) +
                                   "; move it there");
            on_device = true;
            data = static_cast<const float*>(array.data());
            if (array.shape().size() == 2) {
                rows = array.shape()[0];
                dim = array.shape()[1];
            }
        } else {
            const auto array = given.cast<F32Array>();
            owner = array;
            data = array.data();
            if (array.ndim() == 2) {
                rows = array.shape(0);
                dim = array.shape(1);
            }
        }
        if (dim < 0) throw InvalidInput(std::string(what) + " must be a matrix [rows, dimensions]");
        if (dim > std::numeric_limits<int>::max() / 8 || rows >= UINT32_MAX)
            throw InvalidInput(std::string(what) + " has " + std::to_string(rows) + " rows of " +
                               std::to_string(dim) +
                               " dimensions; at most 4,294,967,294 rows of 268,435,455 fit, so shard it");
    }
    py::object owner;
    bool on_device = false;
    const float* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t dim = -1;
};

struct DenseHolder {
    DenseHolder(const py::object& vectors, std::string_view metric, int device, std::string_view format,
                std::string_view on_zero, std::size_t resident_bytes, std::size_t workspace_bytes,
                std::string name_)
        : rows(vectors, name_.c_str(), device), name(std::move(name_)) {
        const DenseSource source{rows.data,
                                 rows.on_device,
                                 rows.rows,
                                 static_cast<int>(rows.dim),
                                 metric_named(metric),
                                 refuses_zero(on_zero),
                                 name.c_str()};
        const Format wanted = format_named(format);
        const py::gil_scoped_release release;
        corpus = std::make_unique<DenseCorpus>(device, source, wanted, resident_bytes, workspace_bytes);
    }
    Matrix rows;
    std::string name;
    std::unique_ptr<DenseCorpus> corpus;
};

// (rows int64 [Q, k'], scores float64 [Q, k'], counts int32 [Q], what the search did). With `stay` all three
// are on the device. Behind a query's last hit: -1 and -infinity.
py::tuple dense_search(const DenseHolder& holder, const py::object& queries, std::size_t k, double min_score,
                       const std::optional<U64Array>& allowed, std::string_view on_zero, bool stay,
                       std::size_t workspace_bytes, const std::string& family, int planes,
                       std::size_t capacity, const std::string& query_name) {
    const DenseCorpus& corpus = *holder.corpus;
    const Matrix wanted(queries, query_name.c_str(), corpus.device());
    if (wanted.dim != corpus.dim())
        throw InvalidInput(query_name + " has " + std::to_string(wanted.dim) +
                           " dimensions but the vectors have " + std::to_string(corpus.dim()));
    if (min_score != min_score) throw InvalidInput("min_score must be a number, got NaN");
    const std::size_t words = (static_cast<std::size_t>(corpus.n()) + 63) / 64;
    if (allowed && static_cast<std::size_t>(allowed->size()) != words)
        throw InvalidInput("allowed must hold " + std::to_string(words) + " words, one bit for each row");
    DenseOptions options;
    options.k = k;
    options.min_score = min_score;
    options.allowed = allowed ? allowed->data() : nullptr;
    options.refuse_zero = refuses_zero(on_zero);
    options.query_name = query_name.c_str();
    options.workspace_bytes = workspace_bytes;
    options.family = family;
    options.planes = planes;
    options.capacity = capacity;
    const std::int64_t best =
        std::min(static_cast<std::int64_t>(std::min<std::size_t>(k, INT32_MAX)), corpus.n());
    Did did;
    const auto run = [&](double* scores, std::int64_t* rows, int* counts) {
        const py::gil_scoped_release release;
        corpus.search(wanted.data, wanted.on_device, wanted.rows, options, {scores, rows, counts}, did);
    };
    if (stay) {
        DeviceArray scores({wanted.rows, best}, {dlpack::kFloat, 64, 1}, corpus.device());
        DeviceArray rows({wanted.rows, best}, {dlpack::kInt, 64, 1}, corpus.device());
        DeviceArray counts({wanted.rows}, {dlpack::kInt, 32, 1}, corpus.device());
        run(static_cast<double*>(scores.data()), static_cast<std::int64_t*>(rows.data()),
            static_cast<int*>(counts.data()));
        return py::make_tuple(std::move(rows), std::move(scores), std::move(counts), did_dict(did));
    }
    F64Array scores({wanted.rows, best});
    I64Array rows({wanted.rows, best});
    I32Array counts(wanted.rows);
    run(scores.mutable_data(), rows.mutable_data(), counts.mutable_data());
    return py::make_tuple(rows, scores, counts, did_dict(did));
}

struct Bm25Holder {
    std::vector<py::object> owners;  // of the arrays of segments that are streamed
    std::unique_ptr<Bm25Corpus> corpus;
};

std::unique_ptr<Bm25Holder> bm25_corpus(const py::list& segments, const py::dict& formula, int device,
                                        int range_docs, std::size_t resident_bytes) {
    std::vector<Bm25Arrays> arrays;
    auto holder = std::make_unique<Bm25Holder>();
    std::vector<py::object>& owners = holder->owners;
    const auto keep = [&](auto array) {
        owners.push_back(array);
        return span_of(array);
    };
    for (const py::handle one : segments) {
        const auto segment = py::reinterpret_borrow<py::dict>(one);
        arrays.push_back({keep(segment["starts"].cast<I64Array>()), keep(segment["docs"].cast<U32Array>()),
                          keep(segment["tfs"].cast<U32Array>()), keep(segment["tildes"].cast<F64Array>()),
                          keep(segment["constants"].cast<F64Array>()), segment["n_docs"].cast<std::int64_t>(),
                          segment["base"].cast<std::uint32_t>()});
    }
    const Bm25Formula rule{formula["formula"].cast<int>(), formula["k1"].cast<double>(),
                           formula["delta"].cast<double>(), formula["in_order"].cast<bool>(),
                           formula["at_end"].cast<bool>()};
    {
        const py::gil_scoped_release release;
        holder->corpus = std::make_unique<Bm25Corpus>(device, arrays, rule, range_docs, resident_bytes);
    }
    if (holder->corpus->resident()) owners.clear();
    return holder;
}

// (ends int64 [Q + 1], slots int64, scores float64, what the search did): hits of all queries, flat.
py::tuple bm25_search(const Bm25Holder& holder, const py::dict& plan, std::size_t k, const py::list& allowed,
                      std::size_t workspace_bytes, std::size_t capacity) {
    const Bm25Corpus& corpus = *holder.corpus;
    std::vector<py::object> owners;
    const auto keep = [&](auto array) {
        owners.push_back(array);
        return span_of(array);
    };
    Bm25Batch batch{keep(plan["starts"].cast<I32Array>()),
                    keep(plan["slots"].cast<I32Array>()),
                    keep(plan["weights"].cast<F64Array>()),
                    keep(plan["absents"].cast<F64Array>()),
                    keep(plan["at_ends"].cast<F64Array>()),
                    {},
                    {}};
    for (const py::handle one : plan["terms"].cast<py::list>())
        batch.terms.push_back(keep(one.cast<I32Array>()));
    for (const py::handle one : allowed)
        batch.allowed.push_back(one.is_none() ? nullptr : keep(one.cast<U64Array>()).data());
    if (batch.terms.size() != corpus.n_segments() || batch.allowed.size() != corpus.n_segments())
        throw InvalidInput("the plan is not of this corpus's segments");
    Did did;
    Found found;
    {
        const py::gil_scoped_release release;
        found = corpus.search(batch, {k, workspace_bytes, capacity}, did);
    }
    I64Array ends(static_cast<py::ssize_t>(found.counts.size() + 1));
    ends.mutable_data()[0] = 0;
    for (std::size_t q = 0; q < found.counts.size(); ++q)
        ends.mutable_data()[q + 1] = ends.data()[q] + found.counts[q];
    I64Array slots(ends.data()[found.counts.size()]);
    F64Array scores(slots.size());
    std::size_t at = 0;
    for (std::size_t q = 0; q < found.counts.size(); ++q)
        for (std::size_t i = 0; i < static_cast<std::size_t>(found.counts[q]); ++i) {
            slots.mutable_data()[at] = found.rows[q * found.k + i];
            scores.mutable_data()[at++] = found.scores[q * found.k + i];
        }
    return py::make_tuple(ends, slots, scores, did_dict(did));
}

// A list of (indices int64, scores float64), one a query.
py::list mmr(const py::object& vectors, const py::object& queries, const std::optional<F64Array>& relevance,
             const std::vector<std::vector<std::int32_t>>& selected, int limit, double diversity,
             std::string_view penalty, int device, std::size_t workspace_bytes) {
    const Matrix rows(vectors, "vectors", device);
    const std::optional<Matrix> wanted =
        queries.is_none() ? std::nullopt : std::make_optional<Matrix>(queries, "query", device);
    if (!(diversity >= 0.0 && diversity <= 1.0))
        throw InvalidInput("invalid MMR inputs: diversity must lie between 0 and 1, got " +
                           std::to_string(diversity));
    if (penalty != "all" && penalty != "last")
        throw InvalidInput("penalty must be 'all' or 'last', got '" + std::string(penalty) + "'");
    for (const auto& picks : selected) {
        std::vector<bool> seen(static_cast<std::size_t>(rows.rows), false);
        for (const std::int32_t pick : picks) {
            if (pick < 0 || pick >= rows.rows)
                throw InvalidInput("invalid MMR inputs: selected names row " + std::to_string(pick) + " of " +
                                   std::to_string(rows.rows));
            if (seen[static_cast<std::size_t>(pick)])
                throw InvalidInput("invalid MMR inputs: selected names row " + std::to_string(pick) +
                                   " twice");
            seen[static_cast<std::size_t>(pick)] = true;
        }
    }
    const MmrWanted asked{rows.data,
                          rows.on_device,
                          rows.rows,
                          static_cast<int>(rows.dim),
                          wanted ? wanted->data : nullptr,
                          wanted && wanted->on_device,
                          relevance ? relevance->data() : nullptr,
                          static_cast<std::int64_t>(selected.size()),
                          &selected,
                          limit,
                          diversity,
                          penalty == "last",
                          workspace_bytes};
    MmrPicks found;
    {
        const py::gil_scoped_release release;
        found = mmr_on_device(device, asked);
    }
    py::list lists;
    for (std::size_t q = 0; q < selected.size(); ++q) {
        const std::size_t first = q * static_cast<std::size_t>(limit);
        py::ssize_t n = 0;
        while (n < limit && found.picks[first + static_cast<std::size_t>(n)] >= 0) ++n;
        I64Array indices(n);
        std::copy_n(found.picks.data() + first, n, indices.mutable_data());
        lists.append(py::make_tuple(indices, F64Array(n, found.scores.data() + first)));
    }
    return lists;
}

}  // namespace
}  // namespace gnomon::cuda

PYBIND11_MODULE(GNOMON_CUDA_MODULE, module) {
    using namespace gnomon::cuda;
    module.doc() = "Exact search on a GPU; its contracts are in cuda/*.hpp.";
    register_device_errors();
    register_device_array(module);
    module.def("devices", &all_devices,
               "What is usable, and why what is not; never raises for want of a GPU.");
    module.attr("workspace_bytes") = kWorkspaceBytes;
    py::class_<DenseHolder>(module, "DenseCorpus", py::is_final(), py::module_local(),
                            "Rows ready for exact search on a device.")
        .def(py::init<const py::object&, std::string_view, int, std::string_view, std::string_view,
                      std::size_t, std::size_t, std::string>(),
             py::arg("vectors"), py::arg("metric"), py::arg("device") = 0, py::arg("format") = "auto",
             py::arg("on_zero") = "zero", py::arg("resident_bytes") = 0,
             py::arg("workspace_bytes") = kWorkspaceBytes, py::arg("name") = "vectors")
        .def("search", &dense_search, py::arg("queries"), py::arg("k"),
             py::arg("min_score") = -std::numeric_limits<double>::infinity(), py::arg("allowed") = py::none(),
             py::arg("on_zero") = "zero", py::arg("stay") = false,
             py::arg("workspace_bytes") = kWorkspaceBytes, py::arg("family") = "", py::arg("planes") = 0,
             py::arg("capacity") = 0, py::arg("query_name") = "queries")
        .def_property_readonly("resident", [](const DenseHolder& one) { return one.corpus->resident(); })
        .def_property_readonly("bytes", [](const DenseHolder& one) { return one.corpus->bytes(); })
        .def_property_readonly("format", [](const DenseHolder& one) { return one.corpus->format(); });
    py::class_<Bm25Holder>(module, "Bm25Corpus", py::is_final(), py::module_local(),
                           "A scorer's postings on a device.")
        .def(py::init(&bm25_corpus), py::arg("segments"), py::arg("formula"), py::arg("device") = 0,
             py::arg("range_docs") = 0, py::arg("resident_bytes") = 0)
        .def("search", &bm25_search, py::arg("plan"), py::arg("k"), py::arg("allowed"),
             py::arg("workspace_bytes") = kWorkspaceBytes, py::arg("capacity") = 0)
        .def_property_readonly("resident", [](const Bm25Holder& one) { return one.corpus->resident(); })
        .def_property_readonly("bytes", [](const Bm25Holder& one) { return one.corpus->bytes(); });
    module.def("mmr", &mmr, py::arg("vectors"), py::arg("queries"), py::arg("relevance"), py::arg("selected"),
               py::arg("limit"), py::arg("diversity"), py::arg("penalty") = "all", py::arg("device") = 0,
               py::arg("workspace_bytes") = kWorkspaceBytes);
}
