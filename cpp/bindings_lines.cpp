// Python's view of the search for lines: conversion only, lines.hpp has the contracts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "cpu.hpp"
#include "error.hpp"
#include "lines.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

using Offsets = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;

LineProgram::Set set_of(const std::string& bytes) {  // bit b of byte i: byte 8 i + b
    require(bytes.size() == 32, "a set of bytes is 32 bytes");
    LineProgram::Set set;
    for (std::size_t byte = 0; byte < 256; ++byte)
        set[byte] = (static_cast<std::uint8_t>(bytes[byte / 8]) >> (byte % 8) & 1) != 0;
    return set;
}

std::vector<LineProgram::Set> sets_of(const std::vector<std::string>& given) {
    std::vector<LineProgram::Set> sets;
    for (const std::string& each : given) sets.push_back(set_of(each));
    return sets;
}

// A class of a window holds the bytes beyond ASCII all or none: it may be wider than the set.
ByteWindow window_of(const std::vector<std::string>& sets, const std::vector<std::uint8_t>& order) {
    require(!sets.empty() && sets.size() <= ByteWindow::kMost && order.size() == sets.size(),
            "a window has one to eight classes, and an order of them");
    ByteWindow window{};
    window.width = sets.size();
    for (std::size_t k = 0; k < sets.size(); ++k) {
        window.order[k] = order[k];
        const LineProgram::Set set = set_of(sets[k]);
        for (unsigned byte = 0; byte < 128; ++byte)
            if (set[byte])
                window.rows[k][byte & 15] =
                    static_cast<std::uint8_t>(window.rows[k][byte & 15] | 1U << (byte >> 4));
        for (std::size_t byte = 128; byte < 256; ++byte) window.high[k] = window.high[k] || set[byte];
    }
    return window;
}

std::shared_ptr<LineProgram> program_of(const std::vector<std::tuple<unsigned, unsigned, unsigned>>& steps,
                                        const std::vector<std::string>& sets, bool wide,
                                        const std::vector<std::string>& window,
                                        const std::vector<std::uint8_t>& order, std::size_t anchor,
                                        std::optional<std::size_t> offset, bool edges,
                                        const std::vector<std::string>& lead) {
    std::vector<LineProgram::Step> made;
    for (const auto& [op, x, y] : steps) {
        require(op <= static_cast<unsigned>(LineProgram::Op::kMatch), "a step has an unknown kind");
        made.push_back({static_cast<LineProgram::Op>(op), x, y});
    }
    return std::make_shared<LineProgram>(std::move(made), sets_of(sets), wide, window_of(window, order),
                                         anchor, offset.value_or(LineProgram::kAnywhere), edges,
                                         sets_of(lead));
}

// The scan and what its sources lie in: not the caller's list, which can be emptied while spans point there.
struct HeldScan {
    py::tuple sources;
    std::unique_ptr<LineScan> scan;
};

std::unique_ptr<HeldScan> scan_of(const std::shared_ptr<LineProgram>& program, const py::list& sources,
                                  const py::array_t<std::uint32_t, py::array::c_style>& source,
                                  const Offsets& begin, const Offsets& end, std::uint64_t most,
                                  std::size_t threads, const std::string& level, std::uint64_t most_unsure) {
    auto held = std::make_unique<HeldScan>();
    held->sources = py::tuple(sources);
    std::vector<Column<std::uint8_t>> columns;
    for (const py::handle each : held->sources) {
        if (py::isinstance<Container>(each)) {
            columns.push_back(each.cast<std::shared_ptr<Container>>()->column<std::uint8_t>("raw"));
            continue;
        }
        if (!py::isinstance<py::bytes>(each)) throw py::type_error("a source is a Container or bytes");
        columns.push_back(
            Column<std::uint8_t>::of(reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(each.ptr())),
                                     static_cast<std::size_t>(PyBytes_GET_SIZE(each.ptr())), nullptr));
    }
    require(source.ndim() == 1 && begin.ndim() == 1 && end.ndim() == 1 && source.size() == begin.size() &&
                begin.size() == end.size(),
            "source, begin and end are 1-d arrays of one length");
    std::vector<LineDocument> documents(static_cast<std::size_t>(source.size()));
    for (std::size_t i = 0; i < documents.size(); ++i)
        documents[i] = {source.data()[i], begin.data()[i], end.data()[i]};
    const Kernels& kernels = kernels_named(level);
    const py::gil_scoped_release unlocked;
    held->scan = std::make_unique<LineScan>(*program, std::move(columns), std::move(documents), most,
                                            most_unsure, threads, kernels);
    return held;
}

py::array_t<std::uint64_t> array_of(const std::vector<std::uint64_t>& values) {
    return py::array_t<std::uint64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

std::span<const std::int64_t> span_of(const py::buffer_info& given) {
    require(given.ndim == 1 && given.itemsize == 8 && given.format.find_first_of("ql") != std::string::npos &&
                (given.size == 0 || given.strides[0] == 8),
            "matches are contiguous buffers of int64");
    return {static_cast<const std::int64_t*>(given.ptr), static_cast<std::size_t>(given.size)};
}

py::object found_in(const LineProgram& program, const py::bytes& line) {
    LineMatcher matcher(program);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> matches;
    const std::string text(line);
    if (!matcher.find({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, 0, text.size(),
                      matches))
        return py::none();
    return py::cast(matches);
}

py::tuple page_of(const HeldScan& held, std::uint64_t skip, std::uint64_t stop) {
    LineScan::Page page;
    {
        const py::gil_scoped_release unlocked;
        page = held.scan->page(skip, stop);
    }
    return py::make_tuple(array_of(page.owner), array_of(page.number), array_of(page.begin),
                          array_of(page.end), array_of(page.first), array_of(page.begins),
                          array_of(page.stops));
}

}  // namespace

void register_lines(py::module_& module) {
    py::class_<LineProgram, std::shared_ptr<LineProgram>>(
        module, "LineProgram", py::is_final(), "A pattern as steps of a matcher, and a window of classes.")
        .def(py::init(&program_of), py::arg("steps"), py::arg("sets"), py::arg("wide"), py::arg("window"),
             py::arg("order"), py::arg("anchor"), py::arg("offset"), py::arg("edges"), py::arg("lead"))
        .def("find", &found_in, py::arg("line"),
             "The matches in one line, whatever its bytes; None for one that is too long.");
    py::class_<HeldScan>(module, "LineScan", py::is_final(), "The lines of documents that match a program.")
        .def(py::init(&scan_of), py::arg("program"), py::arg("sources"), py::arg("source"), py::arg("begin"),
             py::arg("end"), py::arg("most") = UINT64_MAX, py::arg("threads") = 0, py::arg("level") = "",
             py::arg("most_unsure") = UINT64_MAX)
        .def_property_readonly("has_given_up", [](const HeldScan& held) { return held.scan->has_given_up(); })
        .def_property_readonly("totals",
                               [](const HeldScan& held) {
                                   const LineScan::Totals totals = held.scan->totals();
                                   return py::make_tuple(totals.lines, totals.matches, totals.documents);
                               })
        .def(
            "matched",
            [](const HeldScan& held) {
                const std::span<const std::uint8_t> hit = held.scan->matched();
                return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(hit.size()), hit.data());
            },
            "By document: 1 where a line matches.")
        .def(
            "unsure", [](const HeldScan& held) { return py::bytes(held.scan->unsure()); },
            "The lines that the program cannot judge, each closed by a line feed.")
        .def(
            "settle",
            [](HeldScan& held, const py::buffer& begins, const py::buffer& stops) {
                const py::buffer_info first = begins.request(), last = stops.request();
                held.scan->settle(span_of(first), span_of(last));
            },
            py::arg("begins"), py::arg("stops"), "What matches in the text of unsure().")
        .def("page", &page_of, py::arg("skip"), py::arg("stop"),
             "Of some lines: document, number, begin, end, first match; of the matches: begin, stop.");
}

}  // namespace gnomon
