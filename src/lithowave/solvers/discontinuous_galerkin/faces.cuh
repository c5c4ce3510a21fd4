// Sent and stored traces of elements at a face, and the flux of a jump: see riemann.py. One point of a trace at a time.
#pragma once

#include "vectors.cuh"

// Isotropic on both sides.
template <class real>
struct IsotropicFace {
    // FACE_NUMBERS: normal, s | p - s, -, S lambda, S mu | S Zs / rho, S dZ / rho, Zs', dZ' | Zs, dZ
    Vector4<real> a, b, c, d;

    __device__ __forceinline__ void load(const real* numbers) {
        const Vector4<real>* const four = reinterpret_cast<const Vector4<real>*>(numbers);
        a = four[0], b = four[1], c = four[2], d = four[3];
    }

    // flux[q * step] : flux of the quantities for the jump (x, y, z) of w - u.
    __device__ __forceinline__ void jump(real x, real y, real z, real* flux, int step) const {
        real normal = b.x * (a.x * x + a.y * y + a.z * z);
        x = a.w * x + normal * a.x, y = a.w * y + normal * a.y, z = a.w * z + normal * a.z;
        normal = a.x * x + a.y * y + a.z * z;
        const real pressure = b.z * normal, mu_x = b.w * x, mu_y = b.w * y, mu_z = b.w * z, along = c.y * normal;
        flux[0] = pressure + 2 * a.x * mu_x;
        flux[step] = pressure + 2 * a.y * mu_y;
        flux[2 * step] = pressure + 2 * a.z * mu_z;
        flux[3 * step] = a.x * mu_y + a.y * mu_x;
        flux[4 * step] = a.x * mu_z + a.z * mu_x;
        flux[5 * step] = a.y * mu_z + a.z * mu_y;
        flux[6 * step] = c.x * x + along * a.x;
        flux[7 * step] = c.x * y + along * a.y;
        flux[8 * step] = c.x * z + along * a.z;
    }

    // The part of the flux that counts for memory variables: see element_kernels.py.
    __device__ __forceinline__ void stretched_jump(
        real x, real y, real z, const real (&gains)[3], real* flux, int step) const
    {
        real normal = b.x * (a.x * x + a.y * y + a.z * z);
        x = a.w * x + normal * a.x, y = a.w * y + normal * a.y, z = a.w * z + normal * a.z;
        normal = a.x * x + a.y * y + a.z * z;
        const real gx = gains[0] * a.x, gy = gains[1] * a.y, gz = gains[2] * a.z;
        const real gain = gx * a.x + gy * a.y + gz * a.z, s = gain * c.x, along = gain * c.y * normal;
        const real pressure = b.z * (gx * x + gy * y + gz * z);
        flux[0] = pressure + 2 * b.w * gx * x;
        flux[step] = pressure + 2 * b.w * gy * y;
        flux[2 * step] = pressure + 2 * b.w * gz * z;
        flux[3 * step] = b.w * (gx * y + gy * x);
        flux[4 * step] = b.w * (gx * z + gz * x);
        flux[5 * step] = b.w * (gy * z + gz * y);
        flux[6 * step] = s * x + along * a.x;
        flux[7 * step] = s * y + along * a.y;
        flux[8 * step] = s * z + along * a.z;
    }

    // u and w of the quantities trace[q * step].
    __device__ __forceinline__ void sides(const real* trace, int step, real (&kept)[3], real (&sent)[3]) const {
        const real xx = trace[0], yy = trace[step], zz = trace[2 * step];
        const real xy = trace[3 * step], xz = trace[4 * step], yz = trace[5 * step];
        const real vx = trace[6 * step], vy = trace[7 * step], vz = trace[8 * step];
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

    __device__ __forceinline__ void jump(real x, real y, real z, real* flux, int step) const {
        apply<1>(numbers, x, y, z, flux, step);
    }

    // With gains: `jump` with another matrix, for memory variables, of an element among LANES.
    __device__ __forceinline__ void stretched_jump(
        real x, real y, real z, const real* gains, real* flux, int step) const
    {
        apply<LANES>(gains, x, y, z, flux, step);
    }

    // flux[q * step] : matrix (QUANTITIES, 3) times (x, y, z); apart : from entry to entry of the matrix.
    template <int apart>
    static __device__ __forceinline__ void apply(const real* matrix, real x, real y, real z, real* flux, int step) {
#pragma unroll
        for (int q = 0; q < QUANTITIES; q++) {
            const real* const row = matrix + 3 * q * apart;
            flux[q * step] = row[0] * x + row[apart] * y + row[2 * apart] * z;
        }
    }

    static __device__ __forceinline__ void product(
        real xx, real yy, real zz, real xy, real xz, real yz, real x, real y, real z, real (&out)[3])
    {
        out[0] = xx * x + xy * y + xz * z;
        out[1] = xy * x + yy * y + yz * z;
        out[2] = xz * x + yz * y + zz * z;
    }

    __device__ __forceinline__ void sides(const real* trace, int step, real (&kept)[3], real (&sent)[3]) const {
        const real *const n = numbers + 27, *const own = numbers + 30, *const across = numbers + 36;
        real t[3];
        product(trace[0], trace[step], trace[2 * step], trace[3 * step], trace[4 * step], trace[5 * step], n[0], n[1],
                n[2], t);
        const real x = trace[6 * step], y = trace[7 * step], z = trace[8 * step];
        product(across[0], across[1], across[2], across[3], across[4], across[5], x, y, z, kept);
        product(own[0], own[1], own[2], own[3], own[4], own[5], x, y, z, sent);
        for (int c = 0; c < 3; c++) kept[c] += t[c], sent[c] -= t[c];
    }
};
