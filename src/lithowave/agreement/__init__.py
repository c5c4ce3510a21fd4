"""Agreement of several methods: one description run by each of them, and the causes of their differences."""

from __future__ import annotations

from lithowave.agreement.planning import (
    AgreementForecast,
    AgreementPlan,
    PlannedRun,
    RunForecast,
    forecast_agreement,
    plan_agreement,
)
from lithowave.agreement.result import Agreement
from lithowave.agreement.running import agree
from lithowave.rooms import public_names

__all__ = [
    "Agreement", "AgreementForecast", "AgreementPlan", "PlannedRun", "RunForecast", "agree", "forecast_agreement",
    "plan_agreement",
]  # fmt: skip

__getattr__, _others = public_names(__name__, {
    "planning": "BASE FINER WIDER finer_changes outward_shift receiver_position wider_changes",
    "result": "WEAKEST attribute bounded_factors misfit receiver_norms",
    "running": "analyze reference_method refuse_ranks",
})
__all__ += _others
