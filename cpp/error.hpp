// Errors that cross the border to Python. Input is validated once, at the C++ entry points; messages name
// the argument, the rule, the value and the remedy. Kernels are noexcept; the core never prints or exits.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace gnomon {

// -> ValueError
struct InvalidInput : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// -> gnomon.CorruptIndex: a file is damaged, truncated, hostile or of another version.
struct CorruptIndex : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// -> gnomon.DeviceError: a device that was asked for by name cannot be used, and why.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// -> OSError with errno and the path
struct FileError : std::runtime_error {
    FileError(int code_, std::string path_)
        : std::runtime_error("file error"), code(code_), path(std::move(path_)) {}
    int code;
    std::string path;
};

inline void require(bool condition, const char* message) {
    if (!condition) throw InvalidInput(message);
}

}  // namespace gnomon
