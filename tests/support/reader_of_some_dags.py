"""An auth manager of Airflow's for tests: its users may read some DAGs only."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class ReaderOfSomeDags(SimpleAuthManager):
    """A user whose name begins with ``only-`` may read the DAG that the rest of the name is."""

    def get_authorized_dag_ids(self, *, user: Any, **asked: Any) -> set[str]:
        allowed = super().get_authorized_dag_ids(user=user, **asked)
        name = user.username
        return allowed & {name.removeprefix("only-")} if name.startswith("only-") else allowed
