"use strict";
// Draws the plots of a report from the data in the page. Colors follow the style sheet, light or dark.
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const config = { responsive: true, displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plain = text => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const byId = id => document.getElementById(id);

  function numbers(text) {
    const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  function axis(options) {
    return {
      gridcolor: color("--faint"), linecolor: color("--muted"), zerolinecolor: color("--faint"),
      tickcolor: color("--muted"), automargin: true, ...options,
    };
  }

  function layout(options) {
    return {
      paper_bgcolor: color("--paper"), plot_bgcolor: color("--paper"), font: { color: color("--ink"), size: 12 },
      margin: { l: 55, r: 12, t: 36, b: 50 }, hovermode: "closest", showlegend: false,
      colorway: ["--first", "--second", "--third"].map(color), ...options,
    };
  }

  // ---- plots that Python describes completely -------------------------------------------------------------------
  function drawFixed() {
    for (const plot of report.plots) {
      const axes = {};
      for (const [name, value] of Object.entries(plot.layout)) {
        axes[name] = /^[xy]axis/.test(name) ? axis(value) : value;
      }
      Plotly.react(plot.id, plot.data, layout(axes), { ...config, displayModeBar: false });
    }
  }

  // ---- seismograms ----------------------------------------------------------------------------------------------
  const waves = report.waves;

  function prepare() {
    waves.times = Float64Array.from({ length: waves.count }, (_, index) => waves.start + index * waves.interval);
    for (const run of waves.runs) {
      for (const name of Object.keys(run.components)) run.components[name] = numbers(run.components[name]);
    }
  }

  function samples(run, name, receiver) {
    const values = run.components[name];
    if (values) return values.subarray(receiver * waves.count, (receiver + 1) * waves.count);
    const angle = waves.receivers[receiver].azimuth * Math.PI / 180;
    const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
    const [east, north] = [samples(run, "E", receiver), samples(run, "N", receiver)];
    return name === "R" ? east.map((value, index) => value * sine + north[index] * cosine)
      : east.map((value, index) => value * cosine - north[index] * sine);
  }

  function peak(values) {
    let largest = 0;
    for (const value of values) largest = Math.max(largest, Math.abs(value));
    return largest;
  }

  function drawTraces() {
    const receiver = Number(byId("receiver").value);
    const names = waves.components;
    const height = 1 / names.length;
    // The components of motion share one scale, so that round-off of a silent component does not look like a signal.
    const limits = {};
    for (const { key, unit, factor } of names) {
      for (const run of waves.runs) {
        limits[unit] = Math.max(limits[unit] || 0, 1.1 * factor * peak(samples(run, key, receiver)));
      }
    }
    const axes = { xaxis: axis({ title: { text: "Time (s)" }, anchor: `y${names.length > 1 ? names.length : ""}`,
      range: byId("traces").layout ? byId("traces").layout.xaxis.range : undefined }) };
    const data = [], notes = [];
    names.forEach((component, row) => {
      const suffix = row ? String(row + 1) : "";
      axes[`yaxis${suffix}`] = axis({ domain: [1 - (row + 0.88) * height, 1 - row * height], nticks: 5,
        title: { text: component.unit }, range: [-(limits[component.unit] || 1), limits[component.unit] || 1] });
      waves.runs.forEach((run, number) => {
        const values = samples(run, component.key, receiver);
        data.push({ x: waves.times, y: values.map(value => value * component.factor), yaxis: `y${suffix}`,
          name: plain(run.label), mode: "lines", showlegend: row === 0,
          line: { width: waves.runs.length > 1 ? 1.6 - 0.5 * number : 1.3,
            color: waves.runs.length > 1 ? color(number ? "--second" : "--first") : color("--trace"),
            dash: number ? "dash" : "solid" } });
      });
      notes.push({ text: component.label, xref: "paper", yref: "paper", x: 0, y: 1 - row * height, xanchor: "left",
        yanchor: "bottom", showarrow: false, font: { size: 12, color: color("--ink") } });
    });
    const shapes = [];
    for (const phase of waves.arrivals) {
      const time = phase.times[receiver];
      if (time === null) continue;
      shapes.push({ type: "line", xref: "x", yref: "paper", x0: time, x1: time, y0: 0, y1: 1,
        line: { color: color(phase.color), width: 1, dash: "dot" } });
      notes.push({ text: phase.label, xref: "x", yref: "paper", x: time, y: 1, yanchor: "bottom", xanchor: "center",
        showarrow: false, font: { color: color(phase.color) } });
    }
    Plotly.react("traces", data, layout({ ...axes, annotations: notes, shapes,
      showlegend: waves.runs.length > 1, legend: { orientation: "h", y: 1.12, x: 1, xanchor: "right" } }), config);
  }

  function drawSection() {
    if (!byId("section")) return;
    const name = byId("component").value, common = byId("amplitude").value === "common";
    const run = waves.runs[0], places = waves.receivers.map(receiver => receiver.offset);
    const low = Math.min(...places), high = Math.max(...places), span = (high - low) || Math.max(Math.abs(high), 1);
    const rows = waves.receivers.map((_, receiver) => samples(run, name, receiver));
    const whole = waves.receivers.map((_, receiver) =>
      name === "P" ? 0 : Math.max(...["E", "N", "Z"].map(key => peak(samples(run, key, receiver)))));
    const peaks = rows.map((values, receiver) => Math.max(peak(values), 1e-5 * whole[receiver]));  // not round-off
    const largest = Math.max(...rows.map(peak)) || 1;
    const gain = Number(byId("gain").value) * span / Math.max(rows.length, 6);
    const data = rows.map((values, receiver) => {
      const factor = gain / (common ? largest : peaks[receiver] || 1);
      return { x: waves.times, y: Array.from(values, value => places[receiver] + factor * value), mode: "lines",
        name: plain(waves.receivers[receiver].name), hoverinfo: "name+x",
        line: { color: color("--trace"), width: rows.length > 40 ? 0.6 : 0.9 } };
    });
    for (const phase of waves.arrivals) {
      const order = places.map((_, index) => index).filter(index => phase.times[index] !== null)
        .sort((a, b) => places[a] - places[b]);
      data.push({ x: order.map(index => phase.times[index]), y: order.map(index => places[index]), name: phase.label,
        mode: "lines+markers", marker: { size: 5, color: color(phase.color) }, hoverinfo: "name+x",
        line: { color: color(phase.color), dash: "dash", width: 1.5 } });
    }
    Plotly.react("section", data, layout({ xaxis: axis({ title: { text: "Time (s)" } }),
      yaxis: axis({ title: { text: waves.offset_label }, range: [low - 1.1 * gain, high + 1.1 * gain] }),
      uirevision: "section" }), config);
  }

  function draw() {
    drawFixed();
    if (waves) { drawTraces(); drawSection(); }
  }

  if (waves) {
    prepare();
    byId("receiver").addEventListener("change", drawTraces);
    for (const id of ["component", "amplitude", "gain"]) byId(id)?.addEventListener("change", drawSection);
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.drawn = "true";
})();
