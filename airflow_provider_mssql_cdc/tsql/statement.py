"""A statement is one value: its text and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_PARAMETERS: Mapping[str, str | int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Statement:
    """T-SQL with ``%(name)s`` markers, the one style that pymssql and mssql-python share.

    A literal percent sign is doubled in ``text`` (:func:`~.identifiers.quote_identifier` does it), in
    statements without parameters too, so that every reader treats every statement alike.
    """

    text: str
    parameters: Mapping[str, str | int] = field(default_factory=lambda: _NO_PARAMETERS)

    @property
    def driver_arguments(self) -> tuple[str, dict[str, str | int]] | tuple[str]:
        """What ``cursor.execute`` takes: without parameters a driver leaves ``%%`` as it is."""
        if self.parameters:
            return self.text, dict(self.parameters)
        return (self.text.replace("%%", "%"),)
