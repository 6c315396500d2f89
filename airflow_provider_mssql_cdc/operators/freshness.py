"""``MssqlCdcFreshnessOperator``: fail when tables are behind, by their facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import ConfigurationError, NotReadyYet
from airflow_provider_mssql_cdc.operators._base import CdcTask, not_negative, or_none, text
from airflow_provider_mssql_cdc.planning.freshness import Freshness

if TYPE_CHECKING:
    from airflow.sdk import Context


def source_names(value: Any) -> str | None:
    """Check for a tuple or list of names of source tables."""
    good = isinstance(value, tuple | list) and all(isinstance(each, str) and each for each in value)
    return None if good else f"must be a tuple of names of source tables, got {value!r}"


class FactsTask(CdcTask):
    """Base of tasks that look at a facts table and at nothing else.

    :param facts: path or URI of the facts table. (templated)
    :param max_lag: seconds that a table's position may be behind now; None for any.
    :param max_age: seconds since a task last wrote a facts row of a table; None for any.
    :param sources: source tables as facts name them, ``"erp: shop.dbo.orders"``, or patterns with ``*``; all
        by default. (templated)
    :param delta_conn_id: Airflow connection to the object store of the facts.
    :param storage_options: the same as options; not together with ``delta_conn_id``.
    """

    template_fields: Sequence[str] = ("facts", "sources")
    field_checks: ClassVar = {
        "facts": text,
        "max_lag": or_none(not_negative),
        "max_age": or_none(not_negative),
        "sources": source_names,
    }

    def __init__(
        self,
        *,
        facts: str,
        max_lag: float | None = None,
        max_age: float | None = None,
        sources: Sequence[str] = (),
        delta_conn_id: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.facts = facts
        self.max_lag = max_lag
        self.max_age = max_age
        self.sources = sources
        self.delta_conn_id = delta_conn_id
        self.storage_options = storage_options
        problems = [
            f"{name} {problem}"
            for name, check in self.field_checks.items()
            if (problem := check(getattr(self, name)))
        ]
        if max_lag is None and max_age is None:
            problems.append("max_lag or max_age must be given")
        if delta_conn_id is not None and storage_options is not None:
            problems.append("delta_conn_id and storage_options exclude each other")
        if problems:
            raise ConfigurationError(f"{type(self).__name__} {self.task_id!r}: " + "; ".join(problems))

    @property
    def subject(self) -> str:
        return self.facts

    def behind(self) -> list[str]:
        """One sentence for each table that is not fresh."""
        from airflow_provider_mssql_cdc.hooks.delta_storage import storage_options
        from airflow_provider_mssql_cdc.jobs.freshness import tables_behind

        options = self.storage_options
        if self.delta_conn_id is not None:
            options = storage_options(self.delta_conn_id)
        wanted = Freshness(self.max_lag, self.max_age, tuple(self.sources))
        return tables_behind(self.facts, options, wanted)


class MssqlCdcFreshnessOperator(FactsTask):
    """Fail when a table is behind, in a gap, or not loaded; name each, and what to look at.

    It looks at the facts alone: no server is asked. ``retries`` apply. See :class:`FactsTask` for parameters.
    """

    def run_job(self, context: Context) -> None:
        """:raises NotReadyYet: names each table that is not fresh."""
        if behind := self.behind():
            raise NotReadyYet(f"{len(behind)} problem(s): " + "; ".join(behind))
