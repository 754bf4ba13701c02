#include "device.hpp"

#include "memory.hpp"

namespace gnomon::cuda {
namespace {

constexpr int kLeastMajor = 8;  // cp.async, and int8 and bfloat16 products

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// cudaGetDeviceCount gives cudaErrorInsufficientDriver both without a driver and with an old one.
std::string why_none(cudaError_t error, int driver, int runtime) {
    if (driver == 0) return "no NVIDIA driver is installed on this machine";
    if (driver / 1000 < runtime / 1000)
        return "the driver serves CUDA up to " + version_text(driver) + " and this build needs " +
               version_text(runtime) + "; update the driver";
    if (error != cudaSuccess) return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
    return "the driver is there but no GPU is visible; look at CUDA_VISIBLE_DEVICES";
}

DeviceInfo info_of(int number) {
    DeviceInfo info{number, "", 0, 0, 0, 0, false, ""};
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, number);
    if (error != cudaSuccess) {
        info.why = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
        cudaGetLastError();
        return info;
    }
    info.name = properties.name;
    info.major = properties.major;
    info.minor = properties.minor;
    info.bytes = properties.totalGlobalMem;
    info.usable = info.major >= kLeastMajor;
    if (!info.usable)
        info.why = "compute capability " + std::to_string(info.major) + "." + std::to_string(info.minor) +
                   " is below 8.0, which the kernels need";
    return info;
}

}  // namespace

Devices devices() {
    Devices result{{}, "", 0, 0};
    cudaDriverGetVersion(&result.driver);
    cudaRuntimeGetVersion(&result.runtime);
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) count = 0;
    cudaGetLastError();
    for (int number = 0; number < count; ++number) result.found.push_back(info_of(number));
    if (count == 0) result.why = why_none(error, result.driver, result.runtime);
    return result;
}

void require_device(int number) {
    const Devices all = devices();
    if (all.found.empty()) throw DeviceError("device 'cuda' cannot be used: " + all.why);
    if (number < 0 || number >= static_cast<int>(all.found.size()))
        throw DeviceError("device 'cuda:" + std::to_string(number) + "' does not exist; this machine has " +
                          std::to_string(all.found.size()));
    const DeviceInfo& info = all.found[static_cast<std::size_t>(number)];
    if (!info.usable)
        throw DeviceError("device 'cuda:" + std::to_string(number) + "' cannot be used: " + info.why);
}

}  // namespace gnomon::cuda
