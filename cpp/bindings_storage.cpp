// Python's view of container files: conversion only, storage.hpp has the contracts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "bindings.hpp"
#include "crc32c.hpp"
#include "error.hpp"
#include "storage.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

constexpr Dtype kDtypes[] = {Dtype::u8,  Dtype::u16, Dtype::u32, Dtype::u64,
                             Dtype::i64, Dtype::f32, Dtype::f64};

Dtype dtype_from(const py::dtype& dtype) {
    std::string names;
    for (const Dtype candidate : kDtypes) {
        if (dtype.is(py::dtype(dtype_name(candidate))) || dtype.equal(py::dtype(dtype_name(candidate)))) {
            return candidate;
        }
        names += (names.empty() ? "" : ", ") + std::string(dtype_name(candidate));
    }
    throw InvalidInput("dtype must be one of " + names + " in this machine's byte order, got " +
                       std::string(py::str(dtype)));
}

// The bytes of a C-contiguous buffer, without a copy.
class Bytes {
  public:
    explicit Bytes(const py::handle& object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
            throw py::error_already_set();
        }
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    const void* data() const { return view_.buf; }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

  private:
    Py_buffer view_;
};

void write_section(ContainerWriter& writer, const std::string& name, const py::array& values) {
    if (values.ndim() != 1) {
        throw InvalidInput("section '" + name + "' must be a 1-d array, got " +
                           std::to_string(values.ndim()) + " dimensions; flatten it with .reshape(-1)");
    }
    const Dtype dtype = dtype_from(values.dtype());
    const auto dense = py::array::ensure(values, py::array::c_style);
    if (!dense) throw py::error_already_set();
    const void* data = dense.data();
    const auto bytes = static_cast<std::size_t>(dense.nbytes());
    const py::gil_scoped_release unlocked;
    writer.begin(name, dtype);
    writer.append(data, bytes);
    writer.end();
}

void append_buffer(ContainerWriter& writer, const py::object& values) {
    if (py::isinstance<py::array>(values)) {
        const auto open = writer.open_dtype();
        const py::dtype dtype = py::reinterpret_borrow<py::array>(values).dtype();
        if (open && dtype_from(dtype) != *open) {
            throw InvalidInput(std::string("values must be ") + dtype_name(*open) +
                               " as their section, got an array of " + std::string(py::str(dtype)) +
                               "; convert it with .astype()");
        }
    }
    const Bytes bytes(values);
    const py::gil_scoped_release unlocked;
    writer.append(bytes.data(), bytes.size());
}

// A view of `count` elements from `first` on, which keeps the mapping alive.
py::array view_of(Container::Raw raw, std::size_t first, std::size_t count) {
    using Owner = std::shared_ptr<const MappedSection>;
    const std::byte* data = raw.data + first * dtype_bytes(raw.dtype);
    const py::capsule base(new Owner(std::move(raw.section)),
                           [](void* owner) { delete static_cast<Owner*>(owner); });
    py::array array(py::dtype(dtype_name(raw.dtype)), {static_cast<py::ssize_t>(count)}, {}, data, base);
    array.attr("setflags")(py::arg("write") = false);
    return array;
}

py::array section_array(const std::shared_ptr<Container>& container, const std::string& name, bool verify) {
    Container::Raw raw = container->raw(name);
    if (verify) {
        const py::gil_scoped_release unlocked;
        raw.section->ensure(0, raw.count * dtype_bytes(raw.dtype));
    }
    const std::size_t count = raw.count;
    return view_of(std::move(raw), 0, count);
}

py::array section_slice(const std::shared_ptr<Container>& container, const std::string& name,
                        std::size_t first, std::size_t last) {
    Container::Raw raw = container->raw(name);
    if (first > last || last > raw.count)
        throw_outside(raw.section.get(), first, last - std::min(first, last), raw.count);
    const std::size_t width = dtype_bytes(raw.dtype);
    {
        const py::gil_scoped_release unlocked;
        raw.section->ensure(first * width, (last - first) * width);
    }
    return view_of(std::move(raw), first, last - first);
}

py::list section_list(const Container& container) {
    py::list list;
    for (const SectionInfo& info : container.sections()) {
        list.append(py::make_tuple(info.name, dtype_name(info.dtype), info.count));
    }
    return list;
}

std::uint32_t crc32c_of(const py::buffer& data, std::uint32_t seed) {
    const Bytes bytes(data);
    const py::gil_scoped_release unlocked;
    return crc32c(bytes.data(), bytes.size(), seed);
}

void register_writer(py::module_& module) {
    py::class_<ContainerWriter>(
        module, "ContainerWriter", py::is_final(),
        "Writes one container file: named, typed, checksummed sections.\n\n"
        "The file must not exist (FileExistsError). Until finish() it opens nowhere, and a\n"
        "writer that is dropped before finish() removes it. Element types: uint8, uint16,\n"
        "uint32, uint64, int64, float32, float64.")
        .def(py::init([](const std::filesystem::path& path) {
                 return std::make_unique<ContainerWriter>(path.string());
             }),
             py::arg("path"))
        .def("section", &write_section, py::arg("name"), py::arg("values"), "Write a whole 1-d array.")
        .def(
            "begin",
            [](ContainerWriter& writer, const std::string& name, const py::object& dtype) {
                writer.begin(name, dtype_from(py::dtype::from_args(dtype)));
            },
            py::arg("name"), py::arg("dtype"), "Open a section to stream into with append().")
        .def("append", &append_buffer, py::arg("values"),
             "Add an array of the section's type, or raw bytes in this machine's order.")
        .def("end", &ContainerWriter::end, "Close the section opened by begin().")
        .def("finish", &ContainerWriter::finish, py::call_guard<py::gil_scoped_release>(),
             "Write the table and the header and bring all to the disk.");
}

void register_reader(py::module_& module) {
    // Every member of Container is const; the cast gives pybind11 the holder type that it can pass on.
    py::class_<Container, std::shared_ptr<Container>>(
        module, "Container", py::is_final(),
        "An open container file, mapped into memory.\n\n"
        "Opening checks header and table (CorruptIndex); the data is checked when it is first touched.")
        .def(py::init([](const std::filesystem::path& path) {
                 return std::const_pointer_cast<Container>(Container::open(path.string()));
             }),
             py::arg("path"))
        .def_property_readonly(
            "path", [](const Container& container) { return std::filesystem::path(container.path()); })
        .def_property_readonly("file_bytes", &Container::file_bytes, "Size of the file.")
        .def_property_readonly("table_crc", &Container::table_crc,
                               "CRC-32C of the table, which holds the checksums of all data.")
        .def("sections", &section_list, "[(name, dtype, count), ...] in the order of the file.")
        .def("__contains__", [](const Container& c, const std::string& name) { return c.has(name); })
        .def("array", &section_array, py::arg("name"), py::arg("verify") = true,
             "A read-only 1-d view of a section. It keeps the file mapped; its blocks are verified first "
             "unless\n"
             "verify=False. CorruptIndex when it is missing or damaged.")
        .def("slice", &section_slice, py::arg("name"), py::arg("first"), py::arg("last"),
             "A read-only view of elements [first, last) of a section, of which only they are verified.\n"
             "CorruptIndex when they are damaged or leave the section.")
        .def("verify", &Container::verify, py::call_guard<py::gil_scoped_release>(),
             "Check every byte; CorruptIndex names the damaged section and block.");
}

}  // namespace

void register_storage(py::module_& module) {
    register_writer(module);
    register_reader(module);
    module.def(
        "crc32c", &crc32c_of, py::arg("data"), py::arg("seed") = 0,
        "CRC-32C of a contiguous buffer; seed continues an earlier one: crc32c(ab) == crc32c(b, crc32c(a)).");
}

}  // namespace gnomon
