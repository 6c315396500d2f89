"""The page's web application, mounted into Airflow's API server.

Routes of a mounted application are public unless each route requires a user, and code that reads
``request.app.state`` finds this application's state, not Airflow's: so a route depends on ``GetUserDep``,
and the auth manager comes from ``get_auth_manager()``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, JSONResponse

from airflow_provider_mssql_cdc.planning.overview import TableOverview
from airflow_provider_mssql_cdc.ui.configured import FactsReader
from airflow_provider_mssql_cdc.ui.task_states import failed_tasks
from airflow_provider_mssql_cdc.ui.views import (
    FailedTask,
    detail_view,
    is_visible,
    sorted_views,
    table_id,
    table_view,
)

STATIC = Path(__file__).parent / "static"
FACTS_SHOWN = 300

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
        look, readable = reader.look(), _readable(user)
        seen = [table for _, table in look.tables if is_visible(table, readable)]
        writers = {dag_id for table in seen for dag_id in table.dag_ids}
        failed, now = failed_tasks(writers & readable), datetime.now(UTC)
        views = [table_view(table, failed=_failed(table, failed), at=now) for table in seen]
        return JSONResponse({"at": now.isoformat(), "tables": sorted_views(views), "problems": look.problems})

    @app.get("/api/tables/{wanted}")
    def table(wanted: str, user: GetUserDep) -> JSONResponse:
        readable, now = _readable(user), datetime.now(UTC)
        for stored, one in reader.look().tables:
            if table_id(one) == wanted and is_visible(one, readable):
                failed = failed_tasks(set(one.dag_ids) & readable)
                targets = [one.bronze, *([one.silver] if one.silver else [])]
                rows = stored.recent(limit=FACTS_SHOWN, targets=targets)
                view = table_view(one, failed=_failed(one, failed), at=now)
                return JSONResponse({"at": now.isoformat(), "table": view, **detail_view(rows, readable)})
        raise HTTPException(404, "no such table, or none that you may see")

    return app


def _readable(user: Any) -> set[str]:
    """Return the DAGs that Airflow's auth manager lets this user read."""
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


def _failed(table: TableOverview, failed: Mapping[tuple[str, str], FailedTask]) -> FailedTask | None:
    """Return the first failed task among those that write this table's facts."""
    return next((failed[task] for task in table.tasks if task in failed), None)
