"""Each order is paid; the reward is its price."""

from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment

try:
    from ..models import Invoice, OrderAction, OrderObservation, OrderState
except ImportError:
    from models import Invoice, OrderAction, OrderObservation, OrderState


class OrderEnvironment(Environment[OrderAction, OrderObservation, OrderState]):
    """Closes after three orders. Asynchronous."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = OrderState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> OrderObservation:
        self._state = OrderState(episode_id=episode_id or str(uuid4()), step_count=0)
        return OrderObservation(open_tables=[[1, 2], [3]])

    async def step_async(self, action: OrderAction, timeout_s: float | None = None, **kwargs) -> OrderObservation:
        return self.step(action)

    def step(self, action: OrderAction, timeout_s: float | None = None, **kwargs: Any) -> OrderObservation:
        self._state.step_count += 1
        total, kinds = 0.0, {}
        for line in action.lines:
            coffee = line.item.kind == "coffee"
            total += 2.5 * line.item.shots if coffee else 3.25 * line.item.slices
            kinds[line.item.kind] = kinds.get(line.item.kind, 0) + 1
        self._state.customers[action.customer] = self._state.customers.get(action.customer, 0.0) + total
        invoice = Invoice(total=total, by_kind=kinds, lines=action.lines)
        return OrderObservation(invoice=invoice, reward=total, done=self._state.step_count >= 3)

    @property
    def state(self) -> OrderState:
        return self._state
