"""A guess in, messages out."""

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field


class WordMessage(BaseModel):
    sender_id: int
    content: str
    category: str = "GAME"


class WordAction(Action):
    message: str


class WordObservation(Observation):
    prompt: str = ""
    messages: list[WordMessage] = Field(default_factory=list)
    current_player_id: int = 0
    info: dict[str, Any] = Field(default_factory=dict)


class WordState(State):
    turn: int = 0
    last_reward: float = 0.0
    last_info: dict[str, Any] | None = None
