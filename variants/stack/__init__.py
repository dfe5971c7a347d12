"""Ways to compute n_layer sublayers, each added to what it was given: Y from X, both [batch, seq_len, d_model]."""
