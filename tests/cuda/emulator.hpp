// Runs the kernels of cuda/ on the host, for tests: the same sources, compiled by g++ with -DGNOMON_EMULATED.
// Blocks run one after the other; a block's threads are fibers, or OS threads under
// -DGNOMON_EMULATED_THREADS, which lets ThreadSanitizer see races between them. Warps have 32 lanes; warp
// functions and barriers block as on the device, and what would be undefined there (a mask that names an
// exited lane, threads at different barriers, a barrier that not all reach) throws with the thread's number.
// Shared memory is poisoned before each block. A schedule is 0 (forward), 1 (backward) or a seed.
//
// Each barrier and wait knows where it stands in the source: one of them can be left out at run time
// (Config::skip_line), so that tests see whether its absence would be noticed, without a build for each.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef GNOMON_EMULATED_THREADS
#include <atomic>
#include <memory>
#include <mutex>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define GNOMON_PAUSE() ::emulator::pause()
#define GNOMON_SHARED(name) char* const name = ::emulator::shared_memory()

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint3 {
    unsigned x, y, z;
};

namespace emulator {

constexpr unsigned kWarp = 32;
constexpr unsigned kGroup = 128;  // threads of a warpgroup

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Config {
    int schedule = 0;
    std::string skip_file;  // of the barrier that is left out, by its last part
    unsigned skip_line = 0;
    std::size_t skipped = 0;  // how often that happened
    std::size_t memory = std::size_t{1} << 40;
    std::size_t used = 0;
    std::size_t used_most = 0;
    std::size_t refuse = 0;  // the call that makes something and fails, from now; 0: none
    std::size_t held = 0;    // of what such calls have made
    std::size_t launches = 0;
};
inline Config config;

using Where = std::source_location;

// Whether this barrier is the one to leave out.
inline bool skip(const Where& at) {
    if (config.skip_line == 0 || at.line() != config.skip_line) return false;
    const std::string file = at.file_name();
    if (!file.ends_with(config.skip_file)) return false;
    __atomic_fetch_add(&config.skipped, 1, __ATOMIC_RELAXED);
    return true;
}

enum class State : std::uint32_t { ready, warp, group, block, done };
#ifdef GNOMON_EMULATED_THREADS
// Seen by warps and blocks, which have locks of their own. Only a lane that is let go takes over what the one
// that did so has seen: anything more would order what a kernel does.
struct LaneState {
    LaneState(State s = State::ready) : value(s) {}
    LaneState(const LaneState& other) : value(State(other)) {}
    LaneState& operator=(const LaneState& other) { return *this = State(other); }
    LaneState& operator=(State s) {
        value.store(s, std::memory_order_release);
        return *this;
    }
    operator State() const { return value.load(std::memory_order_relaxed); }
    std::atomic<State> value;
};
#else
using LaneState = State;
#endif
using Collective = void (*)(void** args, unsigned mask);

struct Lane {
    uint3 id{};
    unsigned linear = 0;
    LaneState state = State::ready;
    unsigned mask = 0;
    Collective fn = nullptr;
    void* arg = nullptr;
    const char* what = "";
    int predicate = 0;
    void* stack_pointer = nullptr;
};

struct Block {
    std::vector<Lane> lanes;
    std::vector<char> shared;
    int count = 0;  // of the last barrier's predicates
    std::string failure;
#ifdef GNOMON_EMULATED_THREADS
    struct Meeting {
        std::mutex lock;
        unsigned waiting = 0;
        unsigned live = 0;  // of the block
    };
    std::unique_ptr<Meeting[]> warps;
    std::unique_ptr<Meeting[]> groups;
    Meeting whole;
#endif
};
inline Block block;
inline dim3 grid_size;
inline dim3 block_size;
inline uint3 block_id;

#ifdef GNOMON_EMULATED_THREADS
inline thread_local Lane* current = nullptr;
#else
inline Lane* current = nullptr;
#endif

[[noreturn]] inline void fail(const std::string& what, const char* name, unsigned thread) {
    throw Failure("emulator: " + what + " " + name + " (thread " + std::to_string(thread) + ")");
}

inline char* shared_memory() {
    const auto first = reinterpret_cast<std::uintptr_t>(block.shared.data());
    return reinterpret_cast<char*>((first + 1023) & ~std::uintptr_t{1023});
}

// Lets go of lanes whose whole mask has arrived.
inline bool resolve_warp(unsigned warp) {
    std::vector<Lane>& lanes = block.lanes;
    const unsigned base = warp * kWarp;
    const auto n = static_cast<unsigned>(lanes.size());
    bool any = false;
    for (unsigned i = 0; i < kWarp && base + i < n; ++i) {
        const Lane& asking = lanes[base + i];
        if (asking.state != State::warp) continue;
        const unsigned mask = asking.mask;
        bool all = true;
        for (unsigned j = 0; j < kWarp && all; ++j) {
            if ((mask >> j & 1U) == 0) continue;
            if (base + j >= n) fail("a mask names a lane that does not exist:", asking.what, base + i);
            const Lane& other = lanes[base + j];
            if (other.state == State::done)
                fail("a mask names a lane that has exited:", asking.what, base + j);
            if (other.state != State::warp) {
                all = false;
            } else if (other.mask != mask || other.fn != asking.fn) {
                fail("lanes of one mask are at different functions:", other.what, base + j);
            }
        }
        if (!all) continue;
        void* args[kWarp] = {};
        for (unsigned j = 0; j < kWarp; ++j)
            if ((mask >> j & 1U) != 0) args[j] = lanes[base + j].arg;
        asking.fn(args, mask);
        for (unsigned j = 0; j < kWarp; ++j)
            if ((mask >> j & 1U) != 0) lanes[base + j].state = State::ready;
        any = true;
    }
    return any;
}

inline bool resolve_group(unsigned group) {
    std::vector<Lane>& lanes = block.lanes;
    const unsigned base = group * kGroup;
    if (base + kGroup > lanes.size()) return false;
    void* args[kGroup];
    for (unsigned i = 0; i < kGroup; ++i) {
        const Lane& lane = lanes[base + i];
        if (lane.state != State::group) return false;
        if (lane.fn != lanes[base].fn) fail("a warpgroup is at different functions:", lane.what, base + i);
        args[i] = lane.arg;
    }
    lanes[base].fn(args, ~0U);
    for (unsigned i = 0; i < kGroup; ++i) lanes[base + i].state = State::ready;
    return true;
}

inline bool resolve_block() {
    std::size_t live = 0;
    std::size_t waiting = 0;
    int count = 0;
    const char* what = nullptr;
    for (const Lane& lane : block.lanes) {
        live += lane.state != State::done;
        if (lane.state != State::block) continue;
        ++waiting;
        count += lane.predicate != 0;
        if (what != nullptr && what != lane.what)
            fail("threads meet at different barriers:", lane.what, lane.linear);
        what = lane.what;
    }
    if (live == 0 || waiting != live) return false;
    block.count = count;
    for (Lane& lane : block.lanes)
        if (lane.state == State::block) lane.state = State::ready;
    return true;
}

void wait(State state);
void pause();  // lets other threads run

inline void warp_collective(unsigned mask, Collective fn, void* arg, const char* what) {
    if ((mask >> (current->linear % kWarp) & 1U) == 0)
        fail("the calling lane is not in its mask:", what, current->linear);
    current->mask = mask;
    current->fn = fn;
    current->arg = arg;
    current->what = what;
    wait(State::warp);
}

inline void group_collective(Collective fn, void* arg, const char* what) {
    current->fn = fn;
    current->arg = arg;
    current->what = what;
    wait(State::group);
}

inline int barrier(int predicate, const char* what) {
    current->predicate = predicate;
    current->what = what;
    wait(State::block);
    return block.count;
}

void run_block(const std::function<void()>& body, unsigned threads, std::size_t shared);

// Kernels that are launched with more dynamic shared memory than a block may have fail here as there.
constexpr std::size_t kSharedMost = 227 * 1024;

template <class Kernel, class... Args>
void run_grid(Kernel kernel, dim3 grid, dim3 threads, std::size_t shared, Args... args) {
    const unsigned n = threads.x * threads.y * threads.z;
    if (n == 0 || n > 1024) throw Failure("emulator: a block has 1 to 1024 threads");
    if (shared > kSharedMost) throw Failure("emulator: more shared memory than a block may have");
    grid_size = grid;
    block_size = threads;
    ++config.launches;
    std::vector<unsigned> order(std::size_t{grid.x} * grid.y * grid.z);
    std::iota(order.begin(), order.end(), 0U);
    if (config.schedule == 1) std::reverse(order.begin(), order.end());
    if (config.schedule > 1)
        std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(config.schedule)));
    for (const unsigned id : order) {
        block_id = {id % grid.x, id / grid.x % grid.y, id / (grid.x * grid.y)};
        run_block([&] { kernel(args...); }, n, shared);
    }
}

// Warp exchange ------------------------------------------------------------------------------------

template <class T>
struct Exchange {
    T in;
    T out;
    unsigned source;
};

template <class T>
void exchange(void** args, unsigned mask) {
    for (unsigned i = 0; i < kWarp; ++i) {
        if ((mask >> i & 1U) == 0) continue;
        auto* const own = static_cast<Exchange<T>*>(args[i]);
        const auto* const other = static_cast<Exchange<T>*>(args[own->source]);
        own->out = other != nullptr ? other->in : own->in;  // undefined on the device
    }
}

struct Vote {
    bool yes;
    unsigned result;
};

inline void vote(void** args, unsigned mask) {
    unsigned result = 0;
    for (unsigned i = 0; i < kWarp; ++i)
        if ((mask >> i & 1U) != 0 && static_cast<Vote*>(args[i])->yes) result |= 1U << i;
    for (unsigned i = 0; i < kWarp; ++i)
        if ((mask >> i & 1U) != 0) static_cast<Vote*>(args[i])->result = result;
}

inline void nothing(void**, unsigned) {}

inline unsigned lane() { return current->linear % kWarp; }

}  // namespace emulator

#define threadIdx (::emulator::current->id)
#define blockIdx (::emulator::block_id)
#define blockDim (::emulator::block_size)
#define gridDim (::emulator::grid_size)

inline void __syncthreads(emulator::Where at = emulator::Where::current()) {
    if (!emulator::skip(at)) emulator::barrier(0, "__syncthreads");
}
inline int __syncthreads_count(int predicate) { return emulator::barrier(predicate, "__syncthreads_count"); }
inline void __syncwarp(unsigned mask = ~0U, emulator::Where at = emulator::Where::current()) {
    if (!emulator::skip(at)) emulator::warp_collective(mask, &emulator::nothing, nullptr, "__syncwarp");
}
template <class T>
T __shfl_sync(unsigned mask, T value, unsigned source, unsigned width = 32) {
    const unsigned lane = emulator::lane();
    emulator::Exchange<T> x{value, value, (lane & ~(width - 1)) | (source & (width - 1))};
    emulator::warp_collective(mask, &emulator::exchange<T>, &x, "__shfl_sync");
    return x.out;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned bits, unsigned = 32) {
    emulator::Exchange<T> x{value, value, emulator::lane() ^ bits};
    emulator::warp_collective(mask, &emulator::exchange<T>, &x, "__shfl_xor_sync");
    return x.out;
}
inline unsigned __ballot_sync(unsigned mask, bool yes) {
    emulator::Vote x{yes, 0};
    emulator::warp_collective(mask, &emulator::vote, &x, "__ballot_sync");
    return x.result;
}
