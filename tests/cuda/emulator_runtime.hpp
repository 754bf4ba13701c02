// The CUDA runtime calls that cuda/ makes, on the host, for tests. What is put into a stream runs only when
// somebody waits for it, and streams take turns at random: a missing wait between two of them shows. Memory
// is poisoned, counted, and can be made scarce (Config::memory). Copies read and write at their turn, so that
// a buffer that is used again too early is seen.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "emulator.hpp"

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorLaunchFailure = 719
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

namespace emulator {

struct EventState {
    std::size_t recorded = 0;  // in a stream
    std::size_t reached = 0;   // by it
};

struct Operation {
    std::function<void()> run;
    EventState* until = nullptr;  // waits for it to reach `number`
    std::size_t number = 0;
};

struct StreamState {
    std::deque<Operation> queue;
};

struct Runtime {
    std::recursive_mutex lock;
    std::map<StreamState*, std::unique_ptr<StreamState>> streams;
    std::map<void*, std::size_t> memory;
    std::deque<EventState> events;  // kept: streams may still name one that was destroyed, as on a GPU
    std::mt19937 random{1};
    std::string failure;
};
inline Runtime runtime;

inline bool step(StreamState& stream) {
    if (stream.queue.empty()) return false;
    Operation& next = stream.queue.front();
    if (next.until != nullptr && next.until->reached < next.number) return false;
    Operation now = std::move(next);
    stream.queue.pop_front();
    if (now.run && runtime.failure.empty()) {
        try {
            now.run();
        } catch (const std::exception& error) {
            runtime.failure = error.what();
        }
    }
    return true;
}

// Until `done`: by the schedule the stream that is waited for goes first, or last, or any at random.
template <class Done>
cudaError_t run_until(StreamState* wanted, const Done& done) {
    const std::lock_guard<std::recursive_mutex> guard(runtime.lock);
    while (!done()) {
        std::vector<StreamState*> order;
        for (auto& [stream, owned] : runtime.streams) order.push_back(stream);
        std::shuffle(order.begin(), order.end(), runtime.random);
        const bool first = config.schedule % 3 == 0;
        if (config.schedule % 3 != 2)
            std::stable_partition(order.begin(), order.end(),
                                  [&](StreamState* stream) { return (stream == wanted) == first; });
        bool progress = false;
        for (StreamState* stream : order) {
            progress = step(*stream);
            if (progress) break;
        }
        if (!progress) {
            runtime.failure = "emulator: streams wait for one another for ever";
            break;
        }
    }
    return runtime.failure.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

// Of each call that makes something: whether it is the one that tests let fail.
inline bool refused() {
    if (config.refuse != 0 && --config.refuse == 0) return true;
    ++config.held;
    return false;
}

inline void enqueue(StreamState* stream, Operation operation) {
    const std::lock_guard<std::recursive_mutex> guard(runtime.lock);
    stream->queue.push_back(std::move(operation));
}

}  // namespace emulator

using cudaStream_t = emulator::StreamState*;
using cudaEvent_t = emulator::EventState*;
struct cudaDeviceProp {
    char name[256];
    std::size_t totalGlobalMem;
    int major, minor;
};
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;
constexpr cudaStream_t cudaStreamLegacy = nullptr;

inline const char* cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorLaunchFailure";
}
inline const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : emulator::runtime.failure.c_str();
}
inline cudaError_t cudaGetLastError() {
    emulator::runtime.failure.clear();
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
    *out = {"the host, emulating", emulator::config.memory, 9, 0};
    return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = emulator::config.memory;
    *free = *total - std::min(*total, emulator::config.used);
    return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** out, std::size_t bytes) {
    const std::lock_guard<std::recursive_mutex> guard(emulator::runtime.lock);
    *out = nullptr;
    if (emulator::config.used + bytes > emulator::config.memory) return cudaErrorMemoryAllocation;
    if (emulator::refused()) return cudaErrorMemoryAllocation;
    *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (*out == nullptr) return cudaErrorMemoryAllocation;
    std::memset(*out, 0xA5, bytes);
    emulator::runtime.memory[*out] = bytes;
    emulator::config.used += bytes;
    emulator::config.used_most = std::max(emulator::config.used_most, emulator::config.used);
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer) {
    const std::lock_guard<std::recursive_mutex> guard(emulator::runtime.lock);
    if (pointer == nullptr) return cudaSuccess;
    const auto found = emulator::runtime.memory.find(pointer);
    if (found == emulator::runtime.memory.end()) return cudaErrorInvalidValue;
    emulator::config.used -= found->second;
    emulator::runtime.memory.erase(found);
    --emulator::config.held;
    std::free(pointer);
    return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
    *out = nullptr;
    if (emulator::refused()) return cudaErrorMemoryAllocation;
    *out = std::malloc(std::max<std::size_t>(bytes, 1));
    return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeHost(void* pointer) {
    if (pointer != nullptr) --emulator::config.held;
    std::free(pointer);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
    const std::lock_guard<std::recursive_mutex> guard(emulator::runtime.lock);
    if (emulator::refused()) return cudaErrorMemoryAllocation;
    auto made = std::make_unique<emulator::StreamState>();
    *out = made.get();
    emulator::runtime.streams.emplace(*out, std::move(made));
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream,
                                         emulator::Where at = emulator::Where::current()) {
    if (stream == nullptr || emulator::skip(at)) return cudaSuccess;
    return emulator::run_until(stream, [stream] { return stream->queue.empty(); });
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> guard(emulator::runtime.lock);
    emulator::run_until(stream, [stream] { return stream->queue.empty(); });
    emulator::runtime.streams.erase(stream);
    --emulator::config.held;
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
    const std::lock_guard<std::recursive_mutex> guard(emulator::runtime.lock);
    if (emulator::refused()) return cudaErrorMemoryAllocation;
    *out = &emulator::runtime.events.emplace_back();
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) {
    --emulator::config.held;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const std::size_t number = ++event->recorded;
    emulator::enqueue(stream, {[event, number] { event->reached = number; }});
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0,
                                       emulator::Where at = emulator::Where::current()) {
    if (!emulator::skip(at)) emulator::enqueue(stream, {nullptr, event, event->recorded});
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
    emulator::enqueue(stream, {[=] {
                          if (bytes != 0) std::memcpy(to, from, bytes);
                      }});
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    emulator::enqueue(stream, {[=] {
                          if (bytes != 0) std::memset(to, value, bytes);
                      }});
    return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) {
    return cudaSuccess;
}
constexpr int cudaFuncAttributeMaxDynamicSharedMemorySize = 8;

namespace emulator {

template <class Kernel, class... Args>
void launch(Kernel kernel, dim3 grid, dim3 threads, std::size_t shared, cudaStream_t stream, Args... args) {
    enqueue(stream, {[=] { run_grid(kernel, grid, threads, shared, args...); }});
}

}  // namespace emulator

#define GNOMON_LAUNCH(kernel, grid, threads, shared, stream, ...) \
    ::emulator::launch(kernel, grid, threads, shared, stream, __VA_ARGS__)
