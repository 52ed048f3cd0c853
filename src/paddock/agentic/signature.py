"""A function's annotations as two spaces: of its arguments by name, and of what it returns. Defaults stay unchecked."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from copy import deepcopy
from typing import Annotated, Any, NamedTuple

import msgspec

from paddock.agentic.content import Image, Text
from paddock.agentic.docstring import Described
from paddock.errors import InvalidSpace, InvalidTool
from paddock.spaces import Struct
from paddock.spaces.records.fields import is_pydantic

_NO_DEFAULT = inspect.Parameter.empty
_PLAIN = (bool, int, float, str, type(None))
_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only ",
}


class Field(NamedTuple):
    """An argument. ``default`` is ``inspect.Parameter.empty`` where it has none."""

    name: str
    hint: Any
    default: Any = _NO_DEFAULT
    description: str = ""


class Signature:
    """What ``function``, a method of the class ``owner``, takes and returns; InvalidTool says what is wrong with it."""

    def __init__(self, function: Callable[..., Any], described: Described, owner: str) -> None:
        self._place = f"{owner}.{function.__name__}"
        hints = self._hints(function)
        fields = self._fields(function, hints, described)
        self._arguments = self._space("Arguments", fields)
        self.names = tuple(field.name for field in fields)
        self.input_schema = _object_schema(self._arguments)
        if "return" not in hints:
            raise InvalidTool(f"{self._place} does not say what it returns; write `-> str`, or `-> Any`.")
        self.returns = hints["return"]
        self.gives_content = self.returns is not Any and _mentions(self.returns, (Text, Image))
        self._result = None if self.gives_content else self._space("Result", [Field("result", self.returns)])
        self.output_schema = None if self._result is None else _result_schema(self._result)

    def read(self, arguments: Any) -> dict[str, Any]:
        """Keywords for the function; InvalidValue names the argument that is wrong."""
        if not self.names and not arguments:
            return {}
        record = self._arguments.validate(arguments)
        return {name: getattr(record, name) for name in self.names}

    def plain(self, result: Any) -> Any:
        """What the function returned as JSON data; InvalidValue if it is not what was declared."""
        if self._result is None or (self.returns is str and type(result) is str and result.isascii()):
            return result
        (record,) = self._result.records
        if is_pydantic(record):
            return self._result.to_plain({"result": result})["result"]
        return self._result.to_plain(record(result=result))["result"]

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function, include_extras=True)
        except Exception as error:  # a name that is not there, or whatever evaluating an annotation raises
            raise InvalidTool(f"{self._place}: its annotations can't be evaluated: {error}.") from error

    def _fields(self, function: Callable[..., Any], hints: dict[str, Any], described: Described) -> list[Field]:
        itself, *parameters = inspect.signature(function).parameters.values() or (None,)
        if itself is None or itself.kind not in (itself.POSITIONAL_ONLY, itself.POSITIONAL_OR_KEYWORD):
            raise InvalidTool(f"{self._place} takes no `self`: a tool is a method of its environment.")
        for parameter in parameters:
            if parameter.kind in _KINDS:
                raise InvalidTool(
                    f"{self._place}: a model gives every argument by its name, so a tool can't have "
                    f"{_KINDS[parameter.kind]}{parameter.name}; name each argument, or take a list or a dict."
                )
            if parameter.name not in hints:
                raise InvalidTool(
                    f"{self._place}: argument {parameter.name!r} has no type; write `{parameter.name}: int`, or "
                    "whatever it is. A model's call is checked by it."
                )
        names = [parameter.name for parameter in parameters]
        unknown = [name for name in described.arguments if name not in names]
        if unknown:
            raise InvalidTool(f"{self._place}: its docstring has an argument {unknown[0]!r}, the signature has none.")
        return [
            Field(one.name, hints[one.name], one.default, described.arguments.get(one.name, "")) for one in parameters
        ]

    def _space(self, name: str, fields: list[Field]) -> Struct[Any]:
        try:
            if any(_mentions_pydantic(field.hint) for field in fields):
                return Struct(_model(name, fields))
            return Struct(_struct(name, fields))
        except (InvalidSpace, TypeError, ValueError) as error:
            told = str(error).replace(f"{name}.", "", 1)
            raise InvalidTool(f"{self._place}: {told}.") from error


def _struct(name: str, fields: list[Field]) -> type:
    return msgspec.defstruct(name, [_struct_field(field) for field in fields], kw_only=True)


def _struct_field(field: Field) -> Any:
    hint = field.hint
    if field.description:
        hint = Annotated[hint, msgspec.Meta(description=field.description)]
    if field.default is _NO_DEFAULT:
        return field.name, hint
    default = field.default
    if type(default) in _PLAIN:
        return field.name, hint, default
    return field.name, hint, msgspec.field(default_factory=lambda: deepcopy(default))


def _model(name: str, fields: list[Field]) -> Any:
    import pydantic

    made: dict[str, Any] = {}
    for field in fields:
        default = ... if field.default is _NO_DEFAULT else field.default
        made[field.name] = (field.hint, pydantic.Field(default, description=field.description or None))
    return pydantic.create_model(name, __config__={"arbitrary_types_allowed": True}, **made)


def _mentions(hint: Any, wanted: tuple[Any, ...]) -> bool:
    return hint in wanted or any(_mentions(part, wanted) for part in typing.get_args(hint))


def _mentions_pydantic(hint: Any) -> bool:
    return is_pydantic(hint) or any(map(_mentions_pydantic, typing.get_args(hint)))


def _object_schema(space: Struct[Any]) -> dict[str, Any]:
    """The schema of a Struct with its fields at the top, where every trainer looks for them; closed to others."""
    schema = dict(space.described)
    definitions = dict(schema.pop("$defs", {}))
    if "$ref" in schema:
        schema = dict(definitions.pop(schema["$ref"].rpartition("/")[2]))
    schema.pop("title", None)
    schema = {"type": "object", "properties": {}, "required": [], **schema, "additionalProperties": False}
    return {**schema, "$defs": definitions} if definitions else schema


def _result_schema(space: Struct[Any]) -> dict[str, Any] | None:
    """The schema of the one field; None where anything may come."""
    schema = _object_schema(space)
    own = {key: item for key, item in schema["properties"]["result"].items() if key != "title"}
    if not own:
        return None
    return {**own, "$defs": schema["$defs"]} if "$defs" in schema else own
