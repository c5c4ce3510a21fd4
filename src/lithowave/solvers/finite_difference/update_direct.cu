// Updates of the whole grid for devices without a bulk tensor copy engine: one thread updates one column of a tile and
// reads from memory, relying on the caches.

#include "law.cuh"
#include "layers.cuh"

template <bool LAYERED>
__device__ __forceinline__ void velocity_tile(
    const Tile& tile, const Layout& layout, const Coefficients& c, const LayerSet& layers, real* vx, real* vy, real* vz,
    const real* sxx, const real* syy, const real* szz, const real* sxy, const real* sxz, const real* syz,
    const modulus_t* density, const Scale& density_scale, real ratio)
{
    const int i = tile.x + threadIdx.x % TILE_X, j = tile.y + threadIdx.x / TILE_X;
    if (i < tile.first || i >= tile.x_end || j >= tile.y_end) return;
    const place_t row = layout.pitch, plane = static_cast<place_t>(layout.plane);
    const real twice = ratio + ratio;
    Absorbers a;
    if (LAYERED) a.enter(layers, layout, true, i, j);

    place_t p = layout.at(i, j, tile.z);
    for (int k = tile.z; k < tile.z_end; k++, p += plane) {
        real x_xx = forward(c.x, sxx, p, 1), y_xy = backward(c.y, sxy, p, row), z_xz = backward(c.z, sxz, p, plane);
        real x_xy = backward(c.x, sxy, p, 1), y_yy = forward(c.y, syy, p, row), z_yz = backward(c.z, syz, p, plane);
        real x_xz = backward(c.x, sxz, p, 1), y_yz = backward(c.y, syz, p, row), z_zz = forward(c.z, szz, p, plane);
        if (LAYERED) {
            a.climb(layers, true, k);
            if (a.x.inside()) {
                a.x.absorb(x_xx, layers.x.half, 0, k);
                a.x.absorb(x_xy, layers.x.node, 1, k);
                a.x.absorb(x_xz, layers.x.node, 2, k);
            }
            if (a.y.inside()) {
                a.y.absorb(y_yy, layers.y.half, 0, k);
                a.y.absorb(y_xy, layers.y.node, 1, k);
                a.y.absorb(y_yz, layers.y.node, 2, k);
            }
            if (a.z.inside()) {
                a.z.absorb(z_zz, layers.z.half, 0, a.z.slot);
                a.z.absorb(z_xz, layers.z.node, 1, a.z.slot);
                a.z.absorb(z_yz, layers.z.node, 2, a.z.slot);
            }
        }
        const auto rho_at = [&](place_t place) { return density_value(density[place], density_scale); };
        const real rho = rho_at(p);
        vx[p] += twice / (rho + rho_at(p + 1)) * (x_xx + y_xy + z_xz);
        vy[p] += twice / (rho + rho_at(p + row)) * (x_xy + y_yy + z_yz);
        vz[p] += twice / (rho + rho_at(p + plane)) * (x_xz + y_yz + z_zz);
    }
}

// Update v += dt / rho div sigma; ratio = dt / h. One block of TILE_X x TILE_Y threads per tile.
extern "C" __global__ void __launch_bounds__(TILE_X * TILE_Y, BLOCKS)
update_velocity(
    const Tile* tiles, const __grid_constant__ Layout layout, const __grid_constant__ Coefficients coefficients,
    const __grid_constant__ LayerSet layers, real* vx, real* vy, real* vz, const real* sxx, const real* syy,
    const real* szz, const real* sxy, const real* sxz, const real* syz, const modulus_t* density,
    const __grid_constant__ Scale density_scale, real ratio)
{
    const Tile tile = tiles[blockIdx.x];
    if (tile.layered)
        velocity_tile<true>(
            tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, density_scale, ratio);
    else
        velocity_tile<false>(
            tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density, density_scale, ratio);
}

template <bool LAYERED>
__device__ __forceinline__ void stress_tile(
    const Tile& tile, const Layout& layout, const Coefficients& c, const LayerSet& layers, const real* vx,
    const real* vy, const real* vz, real* sxx, real* syy, real* szz, real* sxy, real* sxz, real* syz,
    const Law& law, real ratio)
{
    const int i = tile.x + threadIdx.x % TILE_X, j = tile.y + threadIdx.x / TILE_X;
    if (i < tile.first || i >= tile.x_end || j >= tile.y_end) return;
    const place_t row = layout.pitch, plane = static_cast<place_t>(layout.plane);
    Absorbers a;
    if (LAYERED) a.enter(layers, layout, true, i, j);

    place_t p = layout.at(i, j, tile.z);
    for (int k = tile.z; k < tile.z_end; k++, p += plane) {
        real x_vx = backward(c.x, vx, p, 1), y_vx = forward(c.y, vx, p, row), z_vx = forward(c.z, vx, p, plane);
        real x_vy = forward(c.x, vy, p, 1), y_vy = backward(c.y, vy, p, row), z_vy = forward(c.z, vy, p, plane);
        real x_vz = forward(c.x, vz, p, 1), y_vz = forward(c.y, vz, p, row), z_vz = backward(c.z, vz, p, plane);
        if (LAYERED) {
            a.climb(layers, true, k);
            if (a.x.inside()) {
                a.x.absorb(x_vx, layers.x.node, 0, k);
                a.x.absorb(x_vy, layers.x.half, 1, k);
                a.x.absorb(x_vz, layers.x.half, 2, k);
            }
            if (a.y.inside()) {
                a.y.absorb(y_vy, layers.y.node, 0, k);
                a.y.absorb(y_vx, layers.y.half, 1, k);
                a.y.absorb(y_vz, layers.y.half, 2, k);
            }
            if (a.z.inside()) {
                a.z.absorb(z_vz, layers.z.node, 0, a.z.slot);
                a.z.absorb(z_vx, layers.z.half, 1, a.z.slot);
                a.z.absorb(z_vy, layers.z.half, 2, a.z.slot);
            }
        }
        MemoryPoint memory;
        memory.recall(law, true, p, layout.node(i, j, k));
        memory.advance_stress(all_moduli(law, p, row, plane), law, ratio, x_vx, y_vy, z_vz, y_vx + x_vy, z_vx + x_vz,
                              z_vy + y_vz, sxx[p], syy[p], szz[p], sxy[p], sxz[p], syz[p]);
        memory.store(law);
    }
}

// Update sigma += dt C : e with the strain rate e and the law C; ratio = dt / h. One block per tile.
extern "C" __global__ void __launch_bounds__(TILE_X * TILE_Y, BLOCKS)
update_stress(
    const Tile* tiles, const __grid_constant__ Layout layout, const __grid_constant__ Coefficients coefficients,
    const __grid_constant__ LayerSet layers, const real* vx, const real* vy, const real* vz, real* sxx, real* syy,
    real* szz, real* sxy, real* sxz, real* syz, const __grid_constant__ Law law, real ratio)
{
    const Tile tile = tiles[blockIdx.x];
    if (tile.layered)
        stress_tile<true>(
            tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio);
    else
        stress_tile<false>(
            tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio);
}
