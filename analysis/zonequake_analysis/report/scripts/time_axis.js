// The time axis of the report: which part of the run all plots show. Zoom by wheel, drag, buttons
// and keys; the address keeps it. Plots are SVG whose horizontal unit is the second, so that another
// part is another viewBox; words are HTML, which keeps its size.
"use strict";
const timeAxis = (() => {
  const data = JSON.parse(document.getElementById("run-data").textContent);
  const card = document.getElementById("time");
  const lanes = card.querySelector(".lanes");
  const SHORTEST_S = 0.02;
  const whole = d3.scaleLinear().domain([0, data.length]);
  const drawn = []; // functions that draw something for the part that is shown
  let shown = whole.copy();
  let waiting = false;

  const place = (s) => 100 * (s - shown.domain()[0]) / (shown.domain()[1] - shown.domain()[0]);
  const width = () => lanes.querySelector(".axis .area").clientWidth;
  const left = () => lanes.clientWidth - width();
  const utc = (s, digits = 3) => data.wallMs === null ? "" :
    new Date(data.wallMs + s * 1000).toISOString().slice(11, digits ? 20 + digits : 19);

  const zoom = d3.zoom()
    .clickDistance(4)
    // A finger alone scrolls the page as long as the whole run is shown.
    .filter((e) => !e.button && d3.pointer(e, lanes)[0] >= left()
      && !(e.type === "touchstart" && e.touches.length < 2 && isWhole()))
    .on("zoom", (e) => { shown = e.transform.rescaleX(whole); later(); });

  function isWhole() {
    const [from, to] = shown.domain();
    return to - from > data.length * 0.9999;
  }

  function measure() {
    const [from, to] = shown.domain(), at = left(), wide = Math.max(1, width());
    whole.range([at, at + wide]);
    const extent = [[at, 0], [at + wide, 1]];
    zoom.extent(extent).translateExtent(extent)
      .scaleExtent([1, Math.max(1, data.length / SHORTEST_S)]);
    show(from, to);
  }

  // Shows the seconds `from` to `to`, as far as the run has them.
  function show(from, to) {
    const long = Math.min(data.length, Math.max(SHORTEST_S, to - from));
    const begin = Math.min(Math.max(0, from), data.length - long);
    const k = data.length / long;
    const x = whole.range()[0] - k * whole(begin);
    d3.select(lanes).call(zoom.transform, d3.zoomIdentity.translate(x, 0).scale(k));
  }

  function by(factor, part = 0) { // zooms by `factor` about the middle, and moves by `part` of it
    const [from, to] = shown.domain(), half = (to - from) / 2 / factor;
    const middle = (from + to) / 2 + part * (to - from);
    show(middle - half, middle + half);
  }

  function later() {
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  }

  function draw() {
    waiting = false;
    const [from, to] = shown.domain();
    for (const svg of document.querySelectorAll("svg.plot"))
      svg.setAttribute("viewBox", `${from} 0 ${to - from} ${svg.dataset.height}`);
    for (const words of document.querySelectorAll(".words")) placeWords(words, from, to);
    for (const axis of document.querySelectorAll(".axis .area")) ticks(axis);
    for (const each of drawn) each(from, to);
    card.classList.toggle("zoomed", !isWhole());
    card.querySelector(".range").textContent =
      `${inSeconds(from)} to ${inSeconds(to)}${utc(from) && ` · ${utc(from, 0)} to ${utc(to, 0)} UTC`}`;
    remember();
  }

  function placeWords(words, from, to) {
    const at = +words.dataset.at, until = +words.dataset.until;
    const begin = Math.max(0, place(at)), end = Math.min(100, place(until));
    const beside = words.classList.contains("beside");
    words.hidden = until < from || at > to || (!beside && (end - begin) / 100 * width() < 14);
    const flip = beside && begin > 70;
    words.style.left = flip ? "auto" : `${begin}%`;
    words.style.right = flip ? `${100 - begin}%` : "auto";
    words.style.maxWidth = beside ? "" : `${end - begin}%`;
  }

  function ticks(area) {
    const wide = area.clientWidth, values = shown.ticks(Math.max(2, Math.floor(wide / 95)));
    const digits = values.length > 1 && values[1] - values[0] < 1 ? 3 : 0;
    area.replaceChildren(...values.filter((s) => place(s) <= 99.9).map((s) => {
      const tick = element("span", "tick");
      tick.style.left = `${place(s)}%`;
      tick.append(element("b", "", inSeconds(s)), element("span", "utc", utc(s, digits)));
      return tick;
    }));
  }

  function inSeconds(s) {
    const [from, to] = shown.domain(), short = to - from < 20;
    return `${s.toLocaleString("en", { maximumFractionDigits: short ? 3 : 1 })} s`;
  }

  // The address -------------------------------------------------------------------------------

  const kept = { from: null, to: null }; // and what findings.js keeps there
  let remembering = null;

  function remember() {
    const [from, to] = shown.domain();
    kept.from = isWhole() ? null : from.toFixed(3);
    kept.to = isWhole() ? null : to.toFixed(3);
    clearTimeout(remembering);
    remembering = setTimeout(() => {
      const words = new URLSearchParams(Object.entries(kept).filter(([, value]) => value !== null));
      const hash = words.size ? `#${words}` : "";
      if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
    }, 150);
  }

  function recalled() {
    const words = new URLSearchParams(location.hash.slice(1));
    const number = (name) => words.get(name) === null || isNaN(words.get(name)) ? null : +words.get(name);
    if (number("from") !== null && number("to") > number("from")) show(number("from"), number("to"));
    return words;
  }

  // What people press ---------------------------------------------------------------------------

  const actions = {
    in: () => by(2), out: () => by(0.5), left: () => by(1, -0.25), right: () => by(1, 0.25),
    whole: () => show(0, data.length),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole" };
  card.addEventListener("click", (e) => actions[e.target.closest("[data-do]")?.dataset.do]?.());
  lanes.addEventListener("keydown", (e) => {
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); actions[keys[e.key]](); }
  });

  function element(name, style = "", text = "") {
    const made = document.createElement(name);
    if (style) made.className = style;
    if (text !== "") made.textContent = text;
    return made;
  }

  // Under the pointer ------------------------------------------------------------------------------

  const tip = card.querySelector(".tip"), cross = card.querySelector(".cross");
  lanes.addEventListener("pointermove", (e) => {
    const x = d3.pointer(e, lanes)[0], s = shown.invert(x), h = data.hover, away = x < left();
    tip.hidden = cross.hidden = away || e.pointerType === "touch";
    if (away) return;
    cross.style.left = `${x}px`;
    const i = h.p50 ? Math.floor(s / h.slice) : -1, ms = (v) => v ?? "–";
    tip.textContent = `${inSeconds(s)}  ${utc(s)}` + (i < 0 || i >= h.p50.length ? "" :
      `\np50 ${ms(h.p50[i])} ms   p99 ${ms(h.p99[i])} ms   max ${ms(h.max[i])} ms\nok ${h.ok[i]}   not ok ${h.bad[i]}`);
    const box = card.getBoundingClientRect();
    tip.style.left = `${Math.min(e.clientX - box.left + 14, box.width - tip.offsetWidth - 8)}px`;
    tip.style.top = `${e.clientY - box.top + 18}px`;
  });
  lanes.addEventListener("pointerleave", () => { tip.hidden = cross.hidden = true; });

  d3.select(lanes).call(zoom).on("dblclick.zoom", null);
  new ResizeObserver(measure).observe(lanes);
  measure();
  return { data, card, lanes, kept, drawn, show, later, place, width, utc, inSeconds, recalled, remember, element,
    domain: () => shown.domain() };
})();
