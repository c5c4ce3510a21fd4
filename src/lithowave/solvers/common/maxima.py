"""Maximum of a field, from partial maxima that a kernel computes."""

from __future__ import annotations

from typing import Any

import numpy as np

PARTS = 1024


class PartialMaxima:
    """Partial maxima on a device. parts : (PARTS,), filled by a kernel."""

    def __init__(self, backend: Any) -> None:
        self._backend, self.parts = backend, backend.zeros(PARTS)

    def largest(self) -> Any:
        """Return the largest of the partial maxima; infinite if one of them is infinite or NaN."""
        values = self._backend.download(self.parts)
        return values.max() if np.isfinite(values).all() else np.inf
