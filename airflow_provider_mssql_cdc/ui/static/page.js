"use strict";
// Everything that is shown is put in as text (textContent), so that no name or message is read as markup.

const REFRESH_MS = 15000;
const main = document.getElementById("main");
const summary = document.getElementById("summary");
const find = document.getElementById("find");
let tables = null;
let drawn = "";

const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function shown(value, unit = "") {
  return value === null || value === undefined ? "–" : number.format(value) + unit;
}

function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (Math.abs(seconds) >= size) return number.format(seconds / size) + " " + unit;
  }
  return number.format(seconds) + " s";
}

function when(text) {
  if (!text) return "–";
  const seconds = (new Date(text) - Date.now()) / 1000;
  let said = relative.format(Math.round(seconds), "second");
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) { said = relative.format(Math.round(seconds / size), unit); break; }
  }
  return element("time", { datetime: text, title: new Date(text).toISOString() }, said);
}

// Airflow's own pages lie beside this application, whatever prefix the server has.
function taskAddress(task) {
  const path = ["dags", task.dag_id, "runs", task.run_id, "tasks", task.task_id].map(encodeURIComponent).join("/");
  return "../" + path + (task.map_index >= 0 ? "/mapped/" + task.map_index : "");
}

function stateCell(table) {
  const state = element("span", { class: "state " + table.level }, table.state);
  const cell = element("td", { "data-label": "State" }, state);
  if (table.failed_task) {
    cell.append(" ", element("span", { class: "cause" }, table.error ? table.error + " in " : "in ", taskLink(table.failed_task), table.parts ? ";" : ""));
  }
  if (table.parts) {
    const done = table.parts_done;
    if (done !== null) cell.append(" ", element("progress", { max: table.parts, value: done, "aria-label": "waves" }));
    const waves = table.parts === 1 ? " wave" : " waves";
    cell.append(" ", done === null ? counted(table.parts, "range planned", "ranges planned") : done + " of " + table.parts + waves);
  }
  if (table.remedy && table.level !== "good") cell.append(element("span", { class: "remedy" }, table.remedy));
  return cell;
}

function counted(count, one, many) {
  return shown(count) + " " + (count === 1 ? one : many);
}

function silverText(table) {
  if (!table.silver) return "–";
  const rows = counted(table.silver_rows, "row", "rows");
  return table.consistent === false ? rows + ", not yet consistent" : rows;
}

function reconcileText(table) {
  if (!table.reconciled_at) return "–";
  const found = table.differences ? counted(table.differences, "row differs, ", "rows differ, ") : "equal, ";
  return element("span", { class: table.differences ? "wrong" : null }, found, when(table.reconciled_at));
}

// On a narrow screen a cell without a value is left out.
function cell(label, value, kind = null) {
  return element("td", { "data-label": label, class: value === "–" ? (kind || "") + " none" : kind }, value);
}

function headroom(table) {
  return table.headroom_hours === null ? "–" : span(table.headroom_hours * 3600);
}

function tableRow(table) {
  const name = element("td", { class: "name", "data-label": "Table" }, element("a", { href: "#" + table.id }, table.source));
  return element("tr", {},
    name,
    stateCell(table),
    cell("Rows", shown(table.snapshot_rows), "number"),
    cell("Changes up to", when(table.position_time)),
    cell("Headroom", headroom(table), "number"),
    cell("Silver", silverText(table)),
    cell("Last merge", when(table.merged_at)),
    cell("Last reconcile", reconcileText(table)));
}

function matches(table, words) {
  const text = [table.source, table.state, table.dag_id, table.bronze].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function overview() {
  const dag = new URLSearchParams(location.search).get("dag");
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = tables.tables.filter((table) => matches(table, words) && (!dag || table.dags.includes(dag)));
  const parts = tables.problems.map((text) => element("p", { class: "problem", role: "alert" }, text));
  if (!chosen.length) {
    const text = tables.tables.length
      ? "No table matches."
      : "No table to show. Name the facts tables in Airflow's configuration, [mssql_cdc] facts; a table is here once a load has planned it, and when you may read its DAG.";
    return [...parts, element("p", { class: "empty" }, text)];
  }
  const heads = [["Table"], ["State"], ["Rows", "number"], ["Changes up to"], ["Headroom", "number"], ["Silver"], ["Last merge"], ["Last reconcile"]];
  const head = element("tr", {}, ...heads.map(([text, kind]) => element("th", { scope: "col", class: kind }, text)));
  const table = element("table", { class: "tables" },
    element("caption", {}, chosen.length + " of " + tables.tables.length + " tables, worst first"),
    element("thead", {}, head),
    element("tbody", {}, ...chosen.map(tableRow)));
  return [...parts, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tables" }, table)];
}

function chart(title, points, unit) {
  const caption = element("figcaption", {});
  const figure = element("figure", {}, element("h3", {}, title), caption);
  if (points.length < 2) {
    caption.textContent = points.length ? "one run: " + unit(points[0].value) : "nothing recorded";
    return figure;
  }
  const times = points.map((point) => new Date(point.at).getTime());
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const top = Math.max(...points.map((point) => point.value), 1e-9);
  const place = (point, i) => ((times[i] - first) / (last - first || 1) * 100).toFixed(2) + "," + (38 - point.value / top * 36).toFixed(2);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title + ": newest " + unit(points[points.length - 1].value) + ", highest " + unit(top));
  const line = document.createElementNS(svg.namespaceURI, "polyline");
  line.setAttribute("points", points.map(place).join(" "));
  svg.append(line);
  caption.textContent = "newest " + unit(points[points.length - 1].value) + ", highest " + unit(top);
  figure.insertBefore(svg, caption);
  return figure;
}

function pair(term, value) {
  return element("div", {}, element("dt", {}, term), element("dd", {}, value));
}

function factRow(fact) {
  const task = fact.dag_id && fact.run_id ? taskLink(fact) : fact.task_id;
  return element("tr", {},
    element("td", {}, when(fact.written_at)),
    element("td", {}, fact.event),
    element("td", { class: "number" }, shown(fact.rows)),
    element("td", {}, when(fact.end_commit_ts)),
    element("td", { class: "number" }, fact.duration_ms === null ? "–" : span(fact.duration_ms / 1000)),
    element("td", {}, task));
}

function taskLink(task) {
  const place = task.task_id + (task.map_index >= 0 ? " [" + task.map_index + "]" : "");
  return element("a", { href: taskAddress(task), target: "_top" }, place);
}

function errorItem(error) {
  const name = error.error || "No error was stored: the task's process ended, or code outside this package failed.";
  const item = element("li", {},
    element("p", { class: "cause" }, element("strong", {}, name), " in ", taskLink(error), ", ", when(error.at), error.ended ? "" : ", waits for its next try"));
  if (error.message) item.append(element("p", { class: "message" }, error.message));
  if (error.remedy) {
    const more = element("a", { href: error.help, target: "_blank", rel: "noopener noreferrer", "aria-label": "More about " + error.error }, "more");
    item.append(element("p", { class: "remedy" }, element("strong", {}, "What to do: "), error.remedy, " (", more, ")"));
  }
  return item;
}

function errorList(errors) {
  if (!errors.length) return [];
  return [element("h3", {}, "Errors of the last runs"), element("ul", { class: "errors" }, ...errors.map(errorItem))];
}

function detail(found) {
  const { table, series, facts, errors } = found;
  const lost = table.lost_from ? element("p", { class: "problem" }, "Changes from ", when(table.lost_from), " to ", when(table.lost_to), " were lost.") : null;
  const state = element("table", {}, element("tbody", {}, element("tr", {}, stateCell(table))));
  const heads = ["Written", "Event", "Rows", "Up to", "Took", "Task"];
  return [
    element("p", { class: "back" }, element("a", { href: "#" }, "All tables")),
    element("h2", {}, table.source),
    state,
    lost,
    element("dl", {},
      pair("Bronze", table.bronze),
      pair("Silver", table.silver || "–"),
      pair("Position", table.position || "–"),
      pair("Changes up to", when(table.position_time)),
      pair("Headroom", headroom(table)),
      pair("Rows of the snapshot", shown(table.snapshot_rows)),
      pair("Rows of silver", silverText(table)),
      pair("Last merge", when(table.merged_at)),
      pair("Last reconcile", reconcileText(table))),
    ...errorList(errors),
    element("div", { class: "charts" },
      chart("Rows per run", series.rows, (value) => shown(value)),
      chart("Capture behind the clock", series.lag, span),
      chart("Duration of changes", series.duration, (value) => span(value / 1000)),
      chart("Headroom", series.headroom, (value) => span(value * 3600)),
      chart("Duration of merges", series.merge, (value) => span(value / 1000))),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Facts" },
      element("table", {},
        element("caption", {}, "Facts, newest first"),
        element("thead", {}, element("tr", {}, ...heads.map((text) => element("th", { scope: "col", class: text === "Rows" || text === "Took" ? "number" : null }, text)))),
        element("tbody", {}, ...facts.map(factRow)))),
  ];
}

async function get(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (answer.status === 401) throw new Error("You are not logged in. Log in to Airflow and open this page again.");
  if (!answer.ok) throw new Error("Airflow answered " + answer.status + ". The API server's log says why.");
  return answer.json();
}

// An unchanged page is left alone: focus, scroll position and what a screen reader is at stay.
function draw(parts, key) {
  if (key === drawn) return;
  const kept = key.split("\n")[0] === drawn.split("\n")[0] ? window.scrollY : 0;
  main.replaceChildren(...parts.filter(Boolean));
  drawn = key;
  window.scrollTo(0, kept);
}

async function refresh() {
  const id = location.hash.slice(1);
  try {
    if (id) {
      const found = await get("api/tables/" + encodeURIComponent(id));
      summary.textContent = "Up to date";
      draw(detail(found), id + "\n" + JSON.stringify([found.table.state, found.errors, found.facts]));
    } else {
      tables = await get("api/tables");
      const bad = tables.tables.filter((table) => table.level === "bad").length;
      summary.textContent = tables.tables.length + " tables, " + (bad || "none") + (bad > 1 ? " need attention" : " needs attention");
      draw(overview(), "\n" + find.value + JSON.stringify(tables.tables.map((table) => ({ ...table, lag_seconds: 0 }))));
    }
  } catch (error) {
    summary.textContent = error.message;
  }
}

find.addEventListener("input", () => { location.hash = ""; if (tables) draw(overview(), "\n" + find.value); });
window.addEventListener("hashchange", () => { find.parentElement.hidden = Boolean(location.hash.slice(1)); refresh().then(() => main.focus()); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MS);
refresh();
