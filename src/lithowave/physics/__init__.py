"""Formulas of elasticity and of sources that several packages use, each stated once, in NumPy."""
