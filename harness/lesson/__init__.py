"""Experiments of `claims` that time nothing: by algebra, and by training a small transformer. All on the CPU, seeded."""
