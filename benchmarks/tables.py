"""The tables that are read: rows that came by DML, computed by the server from a list of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.servers import Server

ROWS_AT_ONCE = 250_000
_FIRST_NUMBERS = 1000

ORDERS = "orders"
COLUMNS = {
    "id": ("int NOT NULL PRIMARY KEY", "n"),
    "customer_id": ("bigint NOT NULL", "CAST(n AS bigint) * 7919 % 1000003 + 5000000000"),
    "customer": ("nvarchar(50) NULL", "N'Müller & Söhne ' + CAST(n * 31 % 99991 AS nvarchar(10))"),
    "status": (
        "varchar(20) NULL",
        "CASE n % 5 WHEN 0 THEN 'open' WHEN 1 THEN 'shipped' WHEN 2 THEN 'returned' WHEN 3 THEN 'paid' END",
    ),
    "amount": (
        "decimal(18,4) NOT NULL",
        "CAST(CAST(n AS bigint) * 104729 % 99999989 AS decimal(18,4)) / 8",
    ),
    "price": ("money NULL", "CAST(n % 50021 AS money) / 4"),
    "placed_at": (
        "datetime2(6) NOT NULL",
        "DATEADD(microsecond, n * 7 % 1000000, DATEADD(second, n * 11, CAST('2019-01-01' AS datetime2(6))))",
    ),
    "due": ("date NULL", "DATEADD(day, n % 2500, CAST('2019-01-01' AS date))"),
    "reference": ("uniqueidentifier NOT NULL", "NEWID()"),
    "paid": ("bit NOT NULL", "CAST(n % 2 AS bit)"),
}
"""Ten mixed columns: DDL, and the value for number ``n``."""

SELECT_ORDERS = f"SELECT {', '.join(COLUMNS)} FROM dbo.{ORDERS} WHERE id < {{rows}}"
"""What somebody would write who reads the table by hand."""


def make_numbers(server: Server, count: int) -> None:
    """``dbo.numbers``: n from 0 to at least ``count`` - 1."""
    literals = ", ".join(f"({n})" for n in range(_FIRST_NUMBERS))
    server.run(
        "CREATE TABLE dbo.numbers (n int NOT NULL PRIMARY KEY)",
        f"INSERT INTO dbo.numbers VALUES {literals}",
    )
    made = _FIRST_NUMBERS
    while made < count:
        more = min(made, ROWS_AT_ONCE, count - made)
        server.run(f"INSERT INTO dbo.numbers SELECT n + {made} FROM dbo.numbers WHERE n < {more}")
        made += more


def make_orders(server: Server, rows: int) -> None:
    """``dbo.orders`` with ids from 0 on, under CDC where the server has it: older than its retention.

    The first rows are computed, the others repeat them under new ids: as far apart as two row groups are.
    """
    described = ", ".join(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())
    server.run(f"CREATE TABLE dbo.{ORDERS} ({described})")
    fill(server, ORDERS, [value for _, value in COLUMNS.values()], rows=min(rows, ROWS_AT_ONCE))
    _, *others = COLUMNS
    for start in range(ROWS_AT_ONCE, rows, ROWS_AT_ONCE):
        more = min(ROWS_AT_ONCE, rows - start)
        server.run(
            f"INSERT INTO dbo.{ORDERS} SELECT id + {start}, {', '.join(others)} "
            f"FROM dbo.{ORDERS} WHERE id < {more}"
        )
    if server.no_cdc is None:
        server.run(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', "
            f"@source_name = N'{ORDERS}', @role_name = NULL"
        )


def fill(server: Server, table: str, values: Sequence[str], *, rows: int) -> None:
    """``INSERT … SELECT`` from the numbers, some at a time."""
    for start in range(0, rows, ROWS_AT_ONCE):
        end = min(rows, start + ROWS_AT_ONCE)
        server.run(
            f"INSERT INTO dbo.{table} SELECT {', '.join(values)} "
            f"FROM dbo.numbers WHERE n >= {start} AND n < {end}"
        )
