"""The page's web application, mounted into Airflow's API server.

Routes of a mounted application are public unless each route requires a user, and code that reads
``request.app.state`` finds this application's state, not Airflow's: so a route depends on ``GetUserDep``,
and the auth manager comes from ``get_auth_manager()``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, JSONResponse

from airflow_provider_mssql_cdc.lake.read_facts import StoredFacts
from airflow_provider_mssql_cdc.planning.overview import TableOverview
from airflow_provider_mssql_cdc.ui.configured import FactsReader, Look
from airflow_provider_mssql_cdc.ui.task_states import dags_with_errors, failed_tasks
from airflow_provider_mssql_cdc.ui.views import (
    FailedTask,
    detail_view,
    errors_view,
    failed_of,
    is_visible,
    never_loaded,
    sorted_views,
    table_id,
    table_view,
)

STATIC = Path(__file__).parent / "static"
FACTS_SHOWN = 300
ERRORS_SHOWN = 20
RUNS_LOOKED_AT = 10

# Scripts and styles are this application's own files; nothing is loaded from elsewhere, and only Airflow's
# own pages may show the page in a frame (https://developer.mozilla.org/docs/Web/HTTP/Headers/Content-Security-Policy).
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app() -> FastAPI:
    """Create the application; one per API server process."""
    app = FastAPI(title="SQL Server CDC", docs_url=None, redoc_url=None, openapi_url=None)
    reader = FactsReader()

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.get("/")
    def page(user: GetUserDep) -> FileResponse:
        return FileResponse(STATIC / "page.html", media_type="text/html; charset=utf-8")

    @app.get("/static/{name}")
    def static(name: str, user: GetUserDep) -> FileResponse:
        media_type = {"page.css": "text/css", "page.js": "text/javascript"}.get(name)
        if media_type is None:
            raise HTTPException(404, "no such file")
        return FileResponse(STATIC / name, media_type=f"{media_type}; charset=utf-8")

    @app.get("/api/tables")
    def tables(user: GetUserDep) -> JSONResponse:
        look, readable, now = reader.look(), _readable(user), datetime.now(UTC)
        failed = _failed(look, readable)
        seen = [table for _, table in _visible(look, failed, readable)]
        views = [table_view(table, failed=failed, at=now) for table in seen]
        return JSONResponse({"at": now.isoformat(), "tables": sorted_views(views), "problems": look.problems})

    @app.get("/api/tables/{wanted}")
    def table(wanted: str, user: GetUserDep) -> JSONResponse:
        look, readable, now = reader.look(), _readable(user), datetime.now(UTC)
        failed = _failed(look, readable, runs=RUNS_LOOKED_AT)
        for stored, one in _visible(look, failed, readable):
            if table_id(one) == wanted:
                targets = [one.bronze, *([one.silver] if one.silver else [])]
                rows = stored.recent(limit=FACTS_SHOWN, targets=targets)
                shown = failed_of(one, failed)[:ERRORS_SHOWN]
                return JSONResponse(
                    {
                        "at": now.isoformat(),
                        "table": table_view(one, failed=failed, at=now),
                        "errors": errors_view(shown, may_read_logs=_with_logs(user, shown)),
                        **detail_view(rows, readable),
                    }
                )
        raise HTTPException(404, "no such table, or none that you may see")

    return app


def _readable(user: Any) -> set[str]:
    """Return the DAGs that Airflow's auth manager lets this user read."""
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


def _failed(look: Look, readable: set[str], *, runs: int = 1) -> list[FailedTask]:
    """Return failed tasks of the readable DAGs that write facts, or that failed before they could."""
    writers = {dag_id for _, table in look.tables for dag_id in table.dag_ids}
    return failed_tasks((writers & readable) | dags_with_errors(readable), runs=runs)


def _visible(
    look: Look, failed: Iterable[FailedTask], readable: set[str]
) -> list[tuple[StoredFacts, TableOverview]]:
    """Return the tables that the user may see, those without facts too, each with its facts table."""
    newest = [task for task in failed if task.is_of_newest_run and task.ended]
    facts = {task.error.bronze: task.error.facts for task in newest if task.error is not None}
    others = never_loaded(newest, known={table.bronze for _, table in look.tables}, facts=look.facts)
    added = [(look.facts[facts[table.bronze] or ""], table) for table in others]
    return [one for one in (*look.tables, *added) if is_visible(one[1], readable)]


def _with_logs(user: Any, failed: Iterable[FailedTask]) -> set[str]:
    """Return the DAGs of some failed tasks whose logs this user may read: messages are part of the logs."""

    def may_read(dag_id: str) -> bool:
        return get_auth_manager().is_authorized_dag(
            method="GET",
            user=user,
            access_entity=DagAccessEntity.TASK_LOGS,
            details=DagDetails(id=dag_id),
        )

    return {dag_id for dag_id in {task.dag_id for task in failed} if may_read(dag_id)}
