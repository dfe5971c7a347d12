"""Ways to compute all five steps: Y from X, both [batch, seq_len, d_model]."""
