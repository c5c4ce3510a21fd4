"""Misfits between seismograms."""
