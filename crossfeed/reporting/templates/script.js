"use strict";
// Small comforts; without them (or on paper) everything is still there.
(function () {
  // Pick one figure of several.
  document.querySelectorAll(".choice").forEach(function (choice) {
    choice.querySelector("select").addEventListener("change", function (event) {
      choice.querySelectorAll("[data-option]").forEach(function (figure) {
        figure.hidden = figure.dataset.option !== event.target.value;
      });
    });
  });
  // Click on a name in a legend: hide or show its lines.
  document.querySelectorAll(".legend button").forEach(function (button) {
    button.addEventListener("click", function () {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      button.closest("figure").querySelectorAll("g.series").forEach(function (series) {
        if (matches(series.dataset.name, button.dataset.series)) series.classList.toggle("off", !shown);
      });
    });
  });
  function matches(name, wanted) {
    return name === wanted || name.startsWith(wanted.split(" (")[0] + " (") || (wanted.includes("interval") && name.includes("interval"))
      || name.startsWith(wanted + ",") || name.startsWith(wanted + ":");
  }
  // Move over a diagram: read the values at that place.
  document.querySelectorAll("svg.xy").forEach(function (svg) {
    const frame = JSON.parse(svg.dataset.frame);
    const readout = svg.closest("figure").querySelector(".readout");
    svg.addEventListener("pointermove", function (event) {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (x < frame[0] || x > frame[2]) return;
      const value = frame[4] + (x - frame[0]) / (frame[2] - frame[0]) * (frame[5] - frame[4]);
      const told = [];
      let place = null;
      svg.querySelectorAll("g.series[data-values]:not(.off)").forEach(function (series) {
        const near = JSON.parse(series.dataset.values).reduce(function (best, point) {
          return best === null || Math.abs(point[0] - value) < Math.abs(best[0] - value) ? point : best;
        }, null);
        if (near !== null) { told.push(series.dataset.name + ": " + Number(near[1].toPrecision(4))); place = place === null ? near[0] : place; }
      });
      cursor(svg, frame, x);
      if (readout) readout.textContent = place === null ? "" : "at " + Number(place.toPrecision(4)) + " — " + told.join("; ");
    });
    svg.addEventListener("pointerleave", function () {
      const line = svg.querySelector(".cursor");
      if (line) line.remove();
    });
  });
  function cursor(svg, frame, x) {
    let line = svg.querySelector(".cursor");
    if (!line) {
      line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      line.setAttribute("class", "cursor");
      svg.appendChild(line);
    }
    line.setAttribute("x1", x); line.setAttribute("x2", x); line.setAttribute("y1", frame[1]); line.setAttribute("y2", frame[3]);
  }
  // Say where a table goes on beyond the edge.
  function hint() {
    document.querySelectorAll(".scroll").forEach(function (box) { box.classList.toggle("wider", box.scrollWidth > box.clientWidth + 1); });
  }
  hint();
  window.addEventListener("resize", hint);
  document.querySelectorAll("details").forEach(function (details) { details.addEventListener("toggle", hint); });
  // Mark where in the contents one is.
  const links = document.querySelectorAll("nav a");
  const watcher = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (!entry.isIntersecting) return;
      links.forEach(function (link) {
        if (link.hash === "#" + entry.target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
    });
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach(function (section) { watcher.observe(section); });
  // On paper nothing is folded away.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (details) { details.open = true; });
  });
})();
