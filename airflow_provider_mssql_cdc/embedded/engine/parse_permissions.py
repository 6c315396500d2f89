"""Parser: logins, users, roles, GRANT, DENY and REVOKE."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.engine import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.parse_statements import StatementParser


class PermissionParser(StatementParser):
    """Statements about who may do what."""

    def create_principal(self, kind: str) -> ddl_tree.CreatePrincipal:
        name = self.identifier()
        value = None
        if kind == "LOGIN":
            self.expect("WITH")
            self.expect("PASSWORD")
            self.expect_operator("=")
            value = self.advance().text
            while self.take_operator(","):
                self.identifier()
                self.expect_operator("=")
                self.advance()
        elif kind == "USER":
            if self.take("FOR", "LOGIN") or self.take("FROM", "LOGIN"):
                value = self.identifier()
            elif not self.take("WITHOUT", "LOGIN"):
                value = name
        elif self.take("AUTHORIZATION"):
            self.identifier()
        return ddl_tree.CreatePrincipal(kind, name, value)

    def alter_role(self) -> ddl_tree.AlterRole:
        role = self.identifier()
        added = self.take("ADD")
        if not added:
            self.expect("DROP")
        self.expect("MEMBER")
        return ddl_tree.AlterRole(role, self.identifier(), added)

    def permission(self, action: str) -> ddl_tree.Permission:
        self.take("GRANT", "OPTION", "FOR")
        permissions = self.listed(self._permission)
        scope, securable, columns = "DATABASE", (), ()  # type: tuple[str, tree.Name, tuple[str, ...]]
        if self.take("ON"):
            scope, securable = self._securable()
            if self.at_operator("("):
                columns = self._columns()
        if not self.take("TO"):
            self.expect("FROM")
        principals = self.listed(self._principal)
        if self.take("WITH", "GRANT"):
            self.expect("OPTION")
        self.take("CASCADE")
        return ddl_tree.Permission(action, permissions, scope, securable, columns, principals)

    def _principal(self) -> str:
        return self.advance().text if self.at("PUBLIC") else self.identifier()

    def _columns(self) -> tuple[str, ...]:
        return self.parenthesised(lambda: self.listed(self.identifier))

    def _permission(self) -> tuple[str, tuple[str, ...]]:
        words = []
        while not self.at("ON", "TO", "FROM") and not self.at_operator(",", "("):
            if self.token.kind != "word":
                raise self.error()
            words.append(self.advance().upper)
        return " ".join(words), self._columns() if self.at_operator("(") else ()

    def _securable(self) -> tuple[str, tree.Name]:
        scope = "OBJECT"
        if self.peek().text == "::":
            scope = self.advance().upper
            self.advance()
        return scope, self.name()
