// Sorts and searches tables and, on a live page, replaces sections. The page is readable without it.
(() => {
  "use strict";
  const settings = new Map(); // state of each table by its id, restored after its section is replaced

  // Names are shown in short; the exact ones are titles.
  const titles = (element) => [...element.querySelectorAll("span[title]")].map((name) => name.title);
  const cellText = (row, column) => titles(row.cells[column])[0] || row.cells[column].textContent.trim();

  function sortKey(text) {
    const plain = text.replace(/,/g, "").replace(/^−/, "-");
    const number = parseFloat(plain);
    if (Number.isNaN(number)) return null;
    const scale = { k: 1e3, M: 1e6, G: 1e9 }[(plain.match(/^[-+.\de]+ ([kMG])\b/) || [])[1]] || 1;
    return number * scale;
  }

  function sort(table, column, direction) {
    const numeric = table.tHead.rows[0].cells[column].classList.contains("n");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row, at) => {
      const text = cellText(row, column);
      return { row, at, key: numeric ? sortKey(text) : text };
    });
    const sign = direction === "descending" ? -1 : 1;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.at - b.at;
      const order = numeric ? a.key - b.key : compare(a.key, b.key);
      return sign * order || a.at - b.at;
    });
    body.append(...keyed.map(({ row }) => row));
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
  }

  function makeSortable(table, kept) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.id = `${table.id}-sort-${column}`;
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("n") && column > 0 ? "descending" : "ascending";
        const other = first === "descending" ? "ascending" : "descending";
        const direction = head.getAttribute("aria-sort") === first ? other : first;
        Object.assign(kept, { column, direction });
        sort(table, column, direction);
      });
    });
    if (kept.direction) sort(table, kept.column, kept.direction);
  }

  function makeSearchable(table, kept) {
    const field = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const found = document.createElement("output");
    field.className = "search";
    input.type = "search";
    input.id = label.htmlFor = `${table.id}-search`;
    input.setAttribute("aria-controls", table.id);
    input.value = kept.wanted || "";
    label.textContent = table.dataset.search;
    found.setAttribute("aria-live", "polite");
    field.append(label, input, found);
    const region = table.closest(".scroll");
    region.before(field);
    const search = () => {
      const wanted = (kept.wanted = input.value).toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...table.tBodies[0].rows];
      let shown = 0;
      for (const row of rows) {
        const text = [row.textContent, ...titles(row)].join(" ").toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      found.textContent = wanted.length ? `${shown} of ${rows.length}` : `${rows.length} rows`;
    };
    input.addEventListener("input", search);
    search();
  }

  // Steps through a recorded match: each frame is what it shares with the one before, at both ends, and the rest.
  function makeSteps(figure) {
    const shown = figure.querySelector("[data-shown]");
    let last = "";
    const frames = JSON.parse(figure.dataset.frames).map(([[head, tail, rest], said]) => {
      last = last.slice(0, head) + rest + last.slice(last.length - tail);
      return { text: last, said };
    });
    const controls = document.createElement("div");
    const where = document.createElement("input");
    const said = document.createElement("output");
    controls.className = "buttons";
    Object.assign(where, { type: "range", min: 0, max: frames.length - 1, value: frames.length - 1 });
    where.setAttribute("aria-label", "Step of the match");
    said.setAttribute("aria-live", "polite");
    const show = (step) => {
      const at = Math.max(0, Math.min(frames.length - 1, step));
      where.value = at;
      said.textContent = `${at} of ${frames.length - 1}${frames[at].said ? `: ${frames[at].said}` : ""}`;
      if (shown.matches("pre")) shown.textContent = frames[at].text;
      else shown.replaceChildren(document.importNode(
        new DOMParser().parseFromString(frames[at].text, "image/svg+xml").documentElement, true));
    };
    const button = (name, step) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = name;
      made.addEventListener("click", () => show(step()));
      return made;
    };
    controls.append(
      button("First", () => 0), button("Back", () => where.valueAsNumber - 1),
      button("Next", () => where.valueAsNumber + 1), where, said);
    where.addEventListener("input", () => show(where.valueAsNumber));
    figure.append(controls);
    show(frames.length - 1);
  }

  function enhance(root) {
    for (const figure of root.querySelectorAll("[data-frames]")) makeSteps(figure);
    for (const table of root.querySelectorAll("table[id]")) {
      if (!settings.has(table.id)) settings.set(table.id, {});
      const kept = settings.get(table.id);
      if ("sortable" in table.dataset) makeSortable(table, kept);
      if ("search" in table.dataset) makeSearchable(table, kept);
    }
  }

  // Replaces the element `id` by `html`, a section of the same id. Unfolded, scrolled, sorted, searched and
  // focused parts keep their state.
  function replaceSection(id, html) {
    const old = document.getElementById(id);
    const parsed = document.createElement("template");
    parsed.innerHTML = html;
    const fresh = parsed.content.firstElementChild;
    const active = document.activeElement;
    const focused = old.contains(active) ? active.id || null : null;
    const selection = focused && active.matches("input") ? [active.selectionStart, active.selectionEnd] : null;
    const open = new Set([...old.querySelectorAll("details[open] > summary")].map((line) => line.textContent));
    const scrolled = [...old.querySelectorAll(".scroll")].map((region) => [region.scrollTop, region.scrollLeft]);
    for (const line of fresh.querySelectorAll("details > summary")) {
      if (open.has(line.textContent)) line.parentElement.open = true;
    }
    old.replaceWith(fresh);
    enhance(fresh);
    fresh.querySelectorAll(".scroll").forEach((region, at) => {
      if (scrolled[at]) [region.scrollTop, region.scrollLeft] = scrolled[at];
    });
    const again = focused && document.getElementById(focused);
    if (again) {
      again.focus({ preventScroll: true });
      if (selection) again.setSelectionRange(...selection);
    }
  }

  // Marks the section that is being read in the table of contents.
  function followReading() {
    const links = new Map();
    for (const link of document.querySelectorAll("nav.contents a")) links.set(link.hash.slice(1), link);
    if (!("IntersectionObserver" in window)) return;
    const visible = new Set();
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) visible[isIntersecting ? "add" : "delete"](target.id);
      const current = [...links.keys()].find((id) => visible.has(id));
      for (const [id, link] of links) {
        if (id === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }, { rootMargin: "0px 0px -60% 0px" });
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) observer.observe(section);
    }
  }

  function beforePrint() {
    for (const details of document.querySelectorAll("details")) details.open = true;
  }

  window.leagueReport = { enhance, replaceSection };
  enhance(document);
  followReading();
  window.addEventListener("beforeprint", beforePrint);
})();
