"""A column in, the board out."""

try:
    from core.env_server.types import Action, Observation, State
except ImportError:
    from openenv.core.env_server.types import Action, Observation, State


class Connect4Action(Action):
    column: int


class Connect4Observation(Observation):
    board: list[list[int]]
    legal_actions: list[int]


class Connect4State(State):
    next_player: int = 1
