"""Runs: launch, time loop, dry run, progress, and instability watch."""

from __future__ import annotations

from lithowave.rooms import public_names

__getattr__, __all__ = public_names(__name__, {
    "check":
        "ScalingEstimate TRANSPORTS check_simulation duration_text estimate_scaling layer_lines receiver_line "
        "transport_of",
    "launch": "WAVEFORM_WRITERS restart_run run_simulation",
    "loop": "InstabilityWatch Integration NOISE Onsets UserCallback WINDOW_GROWTH crossing_time",
    "progress": "BENCH CHECK LoopTimes efficiency_line load_rate loop_efficiency rates_file store_rate stored_rates",
    "requirements": "MemoryRequirement memory_needed output_bytes",
    "signals": "SignalHandler SignalRequests stop_signals",
    "time_limit": "RESUME_STATUS",
    "status": "HEARTBEAT_TIMEOUT ProgressLine Result is_locked last_checkpoint run_state",
})
