"""Ways to compute step 4: O from Q, K and V, each [batch, n_head, seq_len, head_dim]."""
