"""Parser, second part: queries."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.expressions import ExpressionParser
from airflow_provider_mssql_cdc.embedded.engine.reserved import RESERVED

_JOINS = {
    ("INNER", "JOIN"): "INNER",
    ("JOIN",): "INNER",
    ("LEFT", "OUTER", "JOIN"): "LEFT",
    ("LEFT", "JOIN"): "LEFT",
    ("CROSS", "JOIN"): "CROSS",
}


class QueryParser(ExpressionParser):
    """SELECT with all its parts."""

    def query(self) -> tree.Query:
        body = self._set_operations()
        return tree.Query(body, self.listed(self.order_item) if self.take("ORDER", "BY") else ())

    def _skip_parentheses(self) -> None:
        self.expect_operator("(")
        depth = 1
        while depth:
            if self.token.kind == "end":
                raise self.error()
            if self.at_operator("("):
                depth += 1
            elif self.at_operator(")"):
                depth -= 1
            self.advance()

    def _set_operations(self) -> tree.Select | tree.Union:
        left: tree.Select | tree.Union = self._select()
        while self.at("UNION", "EXCEPT"):
            operator = self.advance().upper
            if operator == "UNION" and self.take("ALL"):
                operator = "UNION ALL"
            left = tree.Union(operator, left, self._select())
        return left

    def _select(self) -> tree.Select:
        self.expect("SELECT")
        distinct = self.take("DISTINCT")
        if not distinct:
            self.take("ALL")
        top = self.top()
        items = self.listed(self._select_item)
        source = self.sources() if self.take("FROM") else None
        where = self.expression() if self.take("WHERE") else None
        group = self.listed(self.expression) if self.take("GROUP", "BY") else ()
        return tree.Select(items, distinct, top, source, where, group)

    def top(self) -> tree.Expression | None:
        if not self.take("TOP"):
            return None
        value = self.parenthesised(self.expression) if self.at_operator("(") else self._primary()
        if self.at("PERCENT") or (self.at("WITH") and self.peek().upper == "TIES"):
            raise self.error()
        return value

    def _select_item(self) -> tree.SelectItem:
        expression = self.expression()
        if self.take("AS"):
            return tree.SelectItem(expression, self._alias_text())
        if self.token.kind in ("string", "name") or (
            self.token.kind == "word" and self.token.upper not in RESERVED
        ):
            return tree.SelectItem(expression, self._alias_text())
        return tree.SelectItem(expression)

    def _alias_text(self) -> str:
        if self.token.kind in ("string", "nstring"):
            return self.advance().text
        return self.identifier()

    def sources(self) -> tree.Source:
        left = self._joined()
        while self.take_operator(","):
            left = tree.Join("CROSS", left, self._joined(), None)
        return left

    def _joined(self) -> tree.Source:
        left = self._source()
        while True:
            kind = next((kind for words, kind in _JOINS.items() if self.take(*words)), None)
            if kind is None:
                return left
            right = self._source()
            condition = None
            if kind != "CROSS":
                self.expect("ON")
                condition = self.expression()
            left = tree.Join(kind, left, right, condition)

    def _source(self) -> tree.Source:
        if self.at_operator("("):
            return self._parenthesised_source()
        name = self.name()
        return tree.TableSource(name, self._alias())

    def _parenthesised_source(self) -> tree.Source:
        self.advance()
        if self.at("SELECT"):
            query = self.query()
        elif self.take("VALUES"):
            query = tree.Query(tree.Values(self.listed(self._row)))
        else:
            inner = self.sources()
            self.expect_operator(")")
            return inner
        self.expect_operator(")")
        alias = self._alias()
        if alias is None:
            raise self.error()
        columns = self.parenthesised(lambda: self.listed(self.identifier)) if self.at_operator("(") else ()
        return tree.DerivedSource(query, alias, columns)

    def _row(self) -> tuple[tree.Expression, ...]:
        return self.parenthesised(lambda: self.listed(self.expression))

    def values(self) -> tree.Values:
        return tree.Values(self.listed(self._row))

    def _alias(self) -> str | None:
        if self.take("AS"):
            return self.identifier()
        if self.token.kind == "name" or (self.token.kind == "word" and self.token.upper not in RESERVED):
            return self.identifier()
        return None
