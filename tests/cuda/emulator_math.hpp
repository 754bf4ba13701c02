// Device functions whose rounding the kernels rely on, and atomics, for emulator.hpp. Needs
// -ffp-contract=off.
#pragma once
#include "emulator.hpp"

inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __double2float_ru(double x) {
    const float near = static_cast<float>(x);
    return static_cast<double>(near) < x ? std::nextafterf(near, std::numeric_limits<float>::infinity())
                                         : near;
}
inline float __double2float_rd(double x) { return -__double2float_ru(-x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline double rint_even(double x) { return std::nearbyint(x); }

template <class T>
T __ldg(const T* p) {
    return *p;
}
template <class T, class U>
T atomicAdd(T* p, U value) {
    return __atomic_fetch_add(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U>
T atomicOr(T* p, U value) {
    return __atomic_fetch_or(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T>
T atomicMax(T* p, T value) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < value &&
           !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T>
T atomicMin(T* p, T value) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (value < old &&
           !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
