"""Write fault.srf, a kinematic rupture with the moment and the mechanism of the Chino Hills earthquake.

    python examples/chino_hills/make_fault.py

The fault, 7 x 5.6 km, has 35 x 28 subfaults and random slip. The rupture begins near its eastern end, at the position
in CMTSOLUTION, and propagates along strike. The spectrum of the sum of all moment rates has decreased to 5% at 0.71 Hz,
as high as the simulation resolves. Another seed gives another distribution of slip.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.faults import FiniteFault, planar_rupture
from lithowave.readers.events import read_cmtsolutions
from lithowave.readers.srf import write_srf

FOLDER = Path(__file__).parent
LENGTH, WIDTH, DIP = 7000.0, 5600.0, 58.0


def fault() -> FiniteFault:
    """Return the rupture."""
    [event] = read_cmtsolutions(FOLDER / "CMTSOLUTION")
    return planar_rupture(
        longitude=event.longitude,
        latitude=event.latitude,
        reference="hypocenter",
        strike=289.0,
        dip=DIP,
        rake=138.0,
        length=LENGTH,
        width=WIDTH,
        top_depth=event.depth - 0.5 * WIDTH * np.sin(np.radians(DIP)),
        subfaults=(35, 28),
        mw=event.magnitude,
        hypocenter=(-2500.0, 0.5 * WIDTH),
        vs=3640.0,
        density=2670.0,
        rise_time=1.7,
        smoothing=0.3,
        interval=0.05,
        seed=3,
    )


if __name__ == "__main__":
    write_srf(fault(), FOLDER / "fault.srf")
