"""The servers under contract, and the count that a run ends with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.source.session import SourceSession
from tests.contract.target import DRIVERS, Target, named_connection, parsed
from tests.support.server_process import server_process

_SERVERS = ["embedded", *(["named"] if named_connection() else [])]
_COUNTS: dict[str, Counter[str]] = defaultdict(Counter)
_REASONS: dict[str, set[str]] = defaultdict(set)


@pytest.fixture(scope="session", params=_SERVERS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server with an empty database of its own, dropped at the end."""
    if request.param == "named":
        yield from _with_database(Target("named", parsed(named_connection() or "")))
        return
    with server_process() as connection:
        yield from _with_database(Target("embedded", parsed(connection)))


def _with_database(target: Target) -> Iterator[Target]:
    target.create_database()
    try:
        yield target
    finally:
        target.drop_database()


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(target: Target, driver: str) -> Iterator[SourceSession]:
    with target.session(driver) as opened:
        yield opened


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    server = _server_of(item)
    if server is None or (report.when != "call" and report.outcome == "passed") or report.when == "teardown":
        return
    kind = "portable" if item.get_closest_marker("portable") else "beyond"
    _COUNTS[server][f"{kind} {report.outcome}"] += 1
    if report.skipped:
        _REASONS[server].add(str(report.longrepr[2]))


def _server_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("target")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for server, counts in _COUNTS.items():
        ran = {kind: counts[f"{kind} passed"] + counts[f"{kind} failed"] for kind in ("portable", "beyond")}
        terminalreporter.write_line(
            f"contract, {server} server: {ran['portable']} portable checks ran, "
            f"{counts['portable skipped']} skipped; {ran['beyond']} further checks ran, "
            f"{counts['beyond skipped']} skipped"
        )
        for reason in sorted(_REASONS[server]):
            terminalreporter.write_line(f"  skipped: {reason[:300]}")
