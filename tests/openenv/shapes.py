"""A JSON Schema without its words, to compare what two classes accept."""


def shape(schema):
    if isinstance(schema, dict):
        return {key: shape(item) for key, item in schema.items() if key not in ("description", "examples")}
    return [shape(item) for item in schema] if isinstance(schema, list) else schema
