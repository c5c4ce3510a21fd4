// Stands in for the device's header of the same name, which has a vector instruction that no host knows.
#pragma once

template <class T>
struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Vector4 {
    T x, y, z, w;
};

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
    T x, y;
};

template <class T>
inline Vector4<T> load_latest(const Vector4<T>* source, EMULATION_HERE) {
    emulation::sleep(place);  // other blocks may store it meanwhile
    return *source;
}

template <class T>
inline void add_atomically(Vector4<T>* target, T x, T y, T z) {
    atomicAdd(&target->x, x);
    atomicAdd(&target->y, y);
    atomicAdd(&target->z, z);
}
