// CUDA C++ as far as the kernels use it, for a host compiler. Included before anything else in every kernel's file.
#pragma once

#include <math.h>  // of the C++ library, with overloads for float

#include <cstdio>
#include <cstring>

#include "scheduler.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

static constexpr const uint3& threadIdx = emulation::thread_index;
static constexpr const uint3& blockIdx = emulation::block_index;
static constexpr const dim3& blockDim = emulation::block_size;
static constexpr const dim3& gridDim = emulation::grid_size;
static constexpr int warpSize = 32;

// ---------------------------------------------------------------------------------------------------- vector types
#define EMULATION_VECTORS(NAME, T)                                                                        \
    struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                                                    \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) NAME##4 { T x, y, z, w; };                    \
    inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                            \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATION_VECTORS(float, float)
EMULATION_VECTORS(double, double)
EMULATION_VECTORS(int, int)
EMULATION_VECTORS(uint, unsigned)
EMULATION_VECTORS(short, short)
EMULATION_VECTORS(ushort, unsigned short)
EMULATION_VECTORS(longlong, long long)
EMULATION_VECTORS(ulonglong, unsigned long long)
#undef EMULATION_VECTORS
struct int3 { int x, y, z; };
struct float3 { float x, y, z; };
struct double3 { double x, y, z; };
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline double3 make_double3(double x, double y, double z) { return {x, y, z}; }

// --------------------------------------------------------------------------------------------------------- numbers
#define EMULATION_EXTREMES(R, A, B)                                                             \
    inline R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }      \
    inline R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
EMULATION_EXTREMES(int, int, int)
EMULATION_EXTREMES(unsigned, unsigned, unsigned)
EMULATION_EXTREMES(unsigned, int, unsigned)
EMULATION_EXTREMES(unsigned, unsigned, int)
EMULATION_EXTREMES(long, long, long)
EMULATION_EXTREMES(unsigned long, unsigned long, unsigned long)
EMULATION_EXTREMES(long long, long long, long long)
EMULATION_EXTREMES(unsigned long long, unsigned long long, unsigned long long)
EMULATION_EXTREMES(unsigned long long, long long, unsigned long long)
EMULATION_EXTREMES(unsigned long long, unsigned long long, long long)
#undef EMULATION_EXTREMES
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(lrintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline unsigned __float2uint_rn(float x) { return static_cast<unsigned>(llrintf(x)); }

namespace emulation {
template <class To, class From>
inline To same_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}
}  // namespace emulation
inline int __float_as_int(float x) { return emulation::same_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emulation::same_bits<unsigned>(x); }
inline float __int_as_float(int x) { return emulation::same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emulation::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulation::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulation::same_bits<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (static_cast<unsigned long long>(a) * b) >> 32; }
inline int __mul24(int a, int b) { return a * b; }

// ---------------------------------------------------------------------------------------------------------- memory
#define EMULATION_LOAD(NAME) \
    template <class T>       \
    inline T NAME(const T* from) { return *from; }
EMULATION_LOAD(__ldg)
EMULATION_LOAD(__ldca)
EMULATION_LOAD(__ldcg)
EMULATION_LOAD(__ldcs)
EMULATION_LOAD(__ldlu)
#undef EMULATION_LOAD
template <class T>
inline T __ldcv(const T* from) { return *static_cast<const volatile T*>(from); }
#define EMULATION_STORE(NAME) \
    template <class T>        \
    inline void NAME(T* to, typename std::common_type<T>::type value) { *to = value; }
EMULATION_STORE(__stwb)
EMULATION_STORE(__stcg)
EMULATION_STORE(__stcs)
EMULATION_STORE(__stwt)
#undef EMULATION_STORE

inline void __threadfence() { asm volatile("" ::: "memory"); }
inline void __threadfence_block() { asm volatile("" ::: "memory"); }
inline void __threadfence_system() { asm volatile("" ::: "memory"); }
inline void __nanosleep(unsigned, EMULATION_HERE) { emulation::sleep(place); }

// Threads take turns and never in the middle of these, so that plain arithmetic is atomic.
#define EMULATION_ATOMIC(NAME, EXPRESSION)                                              \
    template <class T>                                                                  \
    inline T NAME(T* at, typename std::common_type<T>::type value, EMULATION_HERE) {    \
        emulation::tick(place);                                                         \
        const T old = *static_cast<volatile T*>(at);                                    \
        *static_cast<volatile T*>(at) = EXPRESSION;                                     \
        return old;                                                                     \
    }                                                                                   \
    template <class T>                                                                  \
    inline T NAME##_block(T* at, typename std::common_type<T>::type value, EMULATION_HERE) { return NAME(at, value, place); }
EMULATION_ATOMIC(atomicAdd, old + value)
EMULATION_ATOMIC(atomicSub, old - value)
EMULATION_ATOMIC(atomicMax, old > value ? old : value)
EMULATION_ATOMIC(atomicMin, old < value ? old : value)
EMULATION_ATOMIC(atomicExch, value)
EMULATION_ATOMIC(atomicAnd, old & value)
EMULATION_ATOMIC(atomicOr, old | value)
EMULATION_ATOMIC(atomicXor, old ^ value)
EMULATION_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
#undef EMULATION_ATOMIC
template <class T>
inline T atomicCAS(T* at, typename std::common_type<T>::type expected, typename std::common_type<T>::type value,
                   EMULATION_HERE) {
    emulation::tick(place);
    const T old = *static_cast<volatile T*>(at);
    if (old == expected) *static_cast<volatile T*>(at) = value;
    return old;
}

// ------------------------------------------------------------------------------------------------- threads together
inline void __syncthreads(EMULATION_HERE) { emulation::meet_block("__syncthreads", false, place); }
inline int __syncthreads_count(int vote, EMULATION_HERE) {
    return emulation::meet_block("__syncthreads_count", vote != 0, place).yes;
}
inline int __syncthreads_or(int vote, EMULATION_HERE) {
    return emulation::meet_block("__syncthreads_or", vote != 0, place).yes > 0;
}
inline int __syncthreads_and(int vote, EMULATION_HERE) {
    const emulation::Votes votes = emulation::meet_block("__syncthreads_and", vote != 0, place);
    return votes.yes == votes.all;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_HERE) {
    emulation::meet_warp("__syncwarp", mask, 0, place);
}
inline unsigned __activemask() { return emulation::active_lanes(); }

namespace emulation {
// What a shuffle gives: the value of the lane `from`; NaN bytes from a lane that took no part.
template <class T>
inline T shuffled(const char* what, unsigned mask, T value, int from, Place place) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    const Lanes& all = meet_warp(what, mask, bits, place);
    const unsigned long long given = all.given >> from & 1 ? all.value[from] : ~0ull;
    std::memcpy(&value, &given, sizeof(T));
    return value;
}
inline unsigned votes(const char* what, unsigned mask, bool vote, Place place) {
    const Lanes& all = meet_warp(what, mask, vote, place);
    unsigned result = 0;
    for (int n = 0; n < 32; n++) result |= (all.given >> n & 1 && all.value[n] ? 1u : 0u) << n;
    return result;
}
}  // namespace emulation
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATION_HERE) {
    const int lane = emulation::lane(), first = lane & ~(width - 1);
    return emulation::shuffled("__shfl_sync", mask, value, first + (source & (width - 1)), place);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATION_HERE) {
    const int lane = emulation::lane(), first = lane & ~(width - 1), from = lane - static_cast<int>(by);
    return emulation::shuffled("__shfl_up_sync", mask, value, from < first ? lane : from, place);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATION_HERE) {
    const int lane = emulation::lane(), first = lane & ~(width - 1), from = lane + static_cast<int>(by);
    return emulation::shuffled("__shfl_down_sync", mask, value, from >= first + width ? lane : from, place);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32, EMULATION_HERE) {
    const int lane = emulation::lane(), first = lane & ~(width - 1), from = lane ^ other;
    return emulation::shuffled("__shfl_xor_sync", mask, value, from >= first + width ? lane : from, place);
}
inline unsigned __ballot_sync(unsigned mask, int vote, EMULATION_HERE) {
    return emulation::votes("__ballot_sync", mask, vote != 0, place);
}
inline int __any_sync(unsigned mask, int vote, EMULATION_HERE) {
    return emulation::votes("__any_sync", mask, vote != 0, place) != 0;
}
inline int __all_sync(unsigned mask, int vote, EMULATION_HERE) {
    return emulation::votes("__all_sync", mask, vote == 0, place) == 0;
}
#define EMULATION_REDUCE(NAME, EXPRESSION)                                        \
    template <class T>                                                            \
    inline T NAME(unsigned mask, T value, EMULATION_HERE) {                       \
        static_assert(sizeof(T) == 4, "4 bytes");                                 \
        const emulation::Lanes& all = emulation::meet_warp(#NAME, mask, emulation::same_bits<unsigned>(value), place); \
        T result = value;                                                         \
        for (unsigned n = 0, own = emulation::lane(); n < 32; n++)                \
            if (n != own && all.given >> n & 1) {                                 \
                const T other = emulation::same_bits<T>(static_cast<unsigned>(all.value[n])); \
                result = EXPRESSION;                                              \
            }                                                                     \
        return result;                                                            \
    }
EMULATION_REDUCE(__reduce_add_sync, result + other)
EMULATION_REDUCE(__reduce_min_sync, other < result ? other : result)
EMULATION_REDUCE(__reduce_max_sync, other > result ? other : result)
EMULATION_REDUCE(__reduce_or_sync, result | other)
EMULATION_REDUCE(__reduce_and_sync, result & other)
#undef EMULATION_REDUCE
