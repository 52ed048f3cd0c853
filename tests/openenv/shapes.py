"""What two classes accept, without their words, to compare them."""

import importlib
import inspect


def shape(schema):
    if isinstance(schema, dict):
        return {key: shape(item) for key, item in schema.items() if key not in ("description", "examples")}
    return [shape(item) for item in schema] if isinstance(schema, list) else schema


def methods(classes):
    """The parameters of each public method: {"EnvClient.step": ["self", "action", "**"]}."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = {}
    for module, names in classes.items():
        for name in names.split():
            cls = getattr(importlib.import_module(module), name)
            for method in dir(cls):
                value = inspect.getattr_static(cls, method)
                value = value.__func__ if isinstance(value, classmethod) else value
                if (method == "__init__" or not method.startswith("_")) and inspect.isfunction(value):
                    parameters = inspect.signature(value).parameters.values()
                    found[f"{name}.{method}"] = [stars.get(one.kind, one.name) for one in parameters]
    return found
