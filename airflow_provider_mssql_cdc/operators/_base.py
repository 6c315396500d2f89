"""Share what every operator needs: argument checks, templating, errors, asset events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import Asset, AssetAlias, BaseOperator

from airflow_provider_mssql_cdc.database import MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    MssqlCdcError,
)
from airflow_provider_mssql_cdc.jobs.task import storage_failed
from airflow_provider_mssql_cdc.model.facts import facts_watched
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.model.task_error import KEY as ERROR_KEY
from airflow_provider_mssql_cdc.model.task_error import TaskError
from airflow_provider_mssql_cdc.operators._lineage import Written, lineage_of, written
from airflow_provider_mssql_cdc.operators._metrics import emit_facts, emit_failure
from airflow_provider_mssql_cdc.operators.links import MssqlCdcFactsLink
from airflow_provider_mssql_cdc.table import MssqlCdcTable, holds_template

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off", "", "none"})
_LSN_BYTES = 10


def at_least(least: int) -> Callable[[Any], str | None]:
    """Return a check for an integer >= ``least``."""

    def check(value: Any) -> str | None:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if good else f"must be an integer >= {least}, got {value!r}"

    return check


def or_none(check: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """Return a check that also accepts None."""
    return lambda value: None if value is None else check(value)


def not_negative(value: Any) -> str | None:
    """Check for a number >= 0."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return None if good else f"must be a number >= 0, got {value!r}"


def share(value: Any) -> str | None:
    """Check for a number from 0 to 1."""
    good = not_negative(value) is None and value <= 1
    return None if good else f"must be a number from 0 to 1, got {value!r}"


def share_of(value: Any) -> str | None:
    """Check for a number above 0 and at most 1."""
    good = share(value) is None and value > 0
    return None if good else f"must be a number above 0 and at most 1, got {value!r}"


def one_of(*choices: str | None) -> Callable[[Any], str | None]:
    """Return a check for one of ``choices``, or a template."""

    def check(value: Any) -> str | None:
        if value in choices or holds_template(value):
            return None
        return f"must be one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def word_of(*choices: str) -> Callable[[Any], str | None]:
    """Return a check for one of ``choices``; templates are refused."""

    def check(value: Any) -> str | None:
        return None if value in choices else f"must be one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def is_known_later(value: Any) -> bool:
    """Whether a value is or holds a template or another task's output, to be checked after rendering."""
    if isinstance(value, Mapping):
        return any(map(is_known_later, value.values()))
    return hasattr(value, "resolve") or holds_template(value)


def as_lsn(value: Any) -> Any:
    """Turn an LSN that was rendered to an int or bytes back into a string; return other values unchanged."""
    # render_template_as_native_obj=True evaluates "0x…" as a Python literal (Airflow docs, "Operators",
    # rendering fields as native Python objects).
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 80:
        return Lsn(value).text
    if isinstance(value, bytes | bytearray) and len(value) == _LSN_BYTES and any(value):
        return Lsn(int.from_bytes(value, "big")).text
    return value


def lsn(value: Any) -> str | None:
    """Check for an LSN or a template."""
    if is_known_later(value):
        return None
    try:
        Lsn.parse(as_lsn(value))
    except ValueError as exc:
        return f"must be an LSN, got {value!r}: {exc}"
    return None


def flag(value: Any) -> str | None:
    """Check for True or False."""
    return None if isinstance(value, bool) else f"must be True or False, got {value!r}"


def text(value: Any) -> str | None:
    """Check for a non-empty string."""
    good = isinstance(value, str) and bool(value.strip())
    return None if good else f"must be a non-empty string, got {value!r}"


def flag_or_template(value: Any) -> str | None:
    """Check for True, False, or a template that renders to one of them."""
    if holds_template(value):
        return None
    try:
        as_flag(value, name="it")
    except ConfigurationError:
        return f"must be true or false, or a template of it, got {value!r}"
    return None


def as_flag(value: Any, *, name: str) -> bool:
    """Read a flag that may have been rendered to a string: 'False' is false.

    :raises ConfigurationError: the value is neither true nor false.
    """
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if isinstance(value, str) and (text := value.strip().lower()) in _TRUE | _FALSE:
        return text in _TRUE
    raise ConfigurationError(f"{name} must be true or false, got {value!r}")


def delta_asset(uri: str) -> Asset:
    """Return the asset of a Delta table of this package: ``schedule=delta_asset("/lake/silver/orders")``.

    :param uri: path or URI of the table, spelled like the operators' argument.
    """
    return Asset(asset_uri(uri))


def asset_uri(uri: str) -> str:
    """Return the asset URI of a Delta table; a path becomes a ``file://`` URI."""
    return f"file://{uri}" if uri.startswith("/") else uri


def with_own_alias(arguments: dict[str, Any], *, table: Any, announced: bool) -> dict[str, Any]:
    """Return operator arguments with an asset alias for the Delta table as the first outlet.

    :param table: path or URI of the Delta table, also as a template; part of the alias' name.
    :param announced: False returns the arguments unchanged.
    """
    # Airflow emits an event of an Asset outlet for every success, also when nothing was committed, and none
    # for a commit whose task failed afterwards. Events of an alias are added by the task (Airflow docs,
    # "Asset definitions", AssetAlias).
    if not announced:
        return arguments
    given = arguments.get("outlets") or []
    outlets = list(given) if isinstance(given, Iterable) and not isinstance(given, Mapping) else [given]
    return {**arguments, "outlets": [AssetAlias(f"mssql_cdc {table}"), *outlets]}


def announce(
    context: Context, outlets: Iterable[Any], *, table: str, extra: dict[str, Any], changed: bool
) -> None:
    """Add ``extra`` to the events of this task's outlets.

    An :class:`~airflow.sdk.Asset` outlet of the DAG gets its event from Airflow. An
    :class:`~airflow.sdk.AssetAlias` gets an event on the Delta table's asset when this run has committed.

    :param table: canonical path or URI of the Delta table.
    :param changed: this run has committed to the table, in this try or an earlier one.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            if changed:
                context["outlet_events"][outlet].add(delta_asset(table), extra=extra)
        elif isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)


class CdcTask(BaseOperator):
    """Base of all operators: one job, errors that Airflow retries or not, templates."""

    ui_color = "#dfe9f3"
    _written = Written()

    def __init__(self, **kwargs: Any) -> None:
        # default_args may hold do_xcom_push=False, but downstream tasks map over these XComs.
        super().__init__(**{**kwargs, "do_xcom_push": True})

    @property
    def subject(self) -> str:
        """What messages say this task works on."""
        raise NotImplementedError

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """Render a table or a database into a new value: all runs of this process share the frozen one."""
        if not isinstance(content, MssqlCdcTable | MssqlCdcDatabase):
            return self._rendered(content, context, jinja_env, seen_oids)
        try:
            return content.rendered(lambda value: self._rendered(value, context, jinja_env, set()))
        except ConfigurationError as exc:
            raise AirflowFailException(f"{type(exc).__name__}: {exc}") from None

    def _rendered(self, content: Any, context: Context, jinja_env: Any, seen_oids: set[int] | None) -> Any:
        """Render a value; a string without a template is returned unchanged."""
        # render_template_as_native_obj=True would read such a string as a Python literal: "30" as a number.
        if isinstance(content, str) and not is_known_later(content):
            return content
        if type(content) in (list, tuple, set):
            return type(content)(self._rendered(item, context, jinja_env, seen_oids) for item in content)
        if type(content) is dict:
            return {name: self._rendered(it, context, jinja_env, seen_oids) for name, it in content.items()}
        return super().render_template(content, context, jinja_env, seen_oids)

    def execute(self, context: Context) -> Any:
        """Run the job; a permanent error fails the task without a retry."""
        with facts_watched() as rows:
            try:
                return self._execute(context)
            finally:
                emit_facts(rows)
                self._written = written(rows)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what this try read and committed; OpenLineage calls it for a failed try as well."""
        table = getattr(self, "table", None)
        return lineage_of(self._written, bronze=table and canonical_uri(table.bronze))

    def _execute(self, context: Context) -> Any:
        try:
            self.prepare()
            return self.run_job(context)
        except (MssqlCdcError, OSError) as exc:
            # Airflow logs an exception with all frames and those of its causes: the remedy would be above
            # dozens of lines. So the frames are logged here, at DEBUG.
            log.debug("traceback of the failed task", exc_info=exc)
            emit_failure(type(exc).__name__, source=self.subject)
            known = storage_failed(self.subject, exc) if isinstance(exc, OSError) else exc
            self._store_error(context, known)
            error = self._for_airflow(known)
        raise error

    def _store_error(self, context: Context, exc: MssqlCdcError) -> None:
        """Push the error as an XCom, for the page in Airflow's UI: Airflow stores it in the log alone."""
        try:
            error = TaskError.of(exc, subject=self.subject, **self.written_uris())
            context["ti"].xcom_push(key=ERROR_KEY, value=error.to_xcom())
        except Exception as failed:  # noqa: BLE001 - the task has failed already, with the error to report
            log.debug("the error was not stored for the page: %s", failed)

    def written_uris(self) -> dict[str, str | None]:
        """Canonical paths or URIs of ``bronze`` and ``facts`` of the one table that this task works on."""
        return {}

    def _for_airflow(self, exc: MssqlCdcError) -> Exception:
        """Return the error to raise: without frames and causes, of a class that Airflow retries or not."""
        if not exc.retryable:
            return AirflowFailException(f"{type(exc).__name__}: {exc}")
        exc.__cause__, exc.__suppress_context__ = None, True
        return exc.with_traceback(None)

    def prepare(self) -> None:
        """What has to be there before the job, and not where a DAG is parsed."""

    def run_job(self, context: Context) -> Any:
        raise NotImplementedError

    def show_label(self, context: Context, *, name: str, text: str) -> None:
        """Label this mapped task in the UI with ``text``; the user's template may use it as ``name``."""
        # Airflow renders the context's map_index_template after the run; it is None when the user gave none.
        context[name] = text  # type: ignore[literal-required]
        if context.get("map_index_template") is None:
            context["map_index_template"] = "{{ " + name + " }}"


class MssqlCdcOperator(CdcTask):
    """Base of the operators of one table.

    :param table: the source table and its Delta tables. (templated)
    """

    template_fields: Sequence[str] = ("table",)
    operator_extra_links = (MssqlCdcFactsLink(),)
    field_checks: ClassVar[dict[str, Callable[[Any], str | None]]] = {}

    def __init__(self, *, table: MssqlCdcTable, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self._session: SourceSession | None = None
        self._stopped = False

    @property
    def subject(self) -> str:
        return self.table.label

    def written_uris(self) -> dict[str, str | None]:
        facts = self.table.facts
        return {"bronze": canonical_uri(self.table.bronze), "facts": facts and canonical_uri(facts)}

    def prepare(self) -> None:
        self.table = self._table_with_storage()

    def _refuse_wrong_arguments(self) -> None:
        """Check every argument that is known when the DAG is parsed; report all problems together."""
        problems = [*table_problems(self.table), *wrong_arguments(self.field_checks, vars(self))]
        problems += self._problems_together() if isinstance(self.table, MssqlCdcTable) else []
        if problems:
            raise ConfigurationError(f"{type(self).__name__} {self.task_id!r}: " + "; ".join(problems))

    def _problems_together(self) -> list[str]:
        """List problems of arguments that are valid on their own but not together."""
        return []

    def skip(self, reason: str) -> NoReturn:
        """Skip the task and log the reason."""
        # Airflow logs the exception's text only as a field of "Skipping task." (task_runner.py of its SDK).
        self.log.info("skipped: %s", reason)
        raise AirflowSkipException(reason)

    def _table_with_storage(self) -> MssqlCdcTable:
        """Return the table with the credentials of its object store."""
        # Read in execute, after Airflow has stored the rendered fields, which so never hold credentials.
        from airflow_provider_mssql_cdc.hooks.delta_storage import with_storage_of_connection

        return with_storage_of_connection(self.table)

    def on_kill(self) -> None:
        """Cancel the query on the server and start no other; ``complete`` removes staged files later."""
        # Airflow calls this from a signal handler and lets the task continue: it fails at its next query,
        # and a commit that has begun is finished.
        self._stopped = True
        if self._session is not None:
            self._session.cancel()

    def connect(self) -> SourceSession:
        """Open the session of this attempt; imports pymssql and the hook, so not at parse time."""
        from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook

        self._session = MssqlCdcHook(self.table.mssql_conn_id).session(isolation=self.table.isolation)
        if self._stopped:  # checked last: the signal may come at any line
            raise ConnectionBroken(f"{self.table.label}: not connected, because the task was killed")
        return self._session


def wrong_arguments(checks: Mapping[str, Callable[[Any], str | None]], given: Mapping[str, Any]) -> list[str]:
    """List one sentence for each argument that its check refuses."""
    return [f"{name} {problem}" for name, check in checks.items() if (problem := check(given[name]))]


def table_problems(table: Any) -> list[str]:
    """Say so when this is no table."""
    return [] if isinstance(table, MssqlCdcTable) else [f"table must be an MssqlCdcTable, got {_kind(table)}"]


def _kind(value: Any) -> str:
    return type(value).__name__


def attempt_of(context: Context) -> Attempt:
    """Return the identity of this task attempt; runs without a logical date have one too."""
    ti = context["ti"]
    return Attempt(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )
