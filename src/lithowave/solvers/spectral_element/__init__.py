"""Spectral elements on hexahedra."""
