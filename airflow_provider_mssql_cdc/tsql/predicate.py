"""One condition with its parameters, and how conditions are joined.

A :data:`Term` is a condition, or a truth value that is known without asking the server: NULL rules turn
comparisons with a NULL bound into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition for WHERE; the empty text is always true.

    Parameters are called ``lo0`` … and ``hi0`` … after the bound and the column's place in the key.
    """

    text: str
    parameters: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMETERS)

    @property
    def where(self) -> str:
        """The clause with its keyword on a line of its own, or nothing."""
        return f"\nWHERE {self.text}" if self.text else ""

    @property
    def is_nothing(self) -> bool:
        """Whether no row can fulfil it, as known without asking the server."""
        return self.text == NOTHING.text


EVERYTHING = Predicate("")
NOTHING = Predicate("1 = 0")

Term = Predicate | bool


def all_of(terms: Iterable[Term], *, word: str = "\n  AND ") -> Term:
    """The terms joined by AND."""
    conditions: list[Predicate] = []
    for term in terms:
        if term is False:
            return False
        if isinstance(term, Predicate):
            conditions.append(term)
    return _joined(conditions, word) if conditions else True


def any_of(terms: Iterable[Term]) -> Term:
    """The terms joined by OR, in parentheses where there are several."""
    conditions: list[Predicate] = []
    for term in terms:
        if term is True:
            return True
        if isinstance(term, Predicate):
            conditions.append(term)
    if len(conditions) < 2:
        return conditions[0] if conditions else False
    joined = _joined(conditions, "\n    OR ")
    return Predicate(f"({joined.text})", joined.parameters)


def as_predicate(term: Term) -> Predicate:
    """A term as a condition for WHERE."""
    if isinstance(term, Predicate):
        return term
    return EVERYTHING if term else NOTHING


def _joined(conditions: Sequence[Predicate], word: str) -> Predicate:
    parameters = {name: value for condition in conditions for name, value in condition.parameters.items()}
    return Predicate(word.join(condition.text for condition in conditions), parameters)
