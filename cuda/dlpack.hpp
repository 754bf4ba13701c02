// The memory layout of DLPack's managed tensors (dmlc.github.io/dlpack), as far as it is exchanged here: what
// other libraries hand over without a copy. Capsules with a version are as of 1.0; arrays that must not be
// written to come in these alone.
#pragma once
#include <cstdint>

namespace gnomon::dlpack {

constexpr std::int32_t kCpu = 1;
constexpr std::int32_t kCuda = 2;
constexpr std::uint8_t kInt = 0;
constexpr std::uint8_t kFloat = 2;
constexpr std::uint8_t kBfloat = 4;

struct Device {
    std::int32_t type;
    std::int32_t number;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: row-major without gaps
    std::uint64_t byte_offset;
};
struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed* self);
};

constexpr std::uint32_t kMajor = 1;
struct Versioned {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(Versioned* self);
    std::uint64_t flags;
    Tensor tensor;
};

}  // namespace gnomon::dlpack
