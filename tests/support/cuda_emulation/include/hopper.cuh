// Stands in for the device's header of the same name: barriers and tensor copies, with what the device leaves to luck
// made to fail. Copies arrive as late as they may; until then their target holds NaN.
#pragma once

struct alignas(64) TensorMap {
    unsigned long long words[16];  // made by the emulated backend's tensor_map
};

struct Barrier {
    unsigned long long bits;

    void create(unsigned arrivals, EMULATION_HERE) { emulation::create_barrier(bits, arrivals, place); }
    void arrive(EMULATION_HERE) { emulation::arrive(bits, 0, place); }
    void expect(unsigned bytes, EMULATION_HERE) { emulation::arrive(bits, bytes, place); }
    void wait(unsigned parity, EMULATION_HERE) { emulation::wait(bits, parity, place); }
};

inline void publish_barriers() { emulation::publish_barriers(); }

inline void copy_box(void* target, const TensorMap& map, int x, int y, int z, Barrier& barrier, EMULATION_HERE) {
    emulation::copy_box(target, map.words, x, y, z, barrier.bits, place);
}

inline void copy_box_once(void* target, const TensorMap& map, int x, int y, int z, Barrier& barrier, EMULATION_HERE) {
    emulation::copy_box(target, map.words, x, y, z, barrier.bits, place);
}

inline void prefetch(const void*) {}

template <class T>
void copy_value(T* target, const T* source) {
    *target = *source;
}

inline void wait_for_values() {}

template <class T>
void copy_value(T* target, const T* source) {
    *target = *source;
}

inline void wait_for_values() {}

template <class T>
T* dynamic_shared() {
    return static_cast<T*>(emulation::shared_memory());
}
