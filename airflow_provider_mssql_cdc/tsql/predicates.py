"""A key range as disjoint, seekable conditions.

T-SQL has no row-value comparison, and one WHERE with ORs seeks on the leading column only. So a range
from (x, y) to (u, v) over (a, b) is cut into ``a = x AND b >= y``, ``a > x AND a < u`` and
``a = u AND b < v``; the leading values that both bounds share become equalities.

Whether two bounds share a value is decided by their text. Where texts differ and the server may still
hold the values for equal ('n' and 'N'), the lower pieces also check the upper bound and the upper pieces
``a > x``, so that every row comes exactly once either way.

NULL sorts first. On a nullable column ``< y`` is ``(c < y OR c IS NULL)``, ``>= NULL`` is true,
``> NULL`` is IS NOT NULL, ``< NULL`` is false and ``= NULL`` is IS NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from airflow_provider_mssql_cdc.model.columns import Column
from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.tsql.bounds import BoundText, is_bindable, is_canonical, typed_bound
from airflow_provider_mssql_cdc.tsql.identifiers import quote_identifier

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition for WHERE, with its parameters; the empty text is always true.

    Parameters are called ``lo0`` … and ``hi0`` … after the bound and the column's place in the key.
    """

    text: str
    parameters: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def where(self) -> str:
        """The clause with its keyword on a line of its own, or nothing."""
        return f"\nWHERE {self.text}" if self.text else ""

    @property
    def is_nothing(self) -> bool:
        """Whether no row can fulfil it, as known without asking the server."""
        return self.text == "1 = 0"


EVERYTHING = Predicate("")
NOTHING = Predicate("1 = 0")

_Term = Predicate | bool
"""A condition, or what is known without asking the server."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """One bound of a range: comparisons of the key's columns with its values."""

    columns: Sequence[Column]
    values: Bound
    prefix: str

    def __post_init__(self) -> None:
        if len(self.values) != len(self.columns):
            raise ValueError(f"a bound of {len(self.values)} values for {len(self.columns)} key columns")

    def equal(self, index: int) -> _Term:
        return equals(self.columns[index], self.values[index], f"{self.prefix}{index}")

    def above(self, index: int) -> _Term:
        if self.values[index] is None:
            return Predicate(f"{self._column(index)} IS NOT NULL") if self.columns[index].nullable else True
        return self._compare(index, ">")

    def at_least(self, index: int) -> _Term:
        return True if self.values[index] is None else self._compare(index, ">=")

    def below(self, index: int, *, nulls: bool = True) -> _Term:
        """:param nulls: whether a NULL can still reach this condition."""
        if self.values[index] is None:
            return False
        comparison = self._compare(index, "<")
        if not (nulls and self.columns[index].nullable):
            return comparison
        return Predicate(f"({comparison.text} OR {self._column(index)} IS NULL)", comparison.parameters)

    def equal_before(self, index: int) -> list[_Term]:
        """The columns before ``index`` have this bound's values."""
        return [self.equal(leading) for leading in range(index)]

    def all_below(self, index: int) -> _Term:
        """The columns from ``index`` on, taken as one key, are below this bound."""
        if index == len(self.columns) - 1:
            return self.below(index)
        tie = _all([self.equal(index), self.all_below(index + 1)], word=" AND ")
        return _any(self.below(index), _grouped(tie))

    def _compare(self, index: int, operator: str) -> Predicate:
        bound = self._bound(index)
        return Predicate(f"{self._column(index)} {operator} {bound.text}", bound.parameters)

    def _column(self, index: int) -> str:
        return quote_identifier(self.columns[index].name)

    def _bound(self, index: int) -> BoundText:
        value = self.values[index]
        if value is None:
            raise ValueError("NULL is no value to compare with")
        return typed_bound(self.columns[index].sql_type, value, f"{self.prefix}{index}")


def range_pieces(columns: Sequence[Column], key_range: KeyRange) -> tuple[Predicate, ...]:
    """The conditions of one range, in key order; each row of it fulfils exactly one of them.

    :param columns: the split columns in key order.
    :raises ValueError: a bound that does not belong to these columns, or a column of a type without order.
    """
    lower, upper = key_range.lower, key_range.upper
    if lower is None and upper is None:
        return (EVERYTHING,)
    _check(columns)
    if upper is None:
        assert lower is not None
        pieces = [_all(terms) for terms in _lower_chain(_Edge(columns, lower, "lo"), 0, inclusive=True)]
    elif lower is None:
        pieces = [_all(terms) for terms in _upper_chain(_Edge(columns, upper, "hi"), 0)]
    else:
        pieces = _between(_Edge(columns, lower, "lo"), _Edge(columns, upper, "hi"))
    return _conditions(pieces)


def pieces_from(columns: Sequence[Column], lower: Bound, *, inclusive: bool) -> tuple[Predicate, ...]:
    """The keys at or above (or strictly above) a bound, in key order: what a seek for the next bound reads.

    The piece number i from the end has equalities on the first i columns and is ordered by the others.
    Pieces that hold nothing are :data:`NOTHING`, so that there is one piece per column.
    """
    _check(columns)
    edge = _Edge(columns, lower, "lo")
    return tuple(_condition(_all(terms)) for terms in _lower_chain(edge, 0, inclusive=inclusive))


def equals(column: Column, value: str | None, name: str) -> Predicate:
    """The column has this value, NULL included."""
    if value is None:
        return Predicate(f"{quote_identifier(column.name)} IS NULL")
    bound = typed_bound(column.sql_type, value, name)
    return Predicate(f"{quote_identifier(column.name)} = {bound.text}", bound.parameters)


def _check(columns: Sequence[Column]) -> None:
    for column in columns:
        if not is_bindable(column.sql_type):
            raise ValueError(f"column {column.name} of type {column.sql_type} cannot bound a range")


def _lower_chain(edge: _Edge, first: int, *, inclusive: bool) -> Iterable[list[_Term]]:
    """Keys at or above the bound whose columns before ``first`` are the bound's, longest prefix first."""
    last = len(edge.columns) - 1
    for index in range(last, first - 1, -1):
        inside = edge.at_least(index) if inclusive and index == last else edge.above(index)
        yield [*edge.equal_before(index), inside]


def _upper_chain(edge: _Edge, first: int) -> Iterable[list[_Term]]:
    """Keys below the bound whose columns before ``first`` are the bound's, shortest prefix first."""
    for index in range(first, len(edge.columns)):
        yield [*edge.equal_before(index), edge.below(index)]


def _between(lower: _Edge, upper: _Edge) -> list[_Term]:
    shared = _shared_values(lower.values, upper.values)
    last = len(lower.columns) - 1
    if shared > last:
        return []
    prefix = lower.equal_before(shared)
    if shared == last:
        nulls = lower.values[last] is None
        return [_all([*prefix, lower.at_least(last), upper.below(last, nulls=nulls)])]
    doubtful = _may_be_equal(lower, upper, shared)
    below = [upper.all_below(shared)] if doubtful else []
    above = [lower.above(shared)] if doubtful else []
    return [
        *(_all([*terms, *below]) for terms in _lower_chain(lower, shared + 1, inclusive=True)),
        _all([*prefix, lower.above(shared), upper.below(shared, nulls=False)]),
        *(_all([*terms, *above]) for terms in _upper_chain(upper, shared + 1)),
    ]


def _shared_values(lower: Bound, upper: Bound) -> int:
    for index, (left, right) in enumerate(zip(lower, upper, strict=True)):
        if left != right:
            return index
    return len(lower)


def _may_be_equal(lower: _Edge, upper: _Edge, index: int) -> bool:
    """Whether two different texts can be one value for the server."""
    texts = lower.values[index] is not None and upper.values[index] is not None
    return texts and not is_canonical(lower.columns[index].sql_type)


def _all(terms: Iterable[_Term], *, word: str = "\n  AND ") -> _Term:
    conditions: list[Predicate] = []
    for term in terms:
        if term is False:
            return False
        if isinstance(term, Predicate):
            conditions.append(term)
    return _joined(conditions, word) if conditions else True


def _any(first: _Term, second: _Term) -> _Term:
    if first is True or second is True:
        return True
    conditions = [term for term in (first, second) if isinstance(term, Predicate)]
    if len(conditions) < 2:
        return conditions[0] if conditions else False
    return _grouped(_joined(conditions, " OR "))


def _grouped(term: _Term) -> _Term:
    return Predicate(f"({term.text})", term.parameters) if isinstance(term, Predicate) else term


def _joined(conditions: Sequence[Predicate], word: str) -> Predicate:
    parameters = {name: value for condition in conditions for name, value in condition.parameters.items()}
    return Predicate(word.join(condition.text for condition in conditions), parameters)


def _condition(term: _Term) -> Predicate:
    if isinstance(term, Predicate):
        return term
    return EVERYTHING if term else NOTHING


def _conditions(pieces: Iterable[_Term]) -> tuple[Predicate, ...]:
    return tuple(_condition(piece) for piece in pieces if piece is not False) or (NOTHING,)
