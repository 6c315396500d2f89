"""Parser, last part: DDL, and the entry point ``parse``."""

from __future__ import annotations

from functools import lru_cache

from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.parser.statements import PermissionParser

_DATABASE_OPTIONS_END = ("WITH",)


@lru_cache(maxsize=1000)
def parse(sql: str) -> tuple[tree.Statement, ...]:
    """The statements of a batch. Errors: 102 (syntax), 105, 113."""
    return Parser(sql).batch()


def parse_expression(sql: str) -> tree.Expression:
    """One expression, for defaults and computed columns that are kept as text."""
    return Parser(sql).expression()


class Parser(PermissionParser):
    """The whole parser."""

    def ddl(self) -> tree.Statement:
        verb = self.advance().upper
        if verb == "CREATE":
            return self._create()
        if verb == "ALTER":
            return self._alter()
        if verb == "DROP":
            return self._drop()
        return self.permission(verb)

    def _create(self) -> tree.Statement:
        kind = self.advance().upper
        if kind == "TABLE":
            return self._create_table()
        if kind in ("INDEX", "UNIQUE", "CLUSTERED", "NONCLUSTERED"):
            return self._create_index(kind)
        if kind == "DATABASE":
            name = self.identifier()
            return ddl_tree.CreateDatabase(name, self.identifier() if self.take("COLLATE") else None)
        if kind == "SCHEMA":
            return self._create_schema()
        if kind == "TYPE":
            return self._create_type()
        if kind in ("LOGIN", "USER", "ROLE"):
            return self.create_principal(kind)
        if kind == "SECURITY":
            return self._security_policy()
        raise self.error()

    def _create_schema(self) -> ddl_tree.CreateSchema:
        name = self.identifier()
        if self.take("AUTHORIZATION"):
            self.identifier()
        return ddl_tree.CreateSchema(name)

    def _create_type(self) -> ddl_tree.CreateType:
        name = self.name()
        self.expect("FROM")
        base = self.type_name()
        if self.take("NOT", "NULL"):
            return ddl_tree.CreateType(name, base, False)
        self.take("NULL")
        return ddl_tree.CreateType(name, base, True)

    def _security_policy(self) -> ddl_tree.CreateSecurityPolicy:
        self.expect("POLICY")
        name = self.name()
        self.expect("ADD")
        self.take("FILTER")
        self.take("BLOCK")
        self.expect("PREDICATE")
        function = self.name()
        self._skip_parentheses()
        self.expect("ON")
        table = self.name()
        enabled = True
        if self.take("WITH"):
            self.expect_operator("(")
            self.expect("STATE")
            self.expect_operator("=")
            enabled = self.advance().upper == "ON"
            self.expect_operator(")")
        return ddl_tree.CreateSecurityPolicy(name, function, table, enabled)

    def _create_table(self) -> ddl_tree.CreateTable:
        name = self.name()
        self.expect_operator("(")
        columns: list[ddl_tree.ColumnDefinition] = []
        indexes: list[ddl_tree.IndexDefinition] = []
        while True:
            self._table_element(columns, indexes)
            if not self.take_operator(","):
                break
            if self.at_operator(")"):
                break
        self.expect_operator(")")
        self._table_options()
        return ddl_tree.CreateTable(name, tuple(columns), tuple(indexes))

    def _table_options(self) -> None:
        while True:
            if self.take("ON") or self.take("TEXTIMAGE_ON") or self.take("FILESTREAM_ON"):
                self.identifier()
            elif self.at("WITH") and self.peek().text == "(":
                self.advance()
                self._skip_parentheses()
            else:
                return

    def _table_element(
        self, columns: list[ddl_tree.ColumnDefinition], indexes: list[ddl_tree.IndexDefinition]
    ) -> None:
        if self.at("CONSTRAINT", "PRIMARY", "UNIQUE", "INDEX"):
            indexes.append(self._table_constraint())
            return
        columns.append(self._column(indexes))

    def _table_constraint(self) -> ddl_tree.IndexDefinition:
        name = self.identifier() if self.take("CONSTRAINT") else None
        if self.at("PRIMARY", "UNIQUE"):
            return self._key(name, ())
        if self.take("INDEX"):
            name = self.identifier()
            unique = self.take("UNIQUE")
            clustered = self._clustered()
            return ddl_tree.IndexDefinition(name, self._key_columns(), unique, clustered=clustered)
        raise self.error()

    def _clustered(self) -> bool | None:
        if self.take("CLUSTERED"):
            return True
        return False if self.take("NONCLUSTERED") else None

    def _key(self, name: str | None, columns: tuple[tuple[str, bool], ...]) -> ddl_tree.IndexDefinition:
        primary = self.take("PRIMARY", "KEY")
        if not primary:
            self.expect("UNIQUE")
        clustered = self._clustered()
        if self.at_operator("("):
            columns = self._key_columns()
        self._table_options()
        return ddl_tree.IndexDefinition(name, columns, True, primary, True, clustered)

    def _key_columns(self) -> tuple[tuple[str, bool], ...]:
        return self.parenthesised(lambda: self.listed(self._key_column))

    def _key_column(self) -> tuple[str, bool]:
        name = self.identifier()
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        return name, descending

    def _column(self, indexes: list[ddl_tree.IndexDefinition]) -> ddl_tree.ColumnDefinition:
        start = self._index
        values: dict[str, object] = {"name": self.identifier(), "type": None}
        if self.take("AS"):
            first = self._index
            values["computed"] = self.expression()
            values["text"] = self.sql[self._tokens[first].start : self._tokens[self._index - 1].end]
        else:
            values["type"] = self.type_name()
        while self._column_option(values, indexes):
            pass
        if self._index == start:
            raise self.error()
        return ddl_tree.ColumnDefinition(**values)  # type: ignore[arg-type]

    def _column_option(self, values: dict[str, object], indexes: list[ddl_tree.IndexDefinition]) -> bool:
        name = self.identifier() if self.take("CONSTRAINT") else None
        if self.take("NOT", "NULL"):
            values["nullable"] = False
        elif self.take("NULL"):
            values["nullable"] = True
        elif self.take("IDENTITY"):
            pair = self.parenthesised(lambda: self.listed(self.integer)) if self.at_operator("(") else (1, 1)
            values["identity"] = (pair[0], pair[1])
        elif self.take("DEFAULT"):
            first = self._index
            values["default"] = self.expression()
            values["text"] = self.sql[self._tokens[first].start : self._tokens[self._index - 1].end]
            if self.take("WITH"):
                self.expect("VALUES")
        elif self.at("PRIMARY", "UNIQUE"):
            indexes.append(self._key(name, ((str(values["name"]), False),)))
        elif self.take("COLLATE"):
            values["collation"] = self.identifier()
        else:
            return self._rare_column_option(values)
        return True

    def _rare_column_option(self, values: dict[str, object]) -> bool:
        if self.take("SPARSE"):
            values["sparse"] = True
        elif self.take("COLUMN_SET", "FOR", "ALL_SPARSE_COLUMNS"):
            values["column_set"] = True
        elif self.take("PERSISTED") or self.take("ROWGUIDCOL") or self.take("NOT", "FOR", "REPLICATION"):
            pass
        elif self.take("ENCRYPTED", "WITH"):
            self._skip_parentheses()
            values["encrypted"] = True
        elif self.take("MASKED", "WITH"):
            self.expect_operator("(")
            self.expect("FUNCTION")
            self.expect_operator("=")
            values["mask"] = self.advance().text
            self.expect_operator(")")
        else:
            return False
        return True

    def _create_index(self, kind: str) -> ddl_tree.CreateIndex:
        unique = kind == "UNIQUE"
        clustered = self._clustered() if unique else {"CLUSTERED": True, "NONCLUSTERED": False}.get(kind)
        if kind != "INDEX":
            self.expect("INDEX")
        name = self.identifier()
        self.expect("ON")
        table = self.name()
        columns = self._key_columns()
        included = self.parenthesised(lambda: self.listed(self.identifier)) if self.take("INCLUDE") else ()
        condition, text = None, ""
        if self.take("WHERE"):
            first = self._index
            condition = self.expression()
            text = self.sql[self._tokens[first].start : self._tokens[self._index - 1].end]
        self._table_options()
        index = ddl_tree.IndexDefinition(
            name, columns, unique, clustered=clustered, included=included, filter=condition, filter_text=text
        )
        return ddl_tree.CreateIndex(table, index)

    def _alter(self) -> tree.Statement:
        kind = self.advance().upper
        if kind == "TABLE":
            return self._alter_table()
        if kind == "DATABASE":
            return self._alter_database()
        if kind == "ROLE":
            return self.alter_role()
        raise self.error()

    def _alter_database(self) -> ddl_tree.AlterDatabase:
        name = "" if self.take("CURRENT") else self.identifier()
        self.expect("SET")
        words = []
        while (
            self.token.kind not in ("end",)
            and not self.at_operator(";")
            and not self.at(*_DATABASE_OPTIONS_END)
        ):
            words.append(self.advance().text.upper())
        if self.take("WITH"):
            self.advance()
            self.take("IMMEDIATE")
        return ddl_tree.AlterDatabase(name, tuple(words))

    def _alter_table(self) -> ddl_tree.AlterTable:
        name = self.name()
        if self.take("ADD"):
            columns: list[ddl_tree.ColumnDefinition] = []
            indexes: list[ddl_tree.IndexDefinition] = []
            self._table_element(columns, indexes)
            while self.take_operator(","):
                self._table_element(columns, indexes)
            return ddl_tree.AlterTable(name, "add", tuple(columns), tuple(indexes))
        if self.take("ALTER", "COLUMN"):
            return ddl_tree.AlterTable(name, "alter", (self._column([]),))
        if self.take("DROP"):
            return self._alter_drop(name)
        raise self.error()

    def _alter_drop(self, name: tree.Name) -> ddl_tree.AlterTable:
        self.expect("COLUMN")
        self.take("IF", "EXISTS")
        return ddl_tree.AlterTable(name, "drop column", dropped=self.listed(self.identifier))

    def _drop(self) -> ddl_tree.DropObject:
        kind = self.advance().upper
        if kind not in ("TABLE", "DATABASE", "USER", "ROLE", "LOGIN"):
            raise self.error()
        if_exists = self.take("IF", "EXISTS")
        return ddl_tree.DropObject(kind, self.listed(self.name), if_exists)
