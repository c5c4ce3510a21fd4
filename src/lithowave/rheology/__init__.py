"""Attenuation: bodies with relaxation mechanisms that are fitted to a quality factor, and their moduli.

The package requires NumPy only; it depends on no solver, device or description.
"""
