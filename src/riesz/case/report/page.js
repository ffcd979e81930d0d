// The map viewer. All text goes in by textContent: nothing that a user wrote is read as HTML.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const grid = data.grid, measurements = data.measurements;
  const by = (id) => document.getElementById(id);
  const canvas = by("canvas"), context = canvas.getContext("2d"), tip = by("tip");
  const image = document.createElement("canvas");
  image.width = grid.columns;
  image.height = grid.rows;
  const NEAR = 12; // pixels within which a measurement is meant

  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const bits = bytesOf(grid.inside);
  const pixelOf = []; // the pixel of the map for each value
  const valueAt = new Int32Array(grid.columns * grid.rows).fill(-1);
  for (let i = 0; i < grid.columns * grid.rows; i++) {
    if ((bits[i >> 3] >> (i & 7)) & 1) {
      valueAt[i] = pixelOf.length;
      pixelOf.push(i);
    }
  }

  function numbersOf(part) {
    const bytes = bytesOf(part.data), values = new Float64Array(bytes.length / 2);
    const scale = (part.high - part.low || 1) / 65535;
    for (let i = 0; i < values.length; i++) {
      values[i] = part.low + (bytes[2 * i] + 256 * bytes[2 * i + 1]) * scale;
    }
    return values;
  }
  const decoded = (one) => ({
    ...one, means: numbersOf(one.mean), sds: numbersOf(one.sd), bytes: bytesOf(one.scores),
  });
  const maps = data.maps.map(decoded);

  // In time: maps of some dates, the last of which is the one that others show. Colours and
  // thresholds are the same at all of them, so that maps can be compared.
  const course = data.course;
  const frames = course ? course.maps.map((then) => then.map(decoded)) : [];
  for (let number = 0; frames.length && number < frames[0].length; number++) {
    const all = frames.map((then) => then[number]);
    const low = (of) => Math.min(...all.map(of)), high = (of) => Math.max(...all.map(of));
    const shared = {
      mean: { low: low((m) => m.mean.low), high: high((m) => m.mean.high) },
      sd: { low: low((m) => m.sd.low), high: high((m) => m.sd.high) },
      logarithmic: all.every((m) => m.logarithmic),
      thresholds: [low((m) => m.thresholds[0]), all[0].thresholds[1], high((m) => m.thresholds[2])],
    };
    for (const then of frames) Object.assign(then[number], shared);
  }

  // The upper tail of the normal distribution, to 2e-7 (Abramowitz and Stegun 26.2.17).
  function upperTail(x) {
    const t = 1 / (1 + 0.2316419 * Math.abs(x));
    const p = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI) * t * (0.319381530 + t *
      (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    return x >= 0 ? p : 1 - p;
  }

  // Between quantiles the distribution is interpolated on the scale of normal scores.
  const levels = grid.scores_of_levels, last = levels.length - 1;
  function exceedance(map, i, threshold) {
    const sd = map.sds[i];
    if (!(sd > 0)) return map.means[i] > threshold ? 1 : 0;
    const place = (threshold - map.means[i]) / sd, start = i * levels.length;
    const score = (k) => (map.bytes[start + k] / 255 * 2 - 1) * grid.reach;
    let k = 0;
    while (k < last - 1 && score(k + 1) < place) k++;
    const width = Math.max(score(k + 1) - score(k), 1e-9);
    return upperTail(levels[k] + (place - score(k)) / width * (levels[k + 1] - levels[k]));
  }

  const state = { frame: frames.length - 1, map: maps[0], statistic: "mean", threshold: 0, zoom: 1, x: 0, y: 0 };
  const width = grid.columns * grid.cell[0], height = grid.rows * grid.cell[1];

  function shown(i) {
    if (state.statistic === "exceed") return exceedance(state.map, i, state.threshold);
    return state.statistic === "mean" ? state.map.means[i] : state.map.sds[i];
  }
  function range() {
    if (state.statistic === "exceed") return { low: 0, high: 1, log: false };
    const part = state.statistic === "mean" ? state.map.mean : state.map.sd;
    return { low: part.low, high: part.high,
             log: state.statistic === "mean" && state.map.logarithmic };
  }
  function share(value, ends) {
    const f = ends.log ? Math.log : (v) => v;
    const span = f(ends.high) - f(ends.low);
    return span > 0 ? Math.min(Math.max((f(value) - f(ends.low)) / span, 0), 1) : 0.5;
  }
  function text(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const plain = size >= 1e6 || size < 1e-3 ? value.toExponential(2)
      : String(Number(value.toPrecision(size >= 1000 ? 6 : 4)));
    return plain.replace("-", "\u2212");
  }

  function paint() {
    const table = data.colours[state.statistic], ends = range();
    const pixels = image.getContext("2d").createImageData(grid.columns, grid.rows);
    for (let i = 0; i < pixelOf.length; i++) {
      const row = Math.floor(pixelOf[i] / grid.columns), column = pixelOf[i] % grid.columns;
      const at = 4 * ((grid.rows - 1 - row) * grid.columns + column); // north is up
      const colour = table[Math.round(share(shown(i), ends) * (table.length - 1))];
      pixels.data[at] = colour[0];
      pixels.data[at + 1] = colour[1];
      pixels.data[at + 2] = colour[2];
      pixels.data[at + 3] = 255;
    }
    for (let pass = 0; pass < 2; pass++) bleed(pixels.data);
    image.getContext("2d").putImageData(pixels, 0, 0);
    legend(table, ends);
    draw();
  }

  // Colours go on a little beyond the rim, along which the map is then cut.
  function bleed(bytes) {
    const before = Uint8ClampedArray.from(bytes), columns = grid.columns, rows = grid.rows;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const at = 4 * (row * columns + column);
        if (before[at + 3]) continue;
        for (const [dy, dx] of [[0, 1], [0, -1], [1, 0], [-1, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]]) {
          const y = row + dy, x = column + dx, from = 4 * (y * columns + x);
          if (y < 0 || x < 0 || y >= rows || x >= columns || !before[from + 3]) continue;
          for (let k = 0; k < 4; k++) bytes[at + k] = before[from + k];
          break;
        }
      }
    }
  }

  function legend(table, ends) {
    const stops = table.map((c) => "rgb(" + c.join(",") + ")").join(",");
    by("legend-bar").style.background = "linear-gradient(to right," + stops + ")";
    const unit = state.map.unit ? " [" + state.map.unit + "]" : "";
    const titles = {
      mean: "mean of " + state.map.title + unit + (ends.log ? ", logarithmic" : ""),
      sd: "standard deviation of " + state.map.title + unit,
      exceed: "probability that " + state.map.title + " exceeds " + text(state.threshold) +
        (state.map.unit ? " " + state.map.unit : ""),
    };
    by("legend-title").textContent = titles[state.statistic];
    canvas.setAttribute("aria-label", "Map of the " + titles[state.statistic] + ", from " +
      text(ends.low) + " to " + text(ends.high) + "; arrow keys move it, plus and minus zoom");
    const marks = [0, 0.25, 0.5, 0.75, 1].map((s) => {
      const mark = document.createElement("span");
      mark.textContent = text(ends.log ? ends.low * Math.pow(ends.high / ends.low, s)
        : ends.low + s * (ends.high - ends.low));
      return mark;
    });
    by("legend-ticks").replaceChildren(...marks);
  }

  // From the map's coordinates to CSS pixels of the canvas and back.
  function view() {
    const box = canvas.getBoundingClientRect();
    const scale = 0.96 * Math.min(box.width / width, box.height / height) * state.zoom;
    return { box, scale, left: box.width / 2 - (state.x + width / 2) * scale,
             top: box.height / 2 - (height / 2 - state.y) * scale };
  }
  const toX = (v, x) => v.left + (x - grid.west) * v.scale;
  const toY = (v, y) => v.top + (grid.south + height - y) * v.scale;

  function draw() {
    const v = view(), dots = window.devicePixelRatio || 1;
    canvas.width = Math.round(v.box.width * dots);
    canvas.height = Math.round(v.box.height * dots);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.imageSmoothingEnabled = state.zoom < 4;
    context.beginPath();
    for (const ring of data.outline) {
      ring.forEach(([x, y], i) => {
        if (i) context.lineTo(toX(v, x), toY(v, y));
        else context.moveTo(toX(v, x), toY(v, y));
      });
      context.closePath();
    }
    context.save();
    context.clip("evenodd");
    context.drawImage(image, v.left, v.top, width * v.scale, height * v.scale);
    context.restore();
    context.strokeStyle = "#1c2126";
    context.lineWidth = 1.2;
    context.stroke();
    if (showsMesh()) edges(v);
    if (showsFlow()) arrows(v);
    if (!by("show-measurements").checked) return;
    const radius = measurements.x.length > 400 ? 2.5 : 4;
    const table = data.colours.mean, ends = range();
    const alike = state.statistic === "mean" && ["measurement", "value"].includes(state.map.name);
    for (const i of shownMeasurements()) {
      context.beginPath();
      mark(toX(v, measurements.x[i]), toY(v, measurements.y[i]), radius, measurements.censored[i]);
      // On the map of what was measured, a measurement that stands out is one that was not met.
      const colour = table[Math.round(share(measurements.measured[i], ends) * (table.length - 1))];
      context.fillStyle = alike ? "rgb(" + colour.join(",") + ")" : "#ffffff";
      context.strokeStyle = "#ffffff"; // seen on dark colours, the inner ring on light ones
      context.lineWidth = 3;
      context.stroke();
      context.fill();
      context.strokeStyle = "#1c2126";
      context.lineWidth = 1.2;
      context.stroke();
    }
  }

  // Of several measurements at a place, that which is nearest to the date of the map.
  function shownMeasurements() {
    const every = measurements.x.map((_, i) => i);
    if (!course) return every;
    const far = (i) => Math.abs(course.read[i] - course.shown[state.frame]), best = new Map();
    for (const i of every) {
      const place = measurements.x[i] + " " + measurements.y[i];
      if (!best.has(place) || far(i) < far(best.get(place))) best.set(place, i);
    }
    return [...best.values()];
  }

  const SVG = by("hydrograph").namespaceURI;
  function element(name, attributes, words) {
    const one = document.createElementNS(SVG, name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    if (words !== undefined) one.textContent = words;
    return one;
  }
  // A line in its interval, what was measured, and where the date of the map is.
  function hydrograph() {
    const place = by("site").selectedIndex, last = course.dates.length - 1;
    const [left, right, top, bottom] = [70, 828, 12, 285];
    const [mean, low, high] = course.lines[place];
    const read = measurements.x.map((_, i) => i).filter((i) =>
      measurements.x[i] === course.places[place][0] && measurements.y[i] === course.places[place][1]);
    const values = [...low, ...high, ...read.map((i) => measurements.measured[i])];
    const room = 0.04 * (Math.max(...values) - Math.min(...values)) || 0.5;
    const ends = [Math.min(...values) - room, Math.max(...values) + room];
    const x = (step) => (left + step / last * (right - left)).toFixed(1);
    const y = (value) => (bottom - (value - ends[0]) / (ends[1] - ends[0]) * (bottom - top)).toFixed(1);
    const path = (line, from) => line.map((v, k) => x(from ? last - k : k) + "," + y(v)).join("L");
    const parts = [];
    for (let k = 0; k <= 4; k++) {
      const value = ends[0] + (k + 0.5) / 5 * (ends[1] - ends[0]), step = Math.round(k / 4 * last);
      parts.push(element("path", { class: "grid", d: "M" + left + " " + y(value) + "H" + right }));
      parts.push(element("text", { x: left - 6, y: Number(y(value)) + 4, "text-anchor": "end" }, text(value)));
      const anchor = ["start", "middle", "middle", "middle", "end"][k];
      parts.push(element("text", { x: x(step), y: bottom + 18, "text-anchor": anchor }, course.dates[step]));
    }
    parts.push(element("path", { class: "axis", d: "M" + left + " " + top + "V" + bottom + "H" + right }));
    parts.push(element("path", { class: "band",
      d: "M" + path(low, false) + "L" + path([...high].reverse(), true) + "Z" }));
    parts.push(element("path", { class: "line", stroke: "#1f5fa8", d: "M" + path(mean, false) }));
    parts.push(...read.map((i) => element("circle",
      { cx: x(course.read[i]), cy: y(measurements.measured[i]), r: 2.6 })));
    parts.push(element("path", { class: "now", d: "M" + x(course.shown[state.frame]) + " " + top + "V" + bottom }));
    by("hydrograph").replaceChildren(...parts);
    by("hydrograph").setAttribute("aria-label", measurements.name + " at " + course.sites[place] +
      " from " + course.dates[0] + " to " + course.dates[last] + ", with " + read.length + " measurements");
  }
  function setDate(frame) {
    state.frame = frame;
    by("date-text").textContent = course.dates[course.shown[frame]];
    by("date").setAttribute("aria-valuetext", course.dates[course.shown[frame]]);
    choose();
    paint();
    hydrograph();
  }

  const mesh = data.mesh;
  const showsMesh = () => mesh && by("show-mesh").checked;
  function edges(v) {
    context.beginPath();
    for (const [from, to] of mesh.edges) {
      context.moveTo(toX(v, mesh.x[from]), toY(v, mesh.y[from]));
      context.lineTo(toX(v, mesh.x[to]), toY(v, mesh.y[to]));
    }
    for (const [colour, wide] of [["rgba(255,255,255,.35)", 1.6], ["rgba(28,33,38,.6)", 0.6]]) {
      context.strokeStyle = colour; // seen on dark colours and on light ones
      context.lineWidth = wide;
      context.stroke();
    }
  }

  const flow = data.flow;
  const showsFlow = () => flow && by("show-flow").checked;
  const flowSize = (i) => Math.hypot(flow.east[i], flow.north[i]);
  function arrows(v) {
    const longest = Math.min(0.9 * flow.spacing * v.scale, 48);
    context.beginPath();
    for (let i = 0; i < flow.x.length; i++) {
      const size = flowSize(i), length = longest * Math.min(size / flow.longest, 1);
      if (!(length > 1.5)) continue; // no direction would be seen
      const dx = flow.east[i] / size, dy = -flow.north[i] / size, head = Math.min(0.4 * length, 7);
      const x = toX(v, flow.x[i]) + dx * length / 2, y = toY(v, flow.y[i]) + dy * length / 2;
      context.moveTo(x - dx * length, y - dy * length);
      context.lineTo(x, y);
      context.moveTo(x - head * (dx - 0.6 * dy), y - head * (dy + 0.6 * dx));
      context.lineTo(x, y);
      context.lineTo(x - head * (dx + 0.6 * dy), y - head * (dy - 0.6 * dx));
    }
    for (const [colour, wide] of [["rgba(255,255,255,.75)", 3], ["#1c2126", 1.2]]) {
      context.strokeStyle = colour; // seen on dark colours and on light ones
      context.lineWidth = wide;
      context.stroke();
    }
  }
  // The arrow of the grid's square that a place lies in.
  function flowText(x, y) {
    for (let i = 0; i < flow.x.length; i++) {
      const far = Math.max(Math.abs(flow.x[i] - x), Math.abs(flow.y[i] - y));
      if (far <= flow.spacing / 2) return ["flow " + text(flowSize(i))];
    }
    return [];
  }

  // Below a limit: a triangle that points down.
  function mark(x, y, radius, below) {
    if (!below) {
      context.arc(x, y, radius, 0, 2 * Math.PI);
      return;
    }
    const wide = 1.35 * radius;
    context.moveTo(x - wide, y - 0.8 * wide);
    context.lineTo(x + wide, y - 0.8 * wide);
    context.lineTo(x, y + wide);
    context.closePath();
  }

  function measurementAt(v, x, y) {
    let best = -1, nearest = NEAR * NEAR;
    if (!by("show-measurements").checked) return best;
    for (const i of shownMeasurements()) {
      const dx = toX(v, measurements.x[i]) - x, dy = toY(v, measurements.y[i]) - y;
      if (dx * dx + dy * dy < nearest) {
        nearest = dx * dx + dy * dy;
        best = i;
      }
    }
    return best;
  }
  function measurementText(i) {
    const unit = measurements.unit ? " " + measurements.unit : "";
    return [(measurements.censored[i] ? "measured below " : "measured ") + text(measurements.measured[i]) + unit,
            "predicted " + text(measurements.predicted[i]) + unit,
            ...(measurements.censored[i] ? [] : ["residual " + text(measurements.residual[i]) + unit]),
            "sd of the prediction " + text(measurements.sd[i]) + unit].join("\n");
  }
  function placeText(v, x, y) {
    const column = Math.floor((x - v.left) / v.scale / grid.cell[0]);
    const row = Math.floor((height - (y - v.top) / v.scale) / grid.cell[1]);
    if (column < 0 || row < 0 || column >= grid.columns || row >= grid.rows) return null;
    const i = valueAt[row * grid.columns + column];
    if (i < 0) return null;
    const unit = state.map.unit ? " " + state.map.unit : "";
    const lines = ["mean " + text(state.map.means[i]) + unit,
                   "sd " + text(state.map.sds[i]) + unit];
    if (state.statistic === "exceed") {
      lines.push("more than " + text(state.threshold) + ": " + Math.round(100 * shown(i)) + " %");
    }
    if (showsFlow()) {
      lines.push(...flowText(grid.west + (x - v.left) / v.scale,
                             grid.south + height - (y - v.top) / v.scale));
    }
    return lines.join("\n");
  }
  function point(event) {
    const v = view(), x = event.clientX - v.box.left, y = event.clientY - v.box.top;
    const one = measurementAt(v, x, y);
    const words = one >= 0 ? measurementText(one) : placeText(v, x, y);
    tip.hidden = words === null;
    if (words === null) return;
    tip.textContent = words;
    tip.style.left = Math.max(0, Math.min(x + 14, v.box.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(0, Math.min(y + 14, v.box.height - tip.offsetHeight - 4)) + "px";
  }

  function setThreshold(value, from) {
    const [low, , high] = state.map.thresholds;
    state.threshold = value;
    const slider = by("threshold");
    if (from !== slider) slider.value = Math.round((value - low) / (high - low) * 1000);
    if (from !== by("threshold-number")) by("threshold-number").value = Number(value.toPrecision(5));
    slider.setAttribute("aria-valuetext", text(value) + " " + state.map.unit);
    paint();
  }
  function choose() {
    const chosen = by("quantity").selectedIndex;
    const then = frames[state.frame];
    state.map = (then && then.find((one) => one.name === maps[chosen].name)) || maps[chosen];
    state.statistic = document.querySelector("input[name=statistic]:checked").value;
    by("threshold-row").hidden = state.statistic !== "exceed";
    by("threshold-unit").textContent = state.map.unit;
  }
  function zoom(factor) {
    state.zoom = Math.min(Math.max(state.zoom * factor, 1), 40);
    if (state.zoom === 1) state.x = state.y = 0;
    tip.hidden = true;
    draw();
  }
  function move(dx, dy) {
    state.x = Math.min(Math.max(state.x + dx, -width / 2), width / 2);
    state.y = Math.min(Math.max(state.y + dy, -height / 2), height / 2);
    draw();
  }
  function fit() {
    const wide = canvas.parentElement.clientWidth;
    const tall = Math.min(wide * height / width, 0.72 * window.innerHeight);
    canvas.style.height = Math.max(tall, 220) + "px";
    draw();
  }

  for (const one of maps) {
    const option = document.createElement("option");
    option.textContent = one.title + (one.unit ? " [" + one.unit + "]" : "");
    by("quantity").append(option);
  }
  by("quantity").addEventListener("change", () => {
    choose();
    setThreshold(state.map.thresholds[1], null);
  });
  for (const radio of document.querySelectorAll("input[name=statistic]")) {
    radio.addEventListener("change", () => { choose(); paint(); });
  }
  by("show-measurements").addEventListener("change", draw);
  if (flow) by("show-flow").addEventListener("change", draw);
  if (mesh) by("show-mesh").addEventListener("change", draw);
  by("threshold").addEventListener("input", (event) => {
    const [low, , high] = state.map.thresholds;
    setThreshold(low + event.target.value / 1000 * (high - low), event.target);
  });
  by("threshold-number").addEventListener("input", (event) => {
    const value = Number(event.target.value);
    if (event.target.value !== "" && Number.isFinite(value)) setThreshold(value, event.target);
  });
  by("zoom-in").addEventListener("click", () => zoom(1.5));
  by("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
  by("zoom-all").addEventListener("click", () => zoom(0));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8);
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = event;
    point(event);
  });
  window.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons && state.zoom > 1) {
      const scale = view().scale;
      tip.hidden = true;
      move(-(event.clientX - held.clientX) / scale, (event.clientY - held.clientY) / scale);
      held = event;
    } else {
      point(event);
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("keydown", (event) => {
    const step = 0.1 * Math.max(width, height) / state.zoom;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step],
                    ArrowDown: [0, -step] };
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key in moves && state.zoom > 1) move(...moves[event.key]);
    else return;
    event.preventDefault();
  });
  // Titles of dots are not shown on phones, and late elsewhere.
  function read(event) {
    const dot = event.target.closest(".dot");
    if (!dot) return;
    for (const one of document.querySelectorAll(".dot.read")) one.classList.remove("read");
    dot.classList.add("read");
    by("residual-words").textContent = dot.dataset.words;
  }
  if (by("residuals")) {
    for (const kind of ["pointerover", "pointerdown"]) by("residuals").addEventListener(kind, read);
  }
  window.addEventListener("resize", fit);
  choose();
  state.threshold = state.map.thresholds[1];
  fit();
  setThreshold(state.threshold, null);
  if (course) {
    for (const site of course.sites) {
      const option = document.createElement("option");
      option.textContent = site;
      by("site").append(option);
    }
    by("date").max = frames.length - 1;
    by("date").value = state.frame;
    for (const id of ["date-row", "hydrographs"]) by(id).hidden = false;
    by("site").addEventListener("change", hydrograph);
    by("date").addEventListener("input", (event) => setDate(Number(event.target.value)));
    setDate(state.frame);
  }
})();
