// What the binding files of gnomon._cuda share: arrays on a device, and errors.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../cuda/dlpack.hpp"

namespace gnomon::cuda {

// A row-major array in device memory: its own, or another library's by DLPack.
class DeviceArray {
  public:
    DeviceArray(std::vector<std::int64_t> shape, dlpack::DataType dtype, int device);
    // Takes over what a capsule named "dltensor" or "dltensor_versioned" holds; float16, bfloat16 and float64
    // become float32 in memory of our own. Throws InvalidInput for other types, gaps between elements, or
    // another kind of device.
    static DeviceArray from_dlpack(const pybind11::object& capsule, const std::string& name);

    void* data() const { return data_; }
    const std::vector<std::int64_t>& shape() const { return shape_; }
    int device() const { return device_; }
    pybind11::capsule to_dlpack() const;
    pybind11::array to_host() const;

  private:
    DeviceArray() = default;
    std::size_t size() const;
    std::shared_ptr<void> owner_;
    void* data_ = nullptr;
    std::vector<std::int64_t> shape_;
    dlpack::DataType dtype_{};
    int device_ = 0;
};

void register_device_array(pybind11::module_& module);
// gnomon._core's exceptions, raised from this module.
void register_device_errors();

}  // namespace gnomon::cuda
