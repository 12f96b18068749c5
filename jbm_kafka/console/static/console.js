// Views look again while somebody looks at them, and rest while they are hidden. No eval, nothing inline.
"use strict";
(() => {
  const root = document.documentElement;
  const token = () => document.querySelector("input[name=csrf]")?.value || "";

  // -- colours -----------------------------------------------------------------------------------------------------
  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.value = root.dataset.theme || "system";
    theme.addEventListener("change", () => {
      root.dataset.theme = theme.value;
      try { localStorage.setItem("jbm-theme", theme.value); } catch (refused) { /* private windows */ }
      drawAll(true);
    });
  }

  // -- looking again -----------------------------------------------------------------------------------------------
  let lookedAt = Date.now();
  const isBusy = () => {
    const at = document.activeElement;
    const live = document.getElementById("live");
    return !!at && !!live && live.contains(at) && at.matches("input, select, textarea") ||
      !!getSelection()?.toString();
  };
  setInterval(() => {
    const live = document.getElementById("live");
    const every = Number(live?.dataset.live || 0) * 1000;
    if (!window.htmx || !every || document.hidden || isBusy() || Date.now() - lookedAt < every) return;
    lookedAt = Date.now();
    htmx.trigger(document.body, "jbm:refresh");
  }, 500);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) lookedAt = 0; });

  // A view that is renewed leaves the focus where it was, or whoever goes by the tab key would begin anew each time.
  let focused = null;
  const sameness = (at) => [at.tagName, at.id, at.getAttribute("href"), at.getAttribute("name"), at.textContent].join("\n");
  document.addEventListener("htmx:beforeSwap", () => {
    const at = document.activeElement;
    focused = document.getElementById("live")?.contains(at) ? sameness(at) : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (focused === null || document.activeElement !== document.body) return;
    const candidates = document.querySelectorAll("#live a, #live button, #live summary, #live [tabindex]");
    [...candidates].find((each) => sameness(each) === focused)?.focus({ preventScroll: true });
  });

  const away = (is) => {
    const told = document.getElementById("away");
    if (told) told.hidden = !is;
    root.classList.toggle("is-away", is);
  };
  document.addEventListener("htmx:sendError", () => away(true));
  document.addEventListener("htmx:timeout", () => away(true));
  document.addEventListener("htmx:configRequest", (event) => {
    if (token()) event.detail.headers["X-CSRF-Token"] = token();
  });
  let open = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    away(false);
    const answered = event.detail.xhr;
    if (answered.responseURL && new URL(answered.responseURL).pathname.endsWith("/login")) {
      event.detail.shouldSwap = false;
      location.reload();
    }
    open = [...document.querySelectorAll("details[id][open]")].map((each) => each.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    drawAll(false);
  });

  // -- charts ------------------------------------------------------------------------------------------------------
  const colours = { held: "--line-1", ready: "--line-2", prepared: "--line-3", delayed: "--line-4", blocked: "--line-5",
    on_hold: "--line-6", incoming: "--line-2", outgoing: "--line-3" };
  const charts = new WeakMap();
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const clock = (at, exact) => new Date(at * 1000).toISOString().slice(11, exact ? 19 : 16);

  async function draw(place, anew) {
    const answer = await fetch(place.dataset.chart, { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const found = await answer.json();
    const shown = place.dataset.series.split(" ");
    const series = shown.map((name) => found.series.find((each) => each.name === name));
    const data = [found.at_s, ...series.map((each) => each.values)];
    const drawn = charts.get(place);
    if (drawn && !anew) { drawn.setData(data); return; }
    drawn?.destroy();
    place.replaceChildren();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 } };
    charts.set(place, new uPlot({
      width: Math.max(place.clientWidth, 240), height: 220, cursor: { drag: { x: false, y: false } },
      axes: [{ ...axis, values: (plot, at) => at.map((each) => clock(each, at[1] - at[0] < 60)) }, { ...axis, size: 60 }],
      scales: { y: { range: (plot, low, high) => [0, Math.max(high || 0, shown.includes("held") ? 1 : 0.1) * 1.05] } },
      series: [{ label: "UTC", value: (plot, at) => at === null ? "" : clock(at, true) }, ...shown.map((name) => ({ label: name.replace("_", " "), stroke: colour(colours[name]), width: 2,
        spanGaps: true, points: { show: false } }))],
    }, data, place));
  }

  function drawAll(anew) {
    if (!window.uPlot || document.hidden) return;
    for (const place of document.querySelectorAll("[data-chart]")) draw(place, anew).catch(() => {});
  }
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => drawAll(true), 200); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
  drawAll(true);
})();
