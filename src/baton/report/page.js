// Draws the figures of the page from the numbers embedded in it. Every panel is a plot of its own, so that they stack on
// a narrow screen; the keys above a figure switch lines, single seeds and other values in all its panels at once.
"use strict";
const baton = {
  figures: JSON.parse(document.getElementById("figures").textContent),
  states: {}, // by figure: what is switched on
  drawn: new Set(),
};

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const FONT = getComputedStyle(document.body).fontFamily;
  const PATTERNS = ["dash", "dot", "dashdot", "longdash", "longdashdot"];

  function element(tag, kind, text) {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.append(...rich(text));
    return made;
  }

  // 10^-1.5 with its exponent raised
  function rich(text) {
    return String(text).split(/(10\^-?[\d.]+)/).map((part) => {
      if (!part.startsWith("10^")) return document.createTextNode(part);
      const power = document.createElement("span");
      power.append("10", Object.assign(document.createElement("sup"), { textContent: part.slice(3).replace("-", "−") }));
      return power;
    });
  }

  // Plotly reads a few tags in texts; those of a study are not meant so.
  function safe(text) {
    const plain = String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    return plain.replace(/10\^(-?[\d.]+)/g, "10<sup>$1</sup>");
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  function ink(colour) {
    return dark.matches && colour === "#000000" ? "#ffffff" : colour;
  }

  function faint(colour, part) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(ink(colour).slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${part})`;
  }

  function chip(line) {
    const made = element("span", "chip");
    made.style.setProperty("--colour", line.colour);
    made.dataset.colour = line.colour;
    return made;
  }

  function state(id) {
    return (baton.states[id] ??= { off: new Set(), seeds: false, others: new Set() });
  }

  // The curves of a panel that are switched on.
  function visible(id, panel) {
    const on = state(id), more = { seed: () => on.seeds, other: (curve) => on.others.has(curve.value) };
    return panel.curves.filter((curve) => !on.off.has(curve.line) && (more[curve.kind]?.(curve) ?? true));
  }

  // What is drawn of one panel, back to front: spreads, other values, seeds, means.
  function traces(id, panel) {
    const figure = baton.figures[id], shown = visible(id, panel);
    if (figure.kind === "points") return shown.flatMap((curve, nth) => points(figure, panel, curve, nth));
    const layers = { band: [], other: [], seed: [], mean: [] };
    for (const curve of shown) {
      const line = figure.lines[curve.line], x = figure.xs[curve.x];
      const base = { x, y: curve.y, type: "scatter", mode: curve.y.length > 1 ? "lines" : "markers", uid: uid(curve),
        hoverinfo: "none" };
      if (curve.kind === "mean") {
        if (curve.low) {
          layers.band.push({
            x: [...x, ...[...x].reverse()], y: [...curve.high, ...[...curve.low].reverse()], type: "scatter", mode: "lines",
            line: { width: 0 }, fill: "toself", fillcolor: faint(line.colour, 0.18), hoverinfo: "skip", uid: `${uid(curve)}b`,
          });
        }
        const dash = curve.done ? line.dash : "dot";
        layers.mean.push({ ...base, marker: { color: ink(line.colour) }, line: { color: ink(line.colour), width: 2, dash } });
      } else if (curve.kind === "seed") {
        const color = faint(line.colour, 0.6);
        layers.seed.push({ ...base, marker: { color }, line: { color, width: 1 } });
      } else {
        const color = faint(line.colour, 0.75), dash = PATTERNS[figure.values.indexOf(curve.value) % PATTERNS.length];
        layers.other.push({ ...base, marker: { color }, line: { color, width: 1.3, dash } });
      }
    }
    return [...layers.band, ...layers.other, ...layers.seed, ...layers.mean];
  }

  function uid(curve) {
    return `${curve.kind}-${curve.line}-${curve.name ?? ""}${curve.value ?? ""}`;
  }

  function points(figure, panel, curve, nth) {
    const line = figure.lines[curve.line], colour = ink(line.colour), log = panel.log;
    const made = [{
      x: curve.x, y: curve.y, text: curve.names.map(safe), type: "scatter", mode: "lines+markers", name: safe(line.label),
      customdata: curve.low.map((low, i) => [low, curve.high[i]]), uid: uid(curve),
      hovertemplate: `${safe(panel.over)} %{text}<br><b>%{y:.4~g}</b> (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})`,
      line: { color: colour, width: 1.8, dash: line.dash }, marker: { color: colour, size: 7, symbol: line.mark },
      error_y: {
        type: "data", symmetric: false, array: curve.high.map((y, i) => y - curve.y[i]),
        arrayminus: curve.low.map((y, i) => curve.y[i] - y), color: colour, thickness: 1.2, width: 3,
      },
    }];
    if (curve.best !== null) {
      made.push({
        x: [curve.x[curve.best]], y: [curve.y[curve.best]], type: "scatter", mode: "markers", hoverinfo: "skip",
        marker: { symbol: "circle-open", size: 16, color: colour, line: { width: 1.8 } }, uid: `${uid(curve)}r`,
      });
    }
    if (curve.paper.length) {
      made.push({
        x: curve.paper.map((one) => one[0]), y: curve.paper.map((one) => one[1]), text: curve.paper.map((one) => safe(one[2])),
        type: "scatter", mode: "markers", name: safe(line.label), uid: `${uid(curve)}p`,
        hovertemplate: `${safe(panel.over)} %{text}<br>the paper: <b>%{y:.4~g}</b>`,
        marker: { symbol: "star-open", size: 9, color: colour, line: { width: 1.2 } },
      });
    }
    if (curve.gone.length) {
      const [low, high] = panel.range ?? [0, 1], part = 0.04 + 0.07 * nth;
      const y = panel.worse ? low + part * (high - low) : high - part * (high - low);
      made.push({
        x: curve.gone.map((gone) => gone[0]), y: curve.gone.map(() => (log ? 10 ** y : y)), uid: `${uid(curve)}x`,
        text: curve.gone.map((gone) => safe(`${panel.over} ${gone[1]}`)), type: "scatter", mode: "markers",
        name: safe(line.label), hovertemplate: "%{text}", marker: { symbol: "x-thin", size: 8, line: { width: 2, color: colour } },
      });
    }
    return made;
  }

  function layout(id, panel) {
    const figure = baton.figures[id], colour = theme();
    const axis = {
      gridcolor: colour("grid"), linecolor: colour("axis"), tickcolor: colour("axis"), zeroline: false, showline: true,
      ticks: "outside", ticklen: 3, automargin: true, tickfont: { size: 11 }, ticklabeloverflow: "allow",
    };
    const made = {
      autosize: true, margin: { l: 46, r: 14, t: touch.matches ? 26 : 8, b: 36 }, showlegend: false, uirevision: "kept",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("soft"), size: 12, family: FONT },
      hovermode: figure.kind === "curves" ? "x" : "closest", dragmode: touch.matches ? false : "zoom",
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("text"), size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("text") },
      xaxis: { ...axis, title: { text: figure.kind === "curves" ? "round" : safe(figure.over), standoff: 4, font: { size: 11 } } },
      yaxis: { ...axis, type: panel.log ? "log" : "linear", exponentformat: "power", nticks: 6 },
    };
    if (panel.range) Object.assign(made.yaxis, { range: panel.range, autorange: false });
    if (figure.kind === "curves") {
      const spike = { showspikes: true, spikemode: "across", spikesnap: "data", spikethickness: 1, spikedash: "dot" };
      Object.assign(made.xaxis, { ...spike, spikecolor: colour("axis"), range: [0, panel.rounds], autorange: false });
    } else {
      const { at, text, log } = panel.ticks;
      Object.assign(made.xaxis, { type: log ? "log" : "linear", tickvals: at, ticktext: text.map(safe), tickangle: "auto" });
      if (log && at.length) {
        const ends = [Math.log10(at[0]), Math.log10(at.at(-1))], room = 0.06 * (ends[1] - ends[0]) || 0.2;
        made.xaxis.range = [ends[0] - room, ends[1] + room];
      }
    }
    return made;
  }

  // Buttons only where there is no mouse to zoom with; none of Plotly's own, of which one would send the chart away.
  function settings() {
    const buttons = [["zoomIn2d", "zoomOut2d", "resetScale2d"]];
    const base = { displaylogo: false, responsive: true, doubleClick: "reset+autosize", modeBarButtons: buttons };
    return { ...base, displayModeBar: touch.matches };
  }

  const tip = element("div", "tip");
  tip.hidden = true;
  document.body.append(tip);

  function written(y) {
    const digits = y !== 0 && (Math.abs(y) < 1e-3 || Math.abs(y) >= 1e6) ? y.toExponential(2) : Number(y.toPrecision(4));
    return String(digits).replace("-", "−");
  }

  // The values of all curves at a round, beside the panel, where they hide nothing of it.
  function tell(plot, round) {
    const id = plot.dataset.of, figure = baton.figures[id], panel = panelOf(plot), order = ["mean", "other", "seed"];
    const shown = visible(id, panel).sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
    tip.replaceChildren(element("b", "", `round ${round}`));
    for (const curve of shown) {
      const x = figure.xs[curve.x], line = figure.lines[curve.line];
      if (round > x.at(-1) || round < x[0]) continue;
      const at = x.reduce((best, r, i) => (Math.abs(r - round) < Math.abs(x[best] - round) ? i : best), 0);
      const row = element("div", curve.kind), what = { mean: curve.far, seed: curve.name, other: `${panel.over} ${curve.value}` }[curve.kind];
      row.append(chip(line), element("span", "", what ? `${line.label}, ${what}` : line.label), element("strong", "", written(curve.y[at])));
      if (curve.low) row.append(element("small", "", `${written(curve.low[at])} to ${written(curve.high[at])}`));
      tip.append(row);
    }
    tip.hidden = false;
    const box = plot.getBoundingClientRect(), { offsetWidth: wide, offsetHeight: high } = tip;
    const right = box.right + wide + 8 <= innerWidth, left = box.left - wide - 8 >= 0;
    const x = right ? box.right + 4 : left ? box.left - wide - 4 : Math.max(4, Math.min(box.left, innerWidth - wide - 4));
    const y = right || left ? box.top : box.bottom + high <= innerHeight ? box.bottom : box.top - high;
    tip.style.transform = `translate(${x + scrollX}px, ${y + scrollY}px)`;
  }

  function draw(plot) {
    const id = plot.dataset.of, panel = panelOf(plot);
    baton.drawn.add(plot);
    plot.dataset.drawn = "";
    if (!panel.curves.length) {
      plot.replaceChildren(element("p", "nothing", "nothing here yet"));
      return;
    }
    const first = !plot.classList.contains("js-plotly-plot");
    if (first) plot.replaceChildren();
    Plotly.react(plot, traces(id, panel), layout(id, panel), settings());
    if (first && baton.figures[id].kind === "curves") {
      for (const kind of ["plotly_hover", "plotly_click"]) plot.on(kind, (event) => tell(plot, event.points[0].x)); // or a tap
      plot.on("plotly_unhover", () => (tip.hidden = true));
    }
  }

  function panelOf(plot) {
    const row = baton.figures[plot.dataset.of].rows[plot.dataset.row];
    return { ...row.panels[plot.dataset.panel], log: row.log };
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "500px" });

  function redraw(id) {
    for (const plot of baton.drawn) if (!id || plot.dataset.of === id) draw(plot);
  }

  function key(text, on, press, line) {
    const made = element("button", "key");
    made.type = "button";
    made.setAttribute("aria-pressed", String(on));
    if (line) made.append(chip(line));
    made.append(...rich(text));
    made.addEventListener("click", () => {
      made.setAttribute("aria-pressed", String(press()));
    });
    return made;
  }

  function switched(set, what, id) {
    if (!set.delete(what)) set.add(what);
    redraw(id);
    return set.has(what);
  }

  // The keys of a figure: its lines, the seeds, the other values of the swept field.
  function keys(id) {
    const figure = baton.figures[id], on = state(id), made = element("div", "keys");
    const curves = figure.rows.flatMap((row) => row.panels.flatMap((panel) => panel.curves));
    figure.lines.forEach((line, nth) => {
      if (curves.length && !curves.some((curve) => curve.line === nth)) return;
      made.append(key(line.label, !on.off.has(nth), () => !switched(on.off, nth, id), line));
    });
    if (curves.some((curve) => curve.kind === "seed")) {
      made.append(key("single seeds", on.seeds, () => {
        on.seeds = !on.seeds;
        redraw(id);
        return on.seeds;
      }));
    }
    const others = figure.values.filter((value) => curves.some((curve) => curve.kind === "other" && curve.value === value));
    if (others.length) {
      const more = element("details", "more");
      more.append(element("summary", "", `other values of ${figure.over}`));
      const list = element("div", "keys");
      for (const value of others) list.append(key(value, on.others.has(value), () => switched(on.others, value, id)));
      more.append(list);
      more.open = on.others.size > 0;
      made.append(more);
    }
    const hints = figure.every > 1 ? [`one of ${figure.every} evaluations drawn`] : [];
    if (!touch.matches) hints.push("drag to zoom, double-click to go back");
    made.append(element("span", "hint", hints.join("; ")));
    return made;
  }

  function panelHead(figure, panel) {
    const head = element("div", "head");
    if (panel.title) head.append(element("b", "", panel.title));
    if (panel.chosen.length) {
      const told = element("span", "chosen", panel.over);
      for (const { line, text } of panel.chosen) {
        const one = element("span", "");
        one.append(chip(figure.lines[line]), ...rich(text));
        told.append(one);
      }
      head.append(told);
    }
    return head;
  }

  // The skeleton of a figure; its plots are drawn when they come near.
  baton.build = (place) => {
    const id = place.dataset.figure, figure = baton.figures[id];
    place.querySelectorAll(".plot").forEach((plot) => baton.drawn.delete(plot));
    place.replaceChildren(keys(id));
    figure.rows.forEach((row, r) => {
      if (figure.rows.length > 1) place.append(element("h4", "metric", row.label));
      const grid = element("div", "grid");
      grid.style.setProperty("--columns", figure.columns);
      row.panels.forEach((panel, p) => {
        const box = element("div", "panel"), plot = element("div", "plot");
        Object.assign(plot.dataset, { of: id, row: r, panel: p });
        box.append(panelHead(figure, panel), plot);
        grid.append(box);
        near.observe(plot);
      });
      place.append(grid);
    });
  };

  // New numbers for a figure that is there: heads and keys anew, plots in place, zoom and switches kept.
  baton.refresh = (place) => {
    const id = place.dataset.figure, figure = baton.figures[id];
    const plots = [...place.querySelectorAll(".plot")];
    const count = figure.rows.reduce((sum, row) => sum + row.panels.length, 0);
    if (plots.length !== count) {
      baton.build(place);
      return;
    }
    const open = place.querySelector(".more")?.open, fresh = keys(id);
    if (open && fresh.querySelector(".more")) fresh.querySelector(".more").open = true;
    place.firstElementChild.replaceWith(fresh);
    for (const plot of plots) {
      plot.previousElementSibling.replaceWith(panelHead(figure, panelOf(plot)));
      if (baton.drawn.has(plot)) draw(plot);
    }
  };

  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".plot")) tip.hidden = true;
  });
  document.documentElement.classList.add("js");
  document.querySelectorAll("[data-figure]").forEach(baton.build);
  dark.addEventListener("change", () => redraw());
  touch.addEventListener("change", () => redraw());
})();
