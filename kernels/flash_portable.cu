// Attention, forward: O = softmax(Q · Kᵀ · scale + mask) · V and the rows' log-sum-exp, scores never in memory.
// For compute capability 8.0 and newer: mma.sync, ldmatrix, cp.async.
//
// Who does what. A block takes ROWS = 16 · M_TILES · WARPS queries of one head, each warp 16 · M_TILES of them, and walks
// over the keys in tiles of KEYS, from the last one it may see back to key 0. Q stays in registers, O too; K and V pass
// through shared memory, two stages each, fetched by cp.async while the stage before is computed on.
//
// Padding. None. A head_dim that is not a multiple of 16 ends Q · Kᵀ with one k8 product, and P · V has head_dim / 8
// column tiles, whatever their number. Rows in shared memory are an odd number of 16-byte chunks apart, so that the
// eight rows ldmatrix reads at once lie in different banks, without a swizzle.
//
// Softmax, with one idea. The usual online softmax waits for the whole row of a tile before the first exponential: it
// needs the maximum. Any reference m is right, though, as long as exp2(score - m) neither overflows nor vanishes, and
// after its first tile a row has a good one. So only the first tile is done the careful way (`with_maximum`). The others
// take m as it is: as soon as 16 keys' scores are there, they become probabilities, while the tensor cores go on with
// the next 16 and with P · V of the tile before. No maximum, no rescaling of O, no dependence between the two. If the
// sum of a row's probabilities ever exceeds `SUM_LIMIT` in a lane, the tile is done again, carefully, from K, which is
// still there; nothing is lost, because P · V of a tile comes after its check.
//
// Masks. A warp's rows and KEYS are aligned to each other, so that exactly the first tile a warp computes has keys that
// some of its rows must not see, be it for causality or for the end of the sequence: the careful way alone knows masks.
// Tiles in which all of a warp's rows see nothing are skipped by that warp.
//
// Floors, on an H200's SM and for a score (one query, one key): tensor cores by mma.sync about 2,540 FLOP/clk, so
// 4 · head_dim / 2540 clk (.10 at 64); exp2 1/16 clk; shared memory 4 · head_dim bytes for 16 · M_TILES rows, so
// 4 · head_dim / (16 · M_TILES) / 128 clk (.0625 at 64 and M_TILES 2, .125 at 1). All three can overlap.
//
// Order of blocks. Long tiles first (the last ones of a causal head), so that the grid's end is short ones; `group` heads
// at a time, few enough that their K and V stay in L2.

#include "mma.cuh"
#include "early_launch.cuh"

// HEAD_DIM a multiple of 8; KEYS a multiple of 16 · M_TILES; WARPS, M_TILES, BLOCKS_PER_SM as tuned by the host.
#define ROWS (16 * M_TILES * WARPS)
#define THREADS (32 * WARPS)
#define SLICES (KEYS / 16)
#define CHUNKS (HEAD_DIM / 8)
#define ROW_BYTES (16 * (CHUNKS | 1))
#define K_STEPS (HEAD_DIM / 16)
#define K_TAIL (HEAD_DIM % 16 != 0)
#define KEEP_SCORES (HEAD_DIM <= 72)
#define SUM_LIMIT 4096.0f
#define MINUS_INFINITY __int_as_float(0xff800000)

// A tensor [batch, head, row, HEAD_DIM]; the strides are bytes, the last dimension is dense.
struct Heads {
    char* data;
    long long batch, head, row;
};

struct Problem {
    Heads q, k, v, o;
    float* lse;         // [batch, head, seq_len], natural logarithm; null if not wanted
    int heads;          // of one batch element
    int batch_heads;    // in all
    int seq_len;
    int row_tiles;      // of one head: seq_len / ROWS, rounded up
    int group;          // heads whose blocks are neighbours
    int causal;
    float scale;        // times log2(e): scores are exponents of two here
};

typedef float Accumulator[4];
typedef unsigned Fragment[4];

// One tile row of shared memory per row of the tensor: `rows` of them copied, those from `present` on zeroed. Each thread
// copies WIDTH-wide boxes, so that neighbours copy neighbouring chunks.
template <int COUNT, int WIDTH, int FIRST>
__device__ __forceinline__ void copy_box(unsigned to, const char* from, long long row_stride, int present)
{
    constexpr int STEP = THREADS / WIDTH;
    const int first = threadIdx.x / WIDTH, chunk = 16 * (FIRST + threadIdx.x % WIDTH);
#pragma unroll
    for (int offset = 0; offset < COUNT; offset += STEP) {
        const int row = first + offset;
        if (COUNT % STEP == 0 || row < COUNT)
            copy_16_async(to + row * ROW_BYTES + chunk, from + row * row_stride + chunk, row < present);
    }
}

template <int COUNT>
__device__ __forceinline__ void copy_rows(unsigned to, const char* from, long long row_stride, int present)
{
    if constexpr (CHUNKS >= 8)
        copy_box<COUNT, 8, 0>(to, from, row_stride, present);
    if constexpr (CHUNKS >= 16)
        copy_box<COUNT, 8, 8>(to, from, row_stride, present);
    if constexpr ((CHUNKS & 4) != 0)
        copy_box<COUNT, 4, CHUNKS & ~7>(to, from, row_stride, present);
    if constexpr ((CHUNKS & 2) != 0)
        copy_box<COUNT, 2, CHUNKS & ~3>(to, from, row_stride, present);
    if constexpr ((CHUNKS & 1) != 0)
        copy_box<COUNT, 1, CHUNKS & ~1>(to, from, row_stride, present);
}

// A warp's lane, and where it points ldmatrix to: into rows that are the matrix's rows or its depth, one 8 × 8 matrix after
// the other down the rows first, or along the columns first.
struct Lane {
    int g, t;
    unsigned down, along;
    __device__ __forceinline__ Lane()
    {
        const int lane = threadIdx.x % 32;
        g = lane / 4, t = lane % 4;
        down = (lane % 16) * ROW_BYTES + (lane / 16) * 16;
        along = (lane / 16 * 8 + lane % 8) * ROW_BYTES + (lane / 8 % 2) * 16;
    }
};

struct Warp {
    Fragment q[M_TILES][K_STEPS + K_TAIL];
    Fragment p[M_TILES][SLICES];
    Accumulator o[M_TILES][CHUNKS];
    float maximum[M_TILES][2];      // of each row, or what serves as such, times scale
    float sum[M_TILES][2];          // of this lane's part of each row

    __device__ __forceinline__ void load_q(unsigned rows, const Lane& lane)
    {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            const unsigned from = rows + 16 * m * ROW_BYTES + lane.down;
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
                ldmatrix_4(q[m][step], from + 32 * step);
            if constexpr (K_TAIL)
                ldmatrix_2(q[m][K_STEPS], from + 32 * K_STEPS);
        }
    }

    // s = Q · Kᵀ for the 16 keys at `keys`: [m][j] are the 16 rows m and the keys from 8 j on.
    __device__ __forceinline__ void scores(Accumulator (&s)[M_TILES][2], unsigned keys, const Lane& lane) const
    {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[m][0][i] = s[m][1][i] = 0.0f;
        Fragment k;
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            ldmatrix_4(k, keys + lane.along + 32 * step);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_k16(s[m][0], q[m][step], k[0], k[1]);
                mma_k16(s[m][1], q[m][step], k[2], k[3]);
            }
        }
        if constexpr (K_TAIL) {
            ldmatrix_2(k, keys + lane.down + 32 * K_STEPS);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_k8(s[m][0], q[m][K_STEPS], k[0]);
                mma_k8(s[m][1], q[m][K_STEPS], k[1]);
            }
        }
    }

    // p[·][slice] = exp2(s · scale - maximum), and what that adds to the rows' sums.
    __device__ __forceinline__ void probabilities(
        const Accumulator (&s)[M_TILES][2], int slice, float scale, float (&added)[M_TILES][2])
    {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float low = exp2_fast(s[m][j][2 * half] * scale - maximum[m][half]);
                    const float high = exp2_fast(s[m][j][2 * half + 1] * scale - maximum[m][half]);
                    added[m][half] += low + high;
                    p[m][slice][2 * j + half] = pack(low, high);
                }
    }

    // O += P · V for the 16 keys at `values`.
    __device__ __forceinline__ void accumulate(unsigned values, int slice, const Lane& lane)
    {
        Fragment v;
#pragma unroll
        for (int column = 0; column + 1 < CHUNKS; column += 2) {
            ldmatrix_4_transposed(v, values + lane.down + 16 * column);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_k16(o[m][column], p[m][slice], v[0], v[1]);
                mma_k16(o[m][column + 1], p[m][slice], v[2], v[3]);
            }
        }
        if constexpr (CHUNKS % 2 != 0) {
            ldmatrix_2_transposed(v, values + lane.down + 16 * (CHUNKS - 1));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m)
                mma_k16(o[m][CHUNKS - 1], p[m][slice], v[0], v[1]);
        }
    }

    // Makes the row's maximum at least as high as any of its four lanes' `score`; O and the sum follow.
    __device__ __forceinline__ void raise(int m, int half, float score)
    {
        score = fmaxf(score, __shfl_xor_sync(~0u, score, 1));
        score = fmaxf(score, __shfl_xor_sync(~0u, score, 2));
        const float raised = fmaxf(maximum[m][half], score);
        const float shrink = exp2_fast(maximum[m][half] - raised);
        maximum[m][half] = raised;
        sum[m][half] *= shrink;
#pragma unroll
        for (int column = 0; column < CHUNKS; ++column) {
            o[m][column][2 * half] *= shrink;
            o[m][column][2 * half + 1] *= shrink;
        }
    }

    // P of a tile the careful way: mask, maximum, and O and the sums rescaled to it. `visible[m][half]` is the last key
    // that row may see, counted from the tile's first.
    __device__ __forceinline__ void with_maximum(
        unsigned keys, const int (&visible)[M_TILES][2], float scale, const Lane& lane)
    {
        Accumulator s[KEEP_SCORES ? SLICES : 1][M_TILES][2];
        const auto masked_scores = [&](int slice) -> Accumulator(&)[M_TILES][2] {
            auto& of_slice = s[KEEP_SCORES ? slice : 0];
            scores(of_slice, keys + 16 * slice * ROW_BYTES, lane);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m)
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (16 * slice + 8 * j + 2 * lane.t + i % 2 > visible[m][i / 2])
                            of_slice[m][j][i] = MINUS_INFINITY;
            return of_slice;
        };
        float highest[M_TILES][2];
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice) {
            const auto& of_slice = masked_scores(slice);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float one = fmaxf(of_slice[m][0][2 * half], of_slice[m][0][2 * half + 1]);
                    const float other = fmaxf(of_slice[m][1][2 * half], of_slice[m][1][2 * half + 1]);
                    highest[m][half] = fmaxf(slice == 0 ? MINUS_INFINITY : highest[m][half], fmaxf(one, other));
                }
        }
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                raise(m, half, highest[m][half] * scale);
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
            probabilities(KEEP_SCORES ? s[KEEP_SCORES ? slice : 0] : masked_scores(slice), slice, scale, sum);
    }

    // P of a tile with the maximum as it is, and meanwhile O += P · V of the tile before. False if a sum grew so much
    // that P of this tile is not to be used.
    __device__ __forceinline__ bool streaming(unsigned keys, unsigned values, float scale, const Lane& lane)
    {
        float added[M_TILES][2] = {};
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice) {
            Accumulator s[M_TILES][2];
            scores(s, keys + 16 * slice * ROW_BYTES, lane);
            accumulate(values + 16 * slice * ROW_BYTES, slice, lane);
            probabilities(s, slice, scale, added);
        }
        bool small = true;
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            small &= added[m][0] <= SUM_LIMIT && added[m][1] <= SUM_LIMIT;    // false for NaN too
        if (!__all_sync(~0u, small))
            return false;
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            sum[m][0] += added[m][0];
            sum[m][1] += added[m][1];
        }
        return true;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) flash_portable(const Problem problem)
{
    // K's two stages, V's two; Q lies behind K's first until it is in registers, and O at the end.
    extern __shared__ uint4 shared[];
    const unsigned keys = shared_address(shared), staged = keys + KEYS * ROW_BYTES, values = staged + KEYS * ROW_BYTES;
    constexpr unsigned STAGE = KEYS * ROW_BYTES;

    const int before = blockIdx.x / (problem.group * problem.row_tiles) * problem.group;
    const int among = min(problem.group, problem.batch_heads - before);
    const int rest = blockIdx.x - before * problem.row_tiles;
    const int head = before + rest % among, row_tile = problem.row_tiles - 1 - rest / among;
    const int batch = head / problem.heads, of_batch = head % problem.heads;

    const int seq_len = problem.seq_len, block_row = row_tile * ROWS;
    const int warp = threadIdx.x / 32, warp_row = block_row + 16 * M_TILES * warp;
    const auto last_key = [&](int row) { return problem.causal ? min(row, seq_len - 1) : seq_len - 1; };
    const int last_tile = last_key(block_row + ROWS - 1) / KEYS;
    const int first_tile = warp_row < seq_len ? last_key(warp_row + 16 * M_TILES - 1) / KEYS : -1;

    const char* k = problem.k.data + batch * problem.k.batch + of_batch * problem.k.head;
    const char* v = problem.v.data + batch * problem.v.batch + of_batch * problem.v.head;
    const char* q = problem.q.data + batch * problem.q.batch + of_batch * problem.q.head + block_row * problem.q.row;

    await_kernels_before();
    copy_rows<ROWS>(staged, q, problem.q.row, seq_len - block_row);
    commit_copies();
    copy_rows<KEYS>(keys, k + (long long)last_tile * KEYS * problem.k.row, problem.k.row, seq_len - last_tile * KEYS);
    commit_copies();

    const Lane lane;
    Warp state = {};
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
        state.maximum[m][0] = state.maximum[m][1] = MINUS_INFINITY;
    wait_for_copies<1>();
    __syncthreads();
    state.load_q(staged + 16 * M_TILES * warp * ROW_BYTES, lane);

    unsigned stage = 0;
    for (int tile = last_tile; tile >= 0; --tile, stage ^= STAGE) {
        // K of this tile and V of the one before it are there, and nobody reads the two other stages any more.
        wait_for_copies<0>();
        __syncthreads();
        if (tile > 0)
            copy_rows<KEYS>(keys + (stage ^ STAGE), k + (long long)(tile - 1) * KEYS * problem.k.row, problem.k.row, KEYS);
        copy_rows<KEYS>(values + stage, v + (long long)tile * KEYS * problem.v.row, problem.v.row, seq_len - tile * KEYS);
        commit_copies();
        if (tile > first_tile)
            continue;
        if (tile < first_tile && state.streaming(keys + stage, values + (stage ^ STAGE), problem.scale, lane))
            continue;
        int visible[M_TILES][2];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                visible[m][half] = last_key(warp_row + 16 * m + 8 * half + lane.g) - tile * KEYS;
        state.with_maximum(keys + stage, visible, problem.scale, lane);
    }
    let_next_kernel_begin();    // not sooner: its blocks would crowd on the SMs that are done first
    wait_for_copies<0>();
    __syncthreads();
    if (first_tile >= 0)
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
            state.accumulate(values + (stage ^ STAGE) + 16 * slice * ROW_BYTES, slice, lane);
    __syncthreads();
    if (first_tile < 0)
        return;

    // O / sum, through shared memory, so that neighbouring lanes store neighbouring 16 bytes.
    char* const out = (char*)shared + KEYS * ROW_BYTES + 16 * M_TILES * warp * ROW_BYTES;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = state.sum[m][half];
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            const float inverse = 1.0f / sum;
            const int row = 16 * m + 8 * half + lane.g;
#pragma unroll
            for (int column = 0; column < CHUNKS; ++column)
                *(unsigned*)(out + row * ROW_BYTES + 16 * column + 4 * lane.t) =
                    pack(state.o[m][column][2 * half] * inverse, state.o[m][column][2 * half + 1] * inverse);
            if (problem.lse != nullptr && lane.t == 0 && warp_row + row < seq_len)
                problem.lse[(long long)head * seq_len + warp_row + row] =
                    (state.maximum[m][half] + log2f(sum)) * 0.6931471805599453f;
        }
    __syncwarp();
    char* const o = problem.o.data + batch * problem.o.batch + of_batch * problem.o.head + warp_row * problem.o.row;
    for (int i = threadIdx.x % 32; i < 16 * M_TILES * CHUNKS; i += 32) {
        const int row = i / CHUNKS, chunk = 16 * (i % CHUNKS);
        if (warp_row + row < seq_len)
            *(uint4*)(o + row * problem.o.row + chunk) = *(const uint4*)(out + row * ROW_BYTES + chunk);
    }
}
