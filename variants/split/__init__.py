"""Ways to make heads contiguous: Q, K and V from [batch, seq_len, 3, n_head, head_dim], as a projection leaves them."""
