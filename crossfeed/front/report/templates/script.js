"use strict";
// Small comforts; without them (or on paper) everything is still there.
{
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Pick one figure of several.
  for (const choice of all(".choice")) {
    choice.querySelector("select").addEventListener("change", (event) => {
      for (const figure of all("[data-option]", choice)) figure.hidden = figure.dataset.option !== event.target.value;
    });
  }

  // Click on a name in a legend: hide or show its lines.
  const matches = (name, wanted) => name === wanted || name.startsWith(wanted.split(" (")[0] + " (")
    || (wanted.includes("interval") && name.includes("interval")) || name.startsWith(wanted + ",") || name.startsWith(wanted + ":");
  for (const button of all(".legend button")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const series of all("g.series", button.closest("figure"))) {
        if (matches(series.dataset.name, button.dataset.series)) series.classList.toggle("off", !shown);
      }
    });
  }

  // Move over a diagram: read the values at that place.
  const nearest = (points, x) => points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), points[0]);
  for (const svg of all("svg.xy")) {
    const [left, top, right, bottom, first, last] = JSON.parse(svg.dataset.frame);
    const readout = svg.closest("figure").querySelector(".readout");
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (x < left || x > right) return;
      const value = first + (x - left) / (right - left) * (last - first);
      const found = all("g.series[data-values]:not(.off)", svg).map((series) => [series.dataset.name, nearest(JSON.parse(series.dataset.values), value)]);
      for (const [name, place] of Object.entries({ x1: x, x2: x, y1: top, y2: bottom })) cursor.setAttribute(name, place);
      svg.appendChild(cursor);
      const told = found.map(([name, point]) => name + ": " + Number(point[1].toPrecision(4))).join("; ");
      readout.textContent = found.length ? "at " + Number(found[0][1][0].toPrecision(4)) + " — " + told : "";
    });
    svg.addEventListener("pointerleave", () => cursor.remove());
  }

  // Say where a table goes on beyond the edge.
  const hint = () => { for (const box of all(".scroll")) box.classList.toggle("wider", box.scrollWidth > box.clientWidth + 1); };
  hint();
  window.addEventListener("resize", hint);
  for (const details of all("details")) details.addEventListener("toggle", hint);

  // Mark where in the contents one is.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      for (const link of all("nav a")) {
        if (link.hash === "#" + entry.target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const section of all("main > section")) watcher.observe(section);

  // On paper nothing is folded away.
  window.addEventListener("beforeprint", () => { for (const details of all("details")) details.open = true; });
}
