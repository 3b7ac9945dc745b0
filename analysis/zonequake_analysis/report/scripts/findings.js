// Findings on the time axis: marks with counts, by kind and by partition. A click on one shows the
// operations around it and the log lines of its node. Texts of the run are only ever text here.
"use strict";
(() => {
  const { data, card, lanes, kept, drawn, show, later, place, width, utc, inSeconds, recalled, remember, element } = timeAxis;
  const KIND = 0, ROW = 1, FIRST = 2, LAST = 3, COUNT = 4, EXAMPLE = 5, US = 1e6;
  const BIN_PX = 34, MOST_LISTED = 60;
  const cells = data.cells.sort((a, b) => a[FIRST] - b[FIRST]);
  const detail = card.querySelector(".detail");
  const partitionName = (row) => row === -1 ? "no partition" : row < 0 ? "partitions not drawn" : `${data.partitions[row][0]}/${data.partitions[row][1]}`;
  const kindName = (kind) => `${data.kinds[kind].check}/${data.kinds[kind].kind}`;
  const counted = (n) => n < 1e4 ? String(n) : d3.format(".2~s")(n);
  let only = null; // the kind that rows of partitions show; null: all
  let chosen = null; // { kind, row, from, to, number }: a selection; kind and row may be null

  // Marks ---------------------------------------------------------------------------------------

  const lists = []; // { area, kind, row, cells }: each row of marks
  function list(area, kind, row) {
    const own = cells.filter((c) => (kind === null || c[KIND] === kind) && (row === null || c[ROW] === row));
    const added = { area, kind, row, cells: own };
    lists.push(added);
    return added;
  }

  function drawMarks(from, to) {
    for (const one of lists) if (one.area.offsetParent !== null) drawList(one, from * US, to * US);
  }

  function drawList(one, from, to) {
    const wide = width(), bins = new Map(), perUs = wide / (to - from);
    // Only bins that lie in the view as a whole: a mark at an edge is as good to click as others.
    const lowest = Math.ceil(from * perUs / BIN_PX), highest = Math.max(lowest, Math.floor(to * perUs / BIN_PX) - 1);
    for (const c of one.cells) {
      if (c[LAST] < from || c[FIRST] > to || (only !== null && one.kind === null && c[KIND] !== only)) continue;
      const middle = (Math.max(c[FIRST], from) + Math.min(c[LAST], to)) / 2;
      const bin = Math.max(lowest, Math.min(highest, Math.floor(middle * perUs / BIN_PX)));
      const x = (middle - from) * perUs, mark = bins.get(bin);
      if (!mark) bins.set(bin, { x, edge: bin * BIN_PX - from * perUs, kind: c[KIND], count: c[COUNT], from: c[FIRST], to: c[LAST], first: c[FIRST] });
      else {
        mark.count += c[COUNT]; mark.kind = Math.min(mark.kind, c[KIND]);
        mark.to = Math.max(mark.to, c[LAST]); mark.first = c[FIRST]; mark.x = (mark.x + x) / 2;
      }
    }
    // A line shows how far the findings of a mark reach, where that is farther than the mark is wide.
    const reach = [...bins.values()].filter((mark) => (mark.to - mark.from) * perUs > BIN_PX).map((mark) => {
      const line = element("i", `reach ${data.kinds[mark.kind].verdict}`), x = (us) => (us - from) * perUs;
      line.style.left = `${Math.max(0, x(mark.from))}px`;
      line.style.width = `${Math.min(wide, x(mark.to)) - Math.max(0, x(mark.from))}px`;
      return line;
    });
    one.area.replaceChildren(...reach, ...[...bins.values()].map((mark) => {
      const made = element("button", `pin ${data.kinds[mark.kind].verdict}`, mark.count > 1 ? counted(mark.count) : "");
      made.type = "button";
      made.tabIndex = -1;
      const room = mark.count > 1 ? 16 : 7; // so that neighbours don't cover each other
      made.style.left = `${Math.max(mark.edge + room, Math.min(mark.edge + BIN_PX - room, mark.x))}px`;
      made.dataset.from = mark.from;
      made.dataset.to = mark.first; // the last cell begins here: a selection is by begin
      made.title = `${mark.count.toLocaleString("en")} × ${one.kind === null && only === null ? "findings, the worst " : ""}${kindName(mark.kind)}, `
        + `${inSeconds(mark.from / US)}${mark.to > mark.from ? ` to ${inSeconds(mark.to / US)}` : ""}`;
      made.setAttribute("aria-label", made.title);
      const own = chosen && (chosen.kind === null || one.kind === null || chosen.kind === one.kind)
        && (chosen.row === null || one.row === null || chosen.row === one.row);
      made.classList.toggle("chosen", Boolean(own && mark.from <= chosen.to && mark.first >= chosen.from));
      made.addEventListener("click", () => {
        choose({ kind: one.kind ?? only, row: one.row, from: mark.from, to: mark.first, number: 0 });
        uncover(one.area);
      });
      return made;
    }));
  }

  // Rows ----------------------------------------------------------------------------------------

  function rowOfMarks(label, style, kind, row, press) {
    const made = element("div", `row marks ${style}`), name = element("button", "label"), area = element("div", "area");
    name.type = "button";
    name.append(...label);
    name.addEventListener("click", press);
    made.append(name, area);
    return { made, name, ...list(area, kind, row) };
  }

  function kindLabel(kind) {
    const k = data.kinds[kind];
    const mark = element("span", `sign ${k.verdict}`, k.mark);
    return [mark, element("span", "kind", k.check === k.kind ? k.check : `${k.check} · ${k.kind}`)];
  }

  const kindRows = card.querySelector(".kinds");
  data.kinds.forEach((k, kind) => {
    const { made, name } = rowOfMarks([...kindLabel(kind), element("span", "count", counted(k.count))], "", kind, null, () => filter(only === kind ? null : kind));
    name.title = `${k.check} · ${k.kind}: ${k.text}. Show this kind alone in the rows of partitions.`;
    name.dataset.kind = kind;
    kindRows.append(made);
  });

  function filter(kind) {
    only = kind;
    kept.only = kind === null ? null : kindName(kind);
    for (const name of kindRows.querySelectorAll(".label")) name.setAttribute("aria-pressed", String(+name.dataset.kind === kind));
    later();
  }

  for (const made of card.querySelectorAll(".partition")) {
    const row = +made.dataset.row;
    list(made.querySelector(".over"), null, row);
    const kinds = [...new Set(cells.filter((c) => c[ROW] === row).map((c) => c[KIND]))].sort((a, b) => a - b);
    const name = made.querySelector(".label");
    if (!kinds.length) { name.disabled = true; continue; }
    name.append(element("span", "count", counted(d3.sum(cells, (c) => c[ROW] === row ? c[COUNT] : 0))));
    name.title = `${partitionName(row)}: show its kinds of findings`;
    name.setAttribute("aria-expanded", "false");
    let below = null;
    name.addEventListener("click", () => {
      if (below === null) {
        below = kinds.map((kind) => rowOfMarks(kindLabel(kind), "below", kind, row, () => filter(only === kind ? null : kind)).made);
        made.after(...below);
      } else for (const one of below) one.hidden = !one.hidden;
      name.setAttribute("aria-expanded", String(!below[0].hidden));
      later();
    });
  }

  const more = card.querySelector(".show-all");
  const showAll = (all) => { card.classList.toggle("all", all); if (more) more.hidden = all; later(); };
  more?.addEventListener("click", () => showAll(true));

  // What is chosen ------------------------------------------------------------------------------

  const hits = () => cells.filter((c) => (chosen.kind === null || c[KIND] === chosen.kind)
    && (chosen.row === null || c[ROW] === chosen.row) && c[LAST] >= chosen.from && c[FIRST] <= chosen.to);

  function choose(selection) {
    chosen = selection;
    kept.kind = chosen && chosen.kind !== null ? kindName(chosen.kind) : null;
    kept.partition = chosen && chosen.row !== null ? partitionName(chosen.row) : null;
    kept.at = chosen ? (chosen.from / US).toFixed(6) : null;
    kept.until = chosen && chosen.to > chosen.from ? (chosen.to / US).toFixed(6) : null;
    kept.n = chosen && chosen.number ? chosen.number : null;
    detail.hidden = !chosen;
    if (chosen) {
      const [from, to] = timeAxis.domain();
      if (chosen.to / US < from || chosen.from / US > to) show(chosen.from / US - (to - from) / 2, chosen.from / US + (to - from) / 2);
      const hidden = chosen.row !== null && card.querySelector(`.partition[data-row="${chosen.row}"]`)?.classList.contains("more");
      if (hidden && !card.classList.contains("all")) showAll(true);
      describe();
    }
    remember();
    later();
  }

  // Scrolls so far that what was clicked is not below what is said of it.
  function uncover(area) {
    const row = area.getBoundingClientRect(), top = detail.getBoundingClientRect().top;
    if (row.bottom > top - 8) scrollBy(0, Math.min(row.bottom - top + 24, row.top - 60));
  }

  function step(by) {
    const all = cells.filter((c) => only === null || c[KIND] === only);
    if (!all.length) return;
    const now = chosen ? chosen.from : by > 0 ? -1 : Infinity;
    let i = by > 0 ? all.findIndex((c) => c[FIRST] > now) : all.findLastIndex((c) => c[FIRST] < now);
    if (i < 0) i = by > 0 ? 0 : all.length - 1;
    const c = all[i];
    choose({ kind: c[KIND], row: c[ROW] < 0 ? null : c[ROW], from: c[FIRST], to: c[FIRST], number: 0 });
  }

  function describe() {
    // Most severe first, then those whose operations are here, then by time.
    const found = hits().sort((a, b) => a[KIND] - b[KIND] || (a[EXAMPLE] < 0) - (b[EXAMPLE] < 0) || a[FIRST] - b[FIRST]);
    if (!found.length) { detail.hidden = true; return; }
    const number = Math.min(chosen.number, found.length - 1), c = found[number];
    const total = d3.sum(found, (one) => one[COUNT]);
    const head = element("div", "head"), close = element("button", "close", "×");
    close.type = "button";
    close.setAttribute("aria-label", "close");
    close.addEventListener("click", () => choose(null));
    head.append(element("b", "", `${total.toLocaleString("en")} ${total === 1 ? "finding" : "findings"}`), close);
    const chips = element("div", "chips");
    found.slice(0, MOST_LISTED).forEach((one, i) => {
      const chip = element("button", `chip ${data.kinds[one[KIND]].verdict}`);
      chip.type = "button";
      chip.append(...kindLabel(one[KIND]), element("span", "soft", `${partitionName(one[ROW])} · ${(one[FIRST] / US).toFixed(3)} s${one[COUNT] > 1 ? ` · ${counted(one[COUNT])}` : ""}`));
      chip.setAttribute("aria-pressed", String(i === number));
      chip.addEventListener("click", () => choose({ ...chosen, number: i }));
      chips.append(chip);
    });
    if (found.length > MOST_LISTED) chips.append(element("span", "soft", `and ${found.length - MOST_LISTED} more places: zoom in`));
    detail.replaceChildren(head, ...(found.length > 1 ? [chips] : []), ...one(c));
    detail.hidden = false;
  }

  function one(c) {
    const kind = data.kinds[c[KIND]], example = data.examples[c[EXAMPLE]], s = c[FIRST] / US;
    const title = element("p", "title");
    title.append(...kindLabel(c[KIND]), element("span", "", ` in ${partitionName(c[ROW])} at ${s.toFixed(3)} s`), element("span", "soft", utc(s) && ` · ${utc(s)} UTC`));
    const said = element("p", "soft", `${example?.text || kind.text}.`);
    const parts = [title, said];
    if (c[COUNT] > 1) said.append(` ${counted(c[COUNT])} of them until ${(c[LAST] / US).toFixed(3)} s${example ? "; the first one is shown" : ""}.`);
    if (example) {
      const facts = [["key", example.key], ["value", example.value], ["node", example.node], ["apart", example.apart]].filter(([, v]) => v !== null);
      for (const [name, value] of facts) said.append(` · ${name} `, element("code", "", value));
    }
    const both = element("div", "both");
    if (example?.ops.length) both.append(operations(example, s));
    if (example?.log.length) both.append(logLines(example, s));
    else if (example && data.wallMs !== null) parts.push(element("p", "soft none", example.logNode ? `No line of ${example.logNode}'s log within 2 s of it.` : "It names no node, so no log is shown."));
    if (both.childNodes.length) parts.splice(2, 0, both);
    parts.push(query(c));
    return parts;
  }

  function table(heads, rows) {
    const made = element("table"), top = element("tr");
    top.append(...heads.map((h) => element("th", "", h)));
    made.append(top, ...rows);
    const box = element("div", "scrolls");
    box.append(made);
    return box;
  }

  function operations(example, at) {
    const made = element("div", "part ops");
    made.append(element("h3", "", `Operations around it${example.key === null ? ", of the partition" : ", of the key"}`));
    made.append(table(["s", "took", "what", "outcome", "node", "term", "index", "process", "operation"], example.ops.map(([us, took, op, process, what, outcome, term, index, node, isNamed, key]) => {
      const row = element("tr", isNamed ? "named" : "");
      const cell = (text, style) => row.append(element("td", style, text ?? "–"));
      cell((us / US).toFixed(3), "n"); cell(took, "n"); cell(key === null ? what : `${what} · key ${key}`, "what"); cell(outcome); cell(node || "–");
      cell(term, "n"); cell(index, "n"); cell(process, "n mono"); cell(op, "mono");
      row.title = `${((us / US - at) * 1000).toFixed(1)} ms from the finding`;
      return row;
    })));
    return made;
  }

  function logLines(example, at) {
    const made = element("div", "part log"), lines = element("div", "lines");
    made.append(element("h3", "", `Log of ${example.logNode}`));
    let after = false;
    for (const [us, text, file] of example.log) {
      const line = element("div", "line");
      if (!after && us / US >= at) { after = true; lines.append(element("div", "now", `the finding, ${utc(at)}`)); }
      line.append(element("span", "soft", utc(us / US) + " "), text);
      line.title = file;
      lines.append(line);
    }
    if (!after) lines.append(element("div", "now", `the finding, ${utc(at)}`));
    made.append(lines);
    return made;
  }

  // The statement that lists all of a cell; the report holds the operations of some findings alone.
  function query(c) {
    const text = (value) => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    const ns = (us, more) => String(BigInt(data.startNs) + BigInt(us) * 1000n + BigInt(more));
    const [zone, partition] = c[ROW] < 0 ? [null, null] : data.partitions[c[ROW]];
    const where = [`check = ${text(data.kinds[c[KIND]].check)}`, `kind = ${text(data.kinds[c[KIND]].kind)}`];
    if (partition !== null) where.push(`partition = ${partition}`, ...(zone ? [`zone = ${text(zone)}`] : []));
    where.push(`at_ns BETWEEN ${ns(c[FIRST], 0)} AND ${ns(c[LAST], 999)}`);
    const made = element("details");
    made.append(element("summary", "", data.examples[c[EXAMPLE]]?.ops.length ? "All of them in SQL" : "Its operations are not in this file; all of them in SQL"),
      element("pre", "", `zonequake sql-shell ${data.run}\n\nSELECT * FROM findings\nWHERE ${where.join("\n  AND ")}\nORDER BY at_ns;`));
    return made;
  }

  // The address ---------------------------------------------------------------------------------

  function recall() {
    const words = recalled();
    const indexOf = (values, name, word) => { const i = word === null ? -1 : values.findIndex((_, n) => name(n) === word); return i < 0 ? null : i; };
    filter(indexOf(data.kinds, kindName, words.get("only")));
    const at = words.get("at");
    if (words.size) card.scrollIntoView();
    if (at === null || isNaN(at)) { if (chosen) choose(null); return; }
    // The address has microseconds in decimals, which a double holds exactly enough to round.
    const from = Math.round(at * US), to = Math.round((words.get("until") ?? at) * US);
    choose({ kind: indexOf(data.kinds, kindName, words.get("kind")), row: indexOf(data.partitions, partitionName, words.get("partition")),
      from, to, number: +(words.get("n") ?? 0) || 0 });
    if (detail.hidden) return;
    if (words.get("from") === null) { const [a, b] = timeAxis.domain(); show(Math.max(a, from / US - 5), Math.min(b, to / US + 5)); }
  }

  const actions = { previous: () => step(-1), next: () => step(1) };
  card.addEventListener("click", (e) => actions[e.target.closest("[data-find]")?.dataset.find]?.());
  lanes.addEventListener("keydown", (e) => {
    if (e.key === "n") step(1);
    if (e.key === "p") step(-1);
    if (e.key === "Escape" && chosen) choose(null);
  });
  addEventListener("hashchange", recall);
  drawn.push(drawMarks);
  recall();
  later();
})();
