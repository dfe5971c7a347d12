// The two kernels an honest clock needs around the call it times.
//
//   flush   reads a buffer of at least twice the L2 cache, so that the next call finds none of its data there.
//           It reads and never writes: a writing flush leaves dirty lines whose write-back slows the next call.
//   hold    keeps the stream busy until the host has queued everything that is to be timed, so that the time
//           between two events is the GPU's alone and not the Python that launched it. It spins on a flag in
//           pinned host memory. If the host never sets the flag, because the call itself waits for the GPU,
//           it lets go after limit_ns and says so in released_by_timeout.
//
// flush: any grid; each thread strides over 16-byte words. hold: one thread.

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

extern "C" __global__ void hold(const volatile unsigned int* released, volatile unsigned int* released_by_timeout,
                                unsigned long long limit_ns)
{
    const unsigned long long start = now_ns();
    while (*released == 0) {
        if (now_ns() - start > limit_ns) {
            *released_by_timeout = 1;
            return;
        }
    }
}
