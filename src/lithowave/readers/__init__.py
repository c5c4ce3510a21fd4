"""Readers of files that other programs write; one file for each format."""
