// Draws each chart of the page. The bundle before this script defines vegaEmbed.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function config() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const font = "system-ui, sans-serif";
    const axis = { labelColor: of("--soft"), titleColor: of("--ink"), gridColor: of("--line"),
      domainColor: of("--line"), tickColor: of("--line"), labelFont: font, titleFont: font };
    return { background: "transparent", font, axis, view: { stroke: of("--line") },
      legend: { labelColor: of("--soft"), titleColor: of("--ink") },
      title: { color: of("--ink"), subtitleColor: of("--soft"), anchor: "start" } };
  }

  async function draw() {
    for (const data of document.querySelectorAll('script[type="application/vnd.vegalite+json"]')) {
      const place = document.getElementById(data.dataset.place);
      if (!place) continue;
      const options = { actions: false, defaultStyle: false, ast: true, renderer: "canvas", config: config(), theme: dark.matches ? "dark" : undefined };
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
  draw();
})();
