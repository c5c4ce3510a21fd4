"""Exact solutions for the verification of the solvers, with which they share no code."""
