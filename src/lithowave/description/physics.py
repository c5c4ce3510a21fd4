"""Terms of the equations of motion beyond elasticity, attenuation and sources."""

from __future__ import annotations

from pydantic import Field, StrictBool

from lithowave.description.base import DescriptionModel


class Physics(DescriptionModel):
    """Terms of the equations of motion that are omitted by default."""

    gravity: StrictBool = Field(
        default=False,
        description="true: the gravity of a radial model of the Earth acts on the displaced medium, without changes of "
        "the potential (Cowling approximation); with spectral_element, in a chunk of solid layers of material.earth.",
    )
