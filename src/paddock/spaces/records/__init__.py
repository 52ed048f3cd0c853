"""What is behind `Struct`: the fields of typed records, their JSON Schema, and data read by such a schema.

::

    fields.py    the fields of any record; data with records in it opened up to plain data; where two values differ
    kinds.py     dataclasses, msgspec structs and unions: schema, making one, taking one apart
    pydantic.py  the same for pydantic models; loaded when a class is one
    schema.py    the JSON Schema of a record: written, tidied or refused
    nodes.py     a schema compiled to nodes, which read and sample
"""
