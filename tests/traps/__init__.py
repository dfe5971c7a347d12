"""The known traps, each seen in a public tool: a test or more per trap, in the order the method lists them.

    test_1_comparing      A compared with itself; samples deleted, warm-ups used
    test_2_clock          empty callables and the timer's step; a working set that fits L2; throttled throughout
    test_3_outputs        in-place operations; wrong variants; inputs of zeros
    test_4_kernels        kernels of one name; the harness's own kernels; planning inside the timed call
    test_5_faults         memory that was resident; out of memory, a crash and a hang at one shape
    test_6_device         CUDA_VISIBLE_DEVICES; peaks by compute capability
    test_7_state          what a variant leaves behind: flags, modes, threads, seeds, the garbage collector
    test_8_persisting_l2  ... and of a GPU: the stream, its seed, the part of L2 that it kept for itself
    test_9_arrivals       a layout arranged for one variant: verified like any other, spoiled by none
    test_10_gradients     gradients that are wrong though the output is right; modes that would spoil a neighbour
    test_11_forwards      an output that is wrong though the gradients are right
    test_12_put_off       work put off from the timed `call` to the untimed `canonical`
    test_13_second_backward  gradients that are right once, where many calls of one forward are timed

Where it is practical the naive way is run beside the right one and shown to give the wrong answer, so that no test
passes because the trap was not there.
"""
