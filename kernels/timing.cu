// The three kernels an honest clock needs around the call it times.
//
//   flush   reads a buffer of at least twice the L2 cache, so that the next call finds none of its data there.
//           It reads and never writes: a writing flush leaves dirty lines whose write-back slows the next call.
//   hold    keeps the stream busy until the host has queued everything that is to be timed, so that the time
//           between two events is the GPU's alone and not the Python that launched it. It spins on a flag in
//           pinned host memory. If the host never sets the flag, because the call itself waits for the GPU,
//           it lets go after limit_ns and says so in released_by_timeout. Its last act is a stamp.
//   stamp   notes the SM's cycle counter, the time, and which SM it was. Two stamps around a call give the clock
//           the SM really ran at meanwhile: what the driver reports is up to 100 ms old, and a power cap acts in 50.
//           Cycle counters of different SMs have different origins, so a pair counts only if both are of one SM:
//           on a GPU that is idle before either, the single block lands on the same one.
//
// flush: any grid; each thread strides over 16-byte words. hold, stamp: one thread.

extern "C" __global__ void flush(const uint4* __restrict__ words, unsigned long long count, unsigned int* sink)
{
    unsigned int folded = 0;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const uint4 word = words[i];
        folded ^= word.x ^ word.y ^ word.z ^ word.w;
    }
    // The buffer is zeros, so this never happens; without it the compiler would drop the loads.
    if (folded != 0)
        *sink = folded;
}

static __device__ unsigned long long now_ns()
{
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

struct Stamp {
    unsigned long long cycles;
    unsigned long long ns;
    unsigned long long sm;
};

static __device__ void write_stamp(volatile Stamp* where)
{
    unsigned int sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    // The timer may tick only every 32 ns or, on older GPUs, every microsecond: wait for the edge of a tick.
    const unsigned long long before = now_ns();
    unsigned long long ns;
    do
        ns = now_ns();
    while (ns == before);
    where->cycles = clock64();
    where->ns = ns;
    where->sm = sm;
}

extern "C" __global__ void stamp(volatile Stamp* where)
{
    write_stamp(where);
}

extern "C" __global__ void hold(const volatile unsigned int* released, volatile unsigned int* released_by_timeout,
                                unsigned long long limit_ns, volatile Stamp* where)
{
    const unsigned long long start = now_ns();
    while (*released == 0) {
        if (now_ns() - start > limit_ns) {
            *released_by_timeout = 1;
            return;
        }
    }
    write_stamp(where);
}
