"use strict";
const named = document.getElementById("named");
let marked = [];

// Fields are numbered in the order of their bytes; a group is from its first field to its last one.
function range(element) {
  const holder = element.closest("[data-first]");
  return holder && [Number(holder.dataset.first), Number(holder.dataset.last), holder];
}

function mark(element) {
  const found = element && element.nodeType === 1 ? range(element) : null;
  for (const each of marked) each.classList.remove("marked");
  marked = [];
  if (!found) return;
  const [first, last, holder] = found;
  for (let field = first; field <= last; field++) marked.push(...document.querySelectorAll(`.bytes a[data-first="${field}"]`));
  const row = holder.tagName === "TR" ? holder : document.getElementById(`field-${first}`);
  marked.push(row);
  for (const each of marked) each.classList.add("marked");
  const cells = [...row.cells].map((each) => each.textContent.trim());
  named.textContent = `${cells[1]} at ${cells[0]}, ${cells[2]} B` + (cells[3] && `: ${cells[3]}`) + (cells[5] && ` - ${cells[5]}`);
}

function next(link, step) {
  const links = [...link.closest(".bytes, tbody").querySelectorAll("a:not([tabindex])")];
  const place = links.indexOf(link) + step;
  if (place >= 0 && place < links.length) links[place].focus();
}

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
document.addEventListener("mouseover", (event) => { if (range(event.target)) mark(event.target); });
document.addEventListener("focusin", (event) => { if (range(event.target)) mark(event.target); });
document.addEventListener("keydown", (event) => {
  const step = STEPS[event.key], link = event.target.closest("[data-first] a, a[data-first]");
  if (!step || !link || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  next(link, step);
});
