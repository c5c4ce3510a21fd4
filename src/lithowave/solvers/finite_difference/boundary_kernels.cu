// Free and rigid faces: closures of the derivatives along the normal, added to the interior update. Smoothing in
// absorbing layers.
//
// With t and u the other two axes, the normal n carries the derivatives of vn, vt, vu and of snn, snt, snu. A thread
// updates one point of the face, or a point `inward` (in elements) from it.

#include "law.cuh"

// Strides in elements along the normal (into the grid), n, t and u, and along the rows and columns of the face.
struct Face {
    long long node, half;  // the first node of the face, and the first half node next to it
    long long inward, n, t, u, row, column;
    int rows, columns;
    int depths, node_reach, half_reach;  // extents of node_change (depths, node_reach), half_change (depths, half_reach)
    int axis;  // axis of the normal: 0, 1, 2
};

__device__ __forceinline__ bool on_face(const Face& face, long long& offset) {
    const int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y;
    offset = p * face.row + q * face.column;
    return q < face.columns && p < face.rows;
}

// Return the sum over e of weights[d][e] f at e steps inward.
__device__ __forceinline__ real weighted_line(const real* f, long long inward, const real* weights, int reach) {
    real total = 0;
    for (int e = 0; e < reach; e++) total += weights[e] * f[e * inward];
    return total;
}

// Return twice the density between p and p + a.
__device__ __forceinline__ real density_pair(const modulus_t* density, const Scale& scale, long long p, long long a) {
    return density_value(density[p], scale) + density_value(density[p + a], scale);
}

// Replace the interior stencil along n near a face by the closed one, for velocities.
extern "C" __global__ void close_velocity(
    real* vn, real* vt, real* vu, const real* snn, const real* snt, const real* snu, const modulus_t* density,
    const real* node_change, const real* half_change, const __grid_constant__ Face face,
    const __grid_constant__ Scale density_scale, real ratio)
{
    long long offset;
    if (!on_face(face, offset)) return;
    const long long node = face.node + offset, half = face.half + offset;
    const real twice = ratio + ratio;
    const int d = blockIdx.z;
    const long long h = half + d * face.inward, p = node + d * face.inward;
    const real* half_row = half_change + d * face.half_reach;
    const real* node_row = node_change + d * face.node_reach;
    vn[h] += twice / density_pair(density, density_scale, h, face.n) *
             weighted_line(snn + node, face.inward, half_row, face.half_reach);
    vt[p] += twice / density_pair(density, density_scale, p, face.t) *
             weighted_line(snt + half, face.inward, node_row, face.node_reach);
    vu[p] += twice / density_pair(density, density_scale, p, face.u) *
             weighted_line(snu + half, face.inward, node_row, face.node_reach);
}

// Replace the interior stencil along n near a face by the closed one, for stresses.
extern "C" __global__ void close_stress(
    const real* vn, const real* vt, const real* vu, real* sxx, real* syy, real* szz, real* snt, real* snu,
    const __grid_constant__ Law law, const real* node_change, const real* half_change,
    const __grid_constant__ Face face, real ratio)
{
    long long offset;
    if (!on_face(face, offset)) return;
    const long long node = face.node + offset, half = face.half + offset;
    const int d = blockIdx.z;
    const long long h = half + d * face.inward, p = node + d * face.inward;
    const real* half_row = half_change + d * face.half_reach;
    const real* node_row = node_change + d * face.node_reach;
    const real rate = weighted_line(vn + half, face.inward, node_row, face.node_reach);
    add_uniaxial_stress(law, p, ratio, face.axis, rate, sxx, syy, szz);
    add_shear_stress(law, h, face.n, face.t, face.axis, face.axis == 0 ? 1 : 0, ratio,
                     weighted_line(vt + node, face.inward, half_row, face.half_reach), snt);
    add_shear_stress(law, h, face.n, face.u, face.axis, face.axis == 2 ? 1 : 2, ratio,
                     weighted_line(vu + node, face.inward, half_row, face.half_reach), snu);
}

// Set szz to zero on a plane of nodes by a change of the vertical strain rate.
extern "C" __global__ void free_surface(
    real* sxx, real* syy, real* szz, const __grid_constant__ Law law, real ratio, long long first, int rows, int columns,
    long long pitch)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= columns || j >= rows) return;
    release_normal_stress(law, first + j * pitch + i, ratio, sxx, syy, szz);
}

// Zero two fields on the nodes of a face.
extern "C" __global__ void zero_on_face(real* vt, real* vu, const __grid_constant__ Face face)
{
    long long offset;
    if (!on_face(face, offset)) return;
    vt[face.node + offset] = 0;
    vu[face.node + offset] = 0;
}

// Box of nodes: a thread has one of them. Strides in elements; `node` is node (0, 0, 0) of the grid.
struct Box {
    long long node, pitch, plane, place;
    int x, y, z, columns, rows, planes;
    int limits[6];  // first and last neighbor along x, y, z

    __device__ __forceinline__ bool has(int i, int j, int k) const { return i < columns && j < rows && k < planes; }
    __device__ __forceinline__ long long at(int i, int j, int k) const {
        return node + (z + k) * plane + (y + j) * pitch + x + i;
    }
    __device__ __forceinline__ long long number(int i, int j, int k) const {
        return place + (static_cast<long long>(k) * rows + j) * columns + i;
    }
};

#define NODE_OF_BOX \
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z; \
    if (!box.has(i, j, k)) return;

// Compute the sum of the differences to the six neighbors times min(wx + wy + wz, most).
extern "C" __global__ void layer_differences(
    const real* field, const real* wx, const real* wy, const real* wz, real most, const __grid_constant__ Box box,
    real* differences)
{
    NODE_OF_BOX
    const int x = box.x + i, y = box.y + j, z = box.z + k;
    const real* at = field + box.at(i, j, k);
    const real value = *at;
    const auto difference = [&](bool inside, long long step) { return inside ? at[step] - value : real(0); };
    real total = difference(x > box.limits[0], -1) + difference(x < box.limits[1], 1);
    total += difference(y > box.limits[2], -box.pitch);
    total += difference(y < box.limits[3], box.pitch);
    total += difference(z > box.limits[4], -box.plane);
    total += difference(z < box.limits[5], box.plane);
    const real weight = wx[x] + wy[y] + wz[z];
    differences[box.number(i, j, k)] = (weight < most ? weight : most) * total;
}

// Add the result of `layer_differences` to the field.
extern "C" __global__ void add_layer_differences(
    real* field, const __grid_constant__ Box box, const real* differences)
{
    NODE_OF_BOX
    field[box.at(i, j, k)] += differences[box.number(i, j, k)];
}
