"""What a driver says becomes one class of this package's errors, and never shows a value."""

from __future__ import annotations

from typing import Any

import pymssql
import pytest
from mssql_python.exceptions import OperationalError as OdbcOperationalError
from mssql_python.exceptions import sqlstate_to_exception

from airflow_provider_mssql_cdc import errors
from airflow_provider_mssql_cdc.source.errors import translate


def odbc(sqlstate: str, number: int, text: str) -> Exception:
    """An exception of mssql-python with the diagnostics that the reader notes."""
    exception = sqlstate_to_exception(sqlstate, text) or OdbcOperationalError("unknown", text)
    records = [(f"[{sqlstate}] ({number})", f"[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text}")]
    exception.diagnostics = records
    return exception


def db_lib(number: int, text: str, *, own: str = "") -> Exception:
    """An exception of pymssql: a number and a string with db-lib's own words after it."""
    general = "DB-Lib error message 20018, severity 16:\nGeneral SQL Server error: Check messages\n"
    return pymssql.OperationalError((number, f"{text}{own or general}".encode()))


BY_NUMBER: list[tuple[int, type[errors.MssqlCdcError]]] = [
    (1205, errors.DeadlockVictim),
    (1222, errors.LockTimeout),
    (3952, errors.IsolationRefused),
    (3960, errors.ServerBusy),
    (3961, errors.ServerBusy),
    (40197, errors.ServerBusy),
    (40501, errors.ServerBusy),
    (40613, errors.ServerBusy),
    (49918, errors.ServerBusy),
    (49920, errors.ServerBusy),
    (10928, errors.ServerBusy),
    (10929, errors.ServerBusy),
    *(
        (number, errors.ServerBusy)
        for number in map(
            int,
            "1204 921 922 927 952 596 3958 3959 8628 844 845 847 10922 40549 40551 40553 615 983 976 "
            "35293".split(),
        )
    ),
    (18456, errors.LoginFailed),
    (4060, errors.LoginFailed),
    (229, errors.PermissionDenied),
    (230, errors.PermissionDenied),
    (916, errors.PermissionDenied),
    (207, errors.SourceObjectMissing),
    (208, errors.SourceObjectMissing),
    (2812, errors.SourceObjectMissing),
    (245, errors.ValueDoesNotFit),
    (8115, errors.ValueDoesNotFit),
    (10054, errors.ConnectionBroken),
    (233, errors.ConnectionBroken),
    (64, errors.ConnectionBroken),
    (102, errors.StatementFailed),
    (50000, errors.StatementFailed),
]


@pytest.mark.parametrize(("number", "expected"), BY_NUMBER)
@pytest.mark.parametrize("build", [lambda n: odbc("42000", n, "Because."), lambda n: db_lib(n, "Because.")])
def test_the_server_s_number_decides(number: int, expected: type[errors.MssqlCdcError], build: Any) -> None:
    translated = translate(build(number), doing="erp: reading dbo.orders")
    assert type(translated) is expected
    assert str(translated).startswith(f"erp: reading dbo.orders: Because (error {number}). ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Something moved. Rerun the query.", errors.ServerBusy),
        ("Rerun your statement when there are fewer active users.", errors.ServerBusy),
        ("The service is moving. Please TRY AGAIN LATER.", errors.ServerBusy),
        ("Unable to access database 'shop' because it is in transition.", errors.ServerBusy),
        ("The database may be offline. Wait a few minutes and try again.", errors.ServerBusy),
        ("No room for it now. Retry the request.", errors.ServerBusy),
        ("The column 'rerun the query' is not there.", errors.StatementFailed),
        ("Cannot use 'try again later' here.", errors.StatementFailed),
        ("The transition table is not there.", errors.StatementFailed),
    ],
)
@pytest.mark.parametrize("build", [lambda t: odbc("42000", 65001, t), lambda t: db_lib(65001, t)])
def test_where_the_number_is_unknown_the_server_s_own_words_tell_what_passes(
    text: str, expected: type[errors.MssqlCdcError], build: Any
) -> None:
    assert type(translate(build(text), doing="erp: reading dbo.orders")) is expected


@pytest.mark.parametrize(
    ("number", "own", "expected"),
    [
        (20003, "TDS server connection timed out", errors.ConnectionBroken),
        (20047, "DBPROCESS is dead or not enabled", errors.ConnectionBroken),
        (20017, "Unexpected EOF from the server", errors.ConnectionBroken),
        (
            20009,
            "Unable to connect: TDS server is unavailable or does not exist (db)",
            errors.ConnectionBroken,
        ),
    ],
)
def test_db_lib_s_own_numbers_are_broken_connections(
    number: int, own: str, expected: type[errors.MssqlCdcError]
) -> None:
    exception = db_lib(number, "", own=f"DB-Lib error message {number}, severity 9:\n{own}\n")
    assert type(translate(exception, doing="x")) is expected


def test_the_server_s_word_counts_more_than_db_lib_s() -> None:
    own = "DB-Lib error message 20002, severity 9:\nTDS server connection failed (db)\n"
    refused = db_lib(18456, "Login failed for user 'etl'.", own=own)
    assert type(translate(refused, doing="x")) is errors.LoginFailed
    assert "Login failed for user 'etl' (error 18456)" in str(translate(refused, doing="x"))


def test_a_number_that_pymssql_left_over_from_an_earlier_connect_does_not_count() -> None:
    gone = "DB-Lib error message 20009, severity 9:\nUnable to connect: TDS server is unavailable (db)\n"
    assert type(translate(db_lib(18456, "", own=gone), doing="x")) is errors.ConnectionBroken


def test_a_number_without_the_server_s_text_still_counts() -> None:
    assert type(translate(db_lib(4060, ""), doing="x")) is errors.LoginFailed


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("08S01", errors.ConnectionBroken),
        ("08001", errors.ConnectionBroken),
        ("HYT00", errors.ConnectionBroken),
        ("28000", errors.LoginFailed),
        ("40001", errors.DeadlockVictim),
        ("22003", errors.ValueDoesNotFit),
        ("42S02", errors.SourceObjectMissing),
        ("42000", errors.StatementFailed),
    ],
)
def test_without_a_number_the_sqlstate_decides(sqlstate: str, expected: type[errors.MssqlCdcError]) -> None:
    assert type(translate(odbc(sqlstate, 0, "Etwas ist schiefgegangen"), doing="x")) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Transaction (Process ID 52) was deadlocked on lock resources with another process",
            errors.DeadlockVictim,
        ),
        ("Lock request time out period exceeded.", errors.LockTimeout),
        ('Cannot open database "shop" requested by the login.', errors.LoginFailed),
        (
            "SSL Provider: [error:0A000086:SSL routines::certificate verify failed:self-signed certificate]",
            errors.ConfigurationError,
        ),
        ("Encryption not supported on SQL Server.", errors.ConfigurationError),
        (
            "An insufficient number of arguments were supplied for cdc.fn_cdc_get_all_changes_ ... .",
            errors.RetentionGap,
        ),
    ],
)
def test_without_a_number_the_text_decides(text: str, expected: type[errors.MssqlCdcError]) -> None:
    exception = OdbcOperationalError("something", f"[Microsoft][SQL Server]{text}")
    assert type(translate(exception, doing="x")) is expected


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (245, "Conversion failed when converting the varchar value 'secret' to data type int."),
        (102, "Incorrect syntax near 'secret'."),
        (105, "Unclosed quotation mark after the character string 'secret'."),
        (50000, 'He said "secret".'),
        (2627, "Violation of UNIQUE KEY constraint 'u'. The duplicate key value is (secret (really), 1)."),
    ],
)
@pytest.mark.parametrize("build", [lambda n, t: odbc("42000", n, t), db_lib])
def test_a_value_that_the_server_quotes_is_blotted_out(number: int, text: str, build: Any) -> None:
    assert "secret" not in str(translate(build(number, text), doing="x"))


def test_names_that_the_server_quotes_are_kept() -> None:
    denied = odbc("42000", 229, "The SELECT permission was denied on the object 'orders', database 'shop'.")
    assert "'orders'" in str(translate(denied, doing="x"))


def test_an_error_of_this_package_stays_what_it_is() -> None:
    gap = errors.RetentionGap("gone")
    assert translate(gap, doing="x") is gap


def test_an_exception_without_words_still_says_what_was_done() -> None:
    assert str(translate(RuntimeError(), doing="erp: connecting")).startswith(
        "erp: connecting: the driver gave no reason"
    )
