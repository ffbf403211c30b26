"""The count of rows in bins in CUDA C: one read of the rows.

Near the centre each bin has a counter for every lane of a warp, so that the lanes of a warp never wait for each other,
however the rows lie. A counter is three 32-bit numbers: the sum of places without what does not fit into 32 bits; the
sum of squares; the number of rows, and in the upper half how often the first one passed 2³². All bins have four numbers
for rows that are not near: both sums without what does not fit, the number of rows, and how often each sum passed 2³².
Each warp keeps such rows until there is one for each of its lanes. All is added to the tallies in global memory before
it can overflow.
"""

from __future__ import annotations

#: Threads of a block, and vectors of 16 bytes that each loads together.
THREADS, LOADS = 1024, 4
#: Bytes of shared memory for a bin near the centre, for any bin, and for the rows that the warps keep.
NEAR_BYTES, BIN_BYTES, KEPT_BYTES = 3 * 4 * 32, 4 * 4, THREADS // 32 * 64 * 8
#: No more bins on either side have a counter for every lane: three doublings of 64 bins, 7 units.
MOST_NEAR = 192

SOURCE = r"""
typedef unsigned long long Long;

#define LANES 32
#define HALF (NUMBER / 2)
#define ALL 0xffffffffu
// Rows of a vector, and rows that a thread loads at once.
#define WIDTH (16 / (int) sizeof(Row))
#define ROWS (LOADS * WIDTH)
// After so many turns the counters are emptied: 32 warps share one, which counts to 65535.
#define TURNS (2047 / ROWS)
// Until then at most 2^21 rows come to a bin: their squares pass 2^32 at most 31 times, their places 2^21 times.
#define SQUARES 26

union Vector { uint4 loaded; Row rows[WIDTH]; };

struct Shared {
    unsigned near[2 * NEAR + 2][3][LANES];  // the last two are for rows that are not near, and nobody reads them
    unsigned all[4][NUMBER];
    Long kept[THREADS / LANES][2 * LANES];
};

struct Grid { double centre, unit; unsigned first; };

struct Key { unsigned bin, place, negative; };

// The bin of a row, from the centre outwards, and its place there. The unit is a power of two, so that its own digits
// are 0, and it shows in the exponent alone.
__device__ __forceinline__ Key key_of(double row, const Grid &grid) {
    const double y = row - grid.centre;
    const long long bits = __double_as_longlong(fabs(y) + grid.unit);
    const unsigned high = (unsigned) (bits >> 32), low = (unsigned) bits;
    return {(high >> SHIFT) - grid.first, __funnelshift_r(low, high, SHIFT), y < 0.0};
}

__device__ __forceinline__ unsigned square_of(unsigned place) {
    return (place >> 24) * (place >> 24);
}

__device__ __forceinline__ unsigned index_of(unsigned bin, unsigned negative) {
    return negative ? HALF - 1 - bin : HALF + bin;
}

// The index of a bin in the upper half, the place in the lower.
__device__ __forceinline__ Long packed(Key key) {
    if (key.bin >= HALF) { key.bin = HALF - 1; key.place = ALL; }
    return (Long) index_of(key.bin, key.negative) << 32 | key.place;
}

__device__ __forceinline__ void add_one(Long row, Shared &shared) {
    unsigned *at = shared.all[0] + (unsigned) (row >> 32);
    const unsigned place = (unsigned) row, square = square_of(place);
    const unsigned place_before = atomicAdd(at, place), square_before = atomicAdd(at + NUMBER, square);
    atomicAdd(at + 2 * NUMBER, 1u);
    unsigned passed = place_before + place < place_before;
    passed += (unsigned) (square_before + square < square_before) << SQUARES;
    if (passed) atomicAdd(at + 3 * NUMBER, passed);
}

// Keep the rows of a warp that are not near; as soon as there are enough, add one for each lane.
__device__ __forceinline__ void keep(const Key &key, unsigned &n_kept, Shared &shared) {
    const unsigned which = __ballot_sync(ALL, key.bin >= NEAR), lane = threadIdx.x % LANES;
    if (!which) return;
    Long *kept = shared.kept[threadIdx.x / LANES];
    if (key.bin >= NEAR) kept[n_kept + __popc(which & ((1u << lane) - 1))] = packed(key);
    n_kept += __popc(which);
    __syncwarp();
    if (n_kept >= LANES) {
        n_kept -= LANES;
        add_one(kept[n_kept + lane], shared);
        __syncwarp();
    }
}

__device__ __forceinline__ void add(const Row *rows, const Grid &grid, unsigned &n_kept, Shared &shared) {
    Key keys[WIDTH];
    unsigned *counters[WIDTH], before[WIDTH], farthest = 0;
    unsigned *own = &shared.near[0][0][threadIdx.x % LANES];
    #pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        keys[i] = key_of((double) rows[i], grid);
        farthest = max(farthest, keys[i].bin);
        counters[i] = own + 3 * LANES * (2 * min(keys[i].bin, (unsigned) NEAR) + keys[i].negative);
        before[i] = atomicAdd(counters[i], keys[i].place);
        atomicAdd(counters[i] + LANES, square_of(keys[i].place));
    }
    #pragma unroll
    for (int i = 0; i < WIDTH; i++)
        atomicAdd(counters[i] + 2 * LANES, before[i] + keys[i].place < before[i] ? 0x10001u : 1u);
    if (__any_sync(ALL, farthest >= NEAR)) {
        #pragma unroll
        for (int i = 0; i < WIDTH; i++) keep(keys[i], n_kept, shared);
    }
}

__device__ __forceinline__ void add_up(Long *tallies, unsigned index, Long count, Long place, Long square) {
    atomicAdd(tallies + index, count);
    atomicAdd(tallies + NUMBER + index, place);
    atomicAdd(tallies + 2 * NUMBER + index, square);
}

// Add all counters to the tallies, and set them to 0.
__device__ void empty(Shared &shared, Long *tallies) {
    const unsigned lane = threadIdx.x % LANES;
    __syncthreads();
    for (unsigned bin = threadIdx.x / LANES; bin < 2 * NEAR; bin += THREADS / LANES) {
        unsigned *own = &shared.near[bin][0][lane];
        const unsigned both = own[2 * LANES];
        if (!__any_sync(ALL, both)) continue;
        Long count = both & 0xffff, place = own[0] + ((Long) (both >> 16) << 32), square = own[LANES];
        own[0] = own[LANES] = own[2 * LANES] = 0;
        for (int step = LANES / 2; step; step /= 2) {
            count += __shfl_down_sync(ALL, count, step);
            place += __shfl_down_sync(ALL, place, step);
            square += __shfl_down_sync(ALL, square, step);
        }
        if (!lane) add_up(tallies, index_of(bin / 2, bin % 2), count, place, square);
    }
    for (unsigned index = threadIdx.x; index < NUMBER; index += THREADS) {
        unsigned *at = shared.all[0] + index;
        const unsigned count = at[2 * NUMBER], passed = at[3 * NUMBER];
        if (!count) continue;
        const Long place = at[0] + ((Long) (passed & ((1u << SQUARES) - 1)) << 32);
        add_up(tallies, index, count, place, at[NUMBER] + ((Long) (passed >> SQUARES) << 32));
        at[0] = at[NUMBER] = at[2 * NUMBER] = at[3 * NUMBER] = 0;
    }
    __syncthreads();
}

// Count rows of the column blockIdx.x. Rows lie `step` numbers apart, columns `stride`; `grids` has centre and unit of
// each column, `tallies` three lines of numbers.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
count(const Row *table, long long n_rows, long long step, long long stride, const double *grids, Long *tallies) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    for (unsigned i = threadIdx.x; i < sizeof(Shared) / 4; i += THREADS) reinterpret_cast<unsigned *>(memory)[i] = 0;
    __syncthreads();
    const Row *rows = table + blockIdx.x * stride;
    const double unit = grids[2 * blockIdx.x + 1];
    const Grid grid = {grids[2 * blockIdx.x], unit, (unsigned) (__double_as_longlong(unit) >> 32) >> SHIFT};
    tallies += 3 * (long long) NUMBER * blockIdx.x;
    // Rows before the first that lies at a multiple of 16 bytes, and behind the last whole tile, come one by one.
    const long long head = step > 1 ? 0 : min(n_rows, (long long) ((16 - (size_t) rows % 16) % 16 / sizeof(Row)));
    const long long n_tiles = (n_rows - head) / (THREADS * ROWS), tail = head + n_tiles * (THREADS * ROWS);
    const uint4 *vectors = reinterpret_cast<const uint4 *>(rows + head);
    unsigned n_kept = 0;
    int turns = 0;
    for (long long at = blockIdx.y; at < n_tiles; at += gridDim.y) {
        if (++turns > TURNS) { empty(shared, tallies); turns = 1; }
        Vector loaded[LOADS];
        if (step > 1) {
            const Row *own = rows + (at * THREADS * ROWS + threadIdx.x) * step;
            #pragma unroll
            for (int i = 0; i < ROWS; i++) loaded[i / WIDTH].rows[i % WIDTH] = own[i * THREADS * step];
        } else {
            #pragma unroll
            for (int i = 0; i < LOADS; i++)
                loaded[i].loaded = __ldcs(vectors + (at * LOADS + i) * THREADS + threadIdx.x);
        }
        #pragma unroll
        for (int i = 0; i < LOADS; i++) add(loaded[i].rows, grid, n_kept, shared);
    }
    empty(shared, tallies);
    if (threadIdx.x % LANES < n_kept) add_one(shared.kept[threadIdx.x / LANES][threadIdx.x % LANES], shared);
    if (blockIdx.y == n_tiles % gridDim.y) {
        if (threadIdx.x < head) add_one(packed(key_of((double) rows[threadIdx.x], grid)), shared);
        for (long long at = tail + threadIdx.x; at < n_rows; at += THREADS)
            add_one(packed(key_of((double) rows[at * step], grid)), shared);
    }
    empty(shared, tallies);
}
"""

#: Side of the square tiles, and threads of a block, that turn a table.
SIDE, TURNING = 32, 256

#: Writes the columns of a table one after the other: rows of it lie `step` numbers apart, columns `stride`.
TURN = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
turn(const Row *table, long long n_rows, long long n_columns, long long step, long long stride, Row *turned) {
    __shared__ Row tile[SIDE][SIDE + 1];
    const long long lane = threadIdx.x % SIDE, column = (long long) blockIdx.y * SIDE;
    for (long long row = (long long) blockIdx.x * SIDE; row < n_rows; row += (long long) gridDim.x * SIDE) {
        #pragma unroll
        for (int i = threadIdx.x / SIDE; i < SIDE; i += THREADS / SIDE)
            if (row + i < n_rows && column + lane < n_columns)
                tile[i][lane] = table[(row + i) * step + (column + lane) * stride];
        __syncthreads();
        #pragma unroll
        for (int i = threadIdx.x / SIDE; i < SIDE; i += THREADS / SIDE)
            if (row + lane < n_rows && column + i < n_columns)
                turned[(column + i) * n_rows + row + lane] = tile[lane][i];
        __syncthreads();
    }
}
"""
