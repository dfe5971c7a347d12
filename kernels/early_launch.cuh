// A kernel that begins while the one before it is still ending (programmatic dependent launch, see early_launch.py); on GPUs
// before compute capability 9.0 there is no such thing, and nothing to wait for.

// Until all that was queued before this kernel is done, and what it wrote can be seen. Before, nothing may be read or written
// that another kernel might. It holds for the block's other threads, too, once they have met one that waited.
__device__ __forceinline__ void await_kernels_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel's blocks may begin, as soon as every block of this one has said so or is done, where there is room for them.
__device__ __forceinline__ void let_next_kernel_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
