// Owners of what the CUDA runtime gives: memory, streams, events. A call that fails becomes a DeviceError
// that says what was wanted; memory that does not fit says how many bytes and what to do about it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../cpp/error.hpp"
#include "arguments.hpp"

namespace gnomon::cuda {

// Throws DeviceError naming the call's purpose, the runtime's own name for the error and its text.
inline void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    const std::string text = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
    cudaGetLastError();
    throw DeviceError(std::string("CUDA: ") + what + " failed, " + text);
}

inline void check_launches() { check(cudaGetLastError(), "a kernel launch"); }

// The device of this thread's calls, and the former one again afterwards.
class OnDevice {
  public:
    explicit OnDevice(int device) {
        check(cudaGetDevice(&before_), "asking for the device in use");
        check(cudaSetDevice(device), "choosing the device");
    }
    ~OnDevice() { cudaSetDevice(before_); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

  private:
    int before_ = 0;
};

inline std::size_t free_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
}

// Device memory.
class Buffer {
  public:
    Buffer() = default;
    Buffer(std::size_t bytes, const std::string& what, const std::string& remedy) : bytes_(bytes) {
        const cudaError_t error = cudaMalloc(&data_, std::max<std::size_t>(bytes, 1));
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw DeviceError("CUDA: out of memory: " + what + " needs " + std::to_string(bytes) +
                              " bytes and " + std::to_string(free_memory()) + " are free on the device; " +
                              remedy);
        }
        check(error, "allocating memory");
    }
    ~Buffer() { cudaFree(data_); }
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    char* data() const { return static_cast<char*>(data_); }
    std::size_t bytes() const { return bytes_; }

  private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

// Arrays one after the other, each on a border of 256 bytes. Without memory it only counts, so that the same
// code first says how much is needed and then shares it out.
class Arena {
  public:
    explicit Arena(char* memory = nullptr) : memory_(memory) {}
    template <class T>
    T* take(std::size_t n) {
        T* const first = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
        used_ += (n * sizeof(T) + 255) / 256 * 256;
        return first;
    }
    std::size_t used() const { return used_; }

  private:
    char* memory_;
    std::size_t used_ = 0;
};

// Host memory that the device copies from and to by itself.
class Pinned {
  public:
    explicit Pinned(std::size_t bytes) {
        const cudaError_t error = cudaMallocHost(&data_, std::max<std::size_t>(bytes, 1));
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw DeviceError("CUDA: out of memory: streaming needs " + std::to_string(bytes) +
                              " bytes of pinned host memory twice; pass a smaller max_workspace_bytes");
        }
        check(error, "allocating pinned host memory");
    }
    ~Pinned() { cudaFreeHost(data_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    char* data() const { return static_cast<char*>(data_); }

  private:
    void* data_ = nullptr;
};

class Stream {
  public:
    Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
    ~Stream() {
        cudaStreamSynchronize(stream_);  // nothing may still use memory that goes with it
        cudaStreamDestroy(stream_);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator cudaStream_t() const { return stream_; }

    void wait() const { check(cudaStreamSynchronize(stream_), "waiting for the device"); }
    void copy(void* to, const void* from, std::size_t bytes) const {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a copy");
    }
    void clear(void* to, std::size_t bytes) const {
        check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing memory");
    }
    // From memory of the caller's, which may be changed as soon as this returns.
    template <class T>
    void give(T* to, std::span<const T> from) const {
        copy(to, from.data(), from.size_bytes());
        wait();
    }
    template <class T>
    void fetch(std::span<T> to, const T* from) const {
        copy(to.data(), from, to.size_bytes());
        wait();
    }

  private:
    cudaStream_t stream_ = nullptr;
};

class Event {
  public:
    Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(const Stream& stream) const { check(cudaEventRecord(event_, stream), "recording an event"); }
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace gnomon::cuda
