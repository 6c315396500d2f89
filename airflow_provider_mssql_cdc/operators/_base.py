"""What every operator of this package shares: argument checks, templating, errors, asset events."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import Asset, AssetAlias, BaseOperator

from airflow_provider_mssql_cdc.database import MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    MssqlCdcError,
    StorageFailed,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.operators.links import MssqlCdcFactsLink
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.source.session import SourceSession


_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off", "", "none"})
_LSN_BYTES = 10
_JINJA = re.compile(r"{{|{%")


def at_least(least: int) -> Callable[[Any], str | None]:
    """A whole number with a lower end."""

    def check(value: Any) -> str | None:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if good else f"must be an integer >= {least}, got {value!r}"

    return check


def or_none(check: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """The same, and None, which leaves it out."""
    return lambda value: None if value is None else check(value)


def not_negative(value: Any) -> str | None:
    """A number, zero or more."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return None if good else f"must be a number >= 0, got {value!r}"


def one_of(*choices: str | None) -> Callable[[Any], str | None]:
    """One of a few words, or a template of one; None where it is among them."""

    def check(value: Any) -> str | None:
        if value in choices or (isinstance(value, str) and _JINJA.search(value)):
            return None
        return f"must be one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def word_of(*choices: str) -> Callable[[Any], str | None]:
    """One of a few words, known when the DAG is parsed."""

    def check(value: Any) -> str | None:
        return None if value in choices else f"must be one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def is_known_later(value: Any) -> bool:
    """A template, or the output of another task, or holding one: rendered per run, and checked then."""
    if isinstance(value, Mapping):
        return any(map(is_known_later, value.values()))
    return hasattr(value, "resolve") or (isinstance(value, str) and bool(_JINJA.search(value)))


def as_lsn(value: Any) -> Any:
    """An LSN that native rendering has made a number or bytes of, as text again; anything else as it is."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 80:
        return Lsn(value).text
    if isinstance(value, bytes | bytearray) and len(value) == _LSN_BYTES and any(value):
        return Lsn(int.from_bytes(value, "big")).text
    return value


def lsn(value: Any) -> str | None:
    """An LSN, or a template of one."""
    if is_known_later(value):
        return None
    try:
        Lsn.parse(as_lsn(value))
    except ValueError as exc:
        return f"must be an LSN, got {value!r}: {exc}"
    return None


def flag(value: Any) -> str | None:
    """True or False."""
    return None if isinstance(value, bool) else f"must be True or False, got {value!r}"


def text(value: Any) -> str | None:
    """A text that is not empty."""
    good = isinstance(value, str) and bool(value.strip())
    return None if good else f"must be a non-empty string, got {value!r}"


def flag_or_template(value: Any) -> str | None:
    """True, False, or a template that renders to one of them."""
    if isinstance(value, str) and _JINJA.search(value):
        return None
    try:
        as_flag(value, name="it")
    except ConfigurationError:
        return f"must be true or false, or a template of it, got {value!r}"
    return None


def as_flag(value: Any, *, name: str) -> bool:
    """Read a flag that may have gone through templating: the text 'False' is false.

    :raises ConfigurationError: anything that is neither.
    """
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if isinstance(value, str) and (text := value.strip().lower()) in _TRUE | _FALSE:
        return text in _TRUE
    raise ConfigurationError(f"{name} must be true or false, got {value!r}")


def delta_asset(uri: str) -> Asset:
    """The asset of a Delta table of this package: ``schedule=delta_asset("/lake/silver/orders")``.

    :param uri: path or URI of the table, as the operators are given it.
    """
    return Asset(asset_uri(uri))


def asset_uri(uri: str) -> str:
    """The URI under which a Delta table is an asset; a path is a ``file://`` URI."""
    return f"file://{uri}" if uri.startswith("/") else uri


def with_own_alias(arguments: dict[str, Any], *, table: Any, announced: bool) -> dict[str, Any]:
    """Operator arguments whose outlets begin with an alias of ours, for events of the Delta table.

    A static ``Asset`` outlet gets an event for every success, also when nothing was committed, and none for
    a commit whose task failed afterwards; events of an alias are added by the task itself.

    :param table: path or URI of the Delta table; the alias has its name, templates and all.
    :param announced: the author of the DAG wants these events.
    """
    if not announced:
        return arguments
    given = arguments.get("outlets") or []
    outlets = list(given) if isinstance(given, Iterable) and not isinstance(given, Mapping) else [given]
    return {**arguments, "outlets": [AssetAlias(f"mssql_cdc {table}"), *outlets]}


def announce(
    context: Context, outlets: Iterable[Any], *, table: str, extra: dict[str, Any], changed: bool
) -> None:
    """Put ``extra`` on the events of this task's outlets.

    Airflow emits one event per success for every :class:`~airflow.sdk.Asset` that the author of the DAG
    gave. An :class:`~airflow.sdk.AssetAlias`, ours or another, gets an event on the Delta table's asset when
    this run has committed something.

    :param table: canonical path or URI of the Delta table.
    :param changed: this run has committed to it, in this try or in an earlier one.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            if changed:
                context["outlet_events"][outlet].add(delta_asset(table), extra=extra)
        elif isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)


log = logging.getLogger(__name__)

_DRAWING = re.compile(r"\x1b\[\d+m|↳")


class CdcTask(BaseOperator):
    """Base of all operators: one job, errors that Airflow retries or not, templates."""

    ui_color = "#dfe9f3"

    def __init__(self, **kwargs: Any) -> None:
        # Airflow hands its default_args over as arguments; what is mapped over, or handed on, is an XCom.
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
        """A text without a template stays as it is.

        ``render_template_as_native_obj=True`` would read it as a Python literal: "30" as a number.
        """
        if isinstance(content, str) and not is_known_later(content):
            return content
        if type(content) in (list, tuple, set):
            return type(content)(self._rendered(item, context, jinja_env, seen_oids) for item in content)
        if type(content) is dict:
            return {name: self._rendered(it, context, jinja_env, seen_oids) for name, it in content.items()}
        return super().render_template(content, context, jinja_env, seen_oids)

    def execute(self, context: Context) -> Any:
        """Run the job; an error that no retry can mend fails the task at once."""
        try:
            self.prepare()
            return self.run_job(context)
        except (MssqlCdcError, OSError) as exc:
            # Airflow logs what reaches it with all frames, and those of its causes: the remedy would stand
            # above dozens of lines. So they are logged here, for those who look for them.
            log.debug("where the task failed", exc_info=exc)
            error = self._for_airflow(exc)
        raise error

    def _for_airflow(self, exc: MssqlCdcError | OSError) -> Exception:
        """The error that is to be seen: without frames and causes, of a class that is retried or not."""
        if isinstance(exc, OSError):  # delta-rs and Arrow raise it for all that a store says; drivers do not
            exc = StorageFailed(
                f"{self.subject}: a folder or an object store of its Delta tables failed: {_plain(exc)}. "
                "Look at the paths, at delta_conn_id or storage_options, and at the store itself"
            )
        if not exc.retryable:
            return AirflowFailException(f"{type(exc).__name__}: {exc}")
        exc.__cause__, exc.__suppress_context__ = None, True
        return exc.with_traceback(None)

    def prepare(self) -> None:
        """What has to be there before the job, and not where a DAG is parsed."""

    def run_job(self, context: Context) -> Any:
        raise NotImplementedError

    def show_label(self, context: Context, *, name: str, text: str) -> None:
        """Label this mapped task in the UI with ``text``, which the user's template may use as ``name``.

        Our template is put where Airflow looks after the run: ``partial`` hands None over where the user
        gives no ``map_index_template``, and the context's is that of the mapped operator.
        """
        context[name] = text  # type: ignore[literal-required]
        if context.get("map_index_template") is None:
            context["map_index_template"] = "{{ " + name + " }}"


class MssqlCdcOperator(CdcTask):
    """Base of the operators of one table.

    :param table: what is loaded, from where and to where. (templated)
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

    def prepare(self) -> None:
        self.table = self._table_with_storage()

    def _refuse_wrong_arguments(self) -> None:
        """Check every argument that is known when the DAG is parsed; report all of them at once."""
        problems = wrong_arguments(self.field_checks, {"table": self.table, **vars(self)})
        problems += self._problems_together() if isinstance(self.table, MssqlCdcTable) else []
        if problems:
            raise ConfigurationError(f"{type(self).__name__} {self.task_id!r}: " + "; ".join(problems))

    def _problems_together(self) -> list[str]:
        """What is wrong with arguments that are right one by one."""
        return []

    def skip(self, reason: str) -> NoReturn:
        """End as skipped, the reason in the task's log: Airflow shows an exception's own text elsewhere."""
        self.log.info("skipped: %s", reason)
        raise AirflowSkipException(reason)

    def _table_with_storage(self) -> MssqlCdcTable:
        """Credentials of the object store are asked for here: after Airflow stored what it rendered."""
        from airflow_provider_mssql_cdc.hooks.delta_storage import with_storage_of_connection

        return with_storage_of_connection(self.table)

    def on_kill(self) -> None:
        """End the query on the server, and begin none; staged files go when ``complete`` cleans up.

        Airflow calls this from a signal handler and lets the task go on: it fails where it next needs the
        server, and a commit that has begun is finished.
        """
        self._stopped = True
        if self._session is not None:
            self._session.cancel()

    def connect(self) -> SourceSession:
        """Open the one session of this attempt; pymssql and the hook are imported here, not at parse time."""
        from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook

        self._session = MssqlCdcHook(self.table.mssql_conn_id).session(isolation=self.table.isolation)
        if self._stopped:  # looked at last: the signal may come at any line
            raise ConnectionBroken(f"{self.table.label}: this task was told to stop, so it does not connect")
        return self._session


def wrong_arguments(checks: Mapping[str, Callable[[Any], str | None]], given: Mapping[str, Any]) -> list[str]:
    """One sentence for the table and for each argument that its check refuses."""
    table = given["table"]
    wrong = (
        [] if isinstance(table, MssqlCdcTable) else [f"table must be an MssqlCdcTable, got {_kind(table)}"]
    )
    return wrong + [f"{name} {problem}" for name, check in checks.items() if (problem := check(given[name]))]


def _plain(error: OSError) -> str:
    """On one line: delta-rs draws a tree in colours."""
    return " ".join(_DRAWING.sub(" ", str(error)).split())


def _kind(value: Any) -> str:
    return type(value).__name__


def attempt_of(context: Context) -> Attempt:
    """Who runs: works in every kind of run, with or without a logical date."""
    ti = context["ti"]
    return Attempt(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )
