"""Runs: launch, time loop, dry run, progress, and instability watch."""
