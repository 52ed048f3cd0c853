"""Typed records behind `Struct`: their fields, their JSON Schema, and data read by such a schema.

::

    fields.py       the fields of any record, and data with records in it opened up to plain data
    likeness.py     whether two values are the same, and where they first differ
    kinds.py        dataclasses and msgspec structs: schema, making one, taking one apart; and values without a class
    unions.py       several classes as one kind
    pydantic.py     the same for pydantic models; loaded when a class is one
    plain.py        whether there is nothing but plain data in a value
    quick.py        a quick yes for the common case; never a no
    known.py        records of paddock's own, which arrive as what they were
    annotations.py  the JSON Schema of msgspec's kinds, with the spaces that annotate fields
    hoist.py        definitions brought to the top of a larger schema
    tidy.py         a schema cut down to what we understand, or refused where a stranger wrote it
    compile.py      a tidy schema as nodes
    leaves.py containers.py walk.py    the nodes: they read and sample
    pattern.py      regular expressions that can't take long
"""
