// Updates of the whole grid for devices with a bulk tensor copy engine (Hopper and later).
//
// A block owns a tile of TILE_X x TILE_Y columns and marches upward through the planes. The copy engine loads the data
// of a plane, with its halo, into one of STAGES slots of shared memory, several planes ahead; a slot is refilled when
// every warp has left it, so that no thread waits for the entire block. Derivatives along x and y are computed from the
// slot, those along z from the last values of the thread's columns, in registers: all data are read from memory once.
//
// A thread updates some neighboring columns. A plane can be finished when the last value for its derivatives along z
// has arrived; until then its partial sums stay in registers. Fields change in place: a tile reads fields that it
// changes only at its own points.
//
// Inner tiles and tiles that touch an absorbing layer have different shapes and the same number of threads, so that one
// launch updates both and no thread of an inner tile tests for layers.
//
// EQUAL: all columns of material are equal and no tile is inside. A block copies a few columns and two rows of material: a
// thread computes with the first ones, but at the far ends of the grid, whose neighbors are outside, with the last ones.

#include "hopper.cuh"
#include "law.cuh"
#include "layers.cuh"

constexpr int ALIGNED = 16 / sizeof(real);  // boxes begin and end at multiples of 16 bytes
constexpr int MARGIN = (REACH + ALIGNED - 1) / ALIGNED * ALIGNED;

// X x Y columns, R of them per thread; WIDE with both margins, TALL with the rows of the stencil. MATERIAL : columns of
// the material, MORE with one more.
template <int X_, int Y_, int R_, bool LAYERED_>
struct Shape {
    static constexpr int X = X_, Y = Y_, R = R_;
    static constexpr int WIDE = X + 2 * MARGIN, TALL = Y + WINDOW - 1;
    static constexpr int MATERIAL_X = EQUAL ? 32 / sizeof(modulus_t) : X, MATERIAL_Y = EQUAL ? 2 : Y;
    static constexpr int MORE_X = MATERIAL_X + 16 / sizeof(modulus_t), MORE_Y = MATERIAL_Y + 1;
    static constexpr bool LAYERED = LAYERED_;
};

using Inside = Shape<TILE_X, TILE_Y, ROWS, false>;
using Edge = Shape<EDGE_X, EDGE_Y, EDGE_ROWS, true>;

constexpr int THREADS = TILE_X * TILE_Y / ROWS, WARPS = THREADS / 32;
static_assert(THREADS == EDGE_X * EDGE_Y / EDGE_ROWS, "one launch has blocks of one size");

// Return the column (row) of the material in a slot. number : column (row) of the tile, which covers first .. end - 1 and
// whose material begins at `begin`. count : columns (rows) of the grid.
__device__ __forceinline__ int material_at(int number, int first, int end, int begin, int count) {
    if (!EQUAL) return number;
    return end == count && first + number == count - 1 ? count - 1 - begin : 0;
}

// Slots of shared memory and the barriers that pass them between the copy engine and the warps.
template <class Slot>
struct Ring {
    Slot* slots;
    Barrier *full, *empty;
    int now;          // the slot in use
    unsigned parity;  // of the slot's phase

    __device__ __forceinline__ void create() {
        slots = dynamic_shared<Slot>();
        full = reinterpret_cast<Barrier*>(slots + STAGES);
        empty = full + STAGES;
        now = 0, parity = 0;
        if (threadIdx.x == 0) {
            for (int n = 0; n < STAGES; n++) full[n].create(1), empty[n].create(WARPS);
            publish_barriers();
        }
        __syncthreads();
    }
    __device__ __forceinline__ const Slot& wait() {
        full[now].wait(parity);
        return slots[now];
    }
    // Fill the slot that was in use before the present one; called by one thread.
    template <class Maps>
    __device__ __forceinline__ void refill(const Maps& maps, const Tile& tile, int plane) {
        const int before = now == 0 ? STAGES - 1 : now - 1;
        empty[before].wait(now == 0 ? parity ^ 1 : parity);
        slots[before].load(maps, tile, plane, full[before]);
    }
    // Signal that this warp has finished reading the slot.
    __device__ __forceinline__ void leave() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) empty[now].arrive();
        if (++now == STAGES) now = 0, parity ^= 1;
    }
};

// ------------------------------------------------------------------------------------------------------- velocity

struct VelocityMaps {
    TensorMap sxx, sxy, syy, sxz, syz, szz, vx, vy, vz, density;
};

constexpr int VELOCITY_LAG = REACH - 1;

// Data copied with plane k: stresses with derivatives along z ahead of plane m = k - VELOCITY_LAG, which is finished.
template <class S>
struct VelocitySlot {
    alignas(128) real sxx[S::Y][S::WIDE];
    alignas(128) real sxy[S::TALL][S::WIDE];
    alignas(128) real syy[S::TALL][S::X];
    alignas(128) real sxz[S::Y][S::WIDE];
    alignas(128) real syz[S::TALL][S::X];
    alignas(128) real szz[S::Y][S::X];
    alignas(128) real vx[S::Y][S::X];
    alignas(128) real vy[S::Y][S::X];
    alignas(128) real vz[S::Y][S::X];
    alignas(128) modulus_t density[S::MORE_Y][S::MORE_X];

    // Maps begin at the first column of points, with zeros for the halo, and REACH rows and planes before the first.
    // Planes that only fill the columns need a subset of the data.
    __device__ __forceinline__ void load(const VelocityMaps& maps, const Tile& tile, int k, Barrier& full) {
        const bool finishing = k >= tile.z + VELOCITY_LAG;
        const int x = tile.x, y = tile.y + REACH, m = k - VELOCITY_LAG + REACH;
        k += REACH;
        full.expect(sizeof(sxz) + sizeof(syz) + sizeof(szz) + sizeof(density) +
                    (finishing ? sizeof(sxx) + sizeof(sxy) + sizeof(syy) + sizeof(vx) + sizeof(vy) + sizeof(vz) : 0));
        copy_box(sxz, maps.sxz, x - MARGIN, y, k, full);
        copy_box(syz, maps.syz, x, y - REACH, k, full);
        copy_box(szz, maps.szz, x, y, k + 1, full);
        copy_box(density, maps.density, tile.material_x, tile.material_y + REACH, m + 1, full);
        if (!finishing) return;
        copy_box(sxx, maps.sxx, x - MARGIN, y, m, full);
        copy_box(sxy, maps.sxy, x - MARGIN, y - REACH, m, full);
        copy_box(syy, maps.syy, x, y - REACH + 1, m, full);
        copy_box(vx, maps.vx, x, y, m, full);
        copy_box(vy, maps.vy, x, y, m, full);
        copy_box(vz, maps.vz, x, y, m, full);
    }
};

// One column: previous stresses along it, and pending values.
struct VelocityColumn {
    Column sxz, syz, szz;
    Delay<VELOCITY_LAG> force_z;        // in-plane part of the force along z
    real density, density_x, density_y;  // of plane m: at the node, and sums of two along x and y
};

template <class S>
__device__ __forceinline__ void march_velocity(
    const VelocityMaps& maps, const Tile& tile, const Layout& layout, const Coefficients& c, const LayerSet& layers,
    real* vx, real* vy, real* vz, const real* sxz, const real* syz, const real* szz, const modulus_t* density,
    const Scale& density_scale, real ratio)
{
    Ring<VelocitySlot<S>> ring;
    ring.create();
    const int last = tile.z_end + VELOCITY_LAG;  // planes tile.z <= k < last are copied
    if (threadIdx.x == 0)
        for (int n = 0; n < STAGES && tile.z + n < last; n++) ring.slots[n].load(maps, tile, tile.z + n, ring.full[n]);

    const int column = threadIdx.x % S::X, row = threadIdx.x / S::X * S::R, i = tile.x + column;
    const int mx = material_at(column, tile.x, tile.x_end, tile.material_x, layout.columns);
    VelocityColumn columns[S::R];
    Absorbers absorbers[S::R];
    bool active[S::R], stored[S::R];
    place_t place = layout.at(i, tile.y + row, tile.z - VELOCITY_LAG);
#pragma unroll
    for (int r = 0; r < S::R; r++) {
        VelocityColumn& own = columns[r];
        stored[r] = i >= tile.first && i < tile.filled && tile.y + row + r < tile.y_end;
        active[r] = stored[r] && i < tile.x_end;
        const place_t first = active[r] ? layout.at(i, tile.y + row + r, tile.z) : layout.at(0, 0, 0);
        const place_t start = first - static_cast<place_t>(VELOCITY_LAG * layout.plane);
        own.sxz.fill(sxz + first - layout.plane, layout.plane, REACH);
        own.syz.fill(syz + first - layout.plane, layout.plane, REACH);
        own.szz.fill(szz + first, layout.plane, REACH);
        own.density = density_value(density[start], density_scale);
        own.density_x = own.density + density_value(density[start + 1], density_scale);
        own.density_y = own.density + density_value(density[start + layout.pitch], density_scale);
        if (S::LAYERED) absorbers[r].enter(layers, layout, active[r], i, tile.y + row + r);
    }

    for (int k = tile.z; k < last; k++, place += layout.plane) {
        const int m = k - VELOCITY_LAG;
        const bool finishing = m >= tile.z;
        if (S::LAYERED) {
#pragma unroll
            for (int r = 0; r < S::R; r++) {
                absorbers[r].climb(layers, active[r] && finishing, m);
                absorbers[r].recall(m, m, k, tile.z, tile.z_end);
            }
        }
        const VelocitySlot<S>& slot = ring.wait();
        if (threadIdx.x == 0 && k > tile.z && k - 1 + STAGES < last) ring.refill(maps, tile, k - 1 + STAGES);
        real new_vx[S::R], new_vy[S::R], new_vz[S::R];
#pragma unroll
        for (int r = 0; r < S::R; r++) {
            VelocityColumn& own = columns[r];
            Absorbers& a = absorbers[r];
            const int j = row + r, my = material_at(j, tile.y, tile.y_end, tile.material_y, layout.rows);
            const real* xz = &slot.sxz[j][column + MARGIN];
            const real* yz = &slot.syz[j + REACH][column];
            own.sxz.push(*xz), own.syz.push(*yz), own.szz.push(slot.szz[j][column]);

            real d_xz = backward(c.x, xz, 1), d_yz = backward(c.y, yz, S::X);
            const real* xy = &slot.sxy[j + REACH][column + MARGIN];
            real x_xx = forward(c.x, &slot.sxx[j][column + MARGIN], 1), y_xy = backward(c.y, xy, S::WIDE);
            real x_xy = backward(c.x, xy, 1), y_yy = forward(c.y, &slot.syy[j + REACH - 1][column], S::X);
            real z_xz = own.sxz.derivative(c.z), z_yz = own.syz.derivative(c.z), z_zz = own.szz.derivative(c.z);
            if (S::LAYERED && a.x.inside()) {
                if (k < tile.z_end) a.x.absorb(d_xz, a.x_psi[2], layers.x.node, 2, k);
                if (finishing) {
                    a.x.absorb(x_xx, a.x_psi[0], layers.x.half, 0, m);
                    a.x.absorb(x_xy, a.x_psi[1], layers.x.node, 1, m);
                }
            }
            if (S::LAYERED && a.y.inside()) {
                if (k < tile.z_end) a.y.absorb(d_yz, a.y_psi[2], layers.y.node, 2, k);
                if (finishing) {
                    a.y.absorb(y_yy, a.y_psi[0], layers.y.half, 0, m);
                    a.y.absorb(y_xy, a.y_psi[1], layers.y.node, 1, m);
                }
            }
            if (S::LAYERED && a.z.inside()) {
                a.z.absorb(z_zz, a.z_psi[0], layers.z.half, 0, a.z.slot);
                a.z.absorb(z_xz, a.z_psi[1], layers.z.node, 1, a.z.slot);
                a.z.absorb(z_yz, a.z_psi[2], layers.z.node, 2, a.z.slot);
            }
            const modulus_t* up = &slot.density[my][mx];
            const real above = density_value(*up, density_scale);
            const real twice = ratio + ratio;
            new_vx[r] = slot.vx[j][column] + twice / own.density_x * (x_xx + y_xy + z_xz);
            new_vy[r] = slot.vy[j][column] + twice / own.density_y * (x_xy + y_yy + z_yz);
            new_vz[r] = slot.vz[j][column] + twice / (own.density + above) * (own.force_z.exchange(d_xz + d_yz) + z_zz);
            own.density = above;
            own.density_x = above + density_value(up[1], density_scale);
            own.density_y = above + density_value(up[S::MORE_X], density_scale);
        }
        ring.leave();
#pragma unroll
        for (int r = 0; r < S::R; r++)
            if (stored[r] && finishing) {
                const place_t p = place + static_cast<place_t>(r * layout.pitch);
                const bool own = active[r];
                vx[p] = own ? new_vx[r] : 0, vy[p] = own ? new_vy[r] : 0, vz[p] = own ? new_vz[r] : 0;
            }
    }
}

// Update v += dt / rho div sigma; ratio = dt / h. One block per tile.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
update_velocity(
    const __grid_constant__ VelocityMaps maps, const __grid_constant__ VelocityMaps edge_maps, const Tile* tiles,
    const __grid_constant__ Layout layout, const __grid_constant__ Coefficients coefficients,
    const __grid_constant__ LayerSet layers,
    real* vx, real* vy, real* vz, const real* sxz, const real* syz, const real* szz, const modulus_t* density,
    const __grid_constant__ Scale density_scale, real ratio)
{
    const Tile tile = tiles[blockIdx.x];
    if (EQUAL || tile.layered)
        march_velocity<Edge>(
            edge_maps, tile, layout, coefficients, layers, vx, vy, vz, sxz, syz, szz, density, density_scale, ratio);
    else
        march_velocity<Inside>(
            maps, tile, layout, coefficients, layers, vx, vy, vz, sxz, syz, szz, density, density_scale, ratio);
}

// --------------------------------------------------------------------------------------------------------- stress

struct StressMaps {
    TensorMap vx, vy, vz, sxx, syy, szz, sxy, sxz, syz;
    LawMaps<TensorMap> law;
};

constexpr int STRESS_LAG = REACH;

// Data copied with plane k: its vx and vy, vz of the half plane below, the stresses of plane m = k - STRESS_LAG.
template <class S>
struct StressSlot {
    alignas(128) real vx[S::TALL][S::WIDE];
    alignas(128) real vy[S::TALL][S::WIDE];
    alignas(128) real vz[S::TALL][S::WIDE];
    alignas(128) real sxx[S::Y][S::X];
    alignas(128) real syy[S::Y][S::X];
    alignas(128) real szz[S::Y][S::X];
    alignas(128) real sxy[S::Y][S::X];
    alignas(128) real sxz[S::Y][S::X];
    alignas(128) real syz[S::Y][S::X];
    LawSlot<S::MATERIAL_X, S::MATERIAL_Y> law;

    __device__ __forceinline__ void load(const StressMaps& maps, const Tile& tile, int k, Barrier& full) {
        const bool finishing = k >= tile.z + STRESS_LAG;
        const int x = tile.x, y = tile.y + REACH, m = k - STRESS_LAG + REACH;
        k += REACH;
        full.expect(sizeof(vx) + sizeof(vy) + sizeof(vz) + law.bytes(finishing) + (finishing ? 6 * sizeof(sxx) : 0));
        copy_box(vx, maps.vx, x - MARGIN, y - REACH + 1, k, full);
        copy_box(vy, maps.vy, x - MARGIN, y - REACH, k, full);
        copy_box(vz, maps.vz, x - MARGIN, y - REACH + 1, k - 1, full);
        law.load(maps.law, tile.material_x, tile.material_y + REACH, m, finishing, full);
        if (!finishing) return;
        copy_box(sxx, maps.sxx, x, y, m, full);
        copy_box(syy, maps.syy, x, y, m, full);
        copy_box(szz, maps.szz, x, y, m, full);
        copy_box(sxy, maps.sxy, x, y, m, full);
        copy_box(sxz, maps.sxz, x, y, m, full);
        copy_box(syz, maps.syz, x, y, m, full);
    }
};

// One column: previous velocities along it, and pending values: in-plane strain rates, and the moduli of plane m.
struct StressColumn {
    Column vx, vy, vz;
    Delay<STRESS_LAG> exx, eyy, shear_xy;
    Delay<STRESS_LAG - 1> x_vz, y_vz;
    LawColumn law;
};

template <class S>
__device__ __forceinline__ void march_stress(
    const StressMaps& maps, const Tile& tile, const Layout& layout, const Coefficients& c, const LayerSet& layers,
    const real* vx, const real* vy, const real* vz, real* sxx, real* syy, real* szz, real* sxy, real* sxz, real* syz,
    const Law& law, real ratio)
{
    Ring<StressSlot<S>> ring;
    ring.create();
    const int last = tile.z_end + STRESS_LAG;
    if (threadIdx.x == 0)
        for (int n = 0; n < STAGES && tile.z + n < last; n++) ring.slots[n].load(maps, tile, tile.z + n, ring.full[n]);

    const int column = threadIdx.x % S::X, row = threadIdx.x / S::X * S::R, i = tile.x + column;
    const int mx = material_at(column, tile.x, tile.x_end, tile.material_x, layout.columns);
    StressColumn columns[S::R];
    Absorbers absorbers[S::R];
    bool active[S::R], stored[S::R];
    place_t place = layout.at(i, tile.y + row, tile.z - STRESS_LAG);
#pragma unroll
    for (int r = 0; r < S::R; r++) {
        StressColumn& own = columns[r];
        stored[r] = i >= tile.first && i < tile.filled && tile.y + row + r < tile.y_end;
        active[r] = stored[r] && i < tile.x_end;
        const place_t first = active[r] ? layout.at(i, tile.y + row + r, tile.z) : layout.at(0, 0, 0);
        own.vx.fill(vx + first - layout.plane, layout.plane, REACH - 1);
        own.vy.fill(vy + first - layout.plane, layout.plane, REACH - 1);
        own.vz.fill(vz + first - 2 * layout.plane, layout.plane, REACH - 1);
        if (S::LAYERED) absorbers[r].enter(layers, layout, active[r], i, tile.y + row + r);
    }

    for (int k = tile.z; k < last; k++, place += layout.plane) {
        const int m = k - STRESS_LAG;
        const bool finishing = m >= tile.z;
        if (S::LAYERED) {
#pragma unroll
            for (int r = 0; r < S::R; r++) {
                absorbers[r].climb(layers, active[r] && finishing, m);
                absorbers[r].recall(k, k, k - 1, tile.z, tile.z_end);
            }
        }
        MemoryPoint memory[S::R];
#pragma unroll
        for (int r = 0; r < S::R; r++) {
            const int node = layout.node(i, tile.y + row + r, m);
            memory[r].recall(law, active[r] && finishing, place + static_cast<place_t>(r * layout.pitch), node);
        }
        const StressSlot<S>& slot = ring.wait();
        if (threadIdx.x == 0 && k > tile.z && k - 1 + STAGES < last) ring.refill(maps, tile, k - 1 + STAGES);
        real new_xx[S::R], new_yy[S::R], new_zz[S::R], new_xy[S::R], new_xz[S::R], new_yz[S::R];
#pragma unroll
        for (int r = 0; r < S::R; r++) {
            StressColumn& own = columns[r];
            Absorbers& a = absorbers[r];
            const int j = row + r, my = material_at(j, tile.y, tile.y_end, tile.material_y, layout.rows);
            const real* x = &slot.vx[j + REACH - 1][column + MARGIN];
            const real* y = &slot.vy[j + REACH][column + MARGIN];
            const real* z = &slot.vz[j + REACH - 1][column + MARGIN];
            own.vx.push(*x), own.vy.push(*y), own.vz.push(*z);

            real x_vx = backward(c.x, x, 1), y_vx = forward(c.y, x, S::WIDE);
            real x_vy = forward(c.x, y, 1), y_vy = backward(c.y, y, S::WIDE);
            real x_vz = forward(c.x, z, 1), y_vz = forward(c.y, z, S::WIDE);
            real z_vx = own.vx.derivative(c.z), z_vy = own.vy.derivative(c.z), z_vz = own.vz.derivative(c.z);
            const bool whole = k < tile.z_end, half = k > tile.z && k <= tile.z_end;  // planes of vx and vy, of vz
            if (S::LAYERED && a.x.inside()) {
                if (whole) {
                    a.x.absorb(x_vx, a.x_psi[0], layers.x.node, 0, k);
                    a.x.absorb(x_vy, a.x_psi[1], layers.x.half, 1, k);
                }
                if (half) a.x.absorb(x_vz, a.x_psi[2], layers.x.half, 2, k - 1);
            }
            if (S::LAYERED && a.y.inside()) {
                if (whole) {
                    a.y.absorb(y_vy, a.y_psi[0], layers.y.node, 0, k);
                    a.y.absorb(y_vx, a.y_psi[1], layers.y.half, 1, k);
                }
                if (half) a.y.absorb(y_vz, a.y_psi[2], layers.y.half, 2, k - 1);
            }
            if (S::LAYERED && a.z.inside()) {
                a.z.absorb(z_vz, a.z_psi[0], layers.z.node, 0, a.z.slot);
                a.z.absorb(z_vx, a.z_psi[1], layers.z.half, 1, a.z.slot);
                a.z.absorb(z_vy, a.z_psi[2], layers.z.half, 2, a.z.slot);
            }
            const real exx = own.exx.exchange(x_vx), eyy = own.eyy.exchange(y_vy);
            const real shear_xy = own.shear_xy.exchange(y_vx + x_vy);
            const real shear_xz = z_vx + own.x_vz.exchange(x_vz), shear_yz = z_vy + own.y_vz.exchange(y_vz);

            const Moduli moduli = own.law.climb(slot.law, my, mx, law);
            new_xx[r] = slot.sxx[j][column], new_yy[r] = slot.syy[j][column], new_zz[r] = slot.szz[j][column];
            new_xy[r] = slot.sxy[j][column], new_xz[r] = slot.sxz[j][column], new_yz[r] = slot.syz[j][column];
            memory[r].advance_stress(moduli, law, ratio, exx, eyy, z_vz, shear_xy, shear_xz, shear_yz, new_xx[r],
                                     new_yy[r], new_zz[r], new_xy[r], new_xz[r], new_yz[r]);
        }
        ring.leave();
#pragma unroll
        for (int r = 0; r < S::R; r++)
            if (stored[r] && finishing) {
                const place_t p = place + static_cast<place_t>(r * layout.pitch);
                const bool own = active[r];
                sxx[p] = own ? new_xx[r] : 0, syy[p] = own ? new_yy[r] : 0, szz[p] = own ? new_zz[r] : 0;
                sxy[p] = own ? new_xy[r] : 0, sxz[p] = own ? new_xz[r] : 0, syz[p] = own ? new_yz[r] : 0;
                if (own) memory[r].store(law);
            }
    }
}

// Update sigma += dt C : e with the strain rate e and the law C; ratio = dt / h. One block per tile.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
update_stress(
    const __grid_constant__ StressMaps maps, const __grid_constant__ StressMaps edge_maps, const Tile* tiles,
    const __grid_constant__ Layout layout, const __grid_constant__ Coefficients coefficients,
    const __grid_constant__ LayerSet layers,
    const real* vx, const real* vy, const real* vz, real* sxx, real* syy, real* szz, real* sxy, real* sxz, real* syz,
    const __grid_constant__ Law law, real ratio)
{
    const Tile tile = tiles[blockIdx.x];
    if (EQUAL || tile.layered)
        march_stress<Edge>(
            edge_maps, tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio);
    else
        march_stress<Inside>(
            maps, tile, layout, coefficients, layers, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, law, ratio);
}
