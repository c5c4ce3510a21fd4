"""Agreement of several methods: one description run by each of them, and the causes of their differences."""

from lithowave.agreement.planning import AgreementPlan, PlannedRun, plan_agreement
from lithowave.agreement.prediction import AgreementForecast, RunForecast, forecast_agreement
from lithowave.agreement.result import Agreement
from lithowave.agreement.running import agree

__all__ = [
    "Agreement",
    "AgreementForecast",
    "AgreementPlan",
    "PlannedRun",
    "RunForecast",
    "agree",
    "forecast_agreement",
    "plan_agreement",
]
