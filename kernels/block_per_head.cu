// Attention as the lesson tells it: one thread block per (batch, head), its threads sharing that head's tile.
//
// Who does what. Block (b, h) computes all seq_len queries of its head, 32 at a time; each of its 8 warps has 4 of them.
// It walks over the keys in tiles of 32, which all threads fetch into shared memory as float32. For each of its queries a
// warp then does an online softmax: lane j scores key j of the tile (a dot product over HEAD_DIM), the warp agrees on the
// maximum and the sum by shuffles, and each lane adds up the output's columns lane, lane + 32, … over the tile's keys.
//
// What the numbers show. batch · n_head blocks are all there is: 12 for 132 SMs at batch 1, so most of a large GPU idles,
// and causal rows are not shared out either. The dot products are float32 on the ordinary cores: at most 128 multiply-adds
// a clock and SM where tensor cores do 1024, and every one of them reads shared memory. That is the point: it is right,
// short, and shows what the grid and the tensor cores are worth.
//
// Layout. K's rows in shared memory are HEAD_DIM + 1 floats apart, so that 32 lanes reading one column of 32 keys hit 32
// banks; V is read along its rows, and needs no such gap. All of Q, K, V, O may have any strides with a dense last axis.

// HEAD_DIM any; ELEMENT_TYPE 0 float32, 1 bf16, 2 fp16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if ELEMENT_TYPE == 1
typedef __nv_bfloat16 Element;
#elif ELEMENT_TYPE == 2
typedef __half Element;
#else
typedef float Element;
#endif

#define TILE 32
#define WARPS 8
#define QUERIES (TILE / WARPS)
#define COLUMNS ((HEAD_DIM + 31) / 32)
#define ALL_LANES 0xffffffffu

// A tensor [batch, head, row, HEAD_DIM]; the strides are bytes, the last dimension is dense.
struct Heads {
    char* data;
    long long batch, head, row;
};

// This block's head of it.
struct Rows {
    char* data;
    long long row;

    __device__ Rows(const Heads& from, int heads)
        : data(from.data + blockIdx.x / heads * from.batch + blockIdx.x % heads * from.head), row(from.row) {}

    __device__ Element* at(int r) const { return (Element*)(data + r * row); }
};

struct Problem {
    Heads q, k, v, o;
    int heads;      // of one batch element
    int seq_len;
    int causal;
    float scale;
};

// `factor` times TILE rows from `first` on, into rows `pitch` floats apart; zeros from seq_len on.
static __device__ void fetch(float* to, int pitch, const Rows& from, int first, int seq_len, float factor)
{
    for (int i = threadIdx.x; i < TILE * HEAD_DIM; i += 32 * WARPS) {
        const int row = i / HEAD_DIM, column = i % HEAD_DIM;
        const bool present = first + row < seq_len;
        to[row * pitch + column] = present ? factor * (float)from.at(first + row)[column] : 0.0f;
    }
}

static __device__ float warp_max(float x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, distance));
    return x;
}

static __device__ float warp_sum(float x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, distance);
    return x;
}

// One query's online softmax: what it has seen so far, each lane holding every 32nd column of the output.
struct Query {
    float maximum, sum, out[COLUMNS];

    __device__ void reset()
    {
        maximum = -__int_as_float(0x7f800000);
        sum = 0.0f;
        for (int c = 0; c < COLUMNS; ++c)
            out[c] = 0.0f;
    }

    // Takes in one tile: this lane's key scores `score`, and may not be seen at all where it is minus infinity.
    __device__ void add(float score, const float* values)
    {
        const int lane = threadIdx.x % 32;
        const float raised = fmaxf(maximum, warp_max(score));
        const float shrink = expf(maximum - raised), probability = expf(score - raised);
        maximum = raised;
        sum = sum * shrink + warp_sum(probability);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            out[c] *= shrink;
        for (int j = 0; j < TILE; ++j) {
            const float of_key = __shfl_sync(ALL_LANES, probability, j);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                if (lane + 32 * c < HEAD_DIM)
                    out[c] += of_key * values[j * HEAD_DIM + lane + 32 * c];
        }
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) block_per_head(const Problem problem)
{
    extern __shared__ float shared[];
    float* const queries = shared;                           // TILE × HEAD_DIM, times scale
    float* const values = queries + TILE * HEAD_DIM;         // TILE × HEAD_DIM
    float* const keys = values + TILE * HEAD_DIM;            // TILE × (HEAD_DIM + 1)
    const Rows q(problem.q, problem.heads), k(problem.k, problem.heads), v(problem.v, problem.heads), o(problem.o, problem.heads);
    const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * QUERIES;

    for (int first = 0; first < problem.seq_len; first += TILE) {
        Query state[QUERIES];
#pragma unroll
        for (int i = 0; i < QUERIES; ++i)
            state[i].reset();
        const int end = problem.causal ? min(first + TILE, problem.seq_len) : problem.seq_len;
        for (int start = 0; start < end; start += TILE) {
            __syncthreads();                                 // the tile before has been read
            if (start == 0)
                fetch(queries, HEAD_DIM, q, first, problem.seq_len, problem.scale);
            fetch(keys, HEAD_DIM + 1, k, start, problem.seq_len, 1.0f);
            fetch(values, HEAD_DIM, v, start, problem.seq_len, 1.0f);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) {
                float score = 0.0f;
                for (int c = 0; c < HEAD_DIM; ++c)
                    score += queries[(mine + i) * HEAD_DIM + c] * keys[lane * (HEAD_DIM + 1) + c];
                const int key = start + lane, query = first + mine + i;
                const bool hidden = key >= problem.seq_len || (problem.causal && key > query);
                state[i].add(hidden ? -__int_as_float(0x7f800000) : score, values);
            }
        }
#pragma unroll
        for (int i = 0; i < QUERIES; ++i)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                if (first + mine + i < problem.seq_len && lane + 32 * c < HEAD_DIM)
                    o.at(first + mine + i)[lane + 32 * c] =
                        (Element)(state[i].out[c] / state[i].sum);
    }
}
