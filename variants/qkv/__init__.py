"""Ways to compute steps 1–3: Q, K and V from X [batch, seq_len, d_model]."""
