// Conversion of nested lists; see bindings_arrays.cpp.
#pragma once
#include <pybind11/pybind11.h>

namespace gnomon {

void register_arrays(pybind11::module_& module);

}  // namespace gnomon
