// What kernels compiled for the host see of the scheduler: indices, waiting, barriers, copies, and launches.
#pragma once

#include <cstddef>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulation {

extern uint3 thread_index, block_index;  // of the fiber that runs
extern dim3 block_size, grid_size;

// A line of a kernel's source. As a default argument it is the line of the caller.
struct Place {
    const char* file;
    int line;
};
#define EMULATION_HERE emulation::Place place = {__builtin_FILE(), __builtin_LINE()}

// Stop the launch with an error that names the block and thread.
[[noreturn]] void stop(Place place, const char* format, ...) __attribute__((format(printf, 2, 3)));

// __syncthreads and its relatives: how many threads voted yes, and how many there were.
struct Votes {
    unsigned yes, all;
};
Votes meet_block(const char* what, bool vote, Place place);

// A collective of the lanes in `mask`: everyone's values, and which lanes gave one.
struct Lanes {
    unsigned given;
    unsigned long long value[32];
};
const Lanes& meet_warp(const char* what, unsigned mask, unsigned long long value, Place place);
unsigned lane();
unsigned active_lanes();

void sleep(Place place);  // let others run
void tick(Place place);   // called by atomics, so that a thread that spins on one lets others run

// The dynamic shared memory of the block.
void* shared_memory();

// Barriers and the copy engine (hopper.cuh); `bits` is the barrier's word in shared memory.
void create_barrier(unsigned long long& bits, unsigned arrivals, Place place);
void publish_barriers();
void arrive(unsigned long long& bits, unsigned bytes, Place place);
void wait(unsigned long long& bits, unsigned parity, Place place);
void copy_box(void* target, const unsigned long long* map, int x, int y, int z, unsigned long long& bits, Place place);

struct Options {
    unsigned capability;  // 90 for 9.0
    unsigned blocks_at_once, seed, flush;
    double seconds;  // limit of the processor's time
};
constexpr int ERROR_LENGTH = 8192;

// Run all threads of a grid; 0, or 1 with a text in `error`.
int run_grid(const char* name, void (*body)(void*), void* values, const unsigned* grid, const unsigned* block,
             unsigned shared_bytes, const Options& options, char* error);

// Storage of one argument, aligned as its type asks.
template <class T>
struct Slot {
    alignas(T) unsigned char bytes[sizeof(T)];
    T& value() { return *reinterpret_cast<T*>(bytes); }
};

template <class... P>
struct Call {
    void (*kernel)(P...);
    std::tuple<Slot<std::remove_cv_t<P>>...> slots;

    template <std::size_t... N>
    void load(void** arguments, std::index_sequence<N...>) {
        (std::memcpy(std::get<N>(slots).bytes, arguments[N], sizeof(std::get<N>(slots).bytes)), ...);
    }
    template <std::size_t... N>
    void go(std::index_sequence<N...>) {
        kernel(std::get<N>(slots).value()...);
    }
    static void body(void* self) { static_cast<Call*>(self)->go(std::index_sequence_for<P...>()); }
};

template <class... P>
int launch(const char* name, void (*kernel)(P...), const unsigned* grid, const unsigned* block, unsigned shared_bytes,
           void** arguments, const Options& options, char* error) {
    Call<P...> call;
    call.kernel = kernel;
    call.load(arguments, std::index_sequence_for<P...>());
    return run_grid(name, &Call<P...>::body, &call, grid, block, shared_bytes, options, error);
}

// Number of parameters and bytes of each.
template <class... P>
int parameter_sizes(void (*)(P...), unsigned long long* sizes) {
    const unsigned long long all[] = {sizeof(P)..., 0};
    for (std::size_t n = 0; n < sizeof...(P); n++) sizes[n] = all[n];
    return sizeof...(P);
}

}  // namespace emulation

#define EMULATION_EXPORT extern "C" __attribute__((visibility("default")))
#define EMULATED_KERNEL(NAME, MOST_THREADS)                                                                         \
    EMULATION_EXPORT unsigned most_threads_##NAME() { return static_cast<unsigned>(MOST_THREADS); }                 \
    EMULATION_EXPORT int parameters_##NAME(unsigned long long* sizes) {                                             \
        return emulation::parameter_sizes(&NAME, sizes);                                                            \
    }                                                                                                               \
    EMULATION_EXPORT int launch_##NAME(const unsigned* grid, const unsigned* block, unsigned shared_bytes,          \
                                       void** arguments, const emulation::Options* options, char* error) {          \
        return emulation::launch(#NAME, &NAME, grid, block, shared_bytes, arguments, *options, error);              \
    }
