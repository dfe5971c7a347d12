"""Device code (`*.cu`, one kernel family a file) and the loader that compiles it for the GPU present."""
