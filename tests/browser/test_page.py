"""The page in Chromium, in a running Airflow whose address has a path: what is seen, not what is sent.

``MSSQL_CDC_PICTURES`` names a folder for the pictures of docs/page.md; ``make pictures`` sets it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.browser.world import HOSTILE, STATES, World

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 375, "height": 740}
ROUTES = ["/", "/static/page.js", "/static/page.css", "/api/tables", "/api/tables/0123456789abcdef"]
MANY = 500
PICTURES = os.environ.get("MSSQL_CDC_PICTURES")
SHORTEN = """(lake) => {
  for (const dd of document.querySelectorAll("dd")) {
    if (!dd.children.length) dd.textContent = dd.textContent.replace(lake, "/lake");
  }
}"""
READY = "table.tables, dl, .empty"


@pytest.fixture
def visit(chromium: Any, tables: World) -> Iterator[Any]:
    """Open the page as a user who has logged in; fails on whatever the console reports."""
    opened: list[Any] = []
    problems: list[str] = []

    def visit(path: str = "/mssql-cdc/", *, scheme: str = "light", viewport: dict[str, int] = WIDE) -> Any:
        context = chromium.new_context(color_scheme=scheme, viewport=viewport)
        opened.append(context)
        context.add_cookies([{"name": "_token", "value": tables.airflow.token, "url": tables.base}])
        page = context.new_page()
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.goto(f"{tables.base}{path}")
        page.wait_for_selector(READY)
        return page

    yield visit
    for context in opened:
        context.close()
    assert problems == []


def rows(page: Any) -> dict[str, Any]:
    """The lines of the page, by the table's name, in order."""
    found = page.locator("table.tables tbody tr")
    return {found.nth(at).locator("td").first.inner_text(): found.nth(at) for at in range(found.count())}


def line_of(page: Any, name: str) -> Any:
    wanted = HOSTILE if name == "hostile" else name
    [found] = [row for title, row in rows(page).items() if wanted in title]
    return found


def picture(page: Any, name: str, tables: World, *, whole: bool = False) -> None:
    """Take a picture, in which the lake is at ``/lake``."""
    if PICTURES:
        Path(PICTURES).mkdir(exist_ok=True)
        page.evaluate(SHORTEN, str(tables.lake))
        page.screenshot(path=str(Path(PICTURES, f"page-{name}.png")), full_page=whole)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}, {"Cookie": "_token=x"}], ids=str)
def test_no_route_answers_without_a_login(tables: World, route: str, headers: dict[str, str]) -> None:
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{tables.base}/mssql-cdc{route}", headers=headers), timeout=30)
    assert refused.value.code == (403 if headers else 401)  # Airflow's answer to a token that is none


def test_each_state_is_told_worst_first_with_what_to_do(visit: Any, tables: World) -> None:
    page = visit()
    found = {name: line_of(page, name).locator(".state").inner_text() for name in STATES}
    assert found == STATES
    levels = [
        level
        for shown in page.locator("table.tables .state").all()
        for level in ("bad", "warn", "busy", "good")
        if level in (shown.get_attribute("class") or "").split()
    ]
    assert levels == sorted(levels, key=["bad", "warn", "busy", "good"].index)
    for name, state in STATES.items():
        assert line_of(page, name).locator(".remedy").count() == (state not in ("following", "loaded")), name
    assert "equal" in line_of(page, "orders").inner_text()
    assert "1 row differs" in line_of(page, "prices").inner_text()
    assert "SourceObjectMissing in load.plan" in line_of(page, "shipments").inner_text()
    assert "RetentionGap in changes" in line_of(page, "invoices").inner_text()
    assert "of 4 waves" in line_of(page, "readings").inner_text()
    picture(page, "light", tables, whole=True)


def test_a_table_says_what_happened_and_what_to_do_and_leads_to_the_task(visit: Any, tables: World) -> None:
    page = visit()
    line_of(page, "parts").locator("a").first.click()
    page.wait_for_selector(".errors")
    error = page.locator(".errors li").first
    assert "PermissionDenied in changes" in error.inner_text()
    assert "What to do: run the GRANT of the message" in error.inner_text()
    assert (
        error.get_by_role("link", name="More about PermissionDenied")
        .get_attribute("href")
        .endswith("docs/operations.md#fail-at-once")
    )
    picture(page, "table", tables, whole=True)
    error.get_by_role("link", name="changes").click()
    page.wait_for_url("**/dags/follow_parts/runs/**/tasks/changes**")
    assert page.url.startswith(f"{tables.base}/dags/")
    page.get_by_text("follow_parts").first.wait_for()


def test_a_hostile_name_is_text_wherever_it_stands(visit: Any) -> None:
    page = visit()
    line = line_of(page, "hostile")
    assert HOSTILE in line.inner_text()
    line.locator("a").first.click()
    page.wait_for_selector(".errors")
    assert HOSTILE in page.locator("h2").inner_text()
    assert HOSTILE in page.locator(".errors .message").first.inner_text()
    assert page.locator("main script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_serious(
    visit: Any, tables: World, axe: str, scheme: str, viewport: dict[str, int]
) -> None:
    page = visit(scheme=scheme, viewport=viewport)
    if (scheme, viewport) == ("dark", WIDE):
        picture(page, "dark", tables, whole=True)
    if (scheme, viewport) == ("light", NARROW):
        picture(page, "narrow", tables)
    assert serious(page, axe) == []
    line_of(page, "parts").locator("a").first.click()
    page.wait_for_selector(".errors")
    assert serious(page, axe) == []


def serious(page: Any, axe: str) -> list[str]:
    # The page's own policy forbids scripts that are added to it; the debugger's evaluation is not one.
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    return [
        f"{one['id']}: {one['nodes'][0]['html']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_a_narrow_page_needs_no_scrolling_sideways(visit: Any) -> None:
    page = visit(viewport=NARROW)
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) <= NARROW["width"]
    line_of(page, "hostile").locator("a").first.click()
    page.wait_for_selector(".errors")
    assert page.evaluate(width) <= NARROW["width"]


def test_the_keyboard_finds_a_table_opens_it_and_comes_back(visit: Any) -> None:
    page = visit()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("parts failed")
    page.locator("table.tables caption", has_text="1 of ").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert "parts" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector(".errors")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.tables")


def test_airflow_s_navigation_and_a_dag_s_own_page_show_it(visit: Any, tables: World) -> None:
    page = visit()
    page.goto(f"{tables.base}/plugin/mssql-cdc")
    page.frame_locator("iframe").locator("table.tables tbody tr").first.wait_for()
    assert page.frame_locator("iframe").locator("table.tables tbody tr").count() == len(STATES)
    page.goto(f"{tables.base}/dags/follow_parts/plugin/mssql-cdc-tables")
    page.frame_locator("iframe").locator("table.tables tbody tr").first.wait_for()
    shown = page.frame_locator("iframe").locator("table.tables tbody tr")
    assert shown.count() == 1
    assert "parts" in shown.inner_text()


def test_what_changes_is_seen_without_a_reload(visit: Any, tables: World) -> None:
    page = visit()
    assert line_of(page, "customers").locator(".state").inner_text() == "loaded"
    tables.write("customers", 5000)
    tables.run("follow_customers")
    # Not by wait_for_function: the page's policy allows no evaluation of strings.
    page.locator("tr", has_text="customers").filter(has_text="following").wait_for()


def test_five_hundred_tables_are_drawn_soon(visit: Any, tables: World) -> None:
    """The last of the file: facts of 500 tables more, as copies of those of one. Figures: docs/page.md."""
    facts = str(tables.lake / "ops" / "facts")
    one = DeltaTable(facts).to_pyarrow_table(
        filters=[("target", "=", str(tables.lake / "bronze" / "orders"))]
    )
    many = [_named(one, name=f"copy_{number:03}") for number in range(MANY)]
    write_deltalake(facts, pa.concat_tables(many), mode="append")
    page = visit()
    assert len(rows(page)) == len(STATES) + MANY
    took = page.evaluate(
        """async () => {
          const start = performance.now();
          await (await fetch("api/tables")).json();
          const answered = performance.now();
          find.value = "copy_";
          find.dispatchEvent(new Event("input"));
          main.getBoundingClientRect();
          return [answered - start, performance.now() - answered];
        }"""
    )
    print(f"{MANY} tables: answered in {took[0]:.0f} ms, drawn in {took[1]:.0f} ms")
    assert len(rows(page)) == MANY


def _named(facts: pa.Table, *, name: str) -> pa.Table:
    """Facts with the target and source of another table."""
    texts = {"target": f"/lake/bronze/{name}", "source": f"erp shop.dbo.{name}"}
    for column, text in texts.items():
        at = facts.schema.get_field_index(column)
        field = facts.schema.field(at)
        facts = facts.set_column(at, field, pa.array([text] * facts.num_rows, type=field.type))
    return facts
