// gnomon._cuda: arrays on a device, in and out by DLPack, and errors.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>

#include "../cuda/memory.hpp"
#include "bindings_cuda.hpp"
#include "error.hpp"

namespace py = pybind11;

namespace gnomon::cuda {
namespace {

#ifdef GNOMON_EMULATED
constexpr std::int32_t kDeviceType = dlpack::kCpu;
#else
constexpr std::int32_t kDeviceType = dlpack::kCuda;
#endif

std::int64_t product(const std::vector<std::int64_t>& shape) {
    std::int64_t n = 1;
    for (const std::int64_t one : shape) n *= one;
    return n;
}

bool has_gaps(const dlpack::Tensor& tensor) {
    if (tensor.strides == nullptr) return false;
    std::int64_t expected = 1;
    for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return true;
        expected *= tensor.shape[i];
    }
    return false;
}

// The kind of launch_widen(); -1 for float32, -2 for what is no float.
int kind_of(dlpack::DataType dtype) {
    if (dtype.lanes != 1) return -2;
    if (dtype.code == dlpack::kBfloat && dtype.bits == 16) return 2;
    if (dtype.code != dlpack::kFloat) return -2;
    return dtype.bits == 32 ? -1 : dtype.bits == 64 ? 0 : dtype.bits == 16 ? 1 : -2;
}

struct Taken {
    const dlpack::Tensor* tensor;
    std::shared_ptr<void> owner;
};

template <class Managed>
Taken taken_from(PyObject* capsule, const char* name, const char* used) {
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (managed == nullptr || PyCapsule_SetName(capsule, used) != 0) throw py::error_already_set();
    const std::shared_ptr<Managed> owner(managed, [](Managed* one) {
        if (one->deleter == nullptr) return;
        const py::gil_scoped_acquire acquire;  // it may belong to Python
        one->deleter(one);
    });
    return {&managed->tensor, owner};
}

Taken take_over(const py::object& given, const std::string& name) {
    PyObject* const capsule = given.ptr();
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return taken_from<dlpack::Managed>(capsule, "dltensor", "used_dltensor");
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        const auto* const managed =
            static_cast<dlpack::Versioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
        if (managed->major != dlpack::kMajor)
            throw InvalidInput(name + " comes as DLPack " + std::to_string(managed->major) + "." +
                               std::to_string(managed->minor) + ", and 1 is what can be read");
        return taken_from<dlpack::Versioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
    }
    if (PyCapsule_IsValid(capsule, "used_dltensor") || PyCapsule_IsValid(capsule, "used_dltensor_versioned"))
        throw InvalidInput(name + ": this DLPack capsule was used already; a capsule is for one reader");
    throw InvalidInput(name + ": __dlpack__ gave no DLPack capsule but a " + Py_TYPE(capsule)->tp_name);
}

// Throws InvalidInput for what a kernel cannot read.
void check_tensor(const dlpack::Tensor& tensor, const std::string& name) {
    if (tensor.device.type != kDeviceType)
        throw InvalidInput(name + " is on a device of DLPack's type " + std::to_string(tensor.device.type) +
                           ", not on the device of this search; move it there, or to the host");
    const int kind = kind_of(tensor.dtype);
    if (kind == -2)
        throw InvalidInput(name + " must hold float16, bfloat16, float32 or float64 numbers; convert it");
    std::int64_t n = 1;
    bool fits = tensor.ndim >= 0 && tensor.ndim <= 64;
    for (std::int32_t i = 0; fits && i < tensor.ndim; ++i)
        fits = tensor.shape[i] >= 0 && !__builtin_mul_overflow(n, tensor.shape[i], &n);
    if (!fits || n > std::numeric_limits<std::int64_t>::max() / 8)
        throw InvalidInput(name + " has a shape that no array has");
    if (n == 0) return;
    if (has_gaps(tensor))
        throw InvalidInput(name + " has gaps between its elements; make it contiguous first");
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
    if (tensor.data == nullptr || address % (tensor.dtype.bits / 8U) != 0)
        throw InvalidInput(name + " lies at an address that is no multiple of its elements' size; copy it");
}

struct Exported {
    dlpack::Managed managed{};
    std::vector<std::int64_t> shape;
    std::shared_ptr<void> owner;
};

}  // namespace

DeviceArray::DeviceArray(std::vector<std::int64_t> shape, dlpack::DataType dtype, int device)
    : shape_(std::move(shape)), dtype_(dtype), device_(device) {
    const OnDevice here(device);
    auto memory = std::make_shared<Buffer>(size(), "an array", "free some of it");
    data_ = memory->data();
    owner_ = std::move(memory);
}

std::size_t DeviceArray::size() const { return static_cast<std::size_t>(product(shape_)) * dtype_.bits / 8; }

DeviceArray DeviceArray::from_dlpack(const py::object& capsule, const std::string& name) {
    const Taken taken = take_over(capsule, name);
    const dlpack::Tensor& tensor = *taken.tensor;
    check_tensor(tensor, name);
    const OnDevice there(tensor.device.number);
    // The giver has put its work into the default stream; ours would not wait for it.
    check(cudaStreamSynchronize(cudaStreamLegacy), "waiting for the default stream");
    DeviceArray array;
    array.shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
    array.device_ = tensor.device.number;
    array.dtype_ = {dlpack::kFloat, 32, 1};
    array.data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
    array.owner_ = taken.owner;
    const int kind = kind_of(tensor.dtype);
    if (kind == -1) return array;
    DeviceArray wide(array.shape_, array.dtype_, array.device_);
    const Stream stream;
    if (wide.size() != 0)
        launch_widen(array.data_, kind, product(array.shape_), static_cast<float*>(wide.data_), stream);
    check_launches();
    stream.wait();
    return wide;
}

py::capsule DeviceArray::to_dlpack() const {
    auto* const out = new Exported{{}, shape_, owner_};
    out->managed.tensor = {data_,  {kDeviceType, device_}, static_cast<std::int32_t>(shape_.size()),
                           dtype_, out->shape.data(),      nullptr,
                           0};
    out->managed.context = out;
    out->managed.deleter = [](dlpack::Managed* one) { delete static_cast<Exported*>(one->context); };
    return py::capsule(&out->managed, "dltensor", [](PyObject* capsule) {
        if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // somebody took it over
        auto* const managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
        managed->deleter(managed);
    });
}

py::array DeviceArray::to_host() const {
    const char* const kind = dtype_.code == dlpack::kInt ? (dtype_.bits == 64 ? "int64" : "int32")
                                                         : (dtype_.bits == 64 ? "float64" : "float32");
    py::array out(py::dtype(kind), std::vector<py::ssize_t>(shape_.begin(), shape_.end()));
    const OnDevice here(device_);
    const Stream stream;
    stream.copy(out.mutable_data(), data_, size());
    stream.wait();
    return out;
}

void register_device_array(py::module_& module) {
    py::class_<DeviceArray>(module, "DeviceArray", py::is_final(), py::module_local(),
                            "An array in device memory, for DLPack.")
        .def_property_readonly("shape",
                               [](const DeviceArray& array) { return py::tuple(py::cast(array.shape())); })
        .def_property_readonly("device", &DeviceArray::device)
        .def("__dlpack__", [](const DeviceArray& array, const py::kwargs&) { return array.to_dlpack(); })
        .def("__dlpack_device__",
             [](const DeviceArray& array) { return py::make_tuple(kDeviceType, array.device()); })
        .def("to_host", &DeviceArray::to_host, "A copy as a numpy array.")
        .def_static("from_dlpack", &DeviceArray::from_dlpack, py::arg("capsule"), py::arg("name"));
    module.attr("device_type") = kDeviceType;
}

void register_device_errors() {
    static const py::object* const core = new py::object(py::module_::import("gnomon._core"));
    py::register_local_exception_translator([](std::exception_ptr pointer) {
        const auto raise = [](const char* name, const char* text) {
            PyErr_SetString(core->attr(name).ptr(), text);
        };
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const CorruptIndex& error) {
            raise("CorruptIndex", error.what());
        } catch (const DeviceError& error) {
            raise("DeviceError", error.what());
        } catch (const InvalidInput& error) {
            PyErr_SetString(PyExc_ValueError, error.what());
        }
    });
}

}  // namespace gnomon::cuda
