"""Ten key shapes: how a table is cut whose rows have such keys."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DAY = "CAST('2019-01-01' AS datetime2(6))"


@dataclass(frozen=True, slots=True)
class KeyShape:
    """A table's key.

    :param columns: name and DDL.
    :param values: T-SQL for the row of number ``n``; ``{rows}`` is how many there are.
    """

    columns: dict[str, str]
    values: tuple[str, ...]

    @property
    def ddl(self) -> str:
        described = ", ".join(f"{name} {ddl} NOT NULL" for name, ddl in self.columns.items())
        return f"{described}, PRIMARY KEY ({', '.join(self.columns)})"


def _two(leading: int) -> KeyShape:
    return KeyShape({"a": "int", "k": "int"}, (f"n % {leading}", "n"))


SHAPES = {
    "dense": KeyShape({"k": "int"}, ("n",)),
    "sparse": KeyShape({"k": "bigint"}, ("CAST(n AS bigint) * 1000003",)),
    "clustered": KeyShape({"k": "bigint"}, ("CAST(n / 1000 AS bigint) * 1000000000 + n % 1000",)),
    "one sentinel far above": KeyShape(
        {"k": "bigint"}, ("CASE WHEN n = {rows} - 1 THEN CAST(999999999999999 AS bigint) ELSE n END",)
    ),
    "uuid": KeyShape({"k": "uniqueidentifier"}, ("NEWID()",)),
    "varchar, common prefix": KeyShape(
        {"k": "varchar(40)"}, ("'ORDER-2024-SUBSIDIARY-00' + CAST(n AS varchar(12))",)
    ),
    "composite, 1 leading value": _two(1),
    "composite, 3 leading values": _two(3),
    "composite, 20 leading values": _two(20),
    "datetime2 in bursts": KeyShape(
        {"k": "datetime2(6)"},
        (f"DATEADD(microsecond, n % 1000 * 3, DATEADD(second, n / 1000 * 3607, {FIRST_DAY}))",),
    ),
}
