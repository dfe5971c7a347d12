// Hopper's own instructions (sm_90a): asynchronous matrix products of a warpgroup (wgmma), tensor copies by a unit of their
// own (TMA), and the barriers in shared memory that tell when a copy has landed (mbarrier). The element, `FP16` or not, is
// mma.cuh's.
//
// A warpgroup is four neighbouring warps; warp w of it holds rows 16 w to 16 w + 15 of a 64-row product, in the fragments
// that mma.cuh describes. A product's B, and A unless it is in registers, are read from shared memory by descriptors.
//
// Tiles in shared memory are boxes of 64 columns: a row is 128 bytes, and its eight 16-byte chunks are permuted by exclusive
// or with the row number modulo 8 (the "128-byte swizzle"), which TMA writes and wgmma reads. Boxes of 32 and of 16 columns
// are as dense: there two rows, or four, share 128 bytes, and bits 4 (and 5) of an address are permuted by bits 7 (and 8) (the
// "64-byte" and the "32-byte swizzle"). In all of them eight chunks below each other lie in different banks. Boxes start at
// multiples of 1,024 bytes.

#include "mma.cuh"

#define BOX_COLUMNS 64
#define BOX_ROW_BYTES 128

// Filled by the host with cuTensorMapEncodeTiled.
struct alignas(64) TensorMap {
    char opaque[128];
};

__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

// One arrival, and `bytes` more to come by TMA.
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// Until the barrier's phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(unsigned barrier, int parity)
{
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
        "@!complete bra again;\n"
        "}" :: "r"(barrier), "r"(parity) : "memory");
}

// For the copies to see the barriers that were initialised.
__device__ __forceinline__ void barriers_are_initialised()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Words in shared memory, by address.
__device__ __forceinline__ void shared_store(unsigned address, int word)
{
    asm volatile("st.shared.b32 [%0], %1;" :: "r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ int shared_load(unsigned address)
{
    int word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ void shared_or(unsigned address, int bits)
{
    asm volatile("red.shared.or.b32 [%0], %1;" :: "r"(address), "r"(bits) : "memory");
}

__device__ __forceinline__ void shared_store(unsigned address, int a, int b, int c, int d)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ void shared_load(unsigned address, int& a, int& b, int& c, int& d)
{
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address) : "memory");
}

// For the first copy not to wait for its map.
__device__ __forceinline__ void prefetch(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// A box of a tensor [batch, head, row, column] into shared memory; what lies outside the tensor arrives as zeros.
__device__ __forceinline__ void fetch_box(
    unsigned to, const TensorMap& map, int column, int row, int head, int batch, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3,%4,%5}], [%6];"
        :: "r"(to), "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier) : "memory");
}

// A box from shared memory into a tensor, in the background; what lies outside the tensor is not written. What ordinary stores
// left in shared memory must be fenced first.
__device__ __forceinline__ void store_box(const TensorMap& map, unsigned from, int column, int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1,%2,%3,%4}], [%5];"
        :: "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(from) : "memory");
}

__device__ __forceinline__ void fence_stores_for_copies()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void commit_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until this thread's committed stores of boxes have read what they store, so that its place may be used again.
__device__ __forceinline__ void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Until what this thread's stores of boxes have written can be seen.
__device__ __forceinline__ void wait_until_stored()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// True in one lane of the warp, always the same; all its lanes must ask. The compiler knows that what depends on it is done by
// one lane, and leaves out the loop over lanes that otherwise hands TMA its operands, one lane's after the other's.
__device__ __forceinline__ bool is_elected()
{
    int elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.b32 %0, 1, 0, p;\n"
        "}" : "=r"(elected));
    return elected;
}

// Between what must not be mixed: the compiler moves instructions as it likes, but not past a branch. This one waits for its
// argument, which is made by what must come before. It is the whole warp's (the vote), or descriptors would have to leave the
// registers of the whole warp; and it is never taken, NaN included: below -1 it would be for ever.
__device__ __forceinline__ void compile_apart(float never_negative)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.lt.f32 p, %0, 0fBF800000;\n"
        "vote.sync.any.pred p, p, 0xffffffff;\n"
        "@!p bra.uni done;\n"
        "again:\n"
        "nanosleep.u32 1;\n"
        "bra.uni again;\n"
        "done:\n"
        "}" :: "f"(never_negative) : "memory");
}

// Two (four) 8 × 8 matrices into shared memory: lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void stmatrix_2(unsigned address, unsigned r0, unsigned r1)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(address), "r"(r0), "r"(r1) : "memory");
}

__device__ __forceinline__ void stmatrix_4(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
        :: "r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

// Whether any of the 128 threads that meet at named barrier `id` says so.
__device__ __forceinline__ bool any_of_warpgroup(int id, bool mine)
{
    int any;
    asm volatile(
        "{\n"
        ".reg .pred p, q;\n"
        "setp.ne.b32 p, %1, 0;\n"
        "bar.red.or.pred q, %2, 128, p;\n"
        "selp.b32 %0, 1, 0, q;\n"
        "}" : "=r"(any) : "r"((int)mine), "r"(id) : "memory");
    return any;
}

// Named barrier `id` completes when `THREADS` threads have come, be it to wait or only to say that they were there.
template <int THREADS> __device__ __forceinline__ void named_wait(int id)
{
    asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(THREADS) : "memory");
}

template <int THREADS> __device__ __forceinline__ void named_arrive(int id)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(id), "n"(THREADS) : "memory");
}

template <int REGISTERS> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

// exp2 without the special-function unit, on the multiply-adders, to 7.5e-5 of its value: 2^whole · 2^fraction, the latter a
// cubic that is nearest to it over [-1/2, 1/2]. What is beyond 2^±120 is as large or small as that. NaN becomes the
// largest float32: whoever adds up powers must hold such a sum for out of range.
__device__ __forceinline__ float exp2_by_multiplying(float x)
{
    asm("max.NaN.f32 %0, %0, 0fC2F00000;" : "+f"(x));
    asm("min.NaN.f32 %0, %0, 0f42F00000;" : "+f"(x));
    const float shifted = x + 12582912.0f;      // 1.5 · 2^23: the whole part is in the lowest bits
    const float fraction = x - (shifted - 12582912.0f);
    float power = 0.0551717241f;
    power = power * fraction + 0.242611246f;
    power = power * fraction + 0.693260977f;
    power = power * fraction + 0.999928051f;
    return __int_as_float(__float_as_int(power) + (__float_as_int(shifted) << 23));
}

// The lower half of the descriptor of a tile of boxes; the upper half, DESCRIPTOR_HIGH, says how wide they are. `box_bytes` is
// how far the next box is, which matters only where the columns are the product's columns (V) and not its depth (Q, K).
// Adding n moves the tile by 16 n bytes.
//
// A product takes its descriptors from registers of the whole warp. The compiler fills those just before each product, and
// slowly, unless it knows that all lanes hold the same: the exchange tells it so.
//
// The upper half: how far it is from eight rows to the next, in 16 bytes, and which swizzle it is.
#define DESCRIPTOR_HIGH(COLUMNS) (int)(8 * 2 * (COLUMNS) / 16 | ((COLUMNS) == 64 ? 1u : (COLUMNS) == 32 ? 2u : 3u) << 30)
__device__ __forceinline__ unsigned describe(unsigned address, int box_bytes)
{
    return __shfl_sync(~0u, (address & 0x3ffff) >> 4 | (box_bytes >> 4) << 16, 0);
}

// Where a chunk of 16 bytes is in a box whose rows are so long.
template <int ROW_BYTES> __device__ __forceinline__ unsigned chunk_of(unsigned box, int row, int chunk)
{
    return box + row * ROW_BYTES + (chunk ^ (row * ROW_BYTES / 128 & (ROW_BYTES / 16 - 1))) * 16;
}

__device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most the newest `PENDING` committed groups are still running.
template <int PENDING> __device__ __forceinline__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// C (64 × COLUMNS, four float32 a thread for each 8 columns) = [C +] A · B, 16 deep. One specialisation per number of columns.
//   rows: A and B by descriptors of boxes of BOX columns, their depth along the columns; `add` false starts from zero.
//   columns: A in registers, B by a descriptor of boxes of 64 columns, its depth along the rows; always adds.
template <int COLUMNS> struct Product;

// clang-format off
#define NAMES_1 "%0,%1,%2,%3"
#define PARTS_1 "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3])
#define NAMES_2 NAMES_1 ",%4,%5,%6,%7"
#define PARTS_2 PARTS_1, "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3])
#define NAMES_3 NAMES_2 ",%8,%9,%10,%11"
#define PARTS_3 PARTS_2, "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3])
#define NAMES_4 NAMES_3 ",%12,%13,%14,%15"
#define PARTS_4 PARTS_3, "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])
#define NAMES_5 NAMES_4 ",%16,%17,%18,%19"
#define PARTS_5 PARTS_4, "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3])
#define NAMES_6 NAMES_5 ",%20,%21,%22,%23"
#define PARTS_6 PARTS_5, "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3])
#define NAMES_7 NAMES_6 ",%24,%25,%26,%27"
#define PARTS_7 PARTS_6, "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3])
#define NAMES_8 NAMES_7 ",%28,%29,%30,%31"
#define PARTS_8 PARTS_7, "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
#define NAMES_9 NAMES_8 ",%32,%33,%34,%35"
#define PARTS_9 PARTS_8, "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3])
#define NAMES_10 NAMES_9 ",%36,%37,%38,%39"
#define PARTS_10 PARTS_9, "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3])
#define NAMES_11 NAMES_10 ",%40,%41,%42,%43"
#define PARTS_11 PARTS_10, "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3])
#define NAMES_12 NAMES_11 ",%44,%45,%46,%47"
#define PARTS_12 PARTS_11, "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3])
#define NAMES_13 NAMES_12 ",%48,%49,%50,%51"
#define PARTS_13 PARTS_12, "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3])
#define NAMES_14 NAMES_13 ",%52,%53,%54,%55"
#define PARTS_14 PARTS_13, "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3])
#define NAMES_15 NAMES_14 ",%56,%57,%58,%59"
#define PARTS_15 PARTS_14, "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3])
#define NAMES_16 NAMES_15 ",%60,%61,%62,%63"
#define PARTS_16 PARTS_15, "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])

#define DEFINE_PRODUCT(COLUMNS, TILES, X0, X1, X2, X3, X4, X5) \
template <> struct Product<COLUMNS> { \
    template <int BOX> \
    static __device__ __forceinline__ void rows(float (&c)[TILES][4], unsigned a, unsigned b, bool add) \
    { \
        asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, " X2 ", 0;\n" \
            "mov.b64 a, {" X0 ", " X3 "};\nmov.b64 b, {" X1 ", " X3 "};\n" \
            "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." ELEMENT "." ELEMENT " {" NAMES_##TILES "}, " \
            "a, b, p, 1, 1, 0, 0;\n}" : PARTS_##TILES : "r"(a), "r"(b), "r"((int)add), "n"(DESCRIPTOR_HIGH(BOX))); \
    } \
    static __device__ __forceinline__ void columns(float (&c)[TILES][4], const unsigned (&a)[4], unsigned b) \
    { \
        asm volatile("{\n.reg .b64 b;\nmov.b64 b, {" X4 ", " X5 "};\n" \
            "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." ELEMENT "." ELEMENT " {" NAMES_##TILES "}, " \
            "{" X0 "," X1 "," X2 "," X3 "}, b, 1, 1, 1, 1;\n}" \
            : PARTS_##TILES : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), \
              "n"(DESCRIPTOR_HIGH(BOX_COLUMNS))); \
    } \
};

DEFINE_PRODUCT(8, 1, "%4", "%5", "%6", "%7", "%8", "%9")
DEFINE_PRODUCT(16, 2, "%8", "%9", "%10", "%11", "%12", "%13")
DEFINE_PRODUCT(24, 3, "%12", "%13", "%14", "%15", "%16", "%17")
DEFINE_PRODUCT(32, 4, "%16", "%17", "%18", "%19", "%20", "%21")
DEFINE_PRODUCT(40, 5, "%20", "%21", "%22", "%23", "%24", "%25")
DEFINE_PRODUCT(48, 6, "%24", "%25", "%26", "%27", "%28", "%29")
DEFINE_PRODUCT(56, 7, "%28", "%29", "%30", "%31", "%32", "%33")
DEFINE_PRODUCT(64, 8, "%32", "%33", "%34", "%35", "%36", "%37")
DEFINE_PRODUCT(72, 9, "%36", "%37", "%38", "%39", "%40", "%41")
DEFINE_PRODUCT(80, 10, "%40", "%41", "%42", "%43", "%44", "%45")
DEFINE_PRODUCT(88, 11, "%44", "%45", "%46", "%47", "%48", "%49")
DEFINE_PRODUCT(96, 12, "%48", "%49", "%50", "%51", "%52", "%53")
DEFINE_PRODUCT(104, 13, "%52", "%53", "%54", "%55", "%56", "%57")
DEFINE_PRODUCT(112, 14, "%56", "%57", "%58", "%59", "%60", "%61")
DEFINE_PRODUCT(120, 15, "%60", "%61", "%62", "%63", "%64", "%65")
DEFINE_PRODUCT(128, 16, "%64", "%65", "%66", "%67", "%68", "%69")
// clang-format on
