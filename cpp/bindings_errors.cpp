// Errors on their way to Python (error.hpp). InvalidInput is ValueError, translated here because it may quote
// an environment variable, which holds any bytes.
#include <pybind11/pybind11.h>

#include <cerrno>
#include <cstring>

#include "bindings.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

PyObject* corrupt_index = nullptr;
PyObject* device_error = nullptr;

// Named in the package, not in _core: that is where people import it from, and pickle looks there.
PyObject* new_error(py::module_& module, const char* name, const char* doc) {
    const std::string qualified = std::string("gnomon.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, PyExc_RuntimeError, nullptr);
    if (type == nullptr) throw py::error_already_set();
    module.add_object(name, type);  // takes a reference of its own; the static pointer keeps the first
    return type;
}

// OSError(errno, text, path) picks the subclass: FileNotFoundError, PermissionError, ...
void raise_file_error(const FileError& error) {
    const auto path = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeFSDefaultAndSize(error.path.data(), static_cast<Py_ssize_t>(error.path.size())));
    if (!path) return;
    const auto instance = py::reinterpret_steal<py::object>(
        PyObject_CallFunction(PyExc_OSError, "isO", error.code, std::strerror(error.code), path.ptr()));
    if (!instance) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
}

// A path or a variable in a message may hold any bytes: those that are no UTF-8 are shown escaped.
void raise_text(PyObject* type, const char* text) {
    const auto message = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "backslashreplace"));
    if (message) PyErr_SetObject(type, message.ptr());
}

}  // namespace

void register_errors(py::module_& module) {
    corrupt_index =
        new_error(module, "CorruptIndex",
                  "A file of an index is damaged, cut off, hostile or of another format version.");
    device_error = new_error(module, "DeviceError", "A device that was asked for cannot be used.");
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const CorruptIndex& error) {
            raise_text(corrupt_index, error.what());
        } catch (const DeviceError& error) {
            raise_text(device_error, error.what());
        } catch (const FileError& error) {
            raise_file_error(error);
        } catch (const InvalidInput& error) {
            raise_text(PyExc_ValueError, error.what());
        }
    });
}

}  // namespace gnomon
