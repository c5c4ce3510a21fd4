"""Exact reference solutions for the solvers, with which they share no code."""
