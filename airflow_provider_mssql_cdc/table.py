"""``MssqlCdcTable``: a source table, its connection, and the Delta tables it is loaded into."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, cast

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.names import LONGEST_INSTANCE, LONGEST_NAME, is_name
from airflow_provider_mssql_cdc.model.table_uri import uri_problems

Isolation = Literal["snapshot"]
_TEMPLATED = ("mssql_conn_id", "capture_instance", "bronze", "facts")
_JINJA = re.compile(r"{{|{%")
FACTS_URL_NAMES = frozenset({"facts", "target", "dag_id", "run_id", "task_id", "map_index"})
"""Names that a ``facts_url`` may hold between single braces."""


def holds_template(value: object) -> bool:
    """Return whether a string holds a Jinja template, which Airflow renders per run."""
    return isinstance(value, str) and bool(_JINJA.search(value))


@dataclass(frozen=True, slots=True)
class MssqlCdcTable:
    """Describe a SQL Server table tracked by CDC and the Delta tables it is loaded into.

    The value is frozen; its string fields are templated per run, into a new value.

    :param mssql_conn_id: an Airflow connection of type ``mssql_cdc``. (templated)
    :param capture_instance: CDC capture instance, for instance ``dbo_orders``. (templated)
    :param bronze: path or URI of the Delta table that receives rows and changes. (templated)
    :param facts: path or URI of the Delta table that receives one row per event. (templated)
    :param source: ``("schema", "table")``, needed only when the login cannot see the capture instance.
        (templated)
    :param storage_options: options of the object store, with delta-rs' names. (templated, never shown)
    :param split_by: columns that key ranges are cut on; default the key. (templated)
    :param key: columns that identify a row; default the capture instance's unique index. (templated)
    :param casts: ``{column: SQL type}`` for types that are refused otherwise. (templated)
    :param allow: names of things that are refused by default: masked or encrypted columns, loaded in the
        form this login reads, ``"row_level_security"`` for a table that a policy may filter, and for silver
        keys ``"key_without_unique_index"`` and ``"key_of_indistinct_rows"`` (docs/guarantees.md).
        (templated)
    :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT. (templated)
    :param delta_conn_id: id of an Airflow connection (aws, wasb, adls, google_cloud_platform) to the object
        store; read in the task, overridden by ``storage_options``. (templated)
    :param facts_url: http or https URL of a dashboard of the facts, for the link "Facts" of every task;
        ``{facts}``, ``{target}``, ``{dag_id}``, ``{run_id}``, ``{task_id}`` and ``{map_index}`` are filled
        in, percent-encoded. Without one the link shows the task's XComs. (templated)
    """

    mssql_conn_id: str
    capture_instance: str
    bronze: str
    facts: str
    source: tuple[str, str] | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    split_by: tuple[str, ...] | None = None
    key: tuple[str, ...] | None = None
    casts: Mapping[str, str] | None = None
    isolation: Isolation | None = None
    allow: tuple[str, ...] | None = None
    delta_conn_id: str | None = None
    facts_url: str | None = None

    def __post_init__(self) -> None:
        problems = [problem for problem in map(self._problem_of, fields(self)) if problem]
        problems += uri_problems(self.known_uris())
        if problems:
            raise ConfigurationError("MssqlCdcTable: " + "; ".join(problems))
        for name in ("source", "split_by", "key", "allow"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(value))
        for name in ("storage_options", "casts"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def _problem_of(self, described: Any) -> str | None:
        name, value = described.name, getattr(self, described.name)
        if name in _TEMPLATED:
            if not isinstance(value, str) or not value.strip():
                return f"{name} must be a non-empty string, got {value!r}"
            return _instance_problem(value) if name == "capture_instance" else None
        if value is None:
            return None
        return _OPTIONAL_CHECKS[name](value)

    def known_uris(self, **others: Any) -> dict[str, str]:
        """Return the URIs of its Delta tables and of ``others``, without those that are still templates."""
        given = {"bronze": self.bronze, "facts": self.facts, **others}
        return {
            name: place
            for name, place in given.items()
            if isinstance(place, str) and place.strip() and not holds_template(place)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild the value from plain dicts: mapping proxies cannot be pickled or copied."""
        values = [getattr(self, described.name) for described in fields(self)]
        return (type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values))

    def rendered(self, render: Callable[[Any], Any]) -> MssqlCdcTable:
        """Return a new value with ``render`` (Airflow's templating) applied to every field."""
        changed: dict[str, Any] = {}
        for described in fields(self):
            value = getattr(self, described.name)
            if value is not None:
                changed[described.name] = render(dict(value) if isinstance(value, Mapping) else value)
        return replace(self, **changed)

    @property
    def label(self) -> str:
        """The table's name in logs and messages."""
        return f"{self.capture_instance} (connection {self.mssql_conn_id})"


def _instance_problem(name: str) -> str | None:
    if holds_template(name) or is_name(name, longest=LONGEST_INSTANCE):
        return None
    return (
        f"capture_instance must have at most {LONGEST_INSTANCE} characters and no NUL, got {name!r}: "
        "EXEC sys.sp_cdc_help_change_data_capture lists the capture instances"
    )


def _names_problem(name: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if isinstance(value, str) or not isinstance(value, (tuple, list)) or not value:
            return f"{name} must be a tuple of column names, got {value!r}"
        if not all(isinstance(column, str) and column for column in value):
            return f"{name} must hold non-empty column names, got {value!r}"
        return f"{name} names a column twice: {value!r}" if len(set(value)) < len(value) else None

    return check


def _source_problem(value: Any) -> str | None:
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not pair or not all(isinstance(part, str) and part for part in value):
        return f'source must be a pair ("schema", "table"), got {value!r}'
    if all(holds_template(part) or is_name(part) for part in value):
        return None
    return f"source must hold names of at most {LONGEST_NAME} characters without NUL, got {value!r}"


def _storage_problem(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return f"storage_options must be a dict of strings, got {type(value).__name__}"
    wrong = sorted(
        str(key) for key, item in value.items() if not (isinstance(key, str) and isinstance(item, str))
    )
    return f"storage_options must hold strings, got other values under {wrong}" if wrong else None


def _casts_problem(value: Any) -> str | None:
    if isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, str) and k and v for k, v in value.items()
    ):
        return None
    return f"casts must be a dict {{column: SQL type}}, got {value!r}"


def _connection_problem(value: Any) -> str | None:
    good = isinstance(value, str) and bool(value.strip())
    return None if good else f"delta_conn_id must be the id of an Airflow connection, got {value!r}"


def _facts_url_problem(value: Any) -> str | None:
    if not isinstance(value, str) or not (_JINJA.match(value) or re.match(r"https?://[^/]", value)):
        return "facts_url must be an http or https URL"
    if re.match(r"https?://[^/?#]*@", value):
        return "facts_url must not hold credentials: every user of the UI sees the link"
    if holds_template(value):
        return None
    names = ", ".join(sorted(FACTS_URL_NAMES))
    try:
        unknown = {name for _, name, *_ in string.Formatter().parse(value) if name} - FACTS_URL_NAMES
        value.format_map(dict.fromkeys(FACTS_URL_NAMES, ""))
    except (ValueError, KeyError, IndexError) as exc:
        return f"facts_url must be a format string with names of {names} in braces: {exc}"
    return (
        f"facts_url must hold only the names {names}, got {', '.join(sorted(unknown))}" if unknown else None
    )


def _isolation_problem(value: Any) -> str | None:
    if value == "snapshot" or holds_template(value):
        return None
    return f'isolation must be None (READ COMMITTED) or "snapshot", got {value!r}'


_OPTIONAL_CHECKS = cast(
    "Mapping[str, Callable[[Any], str | None]]",
    {
        "source": _source_problem,
        "storage_options": _storage_problem,
        "split_by": _names_problem("split_by"),
        "key": _names_problem("key"),
        "casts": _casts_problem,
        "isolation": _isolation_problem,
        "allow": _names_problem("allow"),
        "delta_conn_id": _connection_problem,
        "facts_url": _facts_url_problem,
    },
)
