// Two or four numbers that are read and written together, and additions and late reads of four.
#pragma once

template <class T>
struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Vector4 {
    T x, y, z, w;
};

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
    T x, y;
};

// target += (x, y, z, 0), each component atomically: any number of threads may add to a target.
__device__ __forceinline__ void add_atomically(Vector4<float>* target, float x, float y, float z) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(target), "f"(x), "f"(y), "f"(z), "f"(0.f) : "memory");
#else
    atomicAdd(&target->x, x);
    atomicAdd(&target->y, y);
    atomicAdd(&target->z, z);
#endif
}

__device__ __forceinline__ void add_atomically(Vector4<double>* target, double x, double y, double z) {
    atomicAdd(&target->x, x);
    atomicAdd(&target->y, y);
    atomicAdd(&target->z, z);
}

// The four values of a target that a thread of another block may have stored during this kernel, all of them by one
// instruction: from the second-level cache, since the first level may hold older ones.
__device__ __forceinline__ Vector4<float> load_latest(const Vector4<float>* source) {
    Vector4<float> value;
    asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w) : "l"(source) : "memory");
    return value;
}
