"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const PAGE = 25, MORE = 250, UNITS = ["KB", "MB", "GB", "TB", "PB", "EB"];
const grouped = new Intl.NumberFormat("en-US");

function bytes(size) {
  if (size < 1000) return size + " B";
  let at = -1;
  do { size /= 1000; at++; } while (size >= 999.95 && at < UNITS.length - 1);
  // Python's halves go to the even digit, toFixed's go up.
  return (size % 1 === 0.25 ? size - 0.05 : size).toFixed(1) + " " + UNITS[at];
}

function time(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? ms + " ms" : date.toISOString().slice(0, -5).replace("T", " ");
}

const FORMATS = { number: (value) => grouped.format(value), id: String, bytes, time,
  share: (value) => (100 * value).toFixed(1) + " %" };
const RIGHT = new Set(["number", "id", "bytes", "share"]);

function format(kind, value) {
  return value === null || value === "" ? "" : Array.isArray(value) ? value.join("\n") : FORMATS[kind] ? FORMATS[kind](value) : String(value);
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);  // text is text: nothing in it becomes an element
  return made;
}

function copyButton(text) {
  const button = element("button", { type: "button", class: "copy" }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {  // not allowed to: the text is selected, for Ctrl-C
      getSelection().selectAllChildren(button.previousSibling);
    }
  });
  return button;
}

function cell({ kind, label }, value) {
  const text = format(kind, value);
  const made = element("td", { class: RIGHT.has(kind) ? "number" : kind, "data-title": label });
  if (kind === "severity") made.classList.add(value);
  if (kind === "bytes" && value !== null) made.title = grouped.format(value) + " bytes";
  if (kind === "time" && value !== null) made.title = value + " ms since 1970";
  if (text && kind === "command") made.append(element("code", {}, text), copyButton(text));
  else if (text && kind === "folded") made.append(element("details", {}, element("summary", {}, "command"), element("code", {}, text), copyButton(text)));
  else if (kind === "places") {
    made.append(value[0]);
    const others = value.slice(1).map((each) => element("li", {}, each));
    if (others.length) made.append(element("details", {}, element("summary", {}, `and ${grouped.format(others.length)} more`), element("ul", {}, ...others)));
  }
  else made.append(text);
  return made;
}

function showTable(holder) {
  const { columns, rows } = report.tables[holder.dataset.table], name = holder.dataset.label;
  let chosen = rows.map((_, at) => at), limit = PAGE, texts;
  const search = element("input", { type: "search", autocomplete: "off" });
  const shown = element("span", { class: "shown", role: "status" });
  const heads = columns.map(({ label, kind }) => element("th", { scope: "col", class: RIGHT.has(kind) ? "number" : "" },
    element("button", { type: "button" }, label)));
  const body = element("tbody", {});
  const more = element("button", { type: "button", class: "more" });
  function draw() {
    body.replaceChildren(...chosen.slice(0, limit).map((at) =>
      element("tr", {}, ...rows[at].map((value, column) => cell(columns[column], value)))));
    shown.textContent = chosen.length === rows.length ? `${grouped.format(rows.length)} in all`
      : `${grouped.format(chosen.length)} of ${grouped.format(rows.length)}`;
    more.hidden = chosen.length <= limit;
    more.textContent = `Show ${grouped.format(Math.min(MORE, chosen.length - limit))} more`;
  }
  function sort(column) {
    const descends = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", descends ? "descending" : "ascending");
    const empty = (value) => value === null || value === "";
    chosen.sort((one, other) => {
      const left = rows[one][column], right = rows[other][column];
      if (empty(left) || empty(right)) return empty(left) - empty(right) || one - other;
      return (left < right ? -1 : left > right ? 1 : 0) * (descends ? -1 : 1) || one - other;
    });
    draw();
  }
  heads.forEach((head, column) => head.firstChild.addEventListener("click", () => sort(column)));
  search.addEventListener("input", () => {
    texts ??= rows.map((row) => row.map((value, at) => format(columns[at].kind, value)).join("\n").toLowerCase());
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = rows.map((_, at) => at).filter((at) => words.every((word) => texts[at].includes(word)));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    draw();
  });
  more.addEventListener("click", () => { limit += MORE; draw(); });
  if (rows.length > 8) holder.append(element("div", { class: "tools" }, element("label", {}, "Search ", search), shown));
  holder.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    element("table", { class: holder.dataset.untitled ? "untitled" : "titled" }, element("thead", {}, element("tr", {}, ...heads)), body)), more);
  addEventListener("beforeprint", () => { limit = rows.length; draw(); });
  draw();
}

const dark = matchMedia("(prefers-color-scheme: dark)"), print = matchMedia("print");

function config() {
  const isDark = dark.matches && !print.matches, text = isDark ? "#a3adbd" : "#586274", line = isDark ? "#2c3542" : "#e6e9ee";
  const font = getComputedStyle(document.body).fontFamily;
  const words = { labelColor: text, titleColor: text, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400 };
  return { font, axis: { ...words, gridColor: line, domainColor: line, tickColor: line }, legend: { ...words, orient: "top", symbolType: "square", columns: Math.ceil(innerWidth / 220) } };
}

async function draw(holder) {
  const { spec, columns, rows } = report.charts[holder.dataset.chart];
  const values = rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at], value])));
  const options = { mode: "vega-lite", ast: true, actions: false, renderer: rows.length > 1000 ? "canvas" : "svg", config: config() };
  const drawn = await vegaEmbed(holder, { ...spec, data: { values } }, options);
  (window.views ??= {})[holder.dataset.chart] = drawn.view;
}

async function drawAll() {
  for (const holder of document.querySelectorAll("[data-chart]")) await draw(holder);
  document.body.dataset.drawn = "true";
}

document.querySelectorAll("[data-table]").forEach(showTable);
let closed = [];  // what a click would show is printed, and closed again afterwards
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
drawAll();
dark.addEventListener("change", drawAll);
print.addEventListener("change", drawAll);
