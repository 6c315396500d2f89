"""Parser, first part: the token cursor and expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import Token, syntax_error, tokenize
from airflow_provider_mssql_cdc.embedded.engine.reserved import RESERVED
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable


_T = TypeVar("_T")

_COMPARISONS = {
    "=": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_CALLABLE_WORDS = frozenset({"LEFT", "RIGHT", "COALESCE", "NULLIF"})


class Cursor:
    """The tokens of a batch and a place in them."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = tokenize(sql)
        self._index = 0
        self._questions = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    def peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def advance(self) -> Token:
        token = self._tokens[self._index]
        if token.kind != "end":
            self._index += 1
        return token

    def error(self) -> SqlError:
        if self.token.upper in RESERVED:
            return SqlError(156, f"Incorrect syntax near the keyword '{self.token.text}'.", 15)
        return syntax_error(self.token.text or "end of statement")

    def at(self, *words: str) -> bool:
        return self.token.upper in words and self.token.kind == "word"

    def at_operator(self, *operators: str) -> bool:
        return self.token.kind == "op" and self.token.text in operators

    def take(self, *words: str) -> bool:
        """Step over the words if all of them come next."""
        if all(self.peek(i).upper == word for i, word in enumerate(words)):
            self._index += len(words)
            return True
        return False

    def take_operator(self, operator: str) -> bool:
        if self.at_operator(operator):
            self._index += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            raise self.error()

    def expect_operator(self, operator: str) -> None:
        if not self.take_operator(operator):
            raise self.error()

    def identifier(self) -> str:
        if self.token.kind == "name" or (self.token.kind == "word" and self.token.upper not in RESERVED):
            return self.advance().text
        raise self.error()

    def name(self) -> tree.Name:
        """``a.b.c``; an omitted middle part (``db..t``) is the empty string."""
        parts = [self.identifier()]
        while self.take_operator("."):
            parts.append("" if self.at_operator(".") else self.identifier())
        return tuple(parts)

    def word(self) -> str:
        """A word that is not a name: an option, a permission, a kind of object."""
        if self.token.kind in ("name", "word"):
            return self.advance().text
        raise self.error()

    def listed(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        items = [item()]
        while self.take_operator(","):
            items.append(item())
        return tuple(items)

    def parenthesised(self, item: Callable[[], _T]) -> _T:
        self.expect_operator("(")
        value = item()
        self.expect_operator(")")
        return value

    def integer(self) -> int:
        negative = self.take_operator("-")
        if self.token.kind != "number" or not self.token.text.isdigit():
            raise self.error()
        value = int(self.advance().text)
        return -value if negative else value

    def type_name(self) -> tree.TypeName:
        name = self.name()
        if not self.at_operator("("):
            return tree.TypeName(name)
        return tree.TypeName(name, self.parenthesised(lambda: self.listed(self._type_argument)))

    def _type_argument(self) -> int:
        return -1 if self.take("MAX") else self.integer()


class ExpressionParser(Cursor):
    """Expressions by precedence: OR, AND, NOT, comparison, + -, * / %, unary, COLLATE."""

    def query(self) -> tree.Query:
        raise NotImplementedError

    def expression(self) -> tree.Expression:
        left = self._conjunction()
        while self.take("OR"):
            left = tree.Binary("OR", left, self._conjunction())
        return left

    def _conjunction(self) -> tree.Expression:
        left = self._negation()
        while self.take("AND"):
            left = tree.Binary("AND", left, self._negation())
        return left

    def _negation(self) -> tree.Expression:
        if self.take("NOT"):
            return tree.Unary("NOT", self._negation())
        return self._predicate()

    def _predicate(self) -> tree.Expression:
        left = self._sum()
        while True:
            if self.token.kind == "op" and self.token.text in _COMPARISONS:
                operator = _COMPARISONS[self.advance().text]
                left = tree.Binary(operator, left, self._sum())
            elif self.at("IS"):
                self.advance()
                negated = self.take("NOT")
                self.expect("NULL")
                left = tree.IsNull(left, negated)
            elif self.at("IN", "BETWEEN") or (self.at("NOT") and self.peek().upper in ("IN", "BETWEEN")):
                left = self._set_predicate(left, negated=self.take("NOT"))
            else:
                return left

    def _set_predicate(self, left: tree.Expression, *, negated: bool) -> tree.Expression:
        if self.take("IN"):
            return tree.InList(left, self.parenthesised(self._in_items), negated)
        self.expect("BETWEEN")
        low = self._sum()
        self.expect("AND")
        both = tree.Binary("AND", tree.Binary(">=", left, low), tree.Binary("<=", left, self._sum()))
        return tree.Unary("NOT", both) if negated else both

    def _in_items(self) -> tuple[tree.Expression, ...] | tree.Query:
        return self.query() if self.at("SELECT") else self.listed(self.expression)

    def _sum(self) -> tree.Expression:
        left = self._product()
        while self.at_operator("+", "-"):
            left = tree.Binary(self.advance().text, left, self._product())
        return left

    def _product(self) -> tree.Expression:
        left = self._unary()
        while self.at_operator("*", "/", "%"):
            left = tree.Binary(self.advance().text, left, self._unary())
        return left

    def _unary(self) -> tree.Expression:
        if self.at_operator("-", "+"):
            operator = self.advance().text
            return tree.Unary(operator, self._unary())
        return self._postfix(self._primary())

    def _postfix(self, operand: tree.Expression) -> tree.Expression:
        while True:
            if self.take("COLLATE"):
                operand = tree.Collate(operand, self.identifier())
            elif self.take("AT", "TIME", "ZONE"):
                operand = tree.AtTimeZone(operand, self._primary())
            else:
                return operand

    def _primary(self) -> tree.Expression:
        token = self.token
        if token.kind in ("string", "nstring", "hex", "number"):
            return self._literal(self.advance())
        if token.kind == "variable":
            return tree.Variable(self.advance().text.lower())
        if self.take_operator("?"):
            self._questions += 1
            return tree.Variable(f"?{self._questions}")
        if self.take_operator("("):
            inner = tree.Scalar(self.query()) if self.at("SELECT") else self.expression()
            self.expect_operator(")")
            return inner
        if self.at_operator("*"):
            self.advance()
            return tree.Star()
        return self._word()

    def _literal(self, token: Token) -> tree.Literal:
        if token.kind == "number":
            kind = "float" if "e" in token.text.lower() else "decimal" if "." in token.text else "integer"
            return tree.Literal(kind, token.text)
        return tree.Literal(
            {"string": "varchar", "nstring": "nvarchar", "hex": "binary"}[token.kind], token.text
        )

    def _word(self) -> tree.Expression:
        if self.take("NULL"):
            return tree.Literal("null", "NULL")
        if self.take("CASE"):
            return self._case()
        if self.at("EXISTS") and self.peek().text == "(":
            self.advance()
            return tree.Exists(self.parenthesised(self.query))
        if self.at("CAST", "CONVERT") and self.peek().text == "(":
            return self._cast() if self.advance().upper == "CAST" else self._convert()
        if self.at(*_CALLABLE_WORDS) and self.peek().text == "(":
            return self._call((self.advance().text,))
        return self._name_or_call()

    def _name_or_call(self) -> tree.Expression:
        parts = [self.identifier()]
        while self.take_operator("."):
            if self.take_operator("*"):
                return tree.Star(tuple(parts))
            parts.append("" if self.at_operator(".") else self.identifier())
        if self.at_operator("("):
            return self._call(tuple(parts))
        return tree.ColumnName(tuple(parts))

    def _call(self, name: tree.Name) -> tree.Call:
        self.expect_operator("(")
        distinct = self.take("DISTINCT")
        arguments = () if self.at_operator(")") else self.listed(self.expression)
        self.expect_operator(")")
        over = self.parenthesised(self._over) if self.take("OVER") else None
        return tree.Call(name, arguments, distinct, over)

    def _over(self) -> tree.Over:
        return tree.Over(self.listed(self.order_item) if self.take("ORDER", "BY") else ())

    def order_item(self) -> tree.OrderItem:
        expression = self.expression()
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        return tree.OrderItem(expression, descending)

    def _case(self) -> tree.Case:
        operand = None if self.at("WHEN") else self.expression()
        whens = []
        while self.take("WHEN"):
            condition = self.expression()
            self.expect("THEN")
            whens.append((condition, self.expression()))
        default = self.expression() if self.take("ELSE") else None
        self.expect("END")
        return tree.Case(operand, tuple(whens), default)

    def _cast(self) -> tree.Cast:
        self.expect_operator("(")
        operand = self.expression()
        self.expect("AS")
        cast = tree.Cast(operand, self.type_name())
        self.expect_operator(")")
        return cast

    def _convert(self) -> tree.Cast:
        self.expect_operator("(")
        target = self.type_name()
        self.expect_operator(",")
        operand = self.expression()
        style = self.expression() if self.take_operator(",") else None
        self.expect_operator(")")
        return tree.Cast(operand, target, style)
