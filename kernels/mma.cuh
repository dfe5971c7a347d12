// The instructions of compute capability 8.0 that CUDA C++ has no names for: tensor-core products, the loads that
// feed them, copies that run behind the arithmetic. `FP16` chooses the element: 1 is fp16, 0 is bf16.
//
// A warp holds a matrix in fragments, some elements in each lane's registers. With g = lane / 4 and t = lane % 4, and
// two 16-bit elements to a register:
//
//   A  16 rows × 16   a[0] row g,   columns 2t, 2t+1      a[2] the same row,  columns 2t+8, 2t+9
//                     a[1] row g+8, columns 2t, 2t+1      a[3] the same row,  columns 2t+8, 2t+9
//   B  16 × 8 columns b0 rows 2t, 2t+1 of column g        b1 rows 2t+8, 2t+9 of column g
//   C  16 rows × 8    c[0], c[1] row g, columns 2t, 2t+1  c[2], c[3] row g+8         (float32)
//
// So two neighbouring C, rounded and packed, are one A: that is how softmax's output becomes the next product's input
// without leaving the registers.
//
// ldmatrix reads 8 × 8 matrices from shared memory: lane i gives the address of row i % 8 of matrix i / 8 (16 bytes,
// aligned), and receives columns 2t, 2t+1 of row g of each. Transposed, it receives rows 2t, 2t+1 of column g.

#if FP16
#define ELEMENT "f16"
#else
#define ELEMENT "bf16"
#endif

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// C += A · B, 16 × 8 × 16.
__device__ __forceinline__ void mma_k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// C += A · B, 16 × 8 × 8: a[2], a[3] and b1 fall away.
__device__ __forceinline__ void mma_k8(float (&c)[4], const unsigned (&a)[4], unsigned b0)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32." ELEMENT "." ELEMENT ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b0));
}

__device__ __forceinline__ void ldmatrix_4(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

// Lanes 0 to 15 give the addresses; r[2] and r[3] are left alone.
__device__ __forceinline__ void ldmatrix_2(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}

__device__ __forceinline__ void ldmatrix_4_transposed(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

__device__ __forceinline__ void ldmatrix_2_transposed(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}

// 16 bytes from global to shared memory, in the background; zeros, and no read, where `present` is false.
__device__ __forceinline__ void copy_16_async(unsigned to, const void* from, bool present)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}

// The copies since the last commit are one group.
__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for this thread's groups, all but the newest `PENDING`; others' are there after the next barrier.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two float32 rounded to elements, the first in the lower half.
__device__ __forceinline__ unsigned pack(float low, float high)
{
    unsigned both;
    asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
