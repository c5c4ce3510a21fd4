"""Exact solutions that the solvers are measured against; they share no code with them."""
