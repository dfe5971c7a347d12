// The QKV projection into heads: Q, K and V = X · [W_Q | W_K | W_V], each written as [batch, head, seq_len, head_dim] by
// the matmul itself, so that nobody has to transpose. For compute capability 8.0 and newer: mma.sync, ldmatrix, cp.async.
//
// Who does what. A block computes ROWS rows (tokens of any sequence) by COLUMNS columns of the output, 2 × 4 warps of
// 64 × 32 each, and walks over d_model in steps of DEPTH. X and W pass through shared memory, STAGES steps of them, fetched
// by cp.async up to STAGES - 1 steps ahead; rows there are an odd number of 16-byte chunks apart, so that the eight rows
// ldmatrix reads at once lie in different banks. W lies as the caller has it, [d_model, 3 · d_model]: its fragments are
// read transposed.
//
// The layout. The tile leaves through shared memory in chunks of 8 columns. head_dim is a multiple of 8, so a chunk belongs
// to one head of one of the three; tokens that follow each other in a sequence follow each other in memory, so that the
// chunks of one head are stored as one run. That is all the transpose there is, and it moves no byte twice.
//
// Edges. Rows and columns beyond the end are fetched as zeros and not stored; d_model is a multiple of 8, and a step beyond
// its end adds zeros.
//
// Floors, on an H200: mma.sync gives about 0.62 of what wgmma does, which cuBLAS uses, so 0.62 of its speed is the
// ceiling where arithmetic limits; what a transpose costs is 4 bytes an element of the output, read and written.

#include "mma.cuh"

#define ROWS 128
#define COLUMNS 128
#define DEPTH 32
#define STAGES 4
#define THREADS 256
#define WARP_ROWS 64
#define WARP_COLUMNS 32
#define M_TILES (WARP_ROWS / 16)
#define N_TILES (WARP_COLUMNS / 8)
#define X_ROW_BYTES (2 * DEPTH + 16)
#define W_ROW_BYTES (2 * COLUMNS + 16)
#define STAGE_BYTES (ROWS * X_ROW_BYTES + DEPTH * W_ROW_BYTES)

struct Problem {
    const char* x;      // [rows, d_model], dense
    const char* w;      // [d_model, 3 · d_model], dense
    char* out;          // [3, batch, head, seq_len, head_dim], dense
    int rows;           // batch · seq_len
    int seq_len;
    int heads;
    int head_dim;
    int column_tiles;   // 3 · d_model / COLUMNS, rounded up
};

typedef float Accumulator[4];
typedef unsigned Fragment[4];

// One step of X and W into its stage; what lies beyond the matrices becomes zeros.
__device__ __forceinline__ void fetch(unsigned stage, const Problem& problem, int row, int column, int depth)
{
    const int d_model = problem.heads * problem.head_dim, width = 3 * d_model;
    constexpr int X_CHUNKS = DEPTH / 8, W_CHUNKS = COLUMNS / 8;
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * X_CHUNKS; i += THREADS) {
        const int r = i / X_CHUNKS, c = i % X_CHUNKS;
        const bool present = row + r < problem.rows && depth + 8 * c < d_model;
        copy_16_async(stage + r * X_ROW_BYTES + 16 * c,
                      problem.x + 2 * ((long long)(row + r) * d_model + depth + 8 * c), present);
    }
    const unsigned w = stage + ROWS * X_ROW_BYTES;
#pragma unroll
    for (int i = threadIdx.x; i < DEPTH * W_CHUNKS; i += THREADS) {
        const int r = i / W_CHUNKS, c = i % W_CHUNKS;
        const bool present = depth + r < d_model && column + 8 * c < width;
        copy_16_async(w + r * W_ROW_BYTES + 16 * c,
                      problem.w + 2 * ((long long)(depth + r) * width + column + 8 * c), present);
    }
}

// sums += X · W of one stage, for the warp whose rows and columns begin at these.
__device__ __forceinline__ void multiply(
    Accumulator (&sums)[M_TILES][N_TILES], unsigned stage, int warp_row, int warp_column)
{
    const int lane = threadIdx.x % 32;
    const unsigned x = stage + (warp_row + lane % 16) * X_ROW_BYTES + lane / 16 * 16;
    const unsigned w = stage + ROWS * X_ROW_BYTES + lane % 16 * W_ROW_BYTES + 2 * warp_column + lane / 16 * 16;
#pragma unroll
    for (int step = 0; step < DEPTH / 16; ++step) {
        Fragment a[M_TILES], b[N_TILES / 2];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            ldmatrix_4(a[m], x + 16 * m * X_ROW_BYTES + 32 * step);
#pragma unroll
        for (int n = 0; n < N_TILES / 2; ++n)
            ldmatrix_4_transposed(b[n], w + 16 * step * W_ROW_BYTES + 32 * n);
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int n = 0; n < N_TILES; ++n)
                mma_k16(sums[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
}

// The tile to its heads: one 16-byte chunk, 8 columns of one token, after the other.
__device__ __forceinline__ void store(const char* tile, const Problem& problem, int row, int column)
{
    constexpr int CHUNKS = COLUMNS / 8;
    const int d_model = problem.heads * problem.head_dim;
    const long long of_each = (long long)problem.rows * d_model;
    // Neighbouring threads take neighbouring chunks of a token's head, then the next token.
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        const int r = row + i / CHUNKS, c = column + 8 * (i % CHUNKS);
        if (r >= problem.rows || c >= 3 * d_model)
            continue;
        const int which = c / d_model, head = c % d_model / problem.head_dim, d = c % problem.head_dim;
        const int batch = r / problem.seq_len, token = r % problem.seq_len;
        const long long at = which * of_each +
            (((long long)batch * problem.heads + head) * problem.seq_len + token) * problem.head_dim + d;
        *(uint4*)(problem.out + 2 * at) = *(const uint4*)(tile + i / CHUNKS * W_ROW_BYTES + 16 * (i % CHUNKS));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) qkv_headmajor(const Problem problem)
{
    extern __shared__ uint4 shared[];
    const unsigned stages = shared_address(shared);
    const int row = blockIdx.x / problem.column_tiles * ROWS, column = blockIdx.x % problem.column_tiles * COLUMNS;
    const int d_model = problem.heads * problem.head_dim, steps = (d_model + DEPTH - 1) / DEPTH;
    const int warp = threadIdx.x / 32, warp_row = warp / 4 * WARP_ROWS, warp_column = warp % 4 * WARP_COLUMNS;

#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps)
            fetch(stages + step * STAGE_BYTES, problem, row, column, step * DEPTH);
        commit_copies();
    }
    Accumulator sums[M_TILES][N_TILES] = {};
    for (int step = 0; step < steps; ++step) {
        // This step is there, and nobody reads the stage before it any more: it gets the step that is furthest ahead.
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        const int ahead = step + STAGES - 1;
        if (ahead < steps)
            fetch(stages + ahead % STAGES * STAGE_BYTES, problem, row, column, ahead * DEPTH);
        commit_copies();
        multiply(sums, stages + step % STAGES * STAGE_BYTES, warp_row, warp_column);
    }
    wait_for_copies<0>();
    __syncthreads();

    char* const tile = (char*)shared;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
        for (int n = 0; n < N_TILES; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *(unsigned*)(tile + (warp_row + 16 * m + 8 * half + g) * W_ROW_BYTES + 2 * (warp_column + 8 * n + 2 * t)) =
                    pack(sums[m][n][2 * half], sums[m][n][2 * half + 1]);
    __syncthreads();
    store(tile, problem, row, column);
}
