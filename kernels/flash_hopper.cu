// Attention, forward, for Hopper (sm_90a): O = softmax(Q · Kᵀ · scale + mask) · V and the rows' log-sum-exp.
//
// The plot is flash_portable.cu's, and so is its idea (read that first): only a row's first tile looks for a maximum, the
// others stream through the exponentials with the reference they have, and a tile whose sums grow too much is done again.
// What differs is who does what, because Hopper's copies and products run by themselves.
//
// Who does what. One block stays on each SM and takes tile after tile of 64 · WARPGROUPS queries (a persistent grid). One
// thread of its first warpgroup, the producer, does nothing but ask TMA for Q, K and V; that warpgroup hands its registers
// to the others. Each of the consumers owns 64 queries. Barriers in shared memory say which stage is full and which is free.
//
// A consumer asks for the scores of a tile and for P · V of the tile before, and computes exponentials as soon as the scores
// are there, while P · V is under way: with neither a maximum to find nor an O to rescale, nothing waits for it. Meanwhile
// the other consumer's scores keep the tensor cores busy. In registers there are a tile of scores (KEYS / 2), P (KEYS / 4)
// and O (HEAD_DIM / 2).
//
// Padding. Q · Kᵀ goes in steps of 16 columns (72 as 80: TMA fills columns beyond the tensor with zeros), P · V has
// HEAD_DIM columns, whatever multiple of 8 that is. Shared memory holds boxes of 64 columns.
//
// Floors, for a score on one SM: tensor cores 4 · HEAD_DIM / 4096 clk (.0625 at 64), exp2 .0625 clk: at 64 they are equal.
//
// Order of tiles: as flash_portable's, long ones first, dealt out in turn.

#include "hopper.cuh"

// HEAD_DIM a multiple of 8 up to 128; KEYS 64 or 128; WARPGROUPS consumers a block, BLOCKS blocks on an SM; TURNS 1 if the
// consumers ask for products in turn; MULTIPLIED of eight exponentials are left to the multiply-adders.
#define CONSUMER_REGISTERS (BLOCKS == 2 ? (WARPGROUPS == 1 ? 232 : 112) : (WARPGROUPS == 3 ? 160 : 240))
#define PRODUCER_REGISTERS 24
#define NAMED_VOTE 1                        // and the barriers after it, one a consumer
#define NAMED_TURN (NAMED_VOTE + WARPGROUPS)
#define ROWS (64 * WARPGROUPS)
#define THREADS (128 * (WARPGROUPS + 1))
#define BOXES ((HEAD_DIM + BOX_COLUMNS - 1) / BOX_COLUMNS)
#define STEPS ((HEAD_DIM + 15) / 16)
#define COLUMN_TILES (HEAD_DIM / 8)
#define KEY_TILES (KEYS / 8)
#define SLICES (KEYS / 16)
#define K_STAGES 2
#define V_STAGES 2
#define KEY_BOX (KEYS * BOX_ROW_BYTES)
#define KEY_STAGE (BOXES * KEY_BOX)
#define QUERY_BOX (64 * BOX_ROW_BYTES)
#define QUERY_STAGE (BOXES * QUERY_BOX)
#define SUM_LIMIT 4096.0f
#define MINUS_INFINITY __int_as_float(0xff800000)

struct Problem {
    TensorMap q, k, v;      // [batch, head, row, HEAD_DIM]; boxes of 64 rows for q, KEYS rows for k and v
    char* out;              // the strides are bytes, the last dimension is dense
    long long out_batch, out_head, out_row;
    float* lse;             // [batch, head, seq_len], natural logarithm; null if not wanted
    int heads;              // of one batch element
    int batch_heads;        // in all
    int seq_len;
    int row_tiles;          // of one head: seq_len / ROWS, rounded up
    int group;              // heads whose tiles are neighbours
    int causal;
    float scale;            // times log2(e): scores are powers of two here
};

typedef float Scores[KEY_TILES][4];
typedef unsigned Probabilities[SLICES][4];

// Which rows of which head, and how many tiles of keys they may see, from the last one back to key 0.
struct Work {
    int batch, head, first_row, last_tile;
    __device__ __forceinline__ Work(const Problem& problem, int tile)
    {
        const int before = tile / (problem.group * problem.row_tiles) * problem.group;
        const int among = min(problem.group, problem.batch_heads - before);
        const int rest = tile - before * problem.row_tiles;
        const int of_all = before + rest % among;
        batch = of_all / problem.heads, head = of_all % problem.heads;
        first_row = (problem.row_tiles - 1 - rest / among) * ROWS;
        const int last_row = min(first_row + ROWS, problem.seq_len) - 1;
        last_tile = (problem.causal ? last_row : problem.seq_len - 1) / KEYS;
    }
};

// A ring of stages: which one is next, and the parity of the round.
template <int STAGES> struct Ring {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void next()
    {
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    }
};

// Where things lie in shared memory, as addresses.
struct Layout {
    unsigned q, k, v, q_full, q_free, k_full, k_free, v_full, v_free;
    __device__ __forceinline__ explicit Layout(unsigned base)
    {
        q = (base + 1023) / 1024 * 1024;
        k = q + WARPGROUPS * QUERY_STAGE;
        v = k + K_STAGES * KEY_STAGE;
        q_full = v + V_STAGES * KEY_STAGE;
        q_free = q_full + 8 * WARPGROUPS;
        k_full = q_free + 8 * WARPGROUPS;
        k_free = k_full + 8 * K_STAGES;
        v_full = k_free + 8 * K_STAGES;
        v_free = v_full + 8 * V_STAGES;
    }
    __device__ __forceinline__ void init_barriers() const
    {
        for (int i = 0; i < WARPGROUPS; ++i)
            barrier_init(q_full + 8 * i, 1), barrier_init(q_free + 8 * i, 4);
        for (int i = 0; i < K_STAGES; ++i)
            barrier_init(k_full + 8 * i, 1), barrier_init(k_free + 8 * i, 4 * WARPGROUPS);
        for (int i = 0; i < V_STAGES; ++i)
            barrier_init(v_full + 8 * i, 1), barrier_init(v_free + 8 * i, 4 * WARPGROUPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
};

struct Producer {
    const Problem& problem;
    const Layout& at;
    Ring<K_STAGES> keys;
    Ring<V_STAGES> values;
    int q_parity = 0;

    template <class RING>
    __device__ __forceinline__ void fetch_keys(
        const TensorMap& map, unsigned to, unsigned full, unsigned free, RING& ring, const Work& work, int tile)
    {
        barrier_wait(free + 8 * ring.stage, ring.parity ^ 1);
        barrier_expect(full + 8 * ring.stage, KEY_STAGE);
        for (int box = 0; box < BOXES; ++box)
            fetch_box(to + ring.stage * KEY_STAGE + box * KEY_BOX, map, box * BOX_COLUMNS, tile * KEYS, work.head, work.batch,
                      full + 8 * ring.stage);
        ring.next();
    }

    __device__ __forceinline__ void fetch(const Work& work)
    {
        for (int i = 0; i < WARPGROUPS; ++i) {
            barrier_wait(at.q_free + 8 * i, q_parity ^ 1);
            barrier_expect(at.q_full + 8 * i, QUERY_STAGE);
            for (int box = 0; box < BOXES; ++box)
                fetch_box(at.q + i * QUERY_STAGE + box * QUERY_BOX, problem.q, box * BOX_COLUMNS, work.first_row + 64 * i,
                          work.head, work.batch, at.q_full + 8 * i);
        }
        q_parity ^= 1;
        fetch_keys(problem.k, at.k, at.k_full, at.k_free, keys, work, work.last_tile);
        for (int tile = work.last_tile; tile >= 0; --tile) {
            if (tile > 0)
                fetch_keys(problem.k, at.k, at.k_full, at.k_free, keys, work, tile - 1);
            fetch_keys(problem.v, at.v, at.v_full, at.v_free, values, work, tile);
        }
    }
};

struct Consumer {
    const Problem& problem;
    const Layout& at;
    const int index;                // of this warpgroup among the consumers
    const int g, t, row_in_tile;    // the thread's rows are row_in_tile and row_in_tile + 8
    Ring<K_STAGES> keys;            // the tile whose scores are computed next
    Ring<V_STAGES> values;          // the tile that P belongs to
    int q_parity = 0;
    float maximum[2], sum[2];
    float o[COLUMN_TILES][4];
    Probabilities p;

    __device__ __forceinline__ Consumer(const Problem& problem, const Layout& at)
        : problem(problem), at(at), index(threadIdx.x / 128 - 1), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
          row_in_tile(64 * index + threadIdx.x % 128 / 32 * 16 + g) {}

    // Consumers ask for their products in turn, so that while one's exponentials are computed, the other's products are.
    __device__ __forceinline__ void await_turn() const
    {
        if constexpr (TURNS && WARPGROUPS > 1)
            named_wait<256>(NAMED_TURN + index);
    }

    __device__ __forceinline__ void pass_turn() const
    {
        if constexpr (TURNS && WARPGROUPS > 1)
            named_arrive<256>(NAMED_TURN + (index + 1) % WARPGROUPS);
    }

    __device__ __forceinline__ void release(unsigned barrier) const
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            barrier_arrive(barrier);
    }

    // Asks for s = Q · Kᵀ with the keys of a stage.
    __device__ __forceinline__ void ask_scores(Scores& s, int stage) const
    {
        const unsigned long long q = describe(at.q + index * QUERY_STAGE, 16), k = describe(at.k + stage * KEY_STAGE, 16);
        products_begin();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int box = step / 4, chunk = step % 4 * 2;     // a step is 32 bytes, two units of a descriptor's address
            Product<KEYS>::rows(s, q + box * (QUERY_BOX >> 4) + chunk, k + box * (KEY_BOX >> 4) + chunk, step > 0);
        }
        products_commit();
    }

    // Asks for O += P · V.
    __device__ __forceinline__ void ask_output()
    {
        const unsigned long long v = describe(at.v + values.stage * KEY_STAGE, KEY_BOX);
        products_begin();
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
            Product<HEAD_DIM>::columns(o, p[slice], v + slice * (16 * BOX_ROW_BYTES >> 4));
        products_commit();
    }

    // s = exp2(s · scale - maximum), and what that adds to the rows' sums. What is masked must become 0 exactly, which only the
    // special-function unit makes of minus infinity: `WITH_MASK` leaves all to it.
    template <bool WITH_MASK> __device__ __forceinline__ void exponentials(Scores& s, float (&added)[2]) const
    {
#pragma unroll
        for (int j = 0; j < KEY_TILES; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float power = s[j][i] * problem.scale - maximum[i / 2];
                s[j][i] = !WITH_MASK && j % 8 < MULTIPLIED ? exp2_by_multiplying(power) : exp2_fast(power);
                added[i / 2] += s[j][i];
            }
    }

    __device__ __forceinline__ void pack_probabilities(const Scores& s)
    {
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                p[slice][i] = pack(s[2 * slice + i / 2][2 * (i % 2)], s[2 * slice + i / 2][2 * (i % 2) + 1]);
    }

    // The careful way: mask, maximum, O and the sums rescaled to it, exponentials. `seen` is the last key that the thread's
    // first row may see, counted from the tile's first; the other row sees `seen_below`.
    __device__ __forceinline__ void with_maximum(Scores& s, int seen, int seen_below)
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float highest = MINUS_INFINITY;
#pragma unroll
            for (int j = 0; j < KEY_TILES; ++j)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (8 * j + 2 * t + i > (half ? seen_below : seen))
                        s[j][2 * half + i] = MINUS_INFINITY;
                    highest = fmaxf(highest, s[j][2 * half + i]);
                }
            highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
            highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
            const float raised = fmaxf(maximum[half], highest * problem.scale);
            const float shrink = exp2_fast(maximum[half] - raised);
            maximum[half] = raised;
            sum[half] *= shrink;
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; ++j)
                o[j][2 * half] *= shrink, o[j][2 * half + 1] *= shrink;
        }
        exponentials<true>(s, sum);
    }

    __device__ __forceinline__ int last_key(int row) const
    {
        return problem.causal ? min(row, problem.seq_len - 1) : problem.seq_len - 1;
    }

    // A tile whose keys none of this consumer's rows may see.
    __device__ __forceinline__ void skip_tile()
    {
        await_turn();
        pass_turn();
        barrier_wait(at.k_full + 8 * keys.stage, keys.parity);
        release(at.k_free + 8 * keys.stage);
        keys.next();
        barrier_wait(at.v_full + 8 * values.stage, values.parity);
        release(at.v_free + 8 * values.stage);
        values.next();
    }

    // P of tile `tile`, the first one: its scores need a maximum and may need a mask.
    __device__ __forceinline__ void first_tile(Scores& s, int tile, int first_row)
    {
        const int row = first_row + row_in_tile;
        barrier_wait(at.k_full + 8 * keys.stage, keys.parity);
        await_turn();
        ask_scores(s, keys.stage);
        pass_turn();
        products_wait<0>();
        with_maximum(s, last_key(row) - tile * KEYS, last_key(row + 8) - tile * KEYS);
        release(at.k_free + 8 * keys.stage);
        keys.next();
        pack_probabilities(s);
    }

    // P of tile `tile` and, behind its exponentials, O += P · V of the tile before.
    __device__ __forceinline__ void next_tile(Scores& s, int tile, int first_row)
    {
        barrier_wait(at.k_full + 8 * keys.stage, keys.parity);
        barrier_wait(at.v_full + 8 * values.stage, values.parity);
        await_turn();
        ask_scores(s, keys.stage);
        ask_output();
        pass_turn();
        products_wait<1>();
        float added[2] = {};
        exponentials<false>(s, added);
        // The vote needs every exponential, so that none is put off until P · V is there.
        const bool small = added[0] <= SUM_LIMIT && added[1] <= SUM_LIMIT;      // false for NaN too
        const bool again = any_of_warpgroup(NAMED_VOTE + index, !small);
        products_wait<0>();
        release(at.v_free + 8 * values.stage);
        values.next();
        if (again) {
            ask_scores(s, keys.stage);
            products_wait<0>();
            const int row = first_row + row_in_tile;
            with_maximum(s, last_key(row) - tile * KEYS, last_key(row + 8) - tile * KEYS);
        } else
            sum[0] += added[0], sum[1] += added[1];
        release(at.k_free + 8 * keys.stage);
        keys.next();
        pack_probabilities(s);
    }

    __device__ __forceinline__ void attend(const Work& work)
    {
        Scores s;
        maximum[0] = maximum[1] = MINUS_INFINITY;
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; ++j)
            o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
        barrier_wait(at.q_full + 8 * index, q_parity);
        q_parity ^= 1;
        const int first_row = work.first_row + 64 * index;
        const int first = first_row < problem.seq_len ? last_key(first_row + 63) / KEYS : -1;
        for (int tile = work.last_tile; tile > first; --tile)
            skip_tile();
        if (first >= 0)
            first_tile(s, first, work.first_row);
        for (int tile = first - 1; tile >= 0; --tile)
            next_tile(s, tile, work.first_row);
        release(at.q_free + 8 * index);
        if (first < 0)
            return;
        barrier_wait(at.v_full + 8 * values.stage, values.parity);
        ask_output();
        products_wait<0>();
        release(at.v_free + 8 * values.stage);
        values.next();
        store(work);
    }

    __device__ __forceinline__ void store(const Work& work) const
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float whole = sum[half];
            whole += __shfl_xor_sync(~0u, whole, 1);
            whole += __shfl_xor_sync(~0u, whole, 2);
            const float inverse = 1.0f / whole;
            const int row = work.first_row + row_in_tile + 8 * half;
            if (row >= problem.seq_len)
                continue;
            char* const out = problem.out + work.batch * problem.out_batch + work.head * problem.out_head
                + row * problem.out_row + 4 * t;
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; ++j)
                *(unsigned*)(out + 16 * j) = pack(o[j][2 * half] * inverse, o[j][2 * half + 1] * inverse);
            if (problem.lse != nullptr && t == 0)
                problem.lse[((long long)work.batch * problem.heads + work.head) * problem.seq_len + row] =
                    (maximum[half] + log2f(whole)) * 0.6931471805599453f;
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) flash_hopper(const __grid_constant__ Problem problem)
{
    extern __shared__ char shared[];
    const Layout at(shared_address(shared));
    if (threadIdx.x == 0)
        at.init_barriers();
    __syncthreads();
    const int tiles = problem.batch_heads * problem.row_tiles;
    if (threadIdx.x < 128) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            Producer producer{problem, at};
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                producer.fetch(Work(problem, tile));
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        Consumer consumer(problem, at);
        if (consumer.index == WARPGROUPS - 1)
            consumer.pass_turn();
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
            consumer.attend(Work(problem, tile));
        if (consumer.index == 0)
            consumer.await_turn();
    }
}
