"""The JSON Schema of dataclasses and msgspec structs. msgspec writes it; spaces that annotate fields are put in here.

msgspec asks about a class it does not know without saying which field it stands in, so each annotation with a space is
described by itself and set into its field afterwards.
"""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any

from paddock.errors import InvalidSpace
from paddock.spaces.json_form import write_form
from paddock.spaces.json_schema import describe
from paddock.spaces.records.fields import is_pydantic
from paddock.spaces.records.hoist import DEFINITIONS, Schema
from paddock.spaces.records.tidy import SPACE
from paddock.spaces.space import Space

_UNKNOWN = "x-paddock-unknown"


def space_schema(space: Space[Any]) -> Schema:
    """The schema of a space's members; the form of the space itself stands in it, for those who know that."""
    return {**describe(space), SPACE: write_form(space, "$")}


def record_schema(record: type) -> Schema:
    """The schema of a dataclass or msgspec struct; InvalidSpace names the field that can have none."""
    import msgspec

    records: dict[type, dict[str, Any]] = {}
    _collect(record, records)
    places = [(cls, name, hint) for cls, hints in records.items() for name, hint in hints.items()]
    translated = [(cls, name, _translate(hint)) for cls, name, hint in places]
    changed = [place for place, (*_, hint) in zip(translated, places, strict=True) if place[2] is not hint]
    try:
        found, definitions = msgspec.json.schema_components(
            [*records, *(hint for *_, hint in changed)],
            schema_hook=_describe_class,
            ref_template=DEFINITIONS + "{name}",
        )
    except (TypeError, ValueError, NameError) as error:
        raise InvalidSpace(f"{record.__name__} has no JSON Schema: {error}") from error
    names = {cls: schema["$ref"].removeprefix(DEFINITIONS) for cls, schema in zip(records, found, strict=False)}
    for (cls, name, _), schema in zip(changed, found[len(records) :], strict=True):
        fields = definitions[names[cls]]["properties"]
        fields[_outside(cls, name)] = schema
    _check_known(definitions, record)
    return {"$ref": DEFINITIONS + names[record], "$defs": definitions}


def _collect(hint: Any, found: dict[type, dict[str, Any]]) -> None:
    """The records in an annotation, each with the annotations of its fields."""
    if isinstance(hint, type) and hint not in found and _is_ours(hint):
        try:
            hints = typing.get_type_hints(hint, include_extras=True)
        except Exception as error:  # a name that is not there, or whatever evaluating an annotation raises
            raise InvalidSpace(f"the annotations of {hint.__name__} can't be evaluated: {error}") from error
        own = getattr(hint, "__struct_fields__", None) or vars(hint).get("__dataclass_fields__", ())
        found[hint] = {name: hints[name] for name in own}
        for item in found[hint].values():
            _collect(item, found)
    for item in typing.get_args(hint):
        _collect(item, found)


def _is_ours(cls: type) -> bool:
    return not is_pydantic(cls) and (hasattr(cls, "__struct_fields__") or hasattr(cls, "__dataclass_fields__"))


def _translate(hint: Any) -> Any:
    """``hint`` with a class of its own for each part that is annotated with a space; itself where there is none."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        space = next((item for item in inside[1:] if isinstance(item, Space)), None)
        if space is not None:
            return type("AnnotatedWithSpace", (), {"space": space})
        base = _translate(inside[0])
        whole = (base, *inside[1:])
        return hint if base is inside[0] else Annotated[whole]
    if origin is None or origin is typing.Literal:
        return hint
    changed = tuple(_translate(item) for item in inside)
    if all(one is other for one, other in zip(changed, inside, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 - made at run time
    return origin[changed]


def _describe_class(cls: Any) -> Schema:
    """What msgspec asks for classes that it does not know."""
    space = getattr(cls, "space", None)
    if isinstance(space, Space):
        return space_schema(space)
    return {_UNKNOWN: getattr(cls, "__name__", str(cls))}


def _outside(cls: Any, name: str) -> str:
    """The name of a field in plain data."""
    names = getattr(cls, "__struct_fields__", None)
    return name if names is None else str(cls.__struct_encode_fields__[names.index(name)])


def _check_known(definitions: Schema, record: type) -> None:
    for name, definition in definitions.items():
        for field, schema in definition.get("properties", {}).items():
            unknown = _find_unknown(schema)
            if unknown is not None:
                raise InvalidSpace(
                    f"{name}.{field}: {unknown} has no JSON Schema, so {record.__name__} is no Struct. For an array: "
                    "Annotated[np.ndarray, Box(...)]; for a pydantic model: make the record around it one too"
                )


def _find_unknown(schema: Any) -> str | None:
    parts: Any = ()
    if isinstance(schema, dict):
        if _UNKNOWN in schema:
            return str(schema[_UNKNOWN])
        parts = schema.values()
    elif isinstance(schema, list):
        parts = schema
    return next((found for found in map(_find_unknown, parts) if found is not None), None)
