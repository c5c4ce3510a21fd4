"""Work that begins before the modules of a run are imported. This module imports little itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lithowave.backends.cuda_driver import begin_context
from lithowave.parallel.launchers import launched
from lithowave.readers.budget import DESCRIPTION_BYTES

# A run with one of these words in its file or options may not use the first device of this process.
ELSEWHERE = ("cpu", "survey")


def begin_device(file: Path, options: Sequence[str]) -> bool:
    """Begin to create the CUDA context, if a run is certain not to select the CPU; return True if it begins.

    The run of one shot on one rank uses the first device, if there is one. A survey may start other processes.

    Parameters
    ----------
    file : the simulation file, not yet validated.
    options : values of options of the command line that replace its entries.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            texts = [stream.read(DESCRIPTION_BYTES), *options]
    except (OSError, ValueError):  # reported when the file is read
        return False
    if launched() or any(word in text.lower() for text in texts for word in ELSEWHERE):
        return False
    return begin_context() is not None
