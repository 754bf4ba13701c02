// Host twins of cuda/tensor.cuh and cuda/tensor90.cuh, from the PTX ISA's fragment tables. Asynchronous
// copies land, and warpgroup products are computed, only at their wait: what reads too early or writes too
// early over an operand gives another result. Float sums are rounded toward zero after each product, which is
// harsher than any tensor core.
#pragma once
#include "emulator.hpp"

namespace gnomon::cuda {

template <class Acc>
struct Element;
template <>
struct Element<float> {
    static constexpr int kPerWord = 2;
    static float get(std::uint32_t word, int e) { return std::bit_cast<float>((word >> (16 * e)) << 16); }
    // Toward zero to 24 bits: what is added is exact in double, but for sums beyond 53 bits.
    static float add(float sum, float a, float b) {
        const double exact = static_cast<double>(sum) + static_cast<double>(a) * static_cast<double>(b);
        const float near = static_cast<float>(exact);
        return std::fabs(static_cast<double>(near)) > std::fabs(exact) ? std::nextafterf(near, 0.0F) : near;
    }
};
template <>
struct Element<int> {
    static constexpr int kPerWord = 4;
    static int get(std::uint32_t word, int e) { return static_cast<std::int8_t>(word >> (8 * e)); }
    static int add(int sum, int a, int b) { return sum + a * b; }
};

template <class Acc>
struct MmaArgs {
    Acc* d;
    const std::uint32_t* a;
    const std::uint32_t* b;
};

// m16n8 over 32 bytes of k.
template <class Acc>
void mma_warp(void** args, unsigned mask) {
    if (mask != ~0U) throw emulator::Failure("emulator: mma needs the whole warp");
    constexpr int E = Element<Acc>::kPerWord;
    Acc A[16][8 * E];
    Acc B[8 * E][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto* const own = static_cast<MmaArgs<Acc>*>(args[lane]);
        const int g = lane >> 2;
        const int t = lane & 3;
        for (int e = 0; e < E; ++e) {
            A[g][t * E + e] = Element<Acc>::get(own->a[0], e);
            A[g + 8][t * E + e] = Element<Acc>::get(own->a[1], e);
            A[g][(t + 4) * E + e] = Element<Acc>::get(own->a[2], e);
            A[g + 8][(t + 4) * E + e] = Element<Acc>::get(own->a[3], e);
            B[t * E + e][g] = Element<Acc>::get(own->b[0], e);
            B[(t + 4) * E + e][g] = Element<Acc>::get(own->b[1], e);
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        Acc* const d = static_cast<MmaArgs<Acc>*>(args[lane])->d;
        for (int i = 0; i < 4; ++i) {
            const int row = (lane >> 2) + 8 * (i >> 1);
            const int column = 2 * (lane & 3) + (i & 1);
            for (int k = 0; k < 8 * E; ++k) d[i] = Element<Acc>::add(d[i], A[row][k], B[k][column]);
        }
    }
}
template <class Acc>
void mma(Acc* d, const std::uint32_t* a, const std::uint32_t* b) {
    MmaArgs<Acc> x{d, a, b};
    emulator::warp_collective(~0U, &mma_warp<Acc>, &x, "mma");
}

struct LoadArgs {
    std::uint32_t* to;
    const char* from;
};
inline void ldmatrix_warp(void** args, unsigned mask) {
    if (mask != ~0U) throw emulator::Failure("emulator: ldmatrix needs the whole warp");
    for (int j = 0; j < 4; ++j)
        for (int lane = 0; lane < 32; ++lane) {
            const char* const row = static_cast<LoadArgs*>(args[8 * j + (lane >> 2)])->from;
            if ((reinterpret_cast<std::uintptr_t>(row) & 15) != 0)
                throw emulator::Failure("emulator: an address of ldmatrix is no multiple of 16");
            std::memcpy(&static_cast<LoadArgs*>(args[lane])->to[j], row + 4 * (lane & 3), 4);
        }
}
inline void ldmatrix_x4(std::uint32_t* to, const char* from) {
    LoadArgs x{to, from};
    emulator::warp_collective(~0U, &ldmatrix_warp, &x, "ldmatrix");
}

// What a thread has in flight. A new block starts without any.
template <class T>
struct InFlight {
    std::vector<T> queue;
    int group = 0;
    unsigned block = 0;
};
template <class T>
InFlight<T>& in_flight() {
    static std::vector<InFlight<T>> all(1024);
    InFlight<T>& own = all[emulator::current->linear];
    const unsigned block = emulator::block_id.x + 65536U * emulator::block_id.y +
                           static_cast<unsigned>(emulator::config.launches << 20);
    if (own.block != block) own = {{}, 0, block};
    return own;
}

struct Copy {
    char* to;
    const char* from;
    bool on;
    int group;
};
inline void copy_async16(char* to, const char* from, bool on) {
    if (((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 15) != 0)
        throw emulator::Failure("emulator: an address of cp.async is no multiple of 16");
    InFlight<Copy>& own = in_flight<Copy>();
    own.queue.push_back({to, from, on, own.group});
}
inline void copy_async_commit() { ++in_flight<Copy>().group; }
template <int N>
void copy_async_wait(emulator::Where at = emulator::Where::current()) {
    if (emulator::skip(at)) return;
    InFlight<Copy>& own = in_flight<Copy>();
    std::size_t done = 0;
    for (; done < own.queue.size() && own.queue[done].group < own.group - N; ++done) {
        const Copy& copy = own.queue[done];
        if (copy.on)
            std::memcpy(copy.to, copy.from, 16);
        else
            std::memset(copy.to, 0, 16);
    }
    own.queue.erase(own.queue.begin(), own.queue.begin() + static_cast<std::ptrdiff_t>(done));
}

template <class Acc>
struct GroupArgs {
    Acc* d;
    const char* a;
    const char* b;
    int step;
};
template <class Acc>
Acc tile_element(const char* tile, int row, int step, int k) {
    constexpr int E = Element<Acc>::kPerWord;
    const int byte = step * 32 + k / E * 4;
    std::uint32_t word;
    std::memcpy(&word, tile + row * 128 + (((byte >> 4) ^ (row & 7)) << 4) + (byte & 15), 4);
    return Element<Acc>::get(word, k % E);
}
template <class Acc>
void wgmma_group(void** args, unsigned) {
    constexpr int K = 8 * Element<Acc>::kPerWord;
    const auto* const first = static_cast<GroupArgs<Acc>*>(args[0]);
    if (((reinterpret_cast<std::uintptr_t>(first->a) | reinterpret_cast<std::uintptr_t>(first->b)) & 1023) !=
        0)
        throw emulator::Failure("emulator: a tile of wgmma is not on a border of 1024 bytes");
    Acc A[64][K];
    Acc B[128][K];
    for (int row = 0; row < 64; ++row)
        for (int k = 0; k < K; ++k) A[row][k] = tile_element<Acc>(first->a, row, first->step, k);
    for (int row = 0; row < 128; ++row)
        for (int k = 0; k < K; ++k) B[row][k] = tile_element<Acc>(first->b, row, first->step, k);
    for (int thread = 0; thread < 128; ++thread) {
        const auto* const own = static_cast<GroupArgs<Acc>*>(args[thread]);
        if (own->a != first->a || own->b != first->b || own->step != first->step)
            throw emulator::Failure("emulator: operands of wgmma differ in the warpgroup");
        const int row = (thread >> 5) * 16 + ((thread & 31) >> 2);
        for (int j = 0; j < 16; ++j)
            for (int e = 0; e < 4; ++e) {
                Acc& d = own->d[j * 4 + e];
                for (int k = 0; k < K; ++k)
                    d = Element<Acc>::add(d, A[row + 8 * (e >> 1)][k],
                                          B[j * 8 + (thread & 3) * 2 + (e & 1)][k]);
            }
    }
}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
inline void fence_async() {}
template <class Acc>
void wgmma(Acc* d, const char* a, const char* b, int step) {
    in_flight<GroupArgs<Acc>>().queue.push_back({d, a, b, step});
}
template <class Acc>
void wgmma_wait(Acc*, emulator::Where at = emulator::Where::current()) {
    if (emulator::skip(at)) return;
    // Not a reference into the queues: other fibers may make them grow meanwhile.
    std::vector<GroupArgs<Acc>> queue;
    queue.swap(in_flight<GroupArgs<Acc>>().queue);
    for (GroupArgs<Acc>& one : queue) emulator::group_collective(&wgmma_group<Acc>, &one, "wgmma");
}

}  // namespace gnomon::cuda
