"""The tasks of ``mssql_cdc_pipeline``: a whole database in few of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import AssetAlias, conf

from airflow_provider_mssql_cdc.database import MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import ConfigurationError, RetryableError, listed
from airflow_provider_mssql_cdc.model.database_items import (
    PackOutcome,
    ReadItem,
    TableRef,
    ToComplete,
)
from airflow_provider_mssql_cdc.operators._base import CdcTask, attempt_of, delta_asset
from airflow_provider_mssql_cdc.operators._metrics import emit_failure
from airflow_provider_mssql_cdc.planning.packs import label_of
from airflow_provider_mssql_cdc.planning.report import RunReport, report_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.each_table import Worker
    from airflow_provider_mssql_cdc.source.kept import TaskSessions
    from airflow_provider_mssql_cdc.table import MssqlCdcTable

__all__ = [
    "MssqlCdcDatabaseCompleteOperator",
    "MssqlCdcDatabaseFollowOperator",
    "MssqlCdcDatabasePlanOperator",
    "MssqlCdcDatabaseReadOperator",
    "MssqlCdcDatabaseReportOperator",
]

TABLES_LABEL = "mssql_cdc_tables"
"""Context key of the label that the UI shows for a mapped task."""

SUMMARY = "summary"
"""XCom key under which ``plan`` tells ``report`` what there is besides its items."""

_SHOWN = 5


class MssqlCdcDatabaseTask(CdcTask):
    """Base of the tasks of a whole database: its sessions, and what they end with.

    :param database: which tables, from where and to where. (templated)
    :param plan_task_id: the task whose items these are.
    :param sessions_per_task: how many tables are in work at the same time, each on its own session.
    """

    template_fields: Sequence[str] = ("database",)

    def __init__(
        self,
        *,
        database: MssqlCdcDatabase,
        plan_task_id: str | None = None,
        sessions_per_task: int = 1,
        **kwargs: Any,
    ) -> None:
        if not isinstance(database, MssqlCdcDatabase):
            raise ConfigurationError(f"database must be an MssqlCdcDatabase, got {type(database).__name__}")
        super().__init__(**kwargs)
        self.database = database
        self.plan_task_id = plan_task_id
        self.sessions_per_task = sessions_per_task
        self._sessions: TaskSessions | None = None
        self._stopped = False

    @property
    def subject(self) -> str:
        return self.database.label

    def worker(self, context: Context) -> Worker:
        """What the jobs of this task share; the hook is imported here, not where the DAG is parsed."""
        from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
        from airflow_provider_mssql_cdc.jobs.each_table import Worker
        from airflow_provider_mssql_cdc.source.kept import TaskSessions

        hook = MssqlCdcHook(self.database.mssql_conn_id)
        self._sessions = TaskSessions(lambda isolation: hook.session(isolation=isolation))
        if self._stopped:  # looked at last: the signal may come at any line
            self._sessions.cancel()
        return Worker(
            self.database, attempt_of(context), self._sessions, _storage_asked_once(), self.sessions_per_task
        )

    def execute(self, context: Context) -> Any:
        try:
            return super().execute(context)
        finally:
            if self._sessions is not None:
                self._sessions.close()

    def on_kill(self) -> None:
        """End the queries on the server, and begin none; what was committed stays, the next try continues."""
        self._stopped = True
        if self._sessions is not None:
            self._sessions.cancel()

    def pulled(self, context: Context, key: str) -> dict[str, Any]:
        """What ``plan`` pushed under a key; empty when it did not come so far."""
        found = context["ti"].xcom_pull(task_ids=self.plan_task_id, key=key, map_indexes=-1)
        return dict(found) if isinstance(found, Mapping) else {}

    def ended(self, context: Context, outcome: PackOutcome, *, plan: str | None, item: int) -> dict[str, Any]:
        """Events for what was committed, and the result; or another try for retryable errors.

        :raises RetryableError: tables failed that another attempt may bring, and there is one left.
        """
        for name, failure in outcome.failures.items():
            emit_failure(failure.error, source=f"{self.database.mssql_conn_id}.{name}")
        ti = context["ti"]
        if (names := outcome.retryable) and ti.try_number <= ti.max_tries:
            first, tables = outcome.failures[names[0]], outcome.tables.keys() | outcome.failures.keys()
            raise RetryableError(
                f"{len(names)} of {len(tables)} table(s) are tried again, the others are done: "
                f"{listed(names, most=_SHOWN)}. The first one's error: {first.error}: {first.message}"
            )
        for outlet in self.outlets:
            if isinstance(outlet, AssetAlias):
                for one in outcome.announcements:
                    context["outlet_events"][outlet].add(delta_asset(one.uri), extra=dict(one.extra))
        return outcome.to_xcom(plan=plan, item=item)


class MssqlCdcDatabasePlanOperator(MssqlCdcDatabaseTask):
    """Find the tracked tables, and share the work of this run out among the tasks behind it.

    Returns the items that ``read`` is mapped over, never none; the tables of ``complete`` and ``follow`` are
    XComs of their own, one per slot. A table that cannot be planned is told by ``report`` and stops nobody.
    A run with ``conf={"resnapshot": ["sales.order"]}`` takes new snapshots of some tables.

    :param parts: ``load``, ``follow``, or both.
    :param max_tasks: mapped tasks of ``read`` in one run, for all tables together.
    :param max_waves: of all chunked tables together, among those.
    :param complete_slots: mapped tasks of ``complete``.
    :param follow_slots: mapped tasks of ``follow``.
    """

    def __init__(
        self,
        *,
        parts: Sequence[str],
        max_tasks: int,
        max_waves: int,
        complete_slots: int,
        follow_slots: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.parts = tuple(parts)
        self.max_tasks = max_tasks
        self.max_waves = max_waves
        self.complete_slots = complete_slots
        self.follow_slots = follow_slots

    def run_job(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_mssql_cdc.jobs.plan_database import plan_database
        from airflow_provider_mssql_cdc.jobs.plan_loads import DatabaseRequest

        plan = plan_database(
            DatabaseRequest(
                worker=self.worker(context),
                parts=self.parts,
                max_tasks=min(self.max_tasks, conf.getint("core", "max_map_length", fallback=1024)),
                max_waves=self.max_waves,
                complete_slots=self.complete_slots,
                follow_slots=self.follow_slots,
                resnapshot=_asked_again(context),
            )
        )
        ti = context["ti"]
        for slot, tables in enumerate(plan.complete_slots()):
            ti.xcom_push(key=_slot_key("complete", slot), value=tables)
        for slot, tables in enumerate(plan.follow_slots()):
            ti.xcom_push(key=_slot_key("follow", slot), value=tables)
        ti.xcom_push(key=SUMMARY, value=plan.summary())
        return [item.to_xcom() for item in plan.read]


class MssqlCdcDatabaseReadOperator(MssqlCdcDatabaseTask):
    """Do one item of the plan: read a range or a wave, or load a pack of small tables one by one.

    A pack commits each table as soon as it is read and follows it at once; tried again it finds in bronze
    what is left. Map it over the plan: ``.partial(...).expand(item=plan.output)``.

    :param item: one item of the plan; data, so never templated.
    """

    def __init__(self, *, item: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.packs import read_item

        item = ReadItem.from_xcom(self.item)
        self.show_label(context, name=TABLES_LABEL, text=_label_of(item))
        outcome = read_item(self.worker(context), item)
        return self.ended(context, outcome, plan=item.plan, item=item.number)


class MssqlCdcDatabaseCompleteOperator(MssqlCdcDatabaseTask):
    """Complete the tables of one slot, whose ranges or waves ``read`` brought, and follow them at once.

    :param slot: number of the slot.
    :param read_task_id: the task that read.
    """

    def __init__(self, *, slot: int, read_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slot = slot
        self.read_task_id = read_task_id

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.packs import complete_tables

        slot = self.pulled(context, _slot_key("complete", self.slot))
        tables = [ToComplete.from_xcom(one) for one in slot.get("tables", ())]
        self.show_label(
            context, name=TABLES_LABEL, text=_slot_label("complete", [one.table.name for one in tables])
        )
        wanted = sorted({number for one in tables for number in one.items})
        results = _results(context, self.read_task_id, plan=slot.get("plan"), map_indexes=wanted)
        outcome = complete_tables(self.worker(context), tables, results)
        return self.ended(context, outcome, plan=slot.get("plan"), item=self.slot)


class MssqlCdcDatabaseFollowOperator(MssqlCdcDatabaseTask):
    """Changes, then the merge, of each table of one slot.

    :param slot: number of the slot.
    """

    def __init__(self, *, slot: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slot = slot

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.packs import follow_tables

        slot = self.pulled(context, _slot_key("follow", self.slot))
        tables = [TableRef.from_xcom(one) for one in slot.get("tables", ())]
        self.show_label(context, name=TABLES_LABEL, text=_slot_label("follow", [one.name for one in tables]))
        outcome = follow_tables(self.worker(context), tables)
        return self.ended(context, outcome, plan=slot.get("plan"), item=self.slot)


class MssqlCdcDatabaseReportOperator(MssqlCdcDatabaseTask):
    """Say what became of every table of the run; fail when too many failed, or a task died without a result.

    It is the run's leaf, so that its state is the run's. Returns, and pushes under the key ``report`` when it
    fails, ``{"tables", "loaded", "followed", "rows", "failed", "died", "waiting", "untracked"}``.

    :param read_task_id: the task that read; None where the pipeline has none, as the next two.
    :param max_failed_tables: how many tables may fail in a run that ends well.
    """

    def __init__(
        self,
        *,
        read_task_id: str | None,
        complete_task_id: str | None,
        follow_task_id: str | None,
        complete_slots: int,
        follow_slots: int,
        max_failed_tables: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.read_task_id = read_task_id
        self.complete_task_id = complete_task_id
        self.follow_task_id = follow_task_id
        self.complete_slots = complete_slots
        self.follow_slots = follow_slots
        self.max_failed_tables = max_failed_tables

    def run_job(self, context: Context) -> dict[str, Any]:
        report = self._report(context)
        told = report.to_xcom()
        for line in report.lines():
            self.log.info("%s", line)
        context["ti"].xcom_push(key="report", value=told)
        if problem := report.problem(max_failed_tables=self.max_failed_tables):
            raise AirflowFailException(problem)
        return told

    def _report(self, context: Context) -> RunReport:
        summary = self.pulled(context, SUMMARY)
        plan = summary.get("plan")
        if plan is None:
            return RunReport.without_plan(self.database.label)
        expected: dict[tuple[str, int], list[str]] = {}
        found: dict[tuple[str, int], Mapping[str, Any]] = {}
        for task_id, names in self._work(context):
            expected |= {(task_id, number): tables for number, tables in names.items()}
            results = _results(context, task_id, plan=plan)
            found |= {(task_id, number): result for number, result in results.items()}
        return report_of(self.database.label, summary, expected, found)

    def _work(self, context: Context) -> Iterator[tuple[str, dict[int, list[str]]]]:
        """Each mapped task, with the tables of each of its items."""
        if self.read_task_id is not None:
            items = context["ti"].xcom_pull(task_ids=self.plan_task_id, map_indexes=-1) or ()
            read = [ReadItem.from_xcom(item) for item in items]
            yield self.read_task_id, {item.number: item.names for item in read}
        if self.complete_task_id is not None:
            slots = [self.pulled(context, _slot_key("complete", n)) for n in range(self.complete_slots)]
            yield (
                self.complete_task_id,
                dict(enumerate(_names_of([one["table"] for one in slot["tables"]] for slot in slots))),
            )
        if self.follow_task_id is not None:
            slots = [self.pulled(context, _slot_key("follow", n)) for n in range(self.follow_slots)]
            yield self.follow_task_id, dict(enumerate(_names_of(slot["tables"] for slot in slots)))


def _names_of(slots: Iterable[Iterable[Any]]) -> Iterator[list[str]]:
    for slot in slots:
        yield [TableRef.from_xcom(one).name for one in slot]


def _results(
    context: Context, task_id: str, *, plan: str | None, map_indexes: Sequence[int] | None = None
) -> dict[int, Mapping[str, Any]]:
    """What the mapped tasks of this plan returned, by the number of the item.

    Airflow hands over results of map indexes that a newer plan has no more, and in no promised order: the
    plan's id and the item's number in each result say which they are (docs/adr/0020-a-whole-database.md).
    """
    asked: dict[str, Any] = {} if map_indexes is None else {"map_indexes": map_indexes}
    if map_indexes is not None and not map_indexes:
        return {}
    found = context["ti"].xcom_pull(task_ids=task_id, **asked)
    results = [found] if isinstance(found, Mapping) else list(found or ())
    mine = [one for one in results if isinstance(one, Mapping) and one.get("plan") == plan]
    return {int(one["item"]): one for one in mine}


def _asked_again(context: Context) -> tuple[str, ...]:
    """Tables of ``conf={"resnapshot": [...]}``.

    :raises ConfigurationError: it is something else than a name or a list of names.
    """
    given = (getattr(context["dag_run"], "conf", None) or {}).get("resnapshot") or ()
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f'conf["resnapshot"] must be a list of names or patterns, got {given!r}')
    return tuple(names)


def _storage_asked_once() -> Any:
    """Storage options of each ``delta_conn_id``, asked once per task however many tables have it."""
    from airflow_provider_mssql_cdc.hooks.delta_storage import with_storage_of_connection

    known: dict[str, Mapping[str, str]] = {}

    def with_storage(table: MssqlCdcTable) -> MssqlCdcTable:
        from dataclasses import replace

        if table.delta_conn_id is None:
            return table
        if table.delta_conn_id not in known:
            bare = replace(table, storage_options=None)
            known[table.delta_conn_id] = with_storage_of_connection(bare).storage_options or {}
        return replace(table, storage_options={**known[table.delta_conn_id], **(table.storage_options or {})})

    return with_storage


def _slot_key(task: str, slot: int) -> str:
    return f"{task}_{slot}"


def _label_of(item: ReadItem) -> str:
    if item.kind == "nothing":
        return "nothing to read"
    part = ""
    if item.kind in ("range", "wave") and item.work is not None:
        number = int(item.work["index" if item.kind == "range" else "wave"]) + 1
        part = f"{item.kind} {number} of {item.work['count' if item.kind == 'range' else 'waves']} of "
    if item.kind == "cut":
        part = "chunks of "
    return label_of(item.names, prefix=part)


def _slot_label(task: str, names: Sequence[str]) -> str:
    return label_of(names, prefix=f"{task} ") if names else f"nothing to {task}"
