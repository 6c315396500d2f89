"""Predicates that partition a table by key; an index seek can serve each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.source_table import Column
from airflow_provider_mssql_cdc.tsql.bounds import BoundText, is_bindable, is_canonical, typed_bound
from airflow_provider_mssql_cdc.tsql.statement import quote_identifier

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition for WHERE; an empty text is always true.

    Parameters are named ``lo0`` … and ``hi0`` … after the bound and the column's index in the key.
    """

    text: str
    parameters: Mapping[str, str] = field(default_factory=lambda: _NO_PARAMETERS)

    @property
    def where(self) -> str:
        """Return the clause with its keyword on its own line, or an empty string."""
        return f"\nWHERE {self.text}" if self.text else ""

    @property
    def is_nothing(self) -> bool:
        """Return whether the condition is known to match no row."""
        return self.text == NOTHING.text


EVERYTHING = Predicate("")
NOTHING = Predicate("1 = 0")

Term = Predicate | bool


def all_of(terms: Iterable[Term], *, word: str = "\n  AND ") -> Term:
    """Join terms by AND."""
    conditions: list[Predicate] = []
    for term in terms:
        if term is False:
            return False
        if isinstance(term, Predicate):
            conditions.append(term)
    return _joined(conditions, word) if conditions else True


def any_of(terms: Iterable[Term]) -> Term:
    """Join terms by OR, in parentheses if there are several."""
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
    """Return a term as a condition for WHERE."""
    if isinstance(term, Predicate):
        return term
    return EVERYTHING if term else NOTHING


def _joined(conditions: Sequence[Predicate], word: str) -> Predicate:
    parameters = {name: value for condition in conditions for name, value in condition.parameters.items()}
    return Predicate(word.join(condition.text for condition in conditions), parameters)


@dataclass(frozen=True, slots=True)
class _Edge:
    """One bound of a range: compares the key's columns with its values."""

    columns: Sequence[Column]
    values: Bound
    prefix: str

    def __post_init__(self) -> None:
        if len(self.values) != len(self.columns):
            raise ValueError(f"a bound of {len(self.values)} values for {len(self.columns)} key columns")

    def equal(self, index: int) -> Term:
        return equals(self.columns[index], self.values[index], f"{self.prefix}{index}")

    def above(self, index: int) -> Term:
        if self.values[index] is None:
            return Predicate(f"{self._column(index)} IS NOT NULL") if self.columns[index].nullable else True
        return self._compare(index, ">")

    def at_least(self, index: int) -> Term:
        return True if self.values[index] is None else self._compare(index, ">=")

    def below(self, index: int, *, nulls: bool = True) -> Term:
        """:param nulls: whether a NULL can still reach this condition."""
        if self.values[index] is None:
            return False
        comparison = self._compare(index, "<")
        if not (nulls and self.columns[index].nullable):
            return comparison
        return Predicate(f"({comparison.text} OR {self._column(index)} IS NULL)", comparison.parameters)

    def at_most(self, index: int) -> Term:
        """``<=``, NULLs included."""
        if self.values[index] is None:
            return self.equal(index)
        comparison = self._compare(index, "<=")
        if not self.columns[index].nullable:
            return comparison
        return Predicate(f"({comparison.text} OR {self._column(index)} IS NULL)", comparison.parameters)

    def equal_before(self, index: int, *, first: int = 0) -> list[Term]:
        """Return that the columns from ``first`` to before ``index`` equal this bound's values."""
        return [self.equal(leading) for leading in range(first, index)]

    def meets(self, index: int, operator: str, other: _Edge) -> Predicate:
        """Compare this bound's value with another bound's of the same column, without reading a row."""
        mine, others = self._bound(index), other._bound(index)
        return Predicate(f"{mine.text} {operator} {others.text}", {**mine.parameters, **others.parameters})

    def _compare(self, index: int, operator: str) -> Predicate:
        bound = self._bound(index)
        return Predicate(f"{self._column(index)} {operator} {bound.text}", bound.parameters)

    def _column(self, index: int) -> str:
        return quote_identifier(self.columns[index].name)

    def _bound(self, index: int) -> BoundText:
        value = self.values[index]
        if value is None:
            raise ValueError("a value to compare with must not be NULL")
        return typed_bound(self.columns[index].sql_type, value, f"{self.prefix}{index}")


def range_pieces(columns: Sequence[Column], key_range: KeyRange) -> tuple[Predicate, ...]:
    """Return the conditions of one range, in key order; each of its rows meets exactly one.

    :param columns: the split columns in key order.
    :raises ValueError: a bound does not belong to these columns, or a column's type has no order.
    """
    lower, upper = key_range.lower, key_range.upper
    if lower is None and upper is None:
        return (EVERYTHING,)
    _check(columns)
    if upper is None:
        assert lower is not None
        pieces = [all_of(terms) for terms in _lower_chain(_Edge(columns, lower, "lo"), 0, inclusive=True)]
    elif lower is None:
        pieces = [all_of(terms) for terms in _upper_chain(_Edge(columns, upper, "hi"), 0)]
    else:
        pieces = _between(_Edge(columns, lower, "lo"), _Edge(columns, upper, "hi"))
    if key_range.closed and upper is not None:
        pieces.append(all_of(_Edge(columns, upper, "hi").equal_before(len(columns))))
    return _conditions(pieces)


def at_most(columns: Sequence[Column], upper: Bound) -> Predicate:
    """Return the keys up to and including a bound: a filter next to a seek, not for seeking.

    The leading column is also limited on its own, which ends a scan.
    """
    _check(columns)
    edge = _Edge(columns, upper, "hi")
    terms = [all_of(chain, word=" AND ") for chain in _upper_chain(edge, 0)]
    reached = any_of([*terms, all_of(edge.equal_before(len(columns)), word=" AND ")])
    limit = edge.at_most(0)
    return as_predicate(all_of([limit, reached] if len(columns) > 1 else [limit]))


def pieces_from(columns: Sequence[Column], lower: Bound, *, inclusive: bool) -> tuple[Predicate, ...]:
    """Return the keys at or above (or strictly above) a bound, in key order, for seeking the next bound.

    The i-th piece from the end has equalities on the first i columns and is ordered by the others. Empty
    pieces are :data:`NOTHING`, so that there is one piece per column.
    """
    _check(columns)
    edge = _Edge(columns, lower, "lo")
    return tuple(as_predicate(all_of(terms)) for terms in _lower_chain(edge, 0, inclusive=inclusive))


def equals(column: Column, value: str | None, name: str) -> Predicate:
    """Return that the column has this value, including NULL."""
    if value is None:
        return Predicate(f"{quote_identifier(column.name)} IS NULL")
    bound = typed_bound(column.sql_type, value, name)
    return Predicate(f"{quote_identifier(column.name)} = {bound.text}", bound.parameters)


def _check(columns: Sequence[Column]) -> None:
    for column in columns:
        if not is_bindable(column.sql_type):
            raise ValueError(f"column {column.name} of type {column.sql_type} cannot bound a range")


def _lower_chain(edge: _Edge, first: int, *, inclusive: bool, prefix: int = 0) -> Iterator[list[Term]]:
    """Return keys at or above the bound that share its columns before ``first``, longest prefix first.

    :param prefix: columns before this index are compared elsewhere.
    """
    last = len(edge.columns) - 1
    for index in range(last, first - 1, -1):
        inside = edge.at_least(index) if inclusive and index == last else edge.above(index)
        yield [*edge.equal_before(index, first=prefix), inside]


def _upper_chain(edge: _Edge, first: int, *, prefix: int = 0) -> Iterator[list[Term]]:
    """Return keys below the bound that share its columns before ``first``, shortest prefix first."""
    for index in range(first, len(edge.columns)):
        yield [*edge.equal_before(index, first=prefix), edge.below(index)]


def _between(lower: _Edge, upper: _Edge) -> list[Term]:
    shared = _shared_values(lower.values, upper.values)
    last = len(lower.columns) - 1
    if shared > last:
        return []
    prefix = lower.equal_before(shared)
    if shared == last:
        nulls = lower.values[last] is None
        return [all_of([*prefix, lower.at_least(last), upper.below(last, nulls=nulls)])]
    pieces = [
        *_lower_chain(lower, shared + 1, inclusive=True),
        [*prefix, lower.above(shared), upper.below(shared, nulls=False)],
        *_upper_chain(upper, shared + 1),
    ]
    if not _may_be_equal(lower, upper, shared):
        return [all_of(piece) for piece in pieces]
    apart = lower.meets(shared, "<", upper)
    return [all_of([*piece, apart]) for piece in pieces] + [_equal_after_all(lower, upper, shared)]


def _equal_after_all(lower: _Edge, upper: _Edge, shared: int) -> Term:
    """Return the whole range when the server considers two values of different text equal.

    It is not split further: bounds planned by this package have equal text when the server considers them
    equal.
    """
    rest = shared + 1
    above = [all_of(terms, word=" AND ") for terms in _lower_chain(lower, rest, inclusive=True, prefix=rest)]
    below = [all_of(terms, word=" AND ") for terms in _upper_chain(upper, rest, prefix=rest)]
    same = lower.meets(shared, "=", upper)
    return all_of([*lower.equal_before(rest), any_of(above), any_of(below), same])


def _shared_values(lower: Bound, upper: Bound) -> int:
    for index, (left, right) in enumerate(zip(lower, upper, strict=True)):
        if left != right:
            return index
    return len(lower)


def _may_be_equal(lower: _Edge, upper: _Edge, index: int) -> bool:
    """Return whether two different texts may be equal for the server."""
    texts = lower.values[index] is not None and upper.values[index] is not None
    return texts and not is_canonical(lower.columns[index].sql_type)


def _conditions(pieces: Iterable[Term]) -> tuple[Predicate, ...]:
    return tuple(as_predicate(piece) for piece in pieces if piece is not False) or (NOTHING,)
