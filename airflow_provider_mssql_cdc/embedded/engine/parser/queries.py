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
    ("RIGHT", "OUTER", "JOIN"): "RIGHT",
    ("RIGHT", "JOIN"): "RIGHT",
    ("FULL", "OUTER", "JOIN"): "FULL",
    ("FULL", "JOIN"): "FULL",
    ("CROSS", "JOIN"): "CROSS",
    ("CROSS", "APPLY"): "CROSS APPLY",
    ("OUTER", "APPLY"): "OUTER APPLY",
}


class QueryParser(ExpressionParser):
    """SELECT with all its parts."""

    def query(self) -> tree.Query:
        ctes: tuple[tuple[str, tuple[str, ...], tree.Query], ...] = ()
        if self.take("WITH"):
            ctes = self.listed(self._cte)
        body = self._set_operations()
        order = self.listed(self.order_item) if self.take("ORDER", "BY") else ()
        offset = fetch = None
        if order and self.take("OFFSET"):
            offset = self._sum()
            self._row_word()
            if self.take("FETCH"):
                if not self.take("NEXT"):
                    self.expect("FIRST")
                fetch = self._sum()
                self._row_word()
                self.expect("ONLY")
        self._query_options()
        return tree.Query(body, order, offset, fetch, ctes)

    def _row_word(self) -> None:
        if not self.take("ROWS"):
            self.expect("ROW")

    def _query_options(self) -> None:
        if self.take("OPTION"):
            self._skip_parentheses()

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

    def _cte(self) -> tuple[str, tuple[str, ...], tree.Query]:
        name = self.identifier()
        columns = self.parenthesised(lambda: self.listed(self.identifier)) if self.at_operator("(") else ()
        self.expect("AS")
        return name, columns, self.parenthesised(self.query)

    def _set_operations(self) -> tree.Query | tree.Select | tree.Union | tree.Values:
        left = self._intersection()
        while self.at("UNION", "EXCEPT"):
            operator = self.advance().upper
            if operator == "UNION" and self.take("ALL"):
                operator = "UNION ALL"
            left = tree.Union(operator, left, self._intersection())
        return left

    def _intersection(self) -> tree.Query | tree.Select | tree.Union:
        left = self._query_term()
        while self.take("INTERSECT"):
            left = tree.Union("INTERSECT", left, self._query_term())
        return left

    def _query_term(self) -> tree.Query | tree.Select | tree.Union:
        if self.at_operator("("):
            return self.parenthesised(self.query)
        return self._select()

    def _select(self) -> tree.Select:
        self.expect("SELECT")
        distinct = self.take("DISTINCT")
        if not distinct:
            self.take("ALL")
        top = self.top()
        items = self.listed(self._select_item)
        into = self.name() if self.take("INTO") else None
        source = self.sources() if self.take("FROM") else None
        where = self.expression() if self.take("WHERE") else None
        group = self.listed(self.expression) if self.take("GROUP", "BY") else ()
        having = self.expression() if self.take("HAVING") else None
        return tree.Select(items, distinct, top, source, where, group, having, into)

    def top(self) -> tree.Expression | None:
        if not self.take("TOP"):
            return None
        value = self.parenthesised(self.expression) if self.at_operator("(") else self._primary()
        if self.at("PERCENT") or (self.at("WITH") and self.peek().upper == "TIES"):
            raise self.error()
        return value

    def _select_item(self) -> tree.SelectItem:
        if self.token.kind == "variable" and self.peek().text == "=":
            variable = self.advance().text.lower()
            self.advance()
            return tree.SelectItem(self.expression(), None, variable)
        if (
            self.token.kind in ("name", "word")
            and self.peek().text == "="
            and self.token.upper not in RESERVED
        ):
            alias = self.identifier()
            self.advance()
            return tree.SelectItem(self.expression(), alias)
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
            if kind in ("INNER", "LEFT", "RIGHT", "FULL"):
                self.expect("ON")
                condition = self.expression()
            left = tree.Join(kind, left, right, condition)

    def _source(self) -> tree.Source:
        if self.at_operator("("):
            return self._parenthesised_source()
        name = self.name()
        if self.at_operator("(") and not self._at_hints():
            self.advance()
            arguments = () if self.at_operator(")") else self.listed(self.expression)
            self.expect_operator(")")
            return tree.FunctionSource(name, arguments, self._alias())
        alias = self._alias()
        return tree.TableSource(name, alias, self._hints())

    def _parenthesised_source(self) -> tree.Source:
        self.advance()
        if self.at("SELECT", "WITH") or (self.at_operator("(") and self._opens_query()):
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

    def _opens_query(self) -> bool:
        ahead = 0
        while self.peek(ahead).text == "(" and self.peek(ahead).kind == "op":
            ahead += 1
        return self.peek(ahead).upper in ("SELECT", "WITH")

    def _row(self) -> tuple[tree.Expression, ...]:
        return self.parenthesised(lambda: self.listed(self.value_or_default))

    def value_or_default(self) -> tree.Expression:
        """An expression, or DEFAULT as a call of that name."""
        return tree.Call(("default",), ()) if self.take("DEFAULT") else self.expression()

    def values(self) -> tree.Values:
        return tree.Values(self.listed(self._row))

    def _alias(self) -> str | None:
        if self.take("AS"):
            return self.identifier()
        if self.token.kind == "name" or (self.token.kind == "word" and self.token.upper not in RESERVED):
            return self.identifier()
        return None

    def _at_hints(self) -> bool:
        """``t (NOLOCK)``: the old spelling without WITH."""
        return self.peek().upper in (
            "NOLOCK",
            "HOLDLOCK",
            "READPAST",
            "UPDLOCK",
            "TABLOCK",
            "READCOMMITTEDLOCK",
        )

    def _hints(self) -> tuple[str, ...]:
        if (self.at("WITH") and self.peek().text == "(") or (self.at_operator("(") and self._at_hints()):
            self.take("WITH")
            start = self._index
            self._skip_parentheses()
            return tuple(t.upper for t in self._tokens[start : self._index] if t.kind == "word")
        return ()
