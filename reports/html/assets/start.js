// The page comes to life: tables first, since they are what is read where charts cannot be drawn.

document.querySelectorAll(".table table").forEach(makeSortable);
document.querySelectorAll("form[data-table]").forEach(makeFilterable);
for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", () => save(button));
}
if (typeof DecompressionStream === "undefined") {
  const told = "This browser is older than 2023 and cannot unpack the charts; the tables have their numbers.";
  for (const place of document.querySelectorAll(".chart")) place.textContent = told;
} else {
  unpacked("charts")
    .then((content) => content.text())
    .then((content) => makeCharts(JSON.parse(content)));
}
