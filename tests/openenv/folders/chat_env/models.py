"""Tokens in, the conversation out."""

from openenv_core.env_server import Action, Message, Observation, State
from pydantic import Field


class ChatAction(Action):
    tokens: list[int] = Field(default_factory=list)


class ChatObservation(Observation):
    messages: list[Message] = Field(default_factory=list)
    tokens: list[int] = Field(default_factory=list)


class ChatState(State):
    history_messages: list[Message] = Field(default_factory=list)
    history_tokens: list[int] = Field(default_factory=list)
