"""The syntax tree of T-SQL: expressions, queries and statements, as the parser builds them."""

from __future__ import annotations

from dataclasses import dataclass, field

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as written: ``decimal(10, 2)``; ``max`` is -1."""

    name: Name
    arguments: tuple[int, ...] = ()


class Expression:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """``kind``: integer, decimal, float, varchar, nvarchar, binary, null; ``text`` as written."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """``@x``, ``@@x`` or the n-th question mark (``?n``)."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnName(Expression):
    parts: Name


@dataclass(frozen=True, slots=True)
class Star(Expression):
    qualifier: Name = ()


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Arithmetic, comparison (=, <>, <, <=, >, >=), AND, OR."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class InList(Expression):
    operand: Expression
    items: tuple[Expression, ...] | Query
    negated: bool


@dataclass(frozen=True, slots=True)
class Exists(Expression):
    query: Query


@dataclass(frozen=True, slots=True)
class Scalar(Expression):
    """A query in parentheses used as a value."""

    query: Query


@dataclass(frozen=True, slots=True)
class Case(Expression):
    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST and CONVERT."""

    operand: Expression
    type: TypeName
    style: Expression | None = None


@dataclass(frozen=True, slots=True)
class Collate(Expression):
    operand: Expression
    collation: str


@dataclass(frozen=True, slots=True)
class AtTimeZone(Expression):
    operand: Expression
    zone: Expression


@dataclass(frozen=True, slots=True)
class Over:
    order: tuple[OrderItem, ...]


@dataclass(frozen=True, slots=True)
class Call(Expression):
    name: Name
    arguments: tuple[Expression, ...]
    distinct: bool = False
    over: Over | None = None


@dataclass(frozen=True, slots=True)
class OrderItem:
    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class SelectItem:
    expression: Expression
    alias: str | None = None


class Source:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TableSource(Source):
    name: Name
    alias: str | None


@dataclass(frozen=True, slots=True)
class DerivedSource(Source):
    query: Query
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Source):
    """``kind``: INNER, LEFT, CROSS."""

    kind: str
    left: Source
    right: Source
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Select:
    items: tuple[SelectItem, ...]
    distinct: bool = False
    top: Expression | None = None
    source: Source | None = None
    where: Expression | None = None
    group: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Values:
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class Union:
    """``operator``: UNION, UNION ALL, EXCEPT."""

    operator: str
    left: Select | Union
    right: Select | Union


@dataclass(frozen=True, slots=True)
class Query:
    body: Select | Union | Values
    order: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    text: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryStatement(Statement):
    query: Query


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    table: Name
    columns: tuple[str, ...]
    source: Query


@dataclass(frozen=True, slots=True)
class Update(Statement):
    target: Name
    assignments: tuple[tuple[str, Expression], ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    target: Name
    where: Expression | None


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    variables: tuple[tuple[str, TypeName, Expression | None], ...]


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """``SET NOCOUNT ON``: name in upper case, the rest as words and numbers."""

    name: str
    value: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Expression
    body: Statement


@dataclass(frozen=True, slots=True)
class Block(Statement):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Transaction(Statement):
    """``action``: BEGIN, COMMIT, ROLLBACK."""

    action: str


@dataclass(frozen=True, slots=True)
class Use(Statement):
    database: str


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """``EXEC p @a = 1, 2``; arguments are (name or None, value, output)."""

    procedure: Name
    arguments: tuple[tuple[str | None, Expression, bool], ...]
