"""Parser, third part: statements that are not DDL, batches, logins, users, GRANT, DENY and REVOKE."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.parser.queries import QueryParser
from airflow_provider_mssql_cdc.embedded.seam import SqlError

_DDL = ("CREATE", "ALTER", "DROP", "GRANT", "DENY", "REVOKE")


class StatementParser(QueryParser):
    """Statements; DDL is added by the subclass."""

    def batch(self) -> tuple[tree.Statement, ...]:
        statements: list[tree.Statement] = []
        while self.token.kind != "end":
            if self.take_operator(";"):
                continue
            if statements and isinstance(statements[0], ddl_tree.CreateSchema):
                raise self.error()  # it is a separate batch
            statements.append(self.statement())
            if len(statements) > 1 and isinstance(statements[-1], ddl_tree.CreateSchema):
                raise SqlError(111, "'CREATE SCHEMA' must be the first statement in a query batch.", 15)
        return tuple(statements)

    def statement(self) -> tree.Statement:
        start = self.token.start
        parsed = self._statement()
        end = self._tokens[self._index - 1].end
        return replace(parsed, text=self.sql[start:end])

    def ddl(self) -> tree.Statement:
        raise NotImplementedError

    def _statement(self) -> tree.Statement:
        if self.at("SELECT"):
            return tree.QueryStatement(self.query())
        if self.at(*_DDL):
            return self.ddl()
        simple = {
            "INSERT": self._insert,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "DECLARE": self._declare,
            "SET": self._set,
            "IF": self._if,
            "WHILE": self._while,
            "EXEC": self._execute,
            "EXECUTE": self._execute,
        }.get(self.token.upper)
        if simple is not None:
            self.advance()
            return simple()
        return self._short_statement()

    def _short_statement(self) -> tree.Statement:
        if self.take("BEGIN"):
            if self.at("TRAN", "TRANSACTION"):
                return self._transaction("BEGIN")
            return self._block()
        if self.at("COMMIT", "ROLLBACK"):
            return self._transaction(self.advance().upper)
        if self.take("USE"):
            return tree.Use(self.identifier())
        raise self.error()

    def _transaction(self, action: str) -> tree.Transaction:
        for word in ("TRAN", "TRANSACTION", "WORK"):
            self.take(word)
        if self.token.kind == "name" or self.token.kind == "variable":
            self.advance()
        return tree.Transaction(action)

    def _block(self) -> tree.Block:
        statements = []
        while not self.take("END"):
            if not self.take_operator(";"):
                statements.append(self.statement())
        return tree.Block(tuple(statements))

    def _if(self) -> tree.If:
        condition = self.expression()
        then = self.statement()
        self.take_operator(";")
        return tree.If(condition, then, self.statement() if self.take("ELSE") else None)

    def _while(self) -> tree.While:
        condition = self.expression()
        return tree.While(condition, self.statement())

    def _insert(self) -> tree.Insert:
        self.take("INTO")
        table = self.name()
        columns: tuple[str, ...] = ()
        if self.at_operator("("):
            columns = self.parenthesised(lambda: self.listed(self.identifier))
        if self.take("VALUES"):
            return tree.Insert(table, columns, tree.Query(self.values()))
        return tree.Insert(table, columns, self.query())

    def _update(self) -> tree.Update:
        target = self.name()
        self.expect("SET")
        assignments = self.listed(self._assignment)
        where = self.expression() if self.take("WHERE") else None
        return tree.Update(target, assignments, where)

    def _assignment(self) -> tuple[str, tree.Expression]:
        column = self.name()
        self.expect_operator("=")
        return column[-1], self.expression()

    def _delete(self) -> tree.Delete:
        self.take("FROM")
        target = self.name()
        where = self.expression() if self.take("WHERE") else None
        return tree.Delete(target, where)

    def _declare(self) -> tree.Declare:
        return tree.Declare(self.listed(self._declaration))

    def _declaration(self) -> tuple[str, tree.TypeName, tree.Expression | None]:
        name = self._variable_name()
        self.take("AS")
        return name, self.type_name(), self.expression() if self.take_operator("=") else None

    def _variable_name(self) -> str:
        if self.token.kind != "variable":
            raise self.error()
        return self.advance().text.lower()

    def _set(self) -> tree.Statement:
        if self.token.kind == "variable":
            name = self._variable_name()
            self.expect_operator("=")
            return tree.SetVariable(name, self.expression())
        if self.take("TRANSACTION", "ISOLATION", "LEVEL"):
            words = [self.advance().upper]
            if words[0] in ("READ", "REPEATABLE"):
                words.append(self.advance().upper)
            return tree.SetOption("ISOLATION", tuple(words))
        return self._set_option()

    def _set_option(self) -> tree.Statement:
        name = self.word().upper()
        if self.at_operator(","):
            return tree.Block(tuple(self._several_options(name)))
        if name == "STATISTICS":
            self.word()
        value = [self.advance().text] if not self.at_operator("-") else [str(self.integer())]
        return tree.SetOption(name, tuple(value))

    def _several_options(self, name: str) -> list[tree.Statement]:
        names = [name]
        while self.take_operator(","):
            names.append(self.word().upper())
        value = (self.advance().text,)
        return [tree.SetOption(each, value, text=f"SET {each} {value[0]}") for each in names]

    def _execute(self) -> tree.Execute:
        procedure = self.name()
        arguments = self.listed(self._argument) if self._at_argument() else ()
        return tree.Execute(procedure, arguments)

    def _at_argument(self) -> bool:
        kind = self.token.kind
        if kind in ("variable", "string", "nstring", "hex", "number") or self.at_operator("-", "?"):
            return True
        return self.at("NULL")

    def _argument(self) -> tuple[str | None, tree.Expression, bool]:
        name = None
        if self.token.kind == "variable" and self.peek().text == "=":
            name = self.advance().text.lower()
            self.advance()
        value = self._unary()
        output = self.take("OUTPUT") or self.take("OUT")
        return name, value, output


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
