"""Readers of files that other programs write, one module per format."""
