// The script of the page: charts, zoom, copying, themes. The tables need none of it.
(function () {
"use strict";
var doc = document, root = doc.documentElement;
var charts = [];
root.classList.add("js");

function $(id) { return doc.getElementById(id); }
function css(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
function clamp(v, a, b) { return Math.max(a, Math.min(b, v)); }

// Numbers as text.
function digits(v) {
  var a = Math.abs(v);
  if (a === 0) return "0";
  if (a < 0.001 || a >= 1e6) return v.toPrecision(3);
  return a < 0.0995 ? v.toFixed(4) : a < 9.995 ? v.toFixed(2) : a < 99.95 ? v.toFixed(1) : v.toFixed(0);
}
function short(v) { return String(+v.toPrecision(v >= 100 ? 4 : 3)); }
function bytes(v) {
  return v >= 1073741824 ? short(v / 1073741824) + " GiB" : v >= 1048576 ? short(v / 1048576) + " MiB" :
    v >= 1024 ? short(v / 1024) + " KiB" : short(v) + " B";
}
function time(v, f) {
  var a = Math.abs(v);
  f = f || digits;
  return a >= 999500000 ? f(v / 1e9) + " s" : a >= 999500 ? f(v / 1e6) + " ms" : a >= 999.5 ? f(v / 1e3) + " us" : f(v) + " ns";
}
function text(unit, v) {
  return unit === "bytes" ? bytes(v) : unit === "time" || unit === "seconds" ? time(v) : unit === "rate" ? digits(v) + " GB/s" : digits(v);
}
function tick(unit, v) {
  return unit === "bytes" ? bytes(v) : unit === "time" || unit === "seconds" ? time(v, short) : short(v);
}

// Places of the ticks of a logarithmic axis: powers of 2 for bytes, else 1, 2, 5, 10.
function logTicks(unit, min, max, most) {
  var all = [], k, d;
  if (unit === "bytes") {
    for (k = Math.ceil(Math.log2(min) - 1e-9); k <= Math.log2(max) + 1e-9; k++) all.push(Math.pow(2, k));
    d = Math.max(1, Math.ceil(all.length / most));
    return all.filter(function (_, i) { return i % d === 0; });
  }
  var steps = Math.log10(max / min) * 3 <= most ? [1, 2, 5] : [1];
  for (k = Math.floor(Math.log10(min)); k <= Math.log10(max); k++)
    steps.forEach(function (s) { var v = s * Math.pow(10, k); if (v >= min * 0.9999 && v <= max * 1.0001) all.push(+v.toPrecision(3)); });
  d = Math.max(1, Math.ceil(all.length / most));
  all = all.filter(function (_, i) { return i % d === 0; });
  if (all.length >= 3 || all.length === 2 && max > 10 * min) return all;
  var step = niceStep((max - min) / Math.max(2, most - 1));
  for (all = [], k = Math.ceil(min / step); k * step <= max; k++) all.push(+(k * step).toPrecision(6));
  return all;
}
function niceStep(v) {
  var p = Math.pow(10, Math.floor(Math.log10(v))), q = v / p;
  return p * (q <= 1 ? 1 : q <= 2 ? 2 : q <= 5 ? 5 : 10);
}
function linearTicks(min, max, most) {
  var step = niceStep((max - min) / Math.max(2, most)), all = [];
  for (var k = Math.ceil(min / step); k * step <= max; k++) all.push(+(k * step).toPrecision(12));
  return all;
}

// The kinds of spans, in the order of their colours; the last is the least striking.
var kinds = ["copy in", "kernel", "copy out", "other copy", "other", "", "", "driver call"];

// The places of copies in the height of a lane, as where they begin and how high they are: kinds
// differ in more than their colours.
var places = { "copy in": [0, 0.75], "copy out": [0.25, 0.75], "other copy": [0.125, 0.75] };

// The forms of points, as paths of SVG, and the height of a label. Ten lines differ in more than
// their colours: the second five have hollow points.
var forms = ["M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", "M-.9-.9H.9V.9H-.9Z", "M0-1.2L1.2.9H-1.2Z", "M0-1.3L1.3 0 0 1.3-1.3 0Z", "M0 1.2L1.2-.9H-1.2Z"];
var labelFont = "12px system-ui, sans-serif", labelHeight = 14;
function form(i) { return forms[i % forms.length]; }
function hollow(i) { return i % (2 * forms.length) >= forms.length; }
function letter(i) { return String.fromCharCode(65 + i % 26); }

// cut shortens a text to a width.
function cut(ctx, name, width) {
  if (ctx.measureText(name).width <= width) return name;
  while (name && ctx.measureText(name + "…").width > width) name = name.slice(0, -1);
  return name + "…";
}

// spread moves sorted places apart so that neighbours have a gap, as little as possible in sum,
// and keeps them between top and bottom.
function spread(places, gap, top, bottom) {
  var blocks = [];
  gap = Math.min(gap, (bottom - top) / Math.max(1, places.length - 1));
  places.forEach(function (y, i) {
    var b = { sum: y - i * gap, n: 1 };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].n > b.sum / b.n) {
      var above = blocks.pop();
      b.sum += above.sum;
      b.n += above.n;
    }
    blocks.push(b);
  });
  var all = [];
  blocks.forEach(function (b) {
    for (var y = clamp(b.sum / b.n, top, bottom - (places.length - 1) * gap); b.n > 0; b.n--) all.push(y + all.length * gap);
  });
  return all;
}

// Chart is a chart of the page: its element, its data, and the plot.
function Chart(d) {
  this.d = d;
  this.section = $(d.id);
  this.box = this.section.querySelector(".plot");
  this.readout = this.section.querySelector(".readout");
  this.off = {};
  this.at = -1;
  this.log = d.x.unit !== "seconds";
  if (d.lanes) this.prepareTimeline();
  else this.prepareLines();
  this.legend();
  this.make();
  this.listen();
}

Chart.prototype.prepareLines = function () {
  this.full = [this.d.xs[0], this.d.xs[this.d.xs.length - 1]];
  if (this.full[0] === this.full[1]) this.full = [this.full[0] / 2, this.full[1] * 2];
  this.data = [this.d.xs].concat(this.d.series.map(function (s) { return s.ys; }));
};

Chart.prototype.prepareTimeline = function () {
  var spans = this.d.spans, n = this.d.lanes.length;
  var end = spans.reduce(function (m, s) { return Math.max(m, s[3]); }, 0) || 1;
  this.full = [0, end];
  this.data = [[0].concat(spans.map(function (s) { return s[2]; }), [end]), [null].concat(spans.map(function (s) { return n - s[0] - 0.5; }), [null])];
};

// width and height of the plot in the space there is.
Chart.prototype.size = function (width) {
  var w = Math.max(240, width || this.box.clientWidth);
  return { width: w, height: this.d.lanes ? this.d.lanes.length * this.lane(w) + 56 : Math.round(clamp(w * 0.5, 260, 400)) + this.above() };
};

// A lane is 26 pixels high, and its name stands at its left. If the names need more than a third of
// the width, they stand above the spans, and a lane is 42 pixels high.
Chart.prototype.lane = function (width) { return this.names() > width / 3 ? 42 : 26; };
Chart.prototype.names = function () {
  var ctx = doc.createElement("canvas").getContext("2d"), most = 0;
  ctx.font = labelFont;
  this.d.lanes.forEach(function (name) { most = Math.max(most, ctx.measureText(name).width); });
  return Math.ceil(most) + 12;
};

// above is the height of the labels of the marks, which stand above the plot.
Chart.prototype.above = function () { return 18 * (this.d.marks || []).length; };

Chart.prototype.colour = function (i) {
  var s = this.d.series && this.d.series[i];
  if (this.d.kinds) i = Math.max(0, kinds.indexOf(this.d.kinds[i]));
  return s && s.dashed ? "--bound" : "--c" + (i % 9);
};

Chart.prototype.axis = function (unit, most, extra) {
  var c = this, log = this.log, a = {
    stroke: function () { return css("--dim"); },
    grid: { stroke: function () { return css("--line"); }, width: 1 },
    ticks: { stroke: function () { return css("--line"); }, width: 1, size: 5 },
    font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    splits: function (u, i, min, max) {
      var room = most(u);
      var at = unit === "count" && log ? c.d.xs.filter(function (v) { return v >= min && v <= max; }) : [];
      if (at.length > 1 && at.length <= room) return at;
      return log ? logTicks(unit, min, max, room) : linearTicks(min, max, room);
    },
    filter: function (u, s) { return s; },
    values: function (u, s) { return s.map(function (v) { return v == null ? "" : tick(unit, v); }); }
  };
  for (var k in extra) a[k] = extra[k];
  return a;
};

Chart.prototype.options = function () {
  var c = this, d = this.d, o = this.size();
  o.legend = { show: false };
  if (!d.lanes) o.padding = [10 + this.above(), function (u) { return c.room(u.width); }, null, null];
  o.cursor = { drag: { x: true, y: false, setScale: true }, points: { show: !d.lanes, size: 9 }, y: !d.lanes, focus: { prox: 24 } };
  o.focus = { alpha: 1 };
  o.scales = { x: { time: false, range: function (u, min, max) { return min == null || min === max ? c.full : [min, max]; } } };
  var x = this.axis(d.x.unit, function (u) { return Math.max(2, Math.floor(u.bbox.width / devicePixelRatio / 72)); }, { label: d.x.label, labelSize: 22, size: 32 });
  if (this.log) { o.scales.x.distr = 3; o.scales.x.log = d.x.unit === "bytes" ? 2 : 10; }
  if (d.lanes) return this.timelineOptions(o, x);
  o.scales.y = { distr: 3, log: 10, range: function (u, min, max) {
    if (!(min > 0)) { min = 1; max = 10; }
    var pad = Math.max(1.08, Math.pow(max / min, 0.06));
    return [min / pad, max * pad];
  } };
  var ctx = doc.createElement("canvas").getContext("2d"), space = o.height - this.above() - 74, label = d.y.label;
  ctx.font = labelFont;
  if (ctx.measureText(label).width > space) label = cut(ctx, label.replace(/, predicted by .*/, ", predicted"), space);
  o.axes = [x, this.axis(d.y.unit, function (u) { return Math.max(3, Math.floor(u.bbox.height / devicePixelRatio / 34)); }, { label: label, labelSize: 22, size: 62 })];
  o.series = [{}].concat(d.series.map(function (s, i) {
    return {
      label: s.name, spanGaps: true, show: !c.off[i], width: s.dashed ? 1.5 : Math.max(1.2, 3.2 - 0.35 * i), dash: s.dashed ? [7, 5] : undefined,
      stroke: function () { return css(c.colour(i)); },
      points: { show: false }
    };
  }));
  o.hooks = { draw: [function (u) { c.drawPoints(u); c.drawMarks(u); c.drawLabels(u); c.count(u); }], setCursor: [function (u) { c.read(u); }] };
  return o;
};

Chart.prototype.timelineOptions = function (o, x) {
  var c = this, n = this.d.lanes.length;
  o.scales.y = { range: function () { return [0, n]; } };
  o.axes = [x, this.axis("count", null, {
    size: function (u) { return c.lane(u.width) > 26 ? 20 : c.names(); }, grid: { show: false }, ticks: { show: false },
    splits: function () { return c.d.lanes.map(function (_, i) { return n - i - 0.5; }); },
    values: function (u) { return c.d.lanes.map(function (name) { return c.lane(u.width) > 26 ? "" : name; }); }
  })];
  o.series = [{}, { paths: function () { return null; }, points: { show: false }, stroke: "transparent" }];
  o.hooks = { draw: [function (u) { c.drawSpans(u); }], setCursor: [function (u) { c.readSpan(u); }] };
  return o;
};

Chart.prototype.make = function () {
  if (this.plot) this.plot.destroy();
  this.plot = new uPlot(this.options(), this.data, this.box);
};

// count notes how many points are drawn, for tests.
Chart.prototype.count = function (u) {
  var c = this, n = 0, min = u.scales.x.min, max = u.scales.x.max;
  this.d.series.forEach(function (s, i) {
    if (!c.off[i] && !s.dashed) s.ys.forEach(function (y, k) { if (y != null && c.d.xs[k] >= min && c.d.xs[k] <= max) n++; });
  });
  this.box.dataset.points = n;
};

// drawPoints draws the points of all lines, each line's in its form.
Chart.prototype.drawPoints = function (u) {
  var c = this, ctx = u.ctx, r = devicePixelRatio, b = u.bbox;
  ctx.save();
  ctx.beginPath(); ctx.rect(b.left - 6 * r, b.top - 6 * r, b.width + 12 * r, b.height + 12 * r); ctx.clip();
  this.d.series.forEach(function (s, i) {
    if (c.off[i] || s.dashed) return;
    s.ys.forEach(function (y, k) {
      var x = c.d.xs[k];
      if (y != null && x >= u.scales.x.min && x <= u.scales.x.max) c.point(ctx, i, u.valToPos(x, "x", true), u.valToPos(y, "y", true), (4.6 - 0.2 * i) * r);
    });
  });
  ctx.restore();
};
Chart.prototype.point = function (ctx, i, x, y, size) {
  ctx.save();
  ctx.translate(x, y); ctx.scale(size, size);
  var path = new Path2D(form(i));
  ctx.fillStyle = css(hollow(i) ? "--bg" : this.colour(i)); ctx.fill(path);
  ctx.strokeStyle = css(hollow(i) ? this.colour(i) : "--bg"); ctx.lineWidth = hollow(i) ? 0.45 : 0.25; ctx.stroke(path);
  ctx.restore();
};

// label returns the label at the end of a line: its name, or its letter if the chart is narrow.
Chart.prototype.label = function (i, width) {
  var s = this.d.series[i];
  if (width < 600) return letter(i);
  return s.dashed ? s.name.split(":")[0] : s.name;
};

// room is the width that labels need at the right of a chart.
Chart.prototype.room = function (width) {
  var c = this, ctx = doc.createElement("canvas").getContext("2d"), most = 0;
  ctx.font = labelFont;
  this.d.series.forEach(function (s, i) { most = Math.max(most, ctx.measureText(c.label(i, width)).width); });
  return Math.ceil(most) + 36;
};

// ending returns the last point of a line that is shown: on the right edge if it goes on there.
Chart.prototype.ending = function (u, s) {
  var xs = this.d.xs, max = u.scales.x.max, last = -1, next = -1;
  s.ys.forEach(function (y, k) { if (y != null) { if (xs[k] <= max * 1.000001) last = k; else if (next < 0) next = k; } });
  if (last < 0 || next < 0 && xs[last] < u.scales.x.min) return null;
  if (next < 0) return [xs[last], s.ys[last]];
  var part = Math.log(max / xs[last]) / Math.log(xs[next] / xs[last]);
  return [max, s.ys[last] * Math.pow(s.ys[next] / s.ys[last], part)];
};

// drawLabels writes the name of each line beside its end. Names of lines that end at one place
// stand below each other, in the order of the lines.
Chart.prototype.drawLabels = function (u) {
  var c = this, ctx = u.ctx, r = devicePixelRatio, b = u.bbox, right = b.left + b.width, ends = [];
  this.section.classList.toggle("lettered", u.width < 600);
  this.d.series.forEach(function (s, i) {
    var at = c.off[i] ? null : c.ending(u, s);
    if (at) ends.push({ i: i, x: u.valToPos(at[0], "x", true), y: clamp(u.valToPos(at[1], "y", true), b.top, b.top + b.height) });
  });
  ends.sort(function (p, q) { return p.y - q.y || p.i - q.i; });
  var places = spread(ends.map(function (e) { return e.y; }), labelHeight * r, b.top + 2 * r, b.top + b.height - 2 * r);
  ctx.save();
  ctx.font = labelFont.replace("12", 12 * r); ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.lineWidth = r;
  ends.forEach(function (e, k) {
    var name = c.label(e.i, u.width), y = places[k];
    e.text = name; e.at = y / r; e.end = (right + 30 * r + ctx.measureText(name).width) / r;
    ctx.strokeStyle = ctx.fillStyle = css(c.colour(e.i));
    ctx.setLineDash(e.x < right - r ? [2 * r, 3 * r] : []);
    ctx.beginPath(); ctx.moveTo(e.x + 5 * r, e.y); ctx.lineTo(right + 14 * r, y); ctx.lineTo(right + 17 * r, y); ctx.stroke();
    ctx.setLineDash([]);
    if (!c.d.series[e.i].dashed) c.point(ctx, e.i, right + 22 * r, y, 3.8 * r);
    else { ctx.beginPath(); ctx.moveTo(right + 17 * r, y); ctx.lineTo(right + 26 * r, y); ctx.stroke(); }
    ctx.fillText(name, right + 29 * r, y);
  });
  ctx.restore();
  this.box.dataset.labels = JSON.stringify(ends.map(function (e) { return { text: e.text, y: e.at, end: e.end }; }));
};

Chart.prototype.drawMarks = function (u) {
  var c = this, ctx = u.ctx, r = devicePixelRatio, b = u.bbox;
  ctx.save();
  ctx.font = 12 * r + "px system-ui, sans-serif";
  ctx.lineWidth = r;
  ctx.textBaseline = "middle"; ctx.textAlign = "left";
  (this.d.marks || []).forEach(function (m, i) {
    if (m.x < u.scales.x.min || m.x > u.scales.x.max) return;
    var x = Math.round(u.valToPos(m.x, "x", true)), y = b.top - (c.above() - 9 - i * 18) * r;
    ctx.strokeStyle = css("--dim");
    ctx.setLineDash([2 * r, 3 * r]);
    ctx.beginPath(); ctx.moveTo(x, y); ctx.lineTo(x, b.top + b.height); ctx.stroke();
    var end = ctx.canvas.width, name = m.text, w = ctx.measureText(name).width + 8 * r;
    if (w > end - b.left) { name = m.short; w = ctx.measureText(name).width + 8 * r; }
    var left = clamp(x + 4 * r, b.left, end - w);
    ctx.fillStyle = css("--bg"); ctx.fillRect(left, y - 8 * r, w, 16 * r);
    ctx.fillStyle = css("--fg"); ctx.fillText(name, left + 4 * r, y);
  });
  ctx.restore();
};

Chart.prototype.drawSpans = function (u) {
  var c = this, ctx = u.ctx, r = devicePixelRatio, b = u.bbox, lane = b.height / this.d.lanes.length, n = 0;
  var head = this.lane(u.width) > 26 ? 16 * r : 0; // the part of a lane that has its name
  var min = u.scales.x.min, max = u.scales.x.max;
  ctx.save();
  ctx.beginPath(); ctx.rect(b.left, b.top, b.width, b.height); ctx.clip();
  ctx.font = 11 * r + "px system-ui, sans-serif"; ctx.textBaseline = "middle"; ctx.textAlign = "left";
  ctx.strokeStyle = css("--line"); ctx.lineWidth = r;
  for (var i = 1; i < this.d.lanes.length; i++) { ctx.beginPath(); ctx.moveTo(b.left, b.top + i * lane); ctx.lineTo(b.left + b.width, b.top + i * lane); ctx.stroke(); }
  ctx.fillStyle = css("--dim");
  if (head) this.d.lanes.forEach(function (name, i) { ctx.fillText(cut(ctx, name, b.width - 4 * r), b.left + 2 * r, b.top + i * lane + 10 * r); });
  this.d.spans.forEach(function (s, i) {
    if (c.off[s[1]] || s[3] < min || s[2] > max) return;
    var x0 = u.valToPos(s[2], "x", true), x1 = Math.max(x0 + 2 * r, u.valToPos(s[3], "x", true) - r), y = b.top + s[0] * lane + head + 3 * r, h = lane - head - 6 * r;
    var place = places[c.d.kinds[s[1]]] || [0, 1];
    y += place[0] * h; h *= place[1];
    ctx.fillStyle = css(c.colour(s[1]));
    ctx.fillRect(x0, y, x1 - x0, h);
    n++;
    if (i === c.at) { ctx.strokeStyle = css("--fg"); ctx.lineWidth = 2 * r; ctx.strokeRect(x0 - r, y - r, x1 - x0 + 2 * r, h + 2 * r); }
    var from = Math.max(x0, b.left), name = c.d.texts[s[4]];
    if (Math.min(x1, b.left + b.width) - from > ctx.measureText(name).width + 8 * r) { ctx.fillStyle = css("--on"); ctx.fillText(name, from + 4 * r, y + h / 2); }
  });
  ctx.restore();
  this.box.dataset.points = n;
};

// read shows the values at the cursor.
Chart.prototype.read = function (u) {
  var c = this, i = u.cursor.idx;
  if (i == null) return;
  var parts = [];
  this.d.series.forEach(function (s, k) { if (!c.off[k] && s.ys[i] != null) parts.push(s.name + " " + text(c.d.y.unit, s.ys[i])); });
  this.readout.textContent = text(this.d.x.unit, this.d.xs[i]) + ": " + parts.join("; ");
};

Chart.prototype.readSpan = function (u) {
  if (u.cursor.left < 0 || u.cursor.top < 0) return;
  var x = u.posToVal(u.cursor.left, "x"), lane = Math.floor(u.cursor.top / (u.bbox.height / devicePixelRatio) * this.d.lanes.length);
  var slack = (u.scales.x.max - u.scales.x.min) / 300, c = this, at = -1;
  this.d.spans.forEach(function (s, i) { if (s[0] === lane && !c.off[s[1]] && s[2] - slack <= x && x <= s[3] + slack) at = i; });
  if (at >= 0) this.say(at);
};

// say shows what a span is.
Chart.prototype.say = function (i) {
  var s = this.d.spans[i];
  this.readout.textContent = this.d.texts[s[4]] + ": " + time(s[2]) + " to " + time(s[3]) + ", takes " + time(s[3] - s[2]) + "; " + this.d.texts[s[5]];
};

// move moves the cursor by points, or the selection by spans.
Chart.prototype.move = function (by, to) {
  var c = this, u = this.plot, n = this.d.lanes ? this.d.spans.length : this.d.xs.length;
  var i = to != null ? to : clamp(this.at < 0 ? (by > 0 ? 0 : n - 1) : this.at + by, 0, n - 1);
  if (this.d.lanes) {
    while (i > 0 && i < n - 1 && this.off[this.d.spans[i][1]]) i += by > 0 ? 1 : -1;
    this.at = i;
    this.reveal((this.d.spans[i][2] + this.d.spans[i][3]) / 2);
    u.redraw(false);
    this.say(i);
    return;
  }
  this.at = i;
  this.reveal(this.d.xs[i]);
  var y = null;
  this.d.series.forEach(function (s, k) { if (y == null && !c.off[k] && s.ys[i] != null) y = s.ys[i]; });
  u.setCursor({ left: u.valToPos(this.d.xs[i], "x"), top: y == null ? 0 : u.valToPos(y, "y") });
};

// Zooming is done on the axis as it is drawn.
Chart.prototype.to = function (v) { return this.log ? Math.log(v) : v; };
Chart.prototype.from = function (v) { return this.log ? Math.exp(v) : v; };
Chart.prototype.show = function (a, b) {
  var lo = this.to(this.full[0]), hi = this.to(this.full[1]), w = clamp(b - a, (hi - lo) / 5000, hi - lo);
  a = clamp(a, lo, hi - w);
  var all = w > (hi - lo) * 0.9999;
  this.setRange(all ? this.full[0] : this.from(a), all ? this.full[1] : this.from(a + w));
};
Chart.prototype.setRange = function (min, max) { this.plot.setScale("x", { min: min, max: max }); };
Chart.prototype.zoom = function (factor, shift) {
  var s = this.plot.scales.x, a = this.to(s.min), b = this.to(s.max), w = (b - a) * factor, mid = (a + b) / 2 + (b - a) * (shift || 0);
  this.show(mid - w / 2, mid + w / 2);
};
Chart.prototype.reveal = function (v) {
  var s = this.plot.scales.x;
  if (v >= s.min && v <= s.max) return;
  var w = this.to(s.max) - this.to(s.min);
  this.show(this.to(v) - w / 2, this.to(v) + w / 2);
};
Chart.prototype.act = function (what) {
  switch (what) {
  case "in": this.zoom(0.5); break;
  case "out": this.zoom(2); break;
  case "left": this.zoom(1, -0.4); break;
  case "right": this.zoom(1, 0.4); break;
  case "all": this.setRange(this.full[0], this.full[1]); break;
  case "copy": copy(markdown(this.section), "The chart's table is copied."); break;
  }
};

Chart.prototype.listen = function () {
  var c = this, keys = { "+": "in", "=": "in", "-": "out", "0": "all", Escape: "all" };
  this.box.addEventListener("keydown", function (e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    var last = (c.d.lanes ? c.d.spans.length : c.d.xs.length) - 1;
    c.readout.setAttribute("aria-live", "polite");
    if (e.key === "ArrowRight") c.move(1);
    else if (e.key === "ArrowLeft") c.move(-1);
    else if (e.key === "Home") c.move(1, 0);
    else if (e.key === "End") c.move(-1, last);
    else if (keys[e.key]) c.act(keys[e.key]);
    else return;
    e.preventDefault();
  });
  this.box.addEventListener("mousemove", function () { c.readout.setAttribute("aria-live", "off"); });
  this.box.addEventListener("dblclick", function () { c.act("all"); });
  this.section.addEventListener("click", function (e) {
    var b = e.target.closest("button[data-do]");
    if (b) c.act(b.dataset.do);
  });
};

// sample returns the point of a line for the legend.
function sample(i) {
  var svg = doc.createElementNS("http://www.w3.org/2000/svg", "svg"), path = doc.createElementNS(svg.namespaceURI, "path");
  svg.setAttribute("viewBox", "-1.5 -1.5 3 3");
  if (hollow(i)) svg.setAttribute("class", "hollow");
  path.setAttribute("d", form(i));
  svg.append(path);
  return svg;
}

// legend makes a button for each line or kind, which hides it.
Chart.prototype.legend = function () {
  var c = this, place = this.section.querySelector(".legend");
  (this.d.kinds || this.d.series.map(function (s) { return s.name; })).forEach(function (name, i) {
    var b = doc.createElement("button"), mark = doc.createElement("i");
    b.type = "button";
    b.setAttribute("aria-pressed", "true");
    mark.style.setProperty("--c", "var(" + c.colour(i) + ")");
    mark.className = c.d.kinds ? "box " + name.replace(" ", "-") : c.d.series[i].dashed ? "dashed" : "";
    if (!mark.className) mark.append(sample(i));
    b.append(mark);
    if (!c.d.kinds) { var key = doc.createElement("b"); key.textContent = letter(i); b.append(key); }
    b.append(name);
    b.addEventListener("click", function () {
      c.off[i] = !c.off[i];
      b.setAttribute("aria-pressed", String(!c.off[i]));
      if (c.d.kinds) c.plot.redraw(false);
      else c.plot.setSeries(i + 1, { show: !c.off[i] });
    });
    place.append(b);
  });
};

// Markdown of sections.
function plain(s) { return s.replace(/\s+/g, " ").trim(); }
function escape(s) { return plain(s).replace(/[\\|*_`<>[\]]/g, "\\$&"); }
function row(cells) { return "| " + cells.join(" | ") + " |\n"; }
function tableText(t) {
  var words = +t.dataset.words || 0, heads = [].slice.call(t.tHead.rows[0].cells), out = row(heads.map(function (c) { return escape(c.textContent); }));
  out += row(heads.map(function (_, i) { return i < words ? "---" : "---:"; }));
  var first = "";
  [].forEach.call(t.tBodies[0].rows, function (r) {
    var cells = [].map.call(r.cells, function (c) { return escape(c.textContent); });
    if (cells.length < heads.length) cells.unshift(first); // a cell above covers this row
    first = cells[0];
    out += row(cells);
  });
  return out;
}
function markdown(section) {
  var out = "## " + escape(section.querySelector("h2").textContent) + "\n\n";
  [].forEach.call(section.querySelectorAll(".tag, .sentence"), function (p) { out += escape(p.textContent) + "\n\n"; });
  return out + tableText(section.querySelector("table")) + "\n";
}
function wholePage() {
  var out = "# " + escape(doc.querySelector("h1").textContent) + "\n\n";
  [].forEach.call(doc.querySelectorAll("header .device, header .marked, header > .note:not([hidden])"), function (p) { out += escape(p.textContent) + "\n\n"; });
  [].forEach.call(doc.querySelectorAll("main section"), function (s) { out += markdown(s); });
  return out;
}
function status(s) { $("status").textContent = s; }
function copy(s, done) {
  var ok = function () { status(done); };
  if (navigator.clipboard && navigator.clipboard.writeText) navigator.clipboard.writeText(s).then(ok, function () { copyOld(s, ok); });
  else copyOld(s, ok);
}
function copyOld(s, ok) {
  var t = doc.createElement("textarea");
  t.value = s;
  doc.body.append(t);
  t.select();
  var copied = false;
  try { copied = doc.execCommand("copy"); } catch (e) { copied = false; }
  t.remove();
  if (copied) ok(); else status("The browser does not allow copying.");
}

function download() {
  var a = doc.createElement("a"), url = URL.createObjectURL(new Blob([ferryPage.document + "\n"], { type: "application/json" }));
  a.href = url;
  a.download = $("download").dataset.name;
  a.click();
  setTimeout(function () { URL.revokeObjectURL(url); }, 10000);
}

function redraw() { charts.forEach(function (c) { c.plot.redraw(false); }); }
function setTheme(name) {
  if (name) root.dataset.theme = name; else delete root.dataset.theme;
  redraw();
}

ferryPage.charts.forEach(function (d) { charts.push(new Chart(d)); });
[].forEach.call(doc.querySelectorAll("details:not(.keep)"), function (d) { d.open = false; });
if (location.hash) { var to = $(location.hash.slice(1)); if (to) to.scrollIntoView(); }
$("copy-all").addEventListener("click", function () { copy(wholePage(), "The page is copied."); });
$("download").addEventListener("click", download);
$("theme").addEventListener("change", function () { setTheme(this.value); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// Width: charts follow it. Printing: light, as wide as the paper, with all tables.
var printing = null;
function fit(width) { charts.forEach(function (c) { c.plot.setSize(c.size(width)); }); }
if (window.ResizeObserver) {
  var seen = 0;
  new ResizeObserver(function () {
    var w = doc.body.clientWidth;
    if (printing || w === seen) return;
    seen = w;
    fit();
  }).observe(doc.body);
}
addEventListener("beforeprint", function () {
  printing = { theme: root.dataset.theme || "", closed: [].slice.call(doc.querySelectorAll("details:not([open])")) };
  printing.closed.forEach(function (d) { d.open = true; });
  setTheme("light");
  fit(680);
});
addEventListener("afterprint", function () {
  if (!printing) return;
  printing.closed.forEach(function (d) { d.open = false; });
  setTheme(printing.theme);
  printing = null;
  fit();
});
})();
