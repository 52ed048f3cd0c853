"""Orders in, an invoice out: enumerations, unions, optional and nested models."""

from enum import Enum
from typing import Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field, field_validator


class Size(str, Enum):
    SMALL = "small"
    LARGE = "large"


class Coffee(BaseModel):
    kind: Literal["coffee"] = "coffee"
    size: Size = Size.SMALL
    shots: int = Field(1, ge=1, le=4)


class Cake(BaseModel):
    kind: Literal["cake"] = "cake"
    slices: int = Field(1, ge=1)


class Line(BaseModel):
    item: Coffee | Cake = Field(discriminator="kind")
    note: str | None = None


class OrderAction(Action):
    customer: str
    lines: list[Line]

    @field_validator("customer")
    @classmethod
    def _named(cls, value):
        if not value.strip():
            raise ValueError("a customer has a name")
        return value


class Invoice(BaseModel):
    total: float
    by_kind: dict[str, int]
    lines: list[Line]


class OrderObservation(Observation):
    invoice: Invoice | None = None
    open_tables: list[list[int]] = Field(default_factory=list)


class OrderState(State):
    customers: dict[str, float] = Field(default_factory=dict)
