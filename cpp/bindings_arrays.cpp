// gnomon._core: nested lists of Python floats as one float32 array. Embedding clients bring vectors so, and
// numpy looks at every number through its generic protocol: 30 to 60 ns each, where reading it takes 2.
#include "bindings_arrays.hpp"

#include <pybind11/numpy.h>

namespace py = pybind11;

namespace gnomon {
namespace {

// The items of a list or tuple (no subclass: it may say other things by __getitem__), else null.
PyObject** items_of(PyObject* value, Py_ssize_t& count) {
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return nullptr;
    count = PySequence_Fast_GET_SIZE(value);
    return PySequence_Fast_ITEMS(value);
}

// float64 rounded to nearest, what numpy makes of it; false at the first item that is neither a float nor
// numpy's own float64 (which is a float with the same layout).
bool read_floats(PyObject** items, Py_ssize_t count, PyObject* float64, float* out) {
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const item = items[i];
        if (!PyFloat_CheckExact(item) && reinterpret_cast<PyObject*>(Py_TYPE(item)) != float64) return false;
        out[i] = static_cast<float>(PyFloat_AS_DOUBLE(item));
    }
    return true;
}

// [N, D] of N rows, or [D] of numbers; None for anything else, which numpy then converts or refuses.
py::object float_rows(const py::handle value) {
    Py_ssize_t rows = 0;
    PyObject** const outer = items_of(value.ptr(), rows);
    if (outer == nullptr || rows == 0) return py::none();
    const py::object float64 = py::dtype::of<double>().attr("type");
    Py_ssize_t dim = 0;
    if (items_of(outer[0], dim) == nullptr) {
        py::array_t<float> array(rows);
        if (!read_floats(outer, rows, float64.ptr(), array.mutable_data())) return py::none();
        return array;
    }
    if (dim == 0) return py::none();
    py::array_t<float> array({rows, dim});
    float* out = array.mutable_data();
    for (Py_ssize_t row = 0; row < rows; ++row, out += dim) {
        Py_ssize_t width = 0;
        PyObject** const inner = items_of(outer[row], width);
        if (inner == nullptr || width != dim || !read_floats(inner, dim, float64.ptr(), out))
            return py::none();
    }
    return array;
}

}  // namespace

void register_arrays(py::module_& module) { module.def("float_rows", &float_rows, py::arg("value")); }

}  // namespace gnomon
