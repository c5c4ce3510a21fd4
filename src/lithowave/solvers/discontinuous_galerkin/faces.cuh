// Sent and stored traces of elements at a face, and the flux of a jump: see materials.py. For up to four functions of the
// face: `count`; quantity q of function j is in shared memory at q * STEP + j * COLUMN.
#pragma once

#include "vectors.cuh"

constexpr int STEP = FACE * COLUMN;

// Isotropic on both sides.
template <class real>
struct IsotropicFace {
    // FACE_NUMBERS: normal, s | p - s, -, S lambda, S mu | S Zs / rho, S dZ / rho, Zs', dZ' | Zs, dZ
    Vector4<real> a, b, c, d;

    __device__ __forceinline__ void load(const real* numbers) {
        const Vector4<real>* const four = reinterpret_cast<const Vector4<real>*>(numbers);
        a = four[0], b = four[1], c = four[2], d = four[3];
    }

    // flux : of the quantities for the jump of w - u (3 components, 4 functions).
    __device__ __forceinline__ void jump(const real (&jump)[3][4], real* flux, int count) const {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < count) one_jump(jump[0][j], jump[1][j], jump[2][j], flux + j * COLUMN);
    }

    // The part of the flux that counts for memory variables: see kernels.py.
    __device__ __forceinline__ void stretched_jump(
        const real (&jump)[3][4], const real (&gains)[3], real* flux, int count) const
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < count) one_stretched_jump(jump[0][j], jump[1][j], jump[2][j], gains, flux + j * COLUMN);
    }

    // u and w (3 components, 4 functions) of the quantities in `trace`; zero for other functions.
    __device__ __forceinline__ void sides(const real* trace, int count, real (&kept)[3][4], real (&sent)[3][4]) const {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            real own[3] = {0, 0, 0}, other[3] = {0, 0, 0};
            if (j < count) one_point(trace + j * COLUMN, own, other);
#pragma unroll
            for (int c = 0; c < 3; c++) kept[c][j] = own[c], sent[c][j] = other[c];
        }
    }

    // The same for one function, with components x, y and z of the jump.
    __device__ __forceinline__ void one_jump(real x, real y, real z, real* flux) const {
        real normal = b.x * (a.x * x + a.y * y + a.z * z);
        x = a.w * x + normal * a.x, y = a.w * y + normal * a.y, z = a.w * z + normal * a.z;
        normal = a.x * x + a.y * y + a.z * z;
        const real pressure = b.z * normal, mu_x = b.w * x, mu_y = b.w * y, mu_z = b.w * z, along = c.y * normal;
        flux[0] = pressure + 2 * a.x * mu_x;
        flux[STEP] = pressure + 2 * a.y * mu_y;
        flux[2 * STEP] = pressure + 2 * a.z * mu_z;
        flux[3 * STEP] = a.x * mu_y + a.y * mu_x;
        flux[4 * STEP] = a.x * mu_z + a.z * mu_x;
        flux[5 * STEP] = a.y * mu_z + a.z * mu_y;
        flux[6 * STEP] = c.x * x + along * a.x;
        flux[7 * STEP] = c.x * y + along * a.y;
        flux[8 * STEP] = c.x * z + along * a.z;
    }

    __device__ __forceinline__ void one_stretched_jump(
        real x, real y, real z, const real (&gains)[3], real* flux) const
    {
        real normal = b.x * (a.x * x + a.y * y + a.z * z);
        x = a.w * x + normal * a.x, y = a.w * y + normal * a.y, z = a.w * z + normal * a.z;
        normal = a.x * x + a.y * y + a.z * z;
        const real gx = gains[0] * a.x, gy = gains[1] * a.y, gz = gains[2] * a.z;
        const real gain = gx * a.x + gy * a.y + gz * a.z, s = gain * c.x, along = gain * c.y * normal;
        const real pressure = b.z * (gx * x + gy * y + gz * z);
        flux[0] = pressure + 2 * b.w * gx * x;
        flux[STEP] = pressure + 2 * b.w * gy * y;
        flux[2 * STEP] = pressure + 2 * b.w * gz * z;
        flux[3 * STEP] = b.w * (gx * y + gy * x);
        flux[4 * STEP] = b.w * (gx * z + gz * x);
        flux[5 * STEP] = b.w * (gy * z + gz * y);
        flux[6 * STEP] = s * x + along * a.x;
        flux[7 * STEP] = s * y + along * a.y;
        flux[8 * STEP] = s * z + along * a.z;
    }

    __device__ __forceinline__ void one_point(const real* trace, real (&kept)[3], real (&sent)[3]) const {
        const real xx = trace[0], yy = trace[STEP], zz = trace[2 * STEP];
        const real xy = trace[3 * STEP], xz = trace[4 * STEP], yz = trace[5 * STEP];
        const real vx = trace[6 * STEP], vy = trace[7 * STEP], vz = trace[8 * STEP];
        const real x = xx * a.x + xy * a.y + xz * a.z;
        const real y = xy * a.x + yy * a.y + yz * a.z;
        const real z = xz * a.x + yz * a.y + zz * a.z;
        const real along = vx * a.x + vy * a.y + vz * a.z;
        const real across = c.w * along, own = d.y * along;
        kept[0] = c.z * vx + across * a.x + x;
        kept[1] = c.z * vy + across * a.y + y;
        kept[2] = c.z * vz + across * a.z + z;
        sent[0] = d.x * vx + own * a.x - x;
        sent[1] = d.x * vy + own * a.y - y;
        sent[2] = d.x * vz + own * a.z - z;
    }
};

// Any media, FACE_NUMBERS: jump (QUANTITIES, 3), normal, Z and Z' (xx, yy, zz, xy, xz, yz).
template <class real>
struct AnyFace {
    const real* numbers;

    __device__ __forceinline__ void load(const real* from) { numbers = from; }

    __device__ __forceinline__ void jump(const real (&jump)[3][4], real* flux, int count) const {
        apply<1>(numbers, jump, flux, count);
    }

    // With gains: `jump` with another matrix, for memory variables, of an element among LANES.
    __device__ __forceinline__ void stretched_jump(
        const real (&jump)[3][4], const real* gains, real* flux, int count) const
    {
        apply<LANES>(gains, jump, flux, count);
    }

    // flux : matrix (QUANTITIES, 3) times the jump; apart : from entry to entry of the matrix.
    template <int apart>
    static __device__ __forceinline__ void apply(const real* matrix, const real (&jump)[3][4], real* flux, int count) {
#pragma unroll
        for (int q = 0; q < QUANTITIES; q++) {
            const real* const row = matrix + 3 * q * apart;
            const real x = row[0], y = row[apart], z = row[2 * apart];
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (j < count) flux[q * STEP + j * COLUMN] = x * jump[0][j] + y * jump[1][j] + z * jump[2][j];
        }
    }

    static __device__ __forceinline__ void product(
        real xx, real yy, real zz, real xy, real xz, real yz, real x, real y, real z, real (&out)[3])
    {
        out[0] = xx * x + xy * y + xz * z;
        out[1] = xy * x + yy * y + yz * z;
        out[2] = xz * x + yz * y + zz * z;
    }

    __device__ __forceinline__ void sides(const real* trace, int count, real (&kept)[3][4], real (&sent)[3][4]) const {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            real own[3] = {0, 0, 0}, other[3] = {0, 0, 0};
            if (j < count) one_point(trace + j * COLUMN, own, other);
#pragma unroll
            for (int c = 0; c < 3; c++) kept[c][j] = own[c], sent[c][j] = other[c];
        }
    }

    __device__ __forceinline__ void one_point(const real* trace, real (&kept)[3], real (&sent)[3]) const {
        const real *const n = numbers + 27, *const own = numbers + 30, *const across = numbers + 36;
        real t[3];
        product(trace[0], trace[STEP], trace[2 * STEP], trace[3 * STEP], trace[4 * STEP], trace[5 * STEP], n[0], n[1],
                n[2], t);
        const real x = trace[6 * STEP], y = trace[7 * STEP], z = trace[8 * STEP];
        product(across[0], across[1], across[2], across[3], across[4], across[5], x, y, z, kept);
        product(own[0], own[1], own[2], own[3], own[4], own[5], x, y, z, sent);
        for (int c = 0; c < 3; c++) kept[c] += t[c], sent[c] -= t[c];
    }
};
