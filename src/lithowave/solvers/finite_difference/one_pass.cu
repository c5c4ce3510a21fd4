// Velocity and the stress after it in one pass over memory, for devices with a bulk tensor copy engine.
//
// The pass reads the velocities of one time and the stresses half a step later, and writes both for the next step to
// other arrays: it moves 21 values per point instead of the 30 of two passes. A block owns OUT_X x OUT_Y columns and
// also computes the velocities of REACH more columns on every side, since their owners may not have them yet. A plane
// of velocities stays in shared memory until the stresses REACH planes below it are finished.
//
// The number of blocks is the number that the device runs concurrently; each takes tiles sequentially. They must not
// drift apart in z, or the cache evicts halos before the neighbors read them: a block may be SLACK planes ahead of the
// last one.
//
// Only for points that no layer and no face changes within a distance of REACH. EQUAL: all columns of material are equal,
// so that the material of one column is enough for a block, and a thread computes with it for all its columns at once.

#include "hopper.cuh"
#include "law.cuh"
#include "stencil.cuh"

constexpr int MARGIN = 16 / sizeof(real);  // columns of a box beyond the wider tile on both sides, together with REACH
constexpr int MATERIAL_MARGIN = 16 / sizeof(modulus_t) > MARGIN ? 16 / sizeof(modulus_t) : MARGIN;
constexpr int TALL = OUT_Y + 2 * REACH, BROAD = OUT_X + 2 * REACH;  // the tile with the velocities around it
constexpr int MATERIAL_X = EQUAL ? 16 / sizeof(modulus_t) : OUT_X, MATERIAL_Y = EQUAL ? 1 : OUT_Y;
constexpr int MATERIAL_TALL = EQUAL ? 2 : TALL + 1;
constexpr int MATERIAL_WIDE = EQUAL ? 2 * MATERIAL_X : OUT_X + 2 * MATERIAL_MARGIN;
constexpr int WIDE = OUT_X + 2 * MARGIN, TALLER = TALL + WINDOW - 1;
static_assert(2 * REACH <= MARGIN, "the boxes would be too narrow");

constexpr int MAIN_THREADS = OUT_X * TALL / ROWS, SIDE_THREADS = 2 * REACH * TALL / ROWS;
constexpr int WORKERS = (MAIN_THREADS + SIDE_THREADS + 31) / 32;  // warps; one more fills the ring
constexpr int VELOCITY_LAG = REACH - 1, STRESS_LAG = WINDOW - 1;  // planes after the newest one that are finished
constexpr int PLANES_KEPT = 2 * REACH;                            // velocities, in shared memory

struct Maps {
    TensorMap sxx, sxy, syy, sxz, syz, szz, vx, vy, vz, density;
    LawMaps<TensorMap> law;
};

// Data copied with plane k; p = k - VELOCITY_LAG is the plane of velocities, m = k - STRESS_LAG that of stresses.
struct Slot {
    alignas(128) real sxx[TALL][WIDE];
    alignas(128) real sxy[TALLER][WIDE];
    alignas(128) real syy[TALLER][WIDE];
    alignas(128) real sxz[TALL][WIDE];
    alignas(128) real syz[TALLER][WIDE];
    alignas(128) real szz[TALL][WIDE];
    alignas(128) real vx[TALL][WIDE];
    alignas(128) real vy[TALL][WIDE];
    alignas(128) real vz[TALL][WIDE];
    alignas(128) modulus_t density[MATERIAL_TALL][MATERIAL_WIDE];
    LawSlot<MATERIAL_X, MATERIAL_Y> law;

    // Maps begin at the first column of points, REACH rows and planes before the first.
    __device__ __forceinline__ void load(const Maps& maps, const Tile& tile, int k, Barrier& full) {
        const int x = tile.x - MARGIN, y = tile.y, p = k - VELOCITY_LAG + REACH, m = k - STRESS_LAG + REACH;
        k += REACH;
        full.expect(sizeof(sxx) + sizeof(sxy) + sizeof(syy) + sizeof(sxz) + sizeof(syz) + sizeof(szz) + sizeof(vx) +
                    sizeof(vy) + sizeof(vz) + sizeof(density) + law.bytes(true));
        copy_box(sxx, maps.sxx, x, y, p, full);
        copy_box(sxy, maps.sxy, x, y - REACH, p, full);
        copy_box(syy, maps.syy, x, y - REACH + 1, p, full);
        copy_box(sxz, maps.sxz, x, y, k, full);
        copy_box(syz, maps.syz, x, y - REACH, k, full);
        copy_box(szz, maps.szz, x, y, k + 1, full);
        copy_box(vx, maps.vx, x, y, p, full);
        copy_box(vy, maps.vy, x, y, p, full);
        copy_box(vz, maps.vz, x, y, p, full);
        copy_box(density, maps.density, tile.material_x - MATERIAL_MARGIN, tile.material_y, p + 1, full);
        law.load(maps.law, tile.material_x, tile.material_y + REACH, m, true, full);
    }
};

// Shared memory of a block.
struct Shared {
    Slot slots[STAGES];
    alignas(128) real velocity[PLANES_KEPT][3][TALL][BROAD];
#if MEMORIES
    CopiedMechanisms<OUT_X, OUT_Y> memory;
#endif
    alignas(128) real stress[REACH][3][OUT_Y][OUT_X];  // sxx, syy, sxy, kept until the stresses are finished
    Barrier full[STAGES], empty[STAGES];
    Barrier written[REACH];  // every warp has written its velocities, alternately
};

// Position of a thread in the wider tile: full warps for the tile's columns, the columns next to it in the last ones.
struct Place {
    int column, row;

    __device__ __forceinline__ Place() {
        const int side = min(static_cast<int>(threadIdx.x), MAIN_THREADS + SIDE_THREADS - 1) - MAIN_THREADS;
        if (side < 0) {
            column = REACH + threadIdx.x % OUT_X, row = threadIdx.x / OUT_X * ROWS;
        } else {
            const int beside = side % (2 * REACH);
            column = beside < REACH ? beside : OUT_X + beside, row = side / (2 * REACH) * ROWS;
        }
    }
};

// Factors of the forces for the three velocities.
struct Factors {
    real x, y, z;
};

// Material of the next plane.
struct MaterialColumn {
    real density = 1, density_x = 1, density_y = 1;
    LawColumn law;

    // Return the factors of the present plane, and store the densities of the plane above, which the slot holds.
    __device__ __forceinline__ Factors climb(const Slot& slot, int row, int column, const Scale& scale, real twice) {
        const modulus_t* up = &slot.density[row][column];
        const real above = density_value(*up, scale);
        const Factors factors{twice / density_x, twice / density_y, twice / (density + above)};
        density = above, density_x = above + density_value(up[1], scale);
        density_y = above + density_value(up[MATERIAL_WIDE], scale);
        return factors;
    }
};

// One column: previous stresses and velocities along it, and pending values.
struct PassColumn {
    Column sxz, syz, szz, vx, vy, vz;
    Delay<VELOCITY_LAG> force_z;
    bool inside, own;  // inside the grid, of the tile itself
};

// The warp that fills the ring (one of its threads), and waits for blocks that are late.
__device__ __forceinline__ void feed(
    Shared& shared, const Maps& maps, const Tile& tile, unsigned& turn, unsigned* reached, int planes,
    unsigned blocks)
{
    const int first = tile.z - 2 * REACH, count = tile.z_end - tile.z + 2 * REACH + STRESS_LAG;
    for (int n = 0; n < count; n++, turn++) {
        const int slot = turn % STAGES;
        if (turn >= STAGES) shared.empty[slot].wait((turn / STAGES - 1) & 1);
        if (n >= STAGES) {  // plane n - STAGES is done
            atomicAdd(reached + n - STAGES, 1u);
            if (n >= STAGES + SLACK)
                while (*reinterpret_cast<volatile unsigned*>(reached + n - STAGES - SLACK) < blocks) __nanosleep(20);
        }
        shared.slots[slot].load(maps, tile, first + n, shared.full[slot]);
    }
    for (int n = max(0, count - STAGES); n < planes; n++) atomicAdd(reached + n, 1u);  // a shorter tile delays no block
}

__device__ __forceinline__ void march(
    Shared& shared, const Tile& tile, const Layout& layout, const Coefficients& c, unsigned& turn, real* vx, real* vy,
    real* vz, real* sxx, real* syy, real* szz, real* sxy, real* sxz, real* syz, const Scale& density_scale, const Law& law, real ratio)
{
    const Place at;
    const int i = tile.x - REACH + at.column, j = tile.y - REACH + at.row;
    const int first = tile.z - 2 * REACH, last = tile.z_end + STRESS_LAG;
    PassColumn columns[ROWS];
    MaterialColumn materials[EQUAL ? 1 : ROWS];
    bool any = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        PassColumn& own = columns[r];
        own.inside = i >= 0 && i < layout.columns && j + r >= 0 && j + r < layout.rows;
        own.own = at.column >= REACH && at.column < OUT_X + REACH && i >= tile.first && i < tile.x_end &&
                  at.row + r >= REACH && at.row + r < OUT_Y + REACH && j + r < tile.y_end;
        any |= own.own;
    }
    place_t place = layout.at(i, j, first);
    const real twice = ratio + ratio;

    for (int k = first; k < last; k++, turn++, place += layout.plane) {
        const int p = k - VELOCITY_LAG, m = k - STRESS_LAG;
#if MEMORIES
        const bool remembering = m + 1 >= tile.z && m + 1 < tile.z_end;  // the next plane has stresses
        const place_t next = place - static_cast<place_t>((STRESS_LAG - 1) * layout.plane);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (columns[r].own && remembering)
                Mechanisms::prefetch_mechanism(law.memory, next + static_cast<place_t>(r * layout.pitch));
#endif
        shared.full[turn % STAGES].wait((turn / STAGES) & 1);
        if (turn >= REACH) shared.written[turn % REACH].wait((turn / REACH - 1) & 1);
        const Slot& slot = shared.slots[turn % STAGES];
        // The turn counter continues from tile to tile, so that no warp overwrites values that another still reads.
        const int kept = turn % PLANES_KEPT, below = (turn - REACH) % PLANES_KEPT, history = turn % REACH;
        const bool computing = p >= 0 && p < layout.planes, writing = p >= tile.z && p < tile.z_end;
        real new_vx[ROWS], new_vy[ROWS], new_vz[ROWS], old_xz[ROWS], old_yz[ROWS], old_zz[ROWS];
        Factors factors;
        if (EQUAL) factors = materials[0].climb(slot, 0, 0, density_scale, twice);

        // ---- velocities of plane p
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            PassColumn& own = columns[r];
            const int row = at.row + r, x = at.column + MARGIN - REACH;
            const real* xz = &slot.sxz[row][x];
            const real* yz = &slot.syz[row + REACH][x];
            const real* xy = &slot.sxy[row + REACH][x];
            old_zz[r] = own.szz.value[0];
            own.sxz.push(*xz), own.syz.push(*yz), own.szz.push(slot.szz[row][x]);
            old_xz[r] = own.sxz.value[0], old_yz[r] = own.syz.value[0];
            const real force_x = forward(c.x, &slot.sxx[row][x], 1) + backward(c.y, xy, WIDE);
            const real force_y = backward(c.x, xy, 1) + forward(c.y, &slot.syy[row + REACH - 1][x], WIDE);
            const real force_z = own.force_z.exchange(backward(c.x, xz, 1) + backward(c.y, yz, WIDE));
            if (!EQUAL)
                factors = materials[r].climb(slot, row, at.column + MATERIAL_MARGIN - REACH, density_scale, twice);
            new_vx[r] = slot.vx[row][x], new_vy[r] = slot.vy[row][x], new_vz[r] = slot.vz[row][x];
            if (own.inside && computing) {
                new_vx[r] += factors.x * (force_x + own.sxz.derivative(c.z));
                new_vy[r] += factors.y * (force_y + own.syz.derivative(c.z));
                new_vz[r] += factors.z * (force_z + own.szz.derivative(c.z));
            }
            shared.velocity[kept][0][row][at.column] = new_vx[r];
            shared.velocity[kept][1][row][at.column] = new_vy[r];
            shared.velocity[kept][2][row][at.column] = new_vz[r];
            if (own.own && writing) {
                const place_t q = place + static_cast<place_t>(r * layout.pitch - VELOCITY_LAG * layout.plane);
                vx[q] = new_vx[r], vy[q] = new_vy[r], vz[q] = new_vz[r];
            }
        }

        // ---- stresses of plane m
        if (any) {
            Moduli moduli;
            if (EQUAL) moduli = materials[0].law.climb(slot.law, 0, 0, law);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                PassColumn& own = columns[r];
                const real z_vz = own.vz.derivative(c.z);
                own.vx.push(new_vx[r]), own.vy.push(new_vy[r]), own.vz.push(new_vz[r]);
                if (!own.own) continue;
                const int row = at.row + r, y = row - REACH, x = at.column - REACH, wide = at.column + MARGIN - REACH;
                real* waiting = &shared.stress[history][0][y][x];
                const real old_xx = waiting[0], old_yy = waiting[OUT_X * OUT_Y], old_xy = waiting[2 * OUT_X * OUT_Y];
                waiting[0] = slot.sxx[row][wide];
                waiting[OUT_X * OUT_Y] = slot.syy[row + REACH - 1][wide];
                waiting[2 * OUT_X * OUT_Y] = slot.sxy[row + REACH][wide];
                if (!EQUAL) moduli = materials[r].law.climb(slot.law, y, x, law);
                if (m >= tile.z) {
                    const real* u = &shared.velocity[below][0][row][at.column];
                    const real* v = &shared.velocity[below][1][row][at.column];
                    const real* w = &shared.velocity[below][2][row][at.column];
                    const place_t q = place + static_cast<place_t>(r * layout.pitch - STRESS_LAG * layout.plane);
                    real new_xx = old_xx, new_yy = old_yy, new_zz = old_zz[r];
                    real new_xy = old_xy, new_xz = old_xz[r], new_yz = old_yz[r];
                    const real shear_xy = forward(c.y, u, BROAD) + forward(c.x, v, 1);
                    const real shear_xz = own.vx.derivative(c.z) + forward(c.x, w, 1);
                    const real shear_yz = own.vy.derivative(c.z) + forward(c.y, w, BROAD);
                    MemoryPoint memory;
#if MEMORIES
                    memory.recall(shared.memory, q, layout.node(i, j + r, m), y, x);
#endif
                    memory.advance_stress(
                        moduli, law, ratio, backward(c.x, u, 1), backward(c.y, v, BROAD), z_vz, shear_xy, shear_xz,
                        shear_yz, new_xx, new_yy, new_zz, new_xy, new_xz, new_yz);
                    sxx[q] = new_xx, syy[q] = new_yy, szz[q] = new_zz;
                    sxy[q] = new_xy, sxz[q] = new_xz, syz[q] = new_yz;
                    memory.store(law);
                }
            }
        }
#if MEMORIES
#pragma unroll
        for (int r = 0; r < ROWS; r++)  // after all rows: a row would wait for the copies of the one before it
            if (columns[r].own && remembering)
                shared.memory.start(
                    law.memory, next + static_cast<place_t>(r * layout.pitch), at.row + r - REACH, at.column - REACH);
#endif
        __syncwarp();
        if (threadIdx.x % 32 == 0) shared.written[turn % REACH].arrive(), shared.empty[turn % STAGES].arrive();
    }
}

// Update v += dt / rho div sigma, then sigma += dt C : e with the new v and the law C, from the arrays of the maps into
// the other arrays. reached[wave][plane] counts the blocks that have finished a plane; zero before the launch.
extern "C" __global__ void __launch_bounds__(32 * (WORKERS + 1), 1)
one_pass(
    const __grid_constant__ Maps maps, const Tile* tiles, const __grid_constant__ Layout layout,
    const __grid_constant__ Coefficients coefficients, const __grid_constant__ Scale density_scale,
    const __grid_constant__ Law law, real* vx, real* vy, real* vz, real* sxx, real* syy, real* szz, real* sxy, real* sxz, real* syz, real ratio, unsigned* reached, int tile_count,
    int planes_counted)
{
    Shared& shared = *dynamic_shared<Shared>();
    if (threadIdx.x == 0) {
        for (int n = 0; n < STAGES; n++) shared.full[n].create(1), shared.empty[n].create(WORKERS);
        for (int n = 0; n < REACH; n++) shared.written[n].create(WORKERS);
        publish_barriers();
    }
    __syncthreads();
    unsigned turn = 0;
    for (int number = blockIdx.x, wave = 0; number < tile_count; number += gridDim.x, wave++) {
        const Tile tile = tiles[number];
        if (threadIdx.x < 32 * WORKERS) {
            march(shared, tile, layout, coefficients, turn, vx, vy, vz, sxx, syy, szz, sxy, sxz, syz, density_scale, law, ratio);
        } else if (threadIdx.x == 32 * WORKERS) {
            const unsigned blocks = min(static_cast<int>(gridDim.x), tile_count - wave * static_cast<int>(gridDim.x));
            feed(shared, maps, tile, turn, reached + wave * planes_counted, planes_counted, blocks);
        }
    }
}

// Reset before a pass.
extern "C" __global__ void clear_counts(unsigned* reached, int count)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) reached[n] = 0;
}
