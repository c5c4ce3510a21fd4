"""Parts that all numerical methods share: kernel arguments, source amplitudes, records of receivers, warnings."""
