// Copies of boxes of arrays to shared memory on NVIDIA devices from compute capability 9.0 on: barriers that count
// arrivals and bytes (mbarrier), and the bulk tensor copy engine, which one thread starts asynchronously.
#pragma once

// The driver's description of an array and of the box to be copied from it (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// A barrier in shared memory. Its phases are numbered 0, 1, 2 ...; `wait` takes the parity of a phase.
struct Barrier {
    unsigned long long bits;

    // A phase completes after this many arrivals and the bytes announced by `expect`.
    __device__ __forceinline__ void create(unsigned arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&bits)), "r"(arrivals) : "memory");
    }
    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&bits)) : "memory");
    }
    // Arrive, and make the phase also wait for this many bytes of copies.
    __device__ __forceinline__ void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(shared_address(&bits)), "r"(bytes) : "memory");
    }
    __device__ __forceinline__ void wait(unsigned parity) {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "again_%=:\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@done bra.uni passed_%=;\n"
                     "bra.uni again_%=;\n"
                     "passed_%=:\n"
                     "}" ::"r"(shared_address(&bits)), "r"(parity) : "memory");
    }
};

// Call after `create` and before the __syncthreads that publishes the barriers to the block: makes them visible to the
// copy engine.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Start copying the box whose first element is (x, y, z) to shared memory; elements outside the array become zero.
__device__ __forceinline__ void copy_box(void* target, const TensorMap& map, int x, int y, int z, Barrier& barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
        ::"r"(shared_address(target)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier.bits)) : "memory");
}

// As `copy_box`, for data that no other block reads: the second-level cache may evict it first.
__device__ __forceinline__ void copy_box_once(
    void* target, const TensorMap& map, int x, int y, int z, Barrier& barrier) {
    asm volatile(
        "{\n"
        ".reg .b64 policy;\n"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4}], [%5], policy;\n"
        "}" ::"r"(shared_address(target)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier.bits))
        : "memory");
}

// Start loading the cache line of an element into the second-level cache.
__device__ __forceinline__ void prefetch(const void* element) {
    asm volatile("prefetch.L2 [%0];" ::"l"(element));
}

// Start copying a value of 4, 8 or 16 bytes to shared memory; other threads may read it after `wait_for_values` and a
// barrier. Devices before compute capability 8.0 copy it at once.
template <class T>
__device__ __forceinline__ void copy_value(T* target, const T* source) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 ::"r"(shared_address(target)), "l"(source), "n"(static_cast<int>(sizeof(T))) : "memory");
#else
    *target = *source;
#endif
}

// Wait for all values whose copies this thread has started.
__device__ __forceinline__ void wait_for_values() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The dynamic shared memory of the block.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    return reinterpret_cast<T*>(shared_memory);
}
