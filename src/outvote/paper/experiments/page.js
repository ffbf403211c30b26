// Sort a table by a column: header cells become buttons, which work by click and by keyboard.
"use strict";
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

// Return the sort key of a cell: its number if it has one, else its text; null if it is empty.
function key(row, column) {
  const cell = row.cells[column];
  if ("missing" in cell.dataset) return null;
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
}

function sort(table, header) {
  const column = header.cellIndex;
  const down = header.getAttribute("aria-sort") === "ascending";
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [key(row, column), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // empty cells come last in both orders
    return down ? compare(b, a) : compare(a, b);
  });
  body.append(...rows.map(([, row]) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const table of document.querySelectorAll("table")) {
  for (const header of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sort(table, header));
    header.append(button);
  }
}

// Unfold tables for printing, unless they are very long, and fold them again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open], .long)")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
