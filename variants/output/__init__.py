"""Ways to compute step 5: Y [batch, seq_len, d_model] from O [batch, n_head, seq_len, head_dim]."""
