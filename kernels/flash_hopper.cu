// Attention, forward, for Hopper (sm_90a): O = softmax(Q · Kᵀ · scale + mask) · V and the rows' log-sum-exp.
//
// The idea. A softmax subtracts each row's maximum only to stay inside the range of its numbers; the result is the same
// without. In bf16, whose exponent is float32's, exp2 of the bare scores nearly always fits. So the first pass looks for no
// maximum and rescales no O, and nothing in its loop waits for a whole row. A tile of queries with a row whose sum of
// exponentials left the range, or is NaN, is noted. After its last tile the block goes through those noted again, with the
// usual online softmax, and overwrites such rows and no others: no bit of a row depends on its neighbours, unless its own sum
// is on the very edge of the range, where the passes may judge it differently. fp16 has a smaller range: there the first pass
// subtracts the maximum of a row's first tile of keys throughout.
// The second pass reads Q, K and V anew, so O must lie elsewhere.
//
// Who does what. As many blocks as fit stay on an SM, and each takes tile after tile of 64 · WARPGROUPS queries (a persistent
// grid). One thread of a block's first warpgroup, the producer, has TMA fetch Q, K and V, running ahead into the next tile;
// that warpgroup hands its registers to the others, the consumers, with 64 queries each. Tiles wait in rings of stages;
// barriers in shared memory (mbarriers, see Layout) say which stage is full and which is free.
//
// A consumer goes from the last tile of keys that its rows may see to the first. It asks for the scores of a tile and for
// P · V of the tile before, and computes exponentials as soon as the scores are there, while P · V is under way. Consumers
// ask in turn, so that the tensor cores have the others' products while one computes exponentials ("ping-pong"). A thread
// has in registers a tile of scores (KEYS / 2), P_COPIES of P (KEYS / 4 each) and O (HEAD_DIM / 2).
//
// O leaves by TMA from shared memory, from where the tile's queries were, and in the background: that place is returned to
// the producer only when the next tile's first scores are there.
//
// Padding. Q · Kᵀ goes in steps of 16 columns (72 as 80: TMA fills columns beyond the tensor with zeros), P · V has
// HEAD_DIM columns, whatever multiple of 8 that is. Shared memory holds boxes of 64 columns. What Q, K and O have beyond
// them, up to 32 columns, is in a narrower box, their tail. So TMA writes few zeros that no product reads, and there is room
// for a third stage of V, all of whose columns are one product's and in boxes of one width.
//
// Floors, for a score on one SM: tensor cores 4 · HEAD_DIM / 4096 clk (.0625 at 64), exp2 .0625 clk: at 64 they are equal.
//
// Order of tiles: those of some heads together, so that K and V stay in L2, those with the most work first (a full mask leaves
// the incomplete ones for the end), dealt out in rounds, a tile to each block. Where a round begins and which way it goes is
// worked out on the host (dealing.py), so that all blocks get about the same.

#include "hopper.cuh"
#include "early_launch.cuh"

// HEAD_DIM a multiple of 8 up to 128; KEYS 64 or 128; WARPGROUPS consumers a block, BLOCKS blocks on an SM; P_COPIES 2 if
// one P is filled while the other is multiplied; MULTIPLIED of eight exponentials are left to the multiply-adders. With one P,
// the exponentials of AHEAD columns of eight keys come before P · V is awaited; how many do is up to the compiler if that is 0.
// TAIL columns has the box of Q, K and O beyond those of 64, 16 or 32, 0 if there is none. V_STAGES tiles of V are in shared
// memory at once, at least P_COPIES + 1.
//
// A block's registers are what its launch bounds leave each thread, in eights: whoever asks for more waits for ever.
#define POOL (65536 / (THREADS * BLOCKS) / 8 * 8 * (WARPGROUPS + 1))
#define PRODUCER_REGISTERS 24
#define CONSUMER_LIMIT ((POOL - PRODUCER_REGISTERS) / WARPGROUPS / 8 * 8)
#define CONSUMER_REGISTERS (CONSUMER_LIMIT > 240 ? 240 : CONSUMER_LIMIT)
#define NAMED_VOTE 1                        // and the barriers after it, one a consumer
#define NAMED_TURN (NAMED_VOTE + WARPGROUPS)
#define NAMED_END (NAMED_TURN + WARPGROUPS) // where all consumers meet when their notes are complete
#define ROWS (64 * WARPGROUPS)
#define THREADS (128 * (WARPGROUPS + 1))
#define BOXES ((HEAD_DIM - TAIL + BOX_COLUMNS - 1) / BOX_COLUMNS)   // of 64 columns
#define TAIL_ROW_BYTES (2 * TAIL)
#define STEPS ((HEAD_DIM + 15) / 16)
#define COLUMN_TILES (HEAD_DIM / 8)
#define KEY_TILES (KEYS / 8)
#define SLICES (KEYS / 16)
#define Q_STAGES 2
#define K_STAGES 2
#define KEY_BOX (KEYS * BOX_ROW_BYTES)
#define KEY_STAGE (BOXES * KEY_BOX + KEYS * TAIL_ROW_BYTES)
#define VALUE_BOXES ((HEAD_DIM + BOX_COLUMNS - 1) / BOX_COLUMNS)
#define VALUE_STAGE (VALUE_BOXES * KEY_BOX)
#define QUERY_BOX (64 * BOX_ROW_BYTES)
#define QUERY_STAGE (BOXES * QUERY_BOX + 64 * TAIL_ROW_BYTES)
#define NOTES 256                           // words, a bit for each tile that a block does; one more says if any is set
#define SHIFTS 40                           // rounds of which the host says how they are dealt; then they begin anew
#define MINUS_INFINITY __int_as_float(0xff800000)
// The powers of two between which a row's sum of exponentials is trusted. No P of such a row is above them: none overflows
// fp16, and in bf16 no P · V overflows float32 while |V| is below 2^67.
#define LOG_MAX (FP16 ? 15.0f : 60.0f)
#define LOG_MIN (FP16 ? -1.0f : -60.0f)

struct Problem {
    TensorMap q, k, v, out; // [batch, head, row, HEAD_DIM]; boxes of 64 rows for q, KEYS for k and v, 16 for out
    TensorMap q_tail, k_tail, out_tail;     // of q, k and out, with boxes of TAIL columns
    char* out_data;         // and the strides of out, in bytes; its last dimension is dense
    long long out_batch, out_head, out_row;
    float* lse;             // [batch, head, seq_len], natural logarithm; null if not wanted
    int heads;              // of one batch element
    int batch_heads;        // in all
    int seq_len;
    int row_tiles;          // of one head: seq_len / ROWS, rounded up
    int group;              // heads whose tiles are neighbours
    int causal;
    float scale;            // times log2(e): scores are exponents of two here
    int shifts[SHIFTS];     // of each round: see `dealt`
};

typedef float Scores[KEY_TILES][4];
typedef unsigned Probabilities[SLICES][4];

// A tile of queries: its rows of a head, and the last tile of keys that any of them may see, from where it goes back to key 0.
struct alignas(16) Work {
    int last_tile;      // -1: this pass has no more work
    int batch, head;
    int first_row;
    int round;          // which of this block's tiles it is, from 0
};

__device__ __forceinline__ Work work_of(const Problem& problem, int tile, int round)
{
    const unsigned before = (unsigned)tile / (problem.group * problem.row_tiles) * problem.group;
    const unsigned among = min(problem.group, problem.batch_heads - (int)before);
    const unsigned rest = tile - before * problem.row_tiles;
    const unsigned row_tile = rest / among, of_all = before + rest % among;
    const int first_row = (problem.causal ? problem.row_tiles - 1 - row_tile : row_tile) * ROWS;
    const int last_row = min(first_row + ROWS, problem.seq_len) - 1;
    const unsigned batch = of_all / problem.heads;
    return {(int)((unsigned)(problem.causal ? last_row : problem.seq_len - 1) / KEYS), (int)batch,
            (int)(of_all - batch * problem.heads), first_row, round};
}

// The tile that this block does in a round: each block takes one, in order from that of block 0 on, or backward, and after the
// last tile of the round comes its first. Block 0 takes the round's tile `shift`, or ~shift if it goes backward.
__device__ __forceinline__ int dealt(const Problem& problem, int round)
{
    const int blocks = gridDim.x, block = blockIdx.x;
    const int shift = problem.shifts[round % SHIFTS];
    const int place = shift < 0 ? ~shift - block : shift + block;
    return round * blocks + place + (place < 0 ? blocks : place < blocks ? 0 : -blocks);
}

// A ring of stages: which one is next, and whether the ring was gone round an odd number of times. That is the parity of the
// phase that a consumer awaits at the stage's `full` barrier. At the `free` one the producer awaits the other, since stages
// begin free.
template <int STAGES> struct Ring {
    int stage = 0, parity = 0;
    __device__ __forceinline__ int before() const { return stage == 0 ? STAGES - 1 : stage - 1; }
    __device__ __forceinline__ void next()
    {
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    }
};

// Where things lie in shared memory, as addresses. The barriers, and who arrives there:
//
//   q_full      of each stage and consumer: the producer, then TMA's bytes. `work` of that stage is posted before.
//   q_free      of each stage and consumer: all its threads, when none needs the queries, `work` or O there any more.
//   k_full      of each stage: the producer, then TMA's bytes; v_full likewise.
//   k_free      of each stage: a lane of each consumer's warp, when the products that read it are done; v_free likewise.
//   first_pass  one thread of each consumer, when its notes are complete: the producer waits, consumers meet at NAMED_END.
struct Layout {
    unsigned q, k, v, q_full, q_free, k_full, k_free, v_full, v_free, first_pass, work, notes;
    __device__ __forceinline__ explicit Layout(unsigned base)
    {
        q = (base + 1023) / 1024 * 1024;
        k = q + Q_STAGES * WARPGROUPS * QUERY_STAGE;
        v = k + K_STAGES * KEY_STAGE;
        work = v + V_STAGES * VALUE_STAGE;
        q_full = work + Q_STAGES * (int)sizeof(Work);
        q_free = q_full + 8 * Q_STAGES * WARPGROUPS;
        k_full = q_free + 8 * Q_STAGES * WARPGROUPS;
        k_free = k_full + 8 * K_STAGES;
        v_full = k_free + 8 * K_STAGES;
        v_free = v_full + 8 * V_STAGES;
        first_pass = v_free + 8 * V_STAGES;
        notes = first_pass + 8;
    }
    __device__ __forceinline__ void init_barriers() const
    {
        for (int i = 0; i < Q_STAGES * WARPGROUPS; ++i)
            barrier_init(q_full + 8 * i, 1), barrier_init(q_free + 8 * i, 128);
        for (int i = 0; i < K_STAGES; ++i)
            barrier_init(k_full + 8 * i, 1), barrier_init(k_free + 8 * i, 4 * WARPGROUPS);
        for (int i = 0; i < V_STAGES; ++i)
            barrier_init(v_full + 8 * i, 1), barrier_init(v_free + 8 * i, 4 * WARPGROUPS);
        barrier_init(first_pass, WARPGROUPS);
        barriers_are_initialised();
    }
    __device__ __forceinline__ void post(int stage, const Work& w) const
    {
        shared_store(work + stage * (int)sizeof(Work), w.last_tile, w.batch, w.head, w.first_row);
        shared_store(work + stage * (int)sizeof(Work) + 16, w.round);
    }
    __device__ __forceinline__ Work posted(int stage) const
    {
        Work w;
        shared_load(work + stage * (int)sizeof(Work), w.last_tile, w.batch, w.head, w.first_row);
        w.round = shared_load(work + stage * (int)sizeof(Work) + 16);
        return w;
    }
    __device__ __forceinline__ void note(int round) const
    {
        shared_or(notes + round / 32 * 4, 1 << round % 32);
        shared_store(notes + 4 * NOTES, 1);
    }
    __device__ __forceinline__ bool any_noted() const { return shared_load(notes + 4 * NOTES); }
    __device__ __forceinline__ bool noted(int round) const { return shared_load(notes + round / 32 * 4) >> round % 32 & 1; }
};

struct Producer {
    const Problem& problem;
    const Layout& at;
    Ring<Q_STAGES> queries;
    Ring<K_STAGES> keys;
    Ring<V_STAGES> values;

    // A tile of Q or K, in boxes of BOX_BYTES and a tail.
    template <int BOX_BYTES>
    __device__ __forceinline__ void fetch_rows(
        const TensorMap& map, const TensorMap& tail, unsigned to, const Work& work, int first_row, unsigned full)
    {
        for (int box = 0; box < BOXES; ++box)
            fetch_box(to + box * BOX_BYTES, map, box * BOX_COLUMNS, first_row, work.head, work.batch, full);
        if constexpr (TAIL > 0)
            fetch_box(to + BOXES * BOX_BYTES, tail, BOXES * BOX_COLUMNS, first_row, work.head, work.batch, full);
    }

    __device__ __forceinline__ void fetch_keys(const Work& work, int tile)
    {
        const unsigned full = at.k_full + 8 * keys.stage, to = at.k + keys.stage * KEY_STAGE;
        barrier_wait(at.k_free + 8 * keys.stage, keys.parity ^ 1);
        barrier_expect(full, KEY_STAGE);
        fetch_rows<KEY_BOX>(problem.k, problem.k_tail, to, work, tile * KEYS, full);
        keys.next();
    }

    __device__ __forceinline__ void fetch_values(const Work& work, int tile)
    {
        const unsigned full = at.v_full + 8 * values.stage, to = at.v + values.stage * VALUE_STAGE;
        barrier_wait(at.v_free + 8 * values.stage, values.parity ^ 1);
        barrier_expect(full, VALUE_STAGE);
        for (int box = 0; box < VALUE_BOXES; ++box)
            fetch_box(to + box * KEY_BOX, problem.v, box * BOX_COLUMNS, tile * KEYS, work.head, work.batch, full);
        values.next();
    }

    // Posts what comes next, and has its queries fetched.
    __device__ __forceinline__ void announce(const Work& work)
    {
        for (int i = 0; i < WARPGROUPS; ++i)
            barrier_wait(at.q_free + 8 * (queries.stage * WARPGROUPS + i), queries.parity ^ 1);
        at.post(queries.stage, work);
        for (int i = 0; i < WARPGROUPS; ++i) {
            const int slot = queries.stage * WARPGROUPS + i;
            if (work.last_tile < 0) {
                barrier_arrive(at.q_full + 8 * slot);
                continue;
            }
            barrier_expect(at.q_full + 8 * slot, QUERY_STAGE);
            fetch_rows<QUERY_BOX>(problem.q, problem.q_tail, at.q + slot * QUERY_STAGE, work, work.first_row + 64 * i,
                                  at.q_full + 8 * slot);
        }
        queries.next();
    }

    // All that the consumers need for a tile of queries, in the order in which they do: K is a tile ahead of V.
    __device__ __forceinline__ void fetch(const Work& work)
    {
        announce(work);
        fetch_keys(work, work.last_tile);
#pragma unroll 1
        for (int tile = work.last_tile; tile >= 0; --tile) {
            if (tile > 0)
                fetch_keys(work, tile - 1);
            fetch_values(work, tile);
        }
    }
};

struct Consumer {
    const Problem& problem;
    const Layout& at;
    const int index;                // of this warpgroup among the consumers
    const int g, t;                 // the lane's place in a fragment, see mma.cuh
    const int row_in_tile;          // of the block: the thread's rows are this one and the one 8 below
    Ring<Q_STAGES> queries;         // the tile in hand
    Ring<K_STAGES> keys;            // the tile whose scores are asked for next
    Ring<V_STAGES> values;          // the tile that P belongs to
    int reading = -1;               // the stage of V that the last P · V may still read
    float maximum[2];               // what is subtracted from the rows' scores, an exponent of two like them
    float sum[2];                   // of the rows' exponentials, until `add_up_sums` this thread's part
    float reference[2] = {};        // in the second pass: what the first one subtracted
    float o[COLUMN_TILES][4];
    Scores s;
    Probabilities p[P_COPIES];

    __device__ __forceinline__ Consumer(const Problem& problem, const Layout& at)
        : problem(problem), at(at), index(__shfl_sync(~0u, threadIdx.x / 128, 0) - 1), g(threadIdx.x % 32 / 4),
          t(threadIdx.x % 4), row_in_tile(64 * index + threadIdx.x % 128 / 32 * 16 + g) {}

    // A named barrier for each consumer: it waits there, and the one before it in turn arrives. All of them take one turn for
    // each tile of keys of the block, be it theirs or not.
    __device__ __forceinline__ void await_turn() const
    {
        if constexpr (WARPGROUPS > 1)
            named_wait<256>(NAMED_TURN + index);
    }

    __device__ __forceinline__ void pass_turn() const
    {
        if constexpr (WARPGROUPS > 1)
            named_arrive<256>(NAMED_TURN + (index + 1) % WARPGROUPS);
    }

    // One arrival for the warp. Its lanes are together, and past what they waited for: `products_wait` or __syncwarp saw to it.
    __device__ __forceinline__ void release(unsigned barrier) const
    {
        if (threadIdx.x % 32 == 0)
            barrier_arrive(barrier);
    }

    __device__ __forceinline__ int query_slot() const { return queries.stage * WARPGROUPS + index; }

    // Asks for s = Q · Kᵀ.
    __device__ __forceinline__ void ask_scores(unsigned q, unsigned k)
    {
        products_begin();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int box = step / 4, chunk = step % 4 * 2;     // a step is 32 bytes, two units of a descriptor's address
            const unsigned a = q + box * (QUERY_BOX >> 4) + chunk, b = k + box * (KEY_BOX >> 4) + chunk;
            if (box < BOXES)
                Product<KEYS>::rows<BOX_COLUMNS>(s, a, b, step > 0);
            else
                Product<KEYS>::rows<TAIL>(s, a, b, step > 0);
        }
        products_commit();
    }

    // Asks for O += P · V.
    __device__ __forceinline__ void ask_output(const Probabilities& p, unsigned v)
    {
        products_begin();
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
            Product<HEAD_DIM>::columns(o, p[slice], v + slice * (16 * BOX_ROW_BYTES >> 4));
        products_commit();
    }

    __device__ __forceinline__ unsigned described_q() const { return describe(at.q + query_slot() * QUERY_STAGE, 16); }
    __device__ __forceinline__ unsigned described_k() const { return describe(at.k + keys.stage * KEY_STAGE, 16); }
    __device__ __forceinline__ unsigned described_v() const { return describe(at.v + values.stage * VALUE_STAGE, KEY_BOX); }
    __device__ __forceinline__ void await_keys() const { barrier_wait(at.k_full + 8 * keys.stage, keys.parity); }
    __device__ __forceinline__ void await_values() const { barrier_wait(at.v_full + 8 * values.stage, values.parity); }

    __device__ __forceinline__ void release_keys()
    {
        release(at.k_free + 8 * keys.stage);
        keys.next();
    }

    __device__ __forceinline__ void release_values()
    {
        if (reading >= 0)
            release(at.v_free + 8 * reading);
        reading = -1;
    }

    // P = exp2(s · scale - maximum), and what that adds to the rows' sums. What is masked must become 0 exactly, which only
    // the special-function unit makes of minus infinity: `WITH_MASK` leaves all to it.
    template <bool WITH_MASK, int END = KEY_TILES, int BEGIN = 0> __device__ __forceinline__ void exponentials()
    {
#pragma unroll
        for (int j = BEGIN; j < END; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float power = s[j][i] * problem.scale - maximum[i / 2];
                s[j][i] = !WITH_MASK && j % 8 < MULTIPLIED ? exp2_by_multiplying(power) : exp2_fast(power);
                sum[i / 2] += s[j][i];
            }
    }

    // Scores' accumulators, packed in pairs, are the next product's fragments: see mma.cuh.
    template <int COUNT = SLICES> __device__ __forceinline__ void pack_probabilities(Probabilities& p)
    {
#pragma unroll
        for (int slice = 0; slice < COUNT; ++slice)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                p[slice][i] = pack(s[2 * slice + i / 2][2 * (i % 2)], s[2 * slice + i / 2][2 * (i % 2) + 1]);
    }

    __device__ __forceinline__ int last_key(int row) const
    {
        return problem.causal ? min(row, problem.seq_len - 1) : problem.seq_len - 1;
    }

    // Scores of keys that a row may not see become minus infinity.
    __device__ __forceinline__ void mask(int tile, int first_row)
    {
        const int row = first_row + row_in_tile;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int seen = last_key(row + 8 * half) - tile * KEYS - 2 * t;
#pragma unroll
            for (int j = 0; j < KEY_TILES; ++j)
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    if (8 * j + i > seen)
                        s[j][2 * half + i] = MINUS_INFINITY;
        }
    }

    // The maximum so far, and O and the sums rescaled to it: the online softmax, and the first tile of fp16.
    __device__ __forceinline__ void raise_maximum()
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float highest = MINUS_INFINITY;
#pragma unroll
            for (int j = 0; j < KEY_TILES; ++j)
                highest = fmaxf(highest, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
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
    }

    // A tile of keys that others of the block need, and none of this consumer's rows may see.
    template <bool ONLINE> __device__ __forceinline__ void skip_tile()
    {
        if constexpr (!ONLINE) {
            await_turn();
            pass_turn();
        }
        await_keys();
        __syncwarp();       // no product brings the lanes together here
        release_keys();
        await_values();
        __syncwarp();
        release(at.v_free + 8 * values.stage);
        values.next();
    }

    // Returns the place of the queries before these: each thread has read what was posted there, and waits, if it stored O from
    // there, until O has been read.
    __device__ __forceinline__ void return_queries() const
    {
        if (is_elected())
            wait_for_stores();
        barrier_arrive(at.q_free + 8 * (queries.before() * WARPGROUPS + index));
    }

    // P of the rows' first tile, the only one that may need a mask.
    __device__ __forceinline__ void first_tile(int tile, int first_row)
    {
        const unsigned q = described_q(), k = described_k();
        await_keys();
        await_turn();
        ask_scores(q, k);
        pass_turn();
        products_wait<0>();
        release_keys();
        if (last_key(first_row + 64 * index) < tile * KEYS + KEYS - 1)
            mask(tile, first_row);
        if constexpr (FP16)
            raise_maximum();
        if (last_key(first_row + 64 * index + 63) < tile * KEYS + KEYS / 2) {
            // Nobody sees the upper half.
            exponentials<true, KEY_TILES / 2>();
            pack_probabilities<SLICES / 2>(p[0]);
#pragma unroll
            for (int slice = SLICES / 2; slice < SLICES; ++slice)
                p[0][slice][0] = p[0][slice][1] = p[0][slice][2] = p[0][slice][3] = 0;
        } else {
            exponentials<true>();
            pack_probabilities(p[0]);
        }
    }

    // P of the next tile and, beside its exponentials, O += P · V of the tile before. One P is filled anew only when P · V is
    // done, and that is awaited sooner, beside the first ones alone: what the tensor cores exchange with the registers slows
    // exponentials down, and to await P · V after all of them takes longer.
    __device__ __forceinline__ void next_tile(Probabilities& p, const Probabilities& p_before)
    {
        const unsigned q = described_q(), k = described_k(), v = described_v();
        await_keys();
        await_values();
        await_turn();
        ask_scores(q, k);
        ask_output(p_before, v);
        pass_turn();
        products_wait<1>();
        release_keys();
        release_values();
        reading = values.stage;
        values.next();
        exponentials<false, AHEAD>();
        if constexpr (AHEAD > 0)
            compile_apart(sum[0] + sum[1]);
        if constexpr (P_COPIES == 1) {
            products_wait<0>();
            release_values();
        }
        exponentials<false, KEY_TILES, AHEAD>();
        pack_probabilities(p);
    }

    __device__ __forceinline__ void last_product(const Probabilities& p)
    {
        const unsigned v = described_v();
        await_values();
        ask_output(p, v);
        products_wait<0>();
        release_values();
        reading = values.stage;
        values.next();
        release_values();
    }

    // The first pass over a tile of queries, from tile `first` of keys back to key 0; `first_row` is the block's, here as in
    // `mask`. The queries before these are returned late, when O has long been read from there.
    __device__ __forceinline__ void stream(int first, int first_row, bool started)
    {
        first_tile(first, first_row);
        if (started)
            return_queries();
        int tile = first - 1;
        if constexpr (P_COPIES == 1) {
            for (; tile >= 0; --tile)
                next_tile(p[0], p[0]);
            last_product(p[0]);
        } else {
            for (; tile > 0; tile -= 2) {
                next_tile(p[P_COPIES - 1], p[0]);
                next_tile(p[0], p[P_COPIES - 1]);
            }
            if (tile == 0) {
                next_tile(p[P_COPIES - 1], p[0]);
                last_product(p[P_COPIES - 1]);
            } else
                last_product(p[0]);
        }
    }

    // The second pass: the online softmax, one product after the other.
    __device__ __forceinline__ void stream_online(int first, int first_row, bool started)
    {
        if (started)
            return_queries();
#pragma unroll 1
        for (int tile = first; tile >= 0; --tile) {
            const unsigned q = described_q(), k = described_k(), v = described_v();
            await_keys();
            ask_scores(q, k);
            products_wait<0>();
            release_keys();
            mask(tile, first_row);
            raise_maximum();
            if (FP16 && tile == first)
                reference[0] = maximum[0], reference[1] = maximum[1];
            exponentials<true>();
            pack_probabilities(p[0]);
            await_values();
            ask_output(p[0], v);
            products_wait<0>();
            release(at.v_free + 8 * values.stage);
            values.next();
        }
    }

    __device__ __forceinline__ void clear(float first_maximum)
    {
        maximum[0] = maximum[1] = first_maximum;
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; ++j)
            o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
    }

    __device__ __forceinline__ void add_up_sums()
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
            sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
        }
    }

    // Whether a row's sum of exponentials is in range when `reference` is subtracted from its scores.
    __device__ __forceinline__ bool trusted(int half, float reference) const
    {
        const float log_sum = maximum[half] - reference + log2f(sum[half]);
        return log_sum >= LOG_MIN && log_sum <= LOG_MAX;        // false for NaN
    }

    // A pass: all tiles of queries that are posted. The first one notes those with a row that cannot be trusted.
    template <bool ONLINE> __device__ __forceinline__ void attend()
    {
        bool started = false;
        for (;; started = true) {
            barrier_wait(at.q_full + 8 * query_slot(), queries.parity);
            const Work work = at.posted(queries.stage);
            if (work.last_tile < 0)
                break;
            clear(FP16 || ONLINE ? MINUS_INFINITY : 0.0f);
            const int own_row = work.first_row + 64 * index;
            const int first = own_row < problem.seq_len ? last_key(own_row + 63) / KEYS : -1;
#pragma unroll 1
            for (int tile = work.last_tile; tile > first; --tile)
                skip_tile<ONLINE>();
            if (first < 0) {
                if (started)
                    return_queries();
                queries.next();
                continue;
            }
            if constexpr (ONLINE)
                stream_online(first, work.first_row, started);
            else
                stream(first, work.first_row, started);
            add_up_sums();
            if constexpr (ONLINE)
                overwrite(work);
            else {
                const bool doubtful = !(trusted(0, maximum[0]) && trusted(1, maximum[1]));
                // All warps' products have read Q before its place is taken by O.
                if (any_of_warpgroup(NAMED_VOTE + index, doubtful) && threadIdx.x % 128 == 0)
                    at.note(work.round);
                store(work);
            }
            queries.next();
        }
        if (started)
            return_queries();
        if constexpr (!ONLINE) {
            queries.next();     // past the end of the first pass, whose place is returned, too
            return_queries();
        }
    }

    // O to where this warp's queries were, and from there to the tensor.
    __device__ __forceinline__ void store(const Work& work) const
    {
        const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16;
        const unsigned slot = at.q + query_slot() * QUERY_STAGE;
        const unsigned box = slot + first * BOX_ROW_BYTES, tail = slot + BOXES * QUERY_BOX + first * TAIL_ROW_BYTES;
        const float above = 1.0f / sum[0], below = 1.0f / sum[1];
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j += 2) {
            const unsigned to = j / 8 < BOXES
                ? chunk_of<BOX_ROW_BYTES>(box + j / 8 * QUERY_BOX, lane % 16, j % 8 + lane / 16)
                : chunk_of<TAIL_ROW_BYTES>(tail, lane % 16, j % 8 + lane / 16);
            const unsigned r0 = pack(o[j][0] * above, o[j][1] * above), r1 = pack(o[j][2] * below, o[j][3] * below);
            if (j + 1 < COLUMN_TILES)
                stmatrix_4(to, r0, r1, pack(o[j + 1][0] * above, o[j + 1][1] * above),
                           pack(o[j + 1][2] * below, o[j + 1][3] * below));
            else
                stmatrix_2(to, r0, r1);
        }
        fence_stores_for_copies();
        __syncwarp();
        if (is_elected()) {
            for (int i = 0; i < BOXES; ++i)
                store_box(problem.out, box + i * QUERY_BOX, i * BOX_COLUMNS, work.first_row + 64 * index + first,
                          work.head, work.batch);
            if constexpr (TAIL > 0)
                store_box(problem.out_tail, tail, BOXES * BOX_COLUMNS, work.first_row + 64 * index + first,
                          work.head, work.batch);
            commit_stores();
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
            store_lse(work, half);
    }

    // The rows that the first pass cannot be trusted with, to the tensor; the others stay as they are.
    __device__ __forceinline__ void overwrite(const Work& work) const
    {
        char* const head = problem.out_data + work.batch * problem.out_batch + work.head * problem.out_head;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = work.first_row + row_in_tile + 8 * half;
            if (row >= problem.seq_len || trusted(half, reference[half]))
                continue;
            const float inverse = 1.0f / sum[half];
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; ++j)
                *(unsigned*)(head + row * problem.out_row + 16 * j + 4 * t) =
                    pack(o[j][2 * half] * inverse, o[j][2 * half + 1] * inverse);
            store_lse(work, half);
        }
    }

    __device__ __forceinline__ void store_lse(const Work& work, int half) const
    {
        const int row = work.first_row + row_in_tile + 8 * half;
        if (problem.lse != nullptr && t == 0 && row < problem.seq_len)
            problem.lse[((long long)work.batch * problem.heads + work.head) * problem.seq_len + row] =
                (maximum[half] + log2f(sum[half])) * 0.6931471805599453f;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) flash_hopper(const __grid_constant__ Problem problem)
{
    extern __shared__ char shared[];
    const Layout at(shared_address(shared));
    if (threadIdx.x == 0) {
        prefetch(problem.v);
        if constexpr (BOXES > 0)
            prefetch(problem.q), prefetch(problem.k), prefetch(problem.out);
        if constexpr (TAIL > 0)
            prefetch(problem.q_tail), prefetch(problem.k_tail), prefetch(problem.out_tail);
        at.init_barriers();
    }
    for (int i = threadIdx.x; i <= NOTES; i += THREADS)
        shared_store(at.notes + 4 * i, 0);
    __syncthreads();
    const int tiles = problem.batch_heads * problem.row_tiles;
    if (threadIdx.x < 128) {
        give_registers<PRODUCER_REGISTERS>();
        if (__shfl_sync(~0u, threadIdx.x / 32, 0) == 0 && is_elected()) {
            await_kernels_before();     // for the consumers, too: they wait for what is fetched from here on
            Producer producer{problem, at};
#pragma unroll 1
            for (int round = 0, tile; (tile = dealt(problem, round)) < tiles; ++round)
                producer.fetch(work_of(problem, tile, round));
            let_next_kernel_begin();    // not sooner: its blocks would crowd on the SMs that are done first
            producer.announce({-1});
            barrier_wait(at.first_pass, 0);
            if (!at.any_noted())
                return;
#pragma unroll 1
            for (int round = 0, tile; (tile = dealt(problem, round)) < tiles; ++round)
                if (at.noted(round))
                    producer.fetch(work_of(problem, tile, round));
            producer.announce({-1});
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        Consumer consumer(problem, at);
        if (consumer.index == WARPGROUPS - 1)
            consumer.pass_turn();       // the first turn is consumer 0's
        consumer.attend<false>();
        if (consumer.index == 0)
            consumer.await_turn();      // nobody's arrival is left over
        if (threadIdx.x % 128 == 0)
            barrier_arrive(at.first_pass);
        named_wait<128 * WARPGROUPS>(NAMED_END);
        if (!at.any_noted())
            return;
        wait_until_stored();    // what each warp stores again, its own rows, must come after what it stored first
        consumer.attend<true>();
    }
}
