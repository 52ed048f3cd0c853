"""The app of typed_env, which extends what create_app returns."""

from openenv.core.env_server.http_server import create_app

try:
    from ..models import OrderAction, OrderObservation, OrderState
    from .order_environment import OrderEnvironment
except ImportError:
    from models import OrderAction, OrderObservation, OrderState
    from server.order_environment import OrderEnvironment

app = create_app(
    env=OrderEnvironment,
    action_cls=OrderAction,
    observation_cls=OrderObservation,
    env_name="typed_env",
    max_concurrent_envs=8,
    state_cls=OrderState,
    reset_observation_cls=OrderObservation,
)


@app.get("/menu")
def menu():
    """Not OpenEnv's."""
    return ["coffee", "cake"]
