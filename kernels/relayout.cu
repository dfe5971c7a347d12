// Up to three tensors [batch, n_head, seq_len, head_dim] of any strides, in most cases views of a fused projection's
// output, copied head by head into dense ones: the transpose between projection and attention, in one launch.
//
// Who does what. A row, head_dim elements, is CHUNKS pieces of VECTOR_BYTES. A thread takes one piece of one head and
// TOKENS tokens that follow each other: it loads them all, then stores them all, so that a warp has TOKENS loads in flight
// for each lane and works out its place once. Neighbouring threads take neighbouring pieces of a token, across its heads,
// then the next TOKENS tokens. So a warp reads 512 bytes in the order they lie in after a projection, and writes whole rows,
// TOKENS of a head behind one another; what of a memory sector belongs to the next row, a neighbour writes at the same
// time, and the L2 cache puts it together.
//
// The grid. A sequence of one tensor is `blocks_per_sequence` blocks; those of the other tensors come next, then the next
// sequence, so that Q, K and V of a token, which lie in one row, are read at about the same time. Within a sequence indices
// fit 32 bits, and two divisions a thread are all the arithmetic there is.
//
// Edges. Threads beyond a sequence's last piece do nothing, tokens beyond its end are neither read nor written.
//
// The floor is a plain copy of as many bytes: each is read once and written once.

#include "early_launch.cuh"

#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif
#define THREADS 256
#define TOKENS 4

#if VECTOR_BYTES == 16
typedef uint4 Vector;
#elif VECTOR_BYTES == 8
typedef uint2 Vector;
#elif VECTOR_BYTES == 4
typedef unsigned Vector;
#elif VECTOR_BYTES == 2
typedef unsigned short Vector;
#endif

struct Source {
    const char* data;
    long long batch_stride, head_stride, token_stride;   // bytes
};

struct Problem {
    Source sources[3];
    char* out;                       // [tensors, batch, n_head, seq_len, head_dim], dense
    unsigned batch, heads, seq_len;
    unsigned chunks;                 // of a row
    unsigned blocks_per_sequence;    // of one tensor
    unsigned tensors;
};

extern "C" __global__ void __launch_bounds__(THREADS) relayout(const __grid_constant__ Problem problem)
{
    await_kernels_before();
    let_next_kernel_begin();
    const unsigned slice = blockIdx.x / problem.blocks_per_sequence;
    const unsigned item = blockIdx.x % problem.blocks_per_sequence * THREADS + threadIdx.x;
    const unsigned pieces = problem.heads * problem.chunks;   // of one token
    const unsigned token = item / pieces * TOKENS, piece = item % pieces;
    if (token >= problem.seq_len)
        return;
    const unsigned head = piece / problem.chunks, chunk = piece % problem.chunks;
    const unsigned batch = slice / problem.tensors, tensor = slice % problem.tensors;
    const Source& source = problem.sources[tensor];
    const char* from = source.data + batch * source.batch_stride + head * source.head_stride +
        token * source.token_stride + chunk * VECTOR_BYTES;
    const long long row_bytes = (long long)problem.chunks * VECTOR_BYTES;
    const long long sequence = (long long)tensor * problem.batch + batch;
    const long long row = (sequence * problem.heads + head) * problem.seq_len + token;
    char* to = problem.out + row * row_bytes + chunk * VECTOR_BYTES;

    Vector held[TOKENS];
#pragma unroll
    for (int i = 0; i < TOKENS; ++i)
        if (token + i < problem.seq_len)
            held[i] = *(const Vector*)(from + i * source.token_stride);
#pragma unroll
    for (int i = 0; i < TOKENS; ++i)
        if (token + i < problem.seq_len)
            *(Vector*)(to + i * row_bytes) = held[i];
}
