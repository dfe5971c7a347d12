// Tables: every title sorts, every choice above a table filters. A row keeps what it is filtered by in data-*,
// a cell what it is sorted by in data-by; a cell without it is sorted by its text, an empty one comes last.

const MISSING = "–";

function sortKey(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.by !== undefined) return Number(cell.dataset.by);
  const shown = cell.textContent.trim();
  return shown === MISSING || shown === "" ? null : shown;
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(table, column, descending) {
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [sortKey(row, column), row]);
  keyed.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return descending ? compared(other, one) : compared(one, other);
  });
  body.append(...keyed.map(([, row]) => row));
  [...table.tHead.rows[0].cells].forEach((title, place) => {
    if (place === column) title.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else title.removeAttribute("aria-sort");
  });
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((title, column) => {
    title.querySelector("button").addEventListener("click", () => {
      sort(table, column, title.getAttribute("aria-sort") === "ascending");
    });
  });
}

function filter(form) {
  const table = document.getElementById(form.dataset.table);
  const choices = [...form.querySelectorAll("select")].filter((choice) => choice.value !== "");
  const wanted = (form.querySelector("input")?.value ?? "").trim().toLowerCase();
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const chosen = choices.every((choice) => row.dataset[choice.name] === choice.value);
    row.hidden = !(chosen && (row.dataset.search ?? "").includes(wanted));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  const status = form.parentElement.querySelector(".status");
  status.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} ${table.dataset.noun}`;
}

function makeFilterable(form) {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => filter(form));
  filter(form);
}
