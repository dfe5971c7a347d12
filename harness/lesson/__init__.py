"""Experiments of `claims` that time nothing: by algebra, by training a small transformer. On the CPU, seeded."""
