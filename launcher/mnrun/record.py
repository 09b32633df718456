"""Make the records of a launch: named tuples, as typing.NamedTuple makes them, in a third of its time.

typing compiles the annotation of each field, and a launch makes some hundred classes before its first step.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ("Record",)

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            for key, value in body.items():
                setattr(made, key, value)
            return made

    Record = type.__new__(_Maker, "Record", (), {})
