"""A direction in, the place out."""

from typing import Literal

from openenv.core.env_server.types import Action, Observation
from pydantic import Field


class MazeAction(Action):
    direction: Literal["up", "down", "left", "right"]


class MazeObservation(Observation):
    position: list[int]
    goal: list[int]
    walls: list[list[int]] = Field(default_factory=list, description="Cells that can't be entered")
