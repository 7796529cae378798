// The table of facts as a graph, and a slider through the times of changes. Both show only data of the table and the form.
"use strict";

const SLIDER_DELAY = 250; // milliseconds between the last move of the slider and the request
let graph = null;
let drawnIds = ""; // the ids of the facts in the graph

function findRows() {
  return [...document.querySelectorAll("table.facts tbody tr")];
}

function graphStyle() {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [
    { selector: "node", style: {
      "background-color": colour("--accent"), color: colour("--text"), label: "data(id)", "font-size": 11,
      "text-wrap": "ellipsis", "text-max-width": 140, "text-valign": "bottom", "text-margin-y": 4, width: 16, height: 16 } },
    { selector: "edge", style: {
      "line-color": colour("--quiet"), "target-arrow-color": colour("--quiet"), color: colour("--quiet"), width: 1.5,
      "curve-style": "bezier", "target-arrow-shape": "triangle", "arrow-scale": 0.8, label: "data(label)", "font-size": 9,
      "text-wrap": "ellipsis", "text-max-width": 120, "text-rotation": "autorotate",
      "text-background-color": colour("--panel"), "text-background-opacity": 1, "text-background-padding": 1 } },
    { selector: "edge.ended, edge.later", style: { "line-style": "dotted", opacity: 0.35 } },
    { selector: "node.idle", style: { opacity: 0.35 } },
  ];
}

function buildElements(rows) {
  const nodes = new Set(rows.flatMap((row) => [row.dataset.subject, row.dataset.object]));
  const edges = rows.map((row) => ({ data: {
    id: `fact ${row.dataset.id}`, source: `${row.dataset.subject}`, target: `${row.dataset.object}`, label: row.dataset.predicate } }));
  return [...[...nodes].map((id) => ({ data: { id } })), ...edges];
}

function drawGraph() {
  const container = document.getElementById("facts-graph");
  const rows = findRows();
  if (!container || !window.cytoscape) {
    return;
  }
  container.hidden = rows.length === 0;
  const shownIds = rows.map((row) => row.dataset.id).sort().join("\n");
  if (rows.length && shownIds !== drawnIds) {
    graph?.destroy();
    graph = cytoscape({
      container, elements: buildElements(rows), style: graphStyle(), maxZoom: 2,
      layout: { name: "cose", animate: false, nodeDimensionsIncludeLabels: true, padding: 20,
        nodeRepulsion: () => 1e5, idealEdgeLength: () => 60, edgeElasticity: () => 60 } });
    graph.on("tap", "node", (event) => openEntity(event.target.id()));
    drawnIds = shownIds;
  }
  for (const row of rows) {
    graph.getElementById(`fact ${row.dataset.id}`).classes(row.className);
  }
  graph?.nodes().forEach((node) => node.toggleClass("idle", node.connectedEdges(".holds").empty()));
}

// Follow the link of an entity in the table.
function openEntity(name) {
  const row = findRows().find((each) => each.dataset.subject === name || each.dataset.object === name);
  row?.querySelectorAll("td a")[row.dataset.subject === name ? 0 : 2].click();
}

function connectSlider() {
  const form = document.getElementById("facts-asked");
  const slider = document.getElementById("moment");
  const times = form.elements.valid;
  const output = slider.closest("p").querySelector("output");
  let timer = 0;
  slider.max = times.length - 1;
  slider.value = times.length - 1 - times.selectedIndex;
  const showTime = () => {
    const chosen = times.options[times.length - 1 - slider.value];
    output.textContent = chosen.text;
    slider.setAttribute("aria-valuetext", chosen.text);
  };
  showTime();
  slider.closest("p").hidden = times.length < 2;
  slider.addEventListener("input", () => {
    showTime();
    times.selectedIndex = times.length - 1 - slider.value;
    clearTimeout(timer);
    timer = setTimeout(() => reloadTable(form), SLIDER_DELAY);
  });
  times.addEventListener("change", () => {
    slider.value = times.length - 1 - times.selectedIndex;
    showTime();
    reloadTable(form);
  });
}

// Only the table is replaced, so the slider keeps the focus, and the graph its layout.
function reloadTable(form) {
  const params = new URLSearchParams(new FormData(form));
  const before = new URLSearchParams(location.search).get("before");
  if (before) {
    params.set("before", before);
  }
  const address = `${form.action}?${params}`;
  history.replaceState(null, "", address);
  htmx.ajax("GET", address, { target: "#facts-held", select: "#facts-held", swap: "outerHTML" });
}

document.addEventListener("DOMContentLoaded", () => {
  // Without this element, Cytoscape would add an inline style, which the Content-Security-Policy forbids.
  const placeholder = document.createElement("meta");
  placeholder.id = "__________cytoscape_stylesheet";
  document.head.append(placeholder);
  connectSlider();
  drawGraph();
});
document.addEventListener("htmx:afterSettle", drawGraph);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => graph?.style(graphStyle()));
