"""The one value that says which tables of a database are loaded, and to where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.table_options import TableOptions
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri, plans_uri, uri_problems
from airflow_provider_mssql_cdc.model.tracked import (
    TableName,
    TablePattern,
    TrackedTable,
    path_part,
    same_but_for_case,
    selected,
)
from airflow_provider_mssql_cdc.table import Isolation, MssqlCdcTable, holds_template

# A single brace: Jinja's are double and stay as they are until the task renders them.
_PLACEHOLDER = re.compile(r"(?<!{){(\w*)}(?!})")
_PATHS = ("bronze", "silver", "facts")
_FACTS = "the facts"
_OF_THE_TABLE = (
    *("split_by", "key", "casts", "allow", "isolation", "storage_options", "delta_conn_id", "facts_url"),
    "capture_instance",
)
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """One table of a database, with the parameters of all its jobs.

    :param name: ``schema.table`` as the server spells it.
    :param silver: path or URI of the Delta table with the current state; None leaves it out.
    """

    name: str
    table: MssqlCdcTable
    silver: str | None
    options: TableOptions

    def places(self) -> list[str]:
        """The canonical locations of its own Delta tables; the facts table is shared."""
        own = [self.table.bronze, *([] if self.silver is None else [self.silver])]
        return [*map(canonical_uri, own), plans_uri(self.table.bronze)]


@dataclass(frozen=True, slots=True)
class ResolvedDatabase:
    """What a list of tracked tables means.

    :param tables: those that can be loaded and followed.
    :param problems: by the name of a table, or by the pattern, what keeps it from that.
    :param chosen: how many tables the patterns choose, those with a problem included.
    """

    tables: tuple[DatabaseTable, ...]
    problems: Mapping[str, str]
    chosen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MssqlCdcDatabase:
    """The tables of a SQL Server database that CDC tracks, and the Delta tables they are loaded into.

    The value is frozen; its fields are templated, per run, into a new value. Everything that is wrong with
    it is reported at once, where the DAG is parsed.

    :param mssql_conn_id: an Airflow connection of type ``mssql_cdc``. (templated)
    :param include: patterns ``schema.table`` in which ``*`` stands for any characters; case is ignored. A
        pattern that matches no tracked table is an error of the run. (templated)
    :param exclude: likewise, of tables that are left out. (templated)
    :param bronze: path or URI of a table's bronze; ``{schema}`` and ``{table}`` are filled in, escaped so
        that no two names share a path. (templated)
    :param silver: likewise, of its current state; None leaves silver out. (templated)
    :param facts: path or URI of the Delta table that receives one row per event. (templated)
    :param tables: ``{"schema.table" or pattern: {option: value}}``, with every option of a table and of its
        operators, and ``bronze``, ``silver`` and ``capture_instance``. A later pattern overrides an earlier
        one, a name over all patterns. (templated)
    :param storage_options: of all Delta tables, as delta-rs takes them. (templated, never shown)
    :param delta_conn_id: an Airflow connection that says how to reach the object store. (templated)
    :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT. (templated)
    :param facts_url: where people look at the facts, see ``MssqlCdcTable``. (templated)
    """

    mssql_conn_id: str
    include: tuple[str, ...]
    bronze: str
    facts: str
    silver: str | None = None
    exclude: tuple[str, ...] = ()
    tables: Mapping[str, Options] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    delta_conn_id: str | None = None
    isolation: Isolation | None = None
    facts_url: str | None = None

    def __post_init__(self) -> None:
        problems = [
            *self._text_problems(),
            *self._pattern_problems(),
            *self._place_problems(),
            *self._option_problems(),
        ]
        if problems:
            raise ConfigurationError("MssqlCdcDatabase: " + "; ".join(problems))
        for name in ("include", "exclude"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        frozen = {name: MappingProxyType(dict(options)) for name, options in self.tables.items()}
        object.__setattr__(self, "tables", MappingProxyType(frozen))
        if self.storage_options is not None:
            object.__setattr__(self, "storage_options", MappingProxyType(dict(self.storage_options)))

    @property
    def label(self) -> str:
        """What logs and messages call it."""
        return f"database of connection {self.mssql_conn_id}"

    @property
    def chunked(self) -> list[str]:
        """Names and patterns of tables that are loaded in chunks."""
        return [name for name, options in self.tables.items() if options.get("mode") == "chunked"]

    def resolve(self, tracked: Sequence[TrackedTable]) -> ResolvedDatabase:
        """The tables that the patterns choose among those that are tracked. Pure; nothing is raised.

        One table's problem is its own: the others are resolved as if it was not there.
        """
        by_name = {table.name: table for table in tracked}
        chosen = selected(by_name, _parsed(self.include), _parsed(self.exclude))
        problems = self._unmatched(list(by_name), chosen)
        twins = same_but_for_case(chosen)
        for name, other in twins.items():
            problems[name.text] = (
                f"its name and {other} differ by case alone, so that their Delta tables would be one where "
                "case does not count: exclude one, or rename it"
            )
        found: list[DatabaseTable] = []
        for name in chosen:
            if name in twins:
                continue
            try:
                found.append(self._table(name, next(iter(by_name[name].instances), None)))
            except ConfigurationError as exc:
                problems[name.text] = str(exc)
        clashes = self._clashes(found)
        problems |= clashes
        usable = tuple(one for one in found if one.name not in clashes)
        return ResolvedDatabase(usable, problems, len(chosen))

    def table_of(self, name: str, capture_instance: str | None = None) -> DatabaseTable:
        """One table by the name that :meth:`resolve` gave it.

        :raises ConfigurationError: its options cannot be used.
        """
        return self._table(TableName.parse(name), capture_instance)

    def chooses(self, name: TableName) -> bool:
        """Whether the patterns choose a table of this name, tracked or not."""
        return bool(selected([name], _parsed(self.include), _parsed(self.exclude)))

    @property
    def bronze_template(self) -> str:
        """The template of bronze, as canonical as the places are that it gives."""
        return canonical_uri(self.bronze)

    def rendered(self, render: Callable[[Any], Any]) -> MssqlCdcDatabase:
        """A new value with every field put through ``render`` (Airflow's templating)."""
        changed: dict[str, Any] = {}
        for described in fields(self):
            value = getattr(self, described.name)
            if value is not None:
                changed[described.name] = render(_plain(value))
        return replace(self, **changed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Mapping proxies do not pickle or copy; the value is rebuilt from plain ones."""
        return (_rebuilt, ({each.name: _plain(getattr(self, each.name)) for each in fields(self)},))

    def _table(self, name: TableName, instance: str | None) -> DatabaseTable:
        options = self._options_of(name)
        silver = options.pop("silver", self.silver)
        table = MssqlCdcTable(
            mssql_conn_id=self.mssql_conn_id,
            capture_instance=options.pop("capture_instance", None)
            or instance
            or f"{name.schema}_{name.table}",
            source=(name.schema, name.table),
            bronze=_filled(options.pop("bronze", self.bronze), name),
            facts=_filled(self.facts, name),
            **{key: options.pop(key) for key in _OF_THE_TABLE if key in options},
        )
        kept = None if silver is None else _filled(silver, name)
        if problems := uri_problems(table.known_uris(silver=kept)):
            raise ConfigurationError("; ".join(problems))
        return DatabaseTable(name.text, table, kept, TableOptions(**options))

    def _options_of_all(self) -> dict[str, Any]:
        """Options of a table that the database gives to all of them."""
        names = ("storage_options", "delta_conn_id", "isolation", "facts_url")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _options_of(self, name: TableName) -> dict[str, Any]:
        """Those of all its patterns, the more particular ones last."""
        options = self._options_of_all()
        given = [(TablePattern.parse(text), each) for text, each in self.tables.items()]
        for pattern, each in sorted(given, key=lambda pair: pair[0].is_exact):
            if pattern.matches(name):
                options.update(each)
        return options

    def _unmatched(self, all_names: list[TableName], chosen: list[TableName]) -> dict[str, str]:
        """Patterns that stand for no table: most likely misspelt."""
        problems = {
            text: "this pattern of include matches no table that CDC tracks and this login sees: correct it, "
            "or enable CDC (sys.sp_cdc_enable_table) and GRANT SELECT on the table"
            for text, pattern in zip(self.include, _parsed(self.include), strict=True)
            if not any(pattern.matches(name) for name in all_names)
        }
        problems |= {
            text: "tables= has options for it, but it matches no table of this database: correct it"
            for text in self.tables
            if text not in problems and not any(TablePattern.parse(text).matches(name) for name in chosen)
        }
        return problems

    def _clashes(self, tables: Sequence[DatabaseTable]) -> dict[str, str]:
        """Tables of which a Delta table is at, or inside, a place that is another one's."""
        taken: dict[str, str] = {canonical_uri(one.table.facts).casefold(): _FACTS for one in tables}
        problems: dict[str, str] = {}
        for one in tables:
            for place in one.places():
                other = taken.setdefault(place.casefold(), one.name)
                if other != one.name:
                    _name_both(problems, one.name, other, place)
        for one in tables:
            for place in one.places():
                outer = [taken[above] for above in _folders_above(place.casefold()) if above in taken]
                for other in outer:
                    _name_both(problems, one.name, other, place)
        return problems

    def _text_problems(self) -> list[str]:
        texts = {"mssql_conn_id": self.mssql_conn_id, "bronze": self.bronze, "facts": self.facts}
        if self.silver is not None:
            texts["silver"] = self.silver
        problems = [
            f"{name} must be a non-empty string, got {value!r}"
            for name, value in texts.items()
            if not isinstance(value, str) or not value.strip()
        ]
        for name in _PATHS:
            problems += _template_problems(name, getattr(self, name))
        return problems

    def _pattern_problems(self) -> list[str]:
        problems = []
        for name in ("include", "exclude"):
            patterns = getattr(self, name)
            if isinstance(patterns, str) or not isinstance(patterns, (tuple, list)):
                problems.append(f"{name} must be a tuple of patterns, got {patterns!r}")
            else:
                problems += _parse_problems(name, patterns)
        if isinstance(self.include, (tuple, list)) and not self.include:
            problems.append('include must hold a pattern such as "sales.*"')
        return problems

    def _place_problems(self) -> list[str]:
        """As far as no template of Airflow is left to say it; every name gives the same kind of path."""
        stands_in = TableName("schema", "table")
        places = {name: getattr(self, name) for name in _PATHS}
        known = {
            name: _filled(place, stands_in)
            for name, place in places.items()
            if isinstance(place, str) and place.strip() and not holds_template(place)
        }
        return uri_problems(known) or _nested(known)

    def _option_problems(self) -> list[str]:
        tables: Any = self.tables
        if not isinstance(tables, Mapping):
            return [f"tables must be a dict {{name or pattern: options}}, got {tables!r}"]
        problems = _parse_problems("tables", list(tables))
        problems += _problems_of_options("", self._options_of_all())
        for name, options in tables.items():
            if not isinstance(options, Mapping):
                problems.append(f"tables[{name!r}] must be a dict of options, got {options!r}")
            else:
                problems += _problems_of_options(f"tables[{name!r}]: ", options)
        return problems


def _rebuilt(values: dict[str, Any]) -> MssqlCdcDatabase:
    return MssqlCdcDatabase(**values)


def _plain(value: Any) -> Any:
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def _parsed(patterns: Iterable[str]) -> list[TablePattern]:
    return [TablePattern.parse(text) for text in patterns]


def _filled(template: str, name: TableName) -> str:
    parts = {"schema": path_part(name.schema), "table": path_part(name.table)}
    return _PLACEHOLDER.sub(lambda match: parts.get(match[1], match[0]), template)


def _folders_above(place: str) -> Iterable[str]:
    while (place := place.rpartition("/")[0]) and not place.endswith(("/", ":")):
        yield place


def _nested(places: Mapping[str, str]) -> list[str]:
    """One Delta table's folder inside another one's: what cleans the outer one up would reach the inner."""
    found = {canonical_uri(place): name for name, place in places.items()}
    return [
        f"{name} must not be inside {found[above]}, got {place} in {above}"
        for place, name in found.items()
        for above in _folders_above(place)
        if above in found
    ]


def _name_both(problems: dict[str, str], one: str, other: str, place: str) -> None:
    sentence = "{} and {} would share {}: let the paths hold {{schema}} and {{table}}, or give one its own"
    problems[one] = sentence.format(one, other, place)
    if other != _FACTS:
        problems.setdefault(other, sentence.format(other, one, place))


def _template_problems(name: str, template: Any) -> list[str]:
    if not isinstance(template, str) or not template.strip():
        return []
    found = set(_PLACEHOLDER.findall(template))
    problems = []
    if unknown := sorted(found - {"schema", "table"}):
        problems.append(
            f"{name} must hold no other placeholders than {{schema}} and {{table}}, got {', '.join(unknown)}"
        )
    if name != "facts" and "table" not in found:
        problems.append(f"{name} must hold {{table}}, which keeps the tables apart, got {template!r}")
    return problems


def _parse_problems(name: str, patterns: Sequence[Any]) -> list[str]:
    problems = []
    for text in patterns:
        if holds_template(text):
            continue
        try:
            TablePattern.parse(text)
        except ConfigurationError as exc:
            problems.append(f"{name}: {exc}")
    return problems


def _problems_of_options(where: str, options: Options) -> list[str]:
    """What is wrong with the options of one name or pattern, all of it."""
    of_jobs = {each.name for each in fields(TableOptions)}
    known = {*_OF_THE_TABLE, *of_jobs, "bronze", "silver"}
    problems = [f"{where}unknown option {name!r}" for name in options if name not in known]
    for name in ("bronze", "silver"):
        if name in options and not (name == "silver" and options[name] is None):
            given = options[name]
            good = isinstance(given, str) and given.strip()
            problems += [] if good else [f"{where}{name} must be a non-empty string, got {given!r}"]
            unknown = set(_PLACEHOLDER.findall(given if good else "")) - {"schema", "table"}
            problems += [f"{where}{name} holds an unknown placeholder {each!r}" for each in sorted(unknown)]
    stands_in = {"mssql_conn_id": "c", "capture_instance": "i", "bronze": "/b", "facts": "/f"}
    given = {name: options[name] for name in _OF_THE_TABLE if name in options}
    try:
        MssqlCdcTable(**{**stands_in, **given})
    except ConfigurationError as exc:
        problems.append(where + str(exc).removeprefix("MssqlCdcTable: "))
    values = {name: options[name] for name in of_jobs if name in options}
    problems += [where + problem for problem in TableOptions(**values).problems()]
    mode = values.get("mode", "whole")
    for name in ("max_seconds", "min_headroom_hours"):
        if mode == "whole" and values.get(name) is not None:
            problems.append(f'{where}{name} is for mode="chunked" alone')
    return problems
