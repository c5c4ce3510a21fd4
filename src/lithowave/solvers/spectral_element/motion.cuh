// A point of the mesh: u and dt^2 / mass, or p and the factor of a velocity.
#pragma once

#include "vectors.cuh"

typedef REAL real;
typedef Vector4<real> Point;

// u + dt^2 / mass * p of a point; `sign` gives the fourth value its sign, which says in which step it moved last.
__device__ __forceinline__ Point advanced(const Point& u, const Point& p, real sign) {
    const real scale = fabs(u.w);
    return {u.x + scale * p.x, u.y + scale * p.y, u.z + scale * p.z, copysign(scale, sign)};
}
