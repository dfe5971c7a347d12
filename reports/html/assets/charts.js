// Charts: Vega-Lite by its interpreter, so that no text becomes code; as SVG, so that the page's style colours them.

const theme = JSON.parse(text("theme"));
const views = new Map();

const EMBEDDING = {
  mode: "vega-lite",
  renderer: "svg",
  ast: true,
  actions: false,
  defaultStyle: false,
  tooltip: { theme: "page", disableDefaultStyle: true },
};

// As many panels side by side as there is room for; one panel takes all of it.
function fitted(chart, room) {
  const spec = structuredClone(chart.spec);
  const config = structuredClone(theme.config);
  config.legend.columns = Math.max(1, Math.floor(room / 190));
  if (spec.facet) {
    const columns = Math.max(1, Math.min(4, chart.panels, Math.floor((room - chart.labelsPx) / chart.panelPx)));
    spec.columns = columns;
    spec.spec.width = Math.max(120, Math.floor((room - chart.labelsPx - 24 * (columns - 1) - 14) / columns));
  }
  for (const panel of spec.vconcat ?? []) panel.width = Math.max(160, room - chart.labelsPx - 14);
  return { ...spec, config, datasets: { [theme.rows]: rowsOf(chart) } };
}

function rowsOf(chart) {
  if (!chart.choices.length) return chart.rows;
  const wanted = (name) => document.getElementById(`${chart.key}-${name}`)?.value;
  const chosen = chart.choices.find((one) => one.shape === wanted("shape") && one.mode === wanted("mode"));
  return chosen?.rows ?? (chosen?.strips ?? []).flatMap(({ variant, replicate, estimate, percent }) =>
    percent.map((off, place) => ({
      ...{ variant, replicate, estimate, percent: off, place: `${place + 1} of ${percent.length}` },
      told: `${off > 0 ? "+" : ""}${off.toPrecision(3)} %`,
    })),
  );
}

async function draw(chart) {
  const place = document.getElementById(chart.key);
  const room = place.clientWidth;
  views.get(chart.key)?.finalize();
  const made = await vegaEmbed(place, fitted(chart, room), EMBEDDING);
  views.set(chart.key, made);
  place.dataset.room = room;
  place.querySelector("svg").setAttribute("aria-hidden", "true"); // the place itself says what it shows
  follow(chart.key, place.closest("section").querySelector("[data-follow]")?.value ?? "");
}

function follow(key, variant) {
  const view = views.get(key)?.view;
  if (view && Object.hasOwn(view.getState({ signals: (name) => name === "highlight" }).signals, "highlight")) {
    view.signal("highlight", variant).runAsync();
  }
}

async function drawAll(charts) {
  for (const chart of charts) {
    try {
      await draw(chart);
    } catch (error) {
      document.getElementById(chart.key).textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
    }
  }
  document.documentElement.dataset.drawn = "true";
}

function makeCharts(charts) {
  for (const choice of document.querySelectorAll("[data-follow]")) {
    choice.addEventListener("change", () => {
      for (const place of choice.closest("section").querySelectorAll(".chart")) follow(place.id, choice.value);
    });
  }
  for (const choice of document.querySelectorAll("[data-chart]")) {
    const chart = charts.find((one) => one.key === choice.dataset.chart);
    choice.addEventListener("change", () => draw(chart));
  }
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const changed = charts.filter((one) => {
        const place = document.getElementById(one.key);
        return Math.abs(place.clientWidth - Number(place.dataset.room)) > 8;
      });
      drawAll(changed);
    }, 200);
  });
  return drawAll(charts);
}
