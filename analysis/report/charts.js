// Draws each chart of the page. The bundle before this script defines vegaEmbed.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function config() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    // As the static plots: plain sans-serif of 12 to 13 pixels, thin dark axes, faint lines behind.
    const font = "sans-serif";
    const ink = of("--ink");
    const axis = { labelColor: ink, titleColor: ink, gridColor: ink, gridOpacity: 0.12, domainColor: ink,
      tickColor: ink, labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal" };
    return { background: "transparent", font, axis, view: { stroke: null },
      legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      title: { color: of("--ink"), subtitleColor: of("--soft"), anchor: "start" } };
  }

  // Charts fill what was never played with this pattern, so that it has no colour of the scale.
  function hatching() {
    const svg = (name, given) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
      return made;
    };
    const pattern = svg("pattern", { id: "unplayed", width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    pattern.append(svg("path", { d: "M-1,1l2,-2M0,6l6,-6M5,7l2,-2", stroke: "var(--ink)", "stroke-opacity": 0.45, "stroke-width": 0.7 }));
    const holder = svg("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" });
    holder.append(pattern);
    document.body.append(holder);
  }

  async function draw() {
    for (const data of document.querySelectorAll('script[type="application/vnd.vegalite+json"]')) {
      const place = document.getElementById(data.dataset.place);
      if (!place) continue;
      const options = { actions: false, defaultStyle: false, ast: true, renderer: "svg", config: config(), theme: dark.matches ? "dark" : undefined };
      try {
        await window.vegaEmbed(place, JSON.parse(data.textContent), options);
        if (data.dataset.hint && !place.previousElementSibling?.matches(".hint")) {
          const hint = document.createElement("p");
          hint.className = "hint";
          hint.textContent = data.dataset.hint;
          place.before(hint);
        }
        const replaced = document.getElementById(data.dataset.replaces);
        if (replaced) replaced.classList.add("replaced");
      } catch (error) {
        place.textContent = `This chart could not be drawn: ${error.message}`;
      }
    }
    document.documentElement.dataset.charts = "drawn";
  }

  dark.addEventListener("change", draw);
  hatching();
  draw();
})();
