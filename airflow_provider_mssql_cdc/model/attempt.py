"""Who works: one attempt of one Airflow task instance."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from airflow_provider_mssql_cdc.model.plan import run_hash


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one task instance; a killed worker's process can still be one beside its successor.

    :param map_index: -1 for a task that is not mapped.
    :param nonce: random, so that no two attempts ever stage a file of the same name.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    nonce: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def run(self) -> str:
        """Eight hex digits that name the Airflow run."""
        return run_hash(self.dag_id, self.run_id)

    @property
    def label(self) -> str:
        """What the names of this attempt's files hold: ``a2-9f03bc``."""
        return f"a{self.try_number}-{self.nonce}"
