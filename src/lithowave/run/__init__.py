"""Runs: their launch, time loop, dry run, progress, and the watch over them."""
