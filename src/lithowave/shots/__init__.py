"""Surveys: shots of one description, each computed by a separate run."""

from lithowave.shots.checking import SurveyReport, check_survey
from lithowave.shots.running import SurveyResult, restart_survey, run_shot, run_survey
from lithowave.shots.state import SurveyState, state_of

__all__ = [
    "SurveyReport",
    "SurveyResult",
    "SurveyState",
    "check_survey",
    "restart_survey",
    "run_shot",
    "run_survey",
    "state_of",
]
