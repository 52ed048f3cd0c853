"""A button in, a screen out: flat, with its shape."""

from openenv.core.env_server.types import Action, Observation


class FramesAction(Action):
    action_id: int
    game_name: str = "square"


class FramesObservation(Observation):
    screen: list[int]
    screen_shape: list[int]
    legal_actions: list[int]
    lives: int = 3
