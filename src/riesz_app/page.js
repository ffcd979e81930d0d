// The window. All text goes in by textContent: nothing that a file holds is read as HTML.
"use strict";
(function () {
  const by = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.search).get("token") || "";
  const POLL = 1000; // milliseconds between looks at the runs
  let state = { x: [], y: [], values: [], outline: [], crs: null };
  let drawn = null, cross = null, edited = false, asked = 0;

  function tell(words) {
    by("error").hidden = !words;
    by("error").textContent = words || "";
  }
  async function ask(method, path, body) {
    const response = await fetch(path, { method, body, headers: { "X-Riesz-Token": token } });
    if (response.ok) return response;
    let words = response.statusText;
    try { words = (await response.json()).error || words; } catch { /* no words of ours */ }
    throw new Error(words);
  }
  const json = async (...request) => (await ask(...request)).json();
  const at = (kind, name, more = "") => kind + encodeURIComponent(name) + more;
  // What a person does ends in the line of errors, or empties it.
  const doing = (action) => async (...given) => {
    try {
      await action(...given);
      tell("");
    } catch (error) { tell(error.message); }
  };

  function fill(id, names, none) {
    const select = by(id), chosen = [...select.selectedOptions].map((one) => one.value);
    const options = none === null ? names : ["", ...names];
    select.replaceChildren(...options.map((name) => {
      const option = document.createElement("option");
      option.value = name;
      option.textContent = name || none;
      option.selected = chosen.includes(name);
      return option;
    }));
  }

  let listed = "";
  async function look() {
    const content = await json("GET", "/api/folder");
    by("folder").textContent = content.folder;
    show(content.runs);
    const names = JSON.stringify([content.tables, content.outlines]);
    if (names === listed) return; // a list that is open stays as it is
    listed = names;
    fill("table", content.tables, "choose");
    fill("polygon", content.outlines, "around the places");
    fill("recharge", content.tables, "none: the map is steady");
    fill("wells", content.tables, "none");
  }

  async function upload(files) {
    let last = "";
    for (const file of files) {
      await ask("PUT", at("/api/files/", file.name), file);
      last = file.name;
    }
    await look();
    const isOutline = /\.(geo)?json$/i.test(last);
    if (last && !isOutline) {
      by("table").value = last;
      await choose();
    } else if (last) {
      by("polygon").value = last;
      if (by("table").value) await begin();
    }
  }

  async function choose() {
    const name = by("table").value;
    by("columns").hidden = !name;
    if (!name) return;
    const table = await json("GET", at("/api/tables/", name));
    for (const id of ["x", "y", "value"]) {
      by(id).replaceChildren();
      fill(id, table.numeric, "guessed");
    }
    by("covariates").replaceChildren();
    fill("covariates", table.numeric, null);
    by("table-words").textContent = [table.rows + " rows: " + table.columns.join(", "), ...table.remarks].join("; ");
    edited = false;
    await begin();
  }

  function answers() {
    const words = {};
    for (const id of ["x", "y", "value", "crs", "polygon", "recharge", "wells"]) words[id] = by(id).value;
    if (/^outline-\d+\.geojson$/.test(words.polygon) && state.crs) words.polygon_crs = state.crs;
    words.covariates = [...by("covariates").selectedOptions].map((one) => one.value);
    words.log = document.querySelector("input[name=log]:checked").value === "log";
    return words;
  }
  async function begin() {
    const number = ++asked;
    const made = await json("POST", at("/api/tables/", by("table").value, "/start"), JSON.stringify(answers()));
    if (number !== asked) return; // a later answer is under way
    state = made;
    if (!edited) by("text").value = made.text;
    for (const id of ["x", "y", "value"]) by(id).options[0].textContent = "guessed" + (by(id).value ? "" : ": " + made.columns[id]);
    by("guesses").replaceChildren(...made.guesses.map((words) => {
      const item = document.createElement("li");
      item.textContent = words;
      return item;
    }));
    by("model").hidden = by("fit-section").hidden = false;
    by("map-words").textContent = made.x.length + " measurements" + (made.crs ? " in " + made.crs : "") + ", from " +
      text(Math.min(...made.values)) + " to " + text(Math.max(...made.values));
    draw();
  }
  const text = (value) => Number(value.toPrecision(4)).toString();

  const problemName = () => by("problem").value.trim();
  const save = () => ask("PUT", at("/api/problems/", problemName()), by("text").value);
  async function check() {
    await save();
    by("checked").hidden = false;
    by("checked").textContent = "reading ...";
    try {
      const found = await json("POST", at("/api/problems/", problemName(), "/check"));
      by("checked").textContent = found.lines.join("\n");
    } catch (error) {
      by("checked").hidden = true;
      throw error;
    }
  }
  async function fit() {
    await save();
    await ask("POST", at("/api/fits/", by("run").value.trim()), JSON.stringify({ problem: problemName() }));
    await look();
    const number = Number((by("run").value.match(/\d+$/) || ["1"])[0]) + 1;
    by("run").value = by("run").value.replace(/-?\d*$/, "") + "-" + number;
  }

  function button(words, action) {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = words;
    one.addEventListener("click", doing(action));
    return one;
  }
  let known = "";
  function show(runs) {
    if (JSON.stringify(runs) === known) return;
    known = JSON.stringify(runs);
    const has = document.activeElement, focused = has && has.dataset.of;
    by("runs").replaceChildren(...runs.map((run) => {
      const item = document.createElement("li"), words = document.createElement("div");
      words.textContent = run.name + ": " + run.state;
      item.append(words);
      if (run.progress) {
        const bar = document.createElement("progress");
        bar.max = Number(run.progress.total) || 1;
        if (Number(run.progress.total)) bar.value = Number(run.progress.done);
        bar.setAttribute("aria-label", run.progress.what);
        words.textContent += ", " + run.progress.what + (run.progress.left ? ", " + run.progress.left + " left" : "");
        item.append(bar);
      }
      if (run.state !== "done" && !run.progress) { // also before there is a bar
        const last = document.createElement("p");
        last.className = "words";
        last.textContent = run.told.slice(run.state === "running" ? -1 : -2).join(" ");
        item.append(last);
      }
      const row = document.createElement("div");
      row.className = "row";
      if (run.state === "running") row.append(button("Stop", async () => { await ask("DELETE", at("/api/fits/", run.name)); }));
      if (run.state === "done") row.append(button("Open", () => open(run.name)));
      if (run.state === "done" && opened && opened !== run.name) row.append(button("Compare with " + opened, () => compare(opened, run.name)));
      if (run.state === "stopped" && run.problem) {
        row.append(button("Go on", () => ask("POST", at("/api/fits/", run.name), JSON.stringify({ problem: run.problem }))));
      }
      for (const one of row.children) one.dataset.of = run.name + one.textContent;
      item.append(row);
      return item;
    }));
    if (!runs.length) by("runs").textContent = "none yet";
    const again = [...by("runs").querySelectorAll("button")].find((one) => one.dataset.of === focused);
    if (focused && again) again.focus();
  }
  const FILES = [["map.csv", "map as CSV"], ["map.tif", "GeoTIFF"], ["map.gpkg", "GeoPackage"], ["report.html", "report"], ["problem.toml", "problem file"], ["script.py", "Python script"], ["next.csv", "where to measure next"]];
  let opened = "";
  async function compare(...runs) {
    by("compared").hidden = false;
    by("compared").textContent = "comparing ...";
    const found = await json("POST", "/api/compare", JSON.stringify({ runs })).catch((error) => { by("compared").hidden = true; throw error; });
    by("compared").textContent = found.lines.join("\n");
  }
  function open(run) {
    opened = run;
    known = "";
    by("compared").hidden = true;
    by("report-section").hidden = false;
    by("report-title").textContent = run;
    const of = (name) => "/runs/" + encodeURIComponent(run) + "/" + name + "?token=" + encodeURIComponent(token);
    by("take").replaceChildren(...FILES.map(([name, words]) => button(words, async () => {
      const content = await (await ask("GET", of(name))).blob(), link = document.createElement("a");
      link.href = URL.createObjectURL(content);
      link.download = run + "-" + name;
      link.click();
      URL.revokeObjectURL(link.href);
      if (name === "next.csv" && opened === run) by("report").src = of("report.html"); // which has the places now
    })));
    by("report").src = of("report.html");
    by("report-section").scrollIntoView();
  }

  // The map: places in colours from dark (low) to light, an outline, and one that is being drawn.
  const canvas = by("map"), context = canvas.getContext("2d");
  const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
  function colour(share) {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1), k = Math.min(Math.floor(place), STOPS.length - 2);
    return "rgb(" + STOPS[k].map((low, c) => Math.round(low + (place - k) * (STOPS[k + 1][c] - low))).join(",") + ")";
  }
  function view() {
    const rings = [...state.outline.flat(), ...(drawn || [])];
    const xs = [...state.x, ...rings.map((p) => p[0])], ys = [...state.y, ...rings.map((p) => p[1])];
    if (!xs.length) return null;
    const ends = (all) => all.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
    const [west, east] = ends(state.x.length ? state.x : xs), [south, north] = ends(state.y.length ? state.y : ys);
    const [w, e] = state.outline.length ? ends(xs) : [west, east], [s, n] = state.outline.length ? ends(ys) : [south, north];
    const wide = canvas.clientWidth, tall = canvas.clientHeight;
    const scale = 0.8 * Math.min(wide / (e - w || 1), tall / (n - s || 1));
    return { scale, left: wide / 2 - scale * (w + e) / 2, base: tall / 2 + scale * (s + n) / 2 };
  }
  let frozen = null; // while an outline is drawn, the map stands still
  const shownView = () => frozen || view();
  function path(v, ring, closes) {
    ring.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](v.left + v.scale * x, v.base - v.scale * y));
    if (closes) context.closePath();
  }
  function draw() {
    const dots = devicePixelRatio || 1, v = shownView();
    canvas.width = Math.round(canvas.clientWidth * dots);
    canvas.height = Math.round(canvas.clientHeight * dots);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    if (!v) return;
    const ink = getComputedStyle(document.body).color;
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const ring of state.outline) path(v, ring, true);
    context.stroke();
    const sorted = [...state.values].sort((a, b) => a - b), last = Math.max(sorted.length - 1, 1);
    const low = sorted[Math.floor(0.02 * last)], high = sorted[Math.ceil(0.98 * last)];
    state.x.forEach((x, i) => {
      context.beginPath();
      context.arc(v.left + v.scale * x, v.base - v.scale * state.y[i], 4, 0, 2 * Math.PI);
      context.fillStyle = colour((state.values[i] - low) / (high - low || 1));
      context.fill();
      context.lineWidth = 0.8;
      context.stroke();
    });
    if (!drawn) return;
    context.lineWidth = 2.5;
    context.beginPath();
    path(v, drawn, false);
    context.stroke();
    for (const [x, y] of drawn) context.fillRect(v.left + v.scale * x - 3, v.base - v.scale * y - 3, 6, 6);
    if (cross) {
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(cross[0] - 9, cross[1]);
      context.lineTo(cross[0] + 9, cross[1]);
      context.moveTo(cross[0], cross[1] - 9);
      context.lineTo(cross[0], cross[1] + 9);
      context.stroke();
    }
  }
  function setDrawing(on) {
    drawn = on ? [] : null;
    frozen = on ? view() : null;
    cross = on ? [canvas.clientWidth / 2, canvas.clientHeight / 2] : null;
    for (const id of ["close-outline", "draw-words"]) by(id).hidden = !on;
    by("draw").textContent = on ? "Give up drawing" : "Draw an outline";
    if (on) canvas.focus();
    draw();
  }
  function corner(px, py) {
    if (!drawn) return;
    const v = shownView();
    drawn.push([(px - v.left) / v.scale, (v.base - py) / v.scale]);
    draw();
  }
  async function closeOutline() {
    if (drawn.length < 3) throw new Error("an outline has three corners at least.");
    const ring = [...drawn, drawn[0]];
    const name = "outline-" + Date.now() + ".geojson";
    await ask("PUT", at("/api/files/", name), JSON.stringify({ type: "Polygon", coordinates: [ring] }));
    setDrawing(false);
    await look();
    by("polygon").value = name;
    await begin();
  }

  by("files").addEventListener("change", doing(async (event) => {
    await upload(event.target.files);
    event.target.value = "";
  }));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      by("drop").classList.toggle("over", kind === "dragover");
    });
  }
  document.addEventListener("drop", doing((event) => upload(event.dataTransfer.files)));
  by("table").addEventListener("change", doing(choose));
  for (const id of ["x", "y", "value", "crs", "polygon", "covariates", "recharge", "wells"]) by(id).addEventListener("change", doing(begin));
  for (const radio of document.querySelectorAll("input[name=log]")) radio.addEventListener("change", doing(begin));
  by("text").addEventListener("input", () => { edited = true; });
  by("check").addEventListener("click", doing(check));
  by("fit").addEventListener("click", doing(fit));
  by("draw").addEventListener("click", () => setDrawing(!drawn));
  by("close-outline").addEventListener("click", doing(closeOutline));
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    corner(event.clientX - box.left, event.clientY - box.top);
  });
  canvas.addEventListener("keydown", (event) => {
    if (!drawn) return;
    const moves = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] };
    if (event.key in moves) cross = cross.map((one, k) => one + moves[event.key][k]);
    else if (event.key === " ") corner(...cross);
    else if (event.key === "Enter") doing(closeOutline)();
    else if (event.key === "Escape") setDrawing(false);
    else return;
    event.preventDefault();
    draw();
  });
  addEventListener("resize", draw);
  doing(look)();
  setInterval(async () => {
    try { await look(); } catch { /* told where it was asked for */ }
  }, POLL);
})();
