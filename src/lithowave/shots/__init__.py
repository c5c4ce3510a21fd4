"""Surveys: shots of one description, each computed by a separate run."""

from __future__ import annotations

from lithowave.rooms import public_names
from lithowave.shots.checking import SurveyReport, check_survey
from lithowave.shots.folder import SurveyState, state_of
from lithowave.shots.running import SurveyResult, restart_survey, run_shot, run_survey

__all__ = [
    "SurveyReport", "SurveyResult", "SurveyState", "check_survey", "restart_survey", "run_shot", "run_survey",
    "state_of",
]  # fmt: skip

__getattr__, _others = public_names(__name__, {
    "folder": "SurveyFolder shot_slots survey_state",
    "tasks": "ReceivedRequests SentRequests ShotExecutor ShotTask shot_environment",
})
__all__ += _others
