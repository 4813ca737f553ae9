// Plays matches on this page: by click on the picture, by button or by key. All play is on the server; the page
// gets what the person's seat may see. Text from the server becomes text nodes, and pictures are parsed as SVG.
(() => {
  "use strict";
  const by = (id) => document.getElementById(id);
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const PAUSE = 500; // ms between two steps that are shown one after the other
  let about = null;
  let match = null; // the newest answer of the server
  let recorded = null; // the recorded match that is shown, instead of `match`
  let at = 0; // step of `recorded`
  let busy = false;
  let running = 0; // timer of matches that go on by themselves
  let showing = 0; // counts matches: what an older one still has to show is dropped

  const make = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const sleep = (ms) => new Promise((done) => window.setTimeout(done, ms));
  const say = (text) => { if (by("status").textContent !== text) by("status").textContent = text; };
  const complain = (text) => {
    by("trouble").textContent = text;
    by("trouble").hidden = !text;
    if (text) by("trouble").scrollIntoView({ block: "nearest" });
  };
  const listed = (names) => names.join(names.length === 2 ? " against " : ", ");
  const show = (id, shown) => { by(id).hidden = !shown; };

  const ask = async (path, content) => {
    const post = content === undefined ? {} : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
    };
    let answer;
    try { answer = await fetch(`play/${path}`, { ...post, credentials: "same-origin" }); }
    catch { throw new Error("The server does not answer. Is `league serve` still running?"); }
    const found = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
    if (!answer.ok) throw new Error(found.error || `The server answered ${answer.status}.`);
    return found;
  };

  // One request at a time: a second click is ignored while the first is on its way.
  const guarded = async (act) => {
    if (busy) return;
    busy = true;
    disable(true);
    complain("");
    try { await act(); }
    catch (error) { complain(error.message); stop(); }
    finally { busy = false; disable(false); }
  };
  const moveButtons = () => [...document.querySelectorAll("#spots button, #moves button")];
  const disable = (off) => moveButtons().forEach((button) => {
    if (off) button.setAttribute("aria-disabled", "true"); else button.removeAttribute("aria-disabled");
  });

  // ---- what is shown

  const draw = (frame) => {
    const picture = by("drawn");
    picture.replaceChildren();
    by("match").classList.toggle("as-text", !frame.picture);
    if (frame.picture) {
      const parsed = new DOMParser().parseFromString(frame.picture, "image/svg+xml").documentElement;
      if (parsed.localName === "svg") picture.append(document.importNode(parsed, true));
    } else by("as-text").open = true;
    by("text").textContent = frame.text;
    by("words").textContent = frame.picture ? frame.words : "";
    show("as-text", Boolean(frame.text));
  };

  const list = (id, lines) => {
    by(id).replaceChildren(...lines.map((line) => make("li", line)));
    by(id).scrollTop = by(id).scrollHeight;
    if (id === "said") ["said", "so-far"].forEach((one) => show(one, lines.length > 0));
  };

  // A key for each action: the digit that its name ends with, else its first letter, else a number.
  const keysOf = (moves) => {
    const unique = (keys) => keys.every(Boolean) && new Set(keys).size === keys.length;
    const digits = moves.map((move) => (/(?:^|[^\d])(\d)$/.exec(move.name) || [])[1]);
    if (unique(digits)) return digits;
    const letters = moves.map((move) => (/^[a-z]/i.exec(move.name) || [""])[0].toLowerCase());
    if (unique(letters)) return letters;
    if (moves.every((move) => move.action < 9)) return moves.map((move) => String(move.action + 1));
    return moves.map((_, number) => (number < 9 ? String(number + 1) : ""));
  };

  const offer = (focus) => {
    const frame = match.frames[match.frames.length - 1];
    const wanted = match.offer;
    const moves = wanted ? wanted.moves : [];
    const keys = keysOf(moves);
    by("spots").replaceChildren();
    by("moves").replaceChildren();
    moves.forEach((move, number) => {
      const place = frame.picture && frame.spots[move.action];
      const button = make("button", undefined, { type: "button", "data-action": move.action });
      button.dataset.key = keys[number];
      if (keys[number]) button.setAttribute("aria-keyshortcuts", keys[number]);
      if (place) {
        const [left, top, width, height] = place;
        button.classList.toggle("column", height > 50);
        Object.assign(button.style, { left: `${left}%`, top: `${top}%`, width: `${width}%`, height: `${height}%` });
        button.setAttribute("aria-label", move.name);
        button.title = keys[number] ? `${move.name} (key ${keys[number]})` : move.name;
        by("spots").append(button);
      } else {
        button.append(make("span", move.name));
        if (keys[number]) button.append(make("kbd", keys[number], { "aria-hidden": "true" }));
        by("moves").append(button);
      }
      button.addEventListener("click", () => take([move.action]));
    });
    show("typed", Boolean(wanted && wanted.more));
    if (wanted && wanted.more) {
      by("typed-help").textContent = wanted.help ? `${wanted.numbers} numbers: ${wanted.help}` : "the number of any legal action";
    }
    if (focus === undefined) return;
    const again = document.querySelector(`[data-action="${CSS.escape(String(focus))}"]`) || moveButtons()[0];
    if (again) again.focus({ preventScroll: true });
    else if (wanted && wanted.more) by("typed-action").focus();
    else if (match.over) by("again-button").focus({ preventScroll: true });
  };

  const turnOf = (frame) => {
    if (match.over) return match.over.said;
    if (match.offer) return "Your turn.";
    return frame.turn.length ? `To act: ${frame.turn.join(", ")}.` : "";
  };

  const present = async (found, { quick = false, focus } = {}) => {
    const mine = ++showing;
    match = found;
    recorded = null;
    by("match").hidden = false;
    by("match-title").textContent = `Match: ${listed(found.seats.map((name, seat) => (seat === found.person ? "you" : name)))}`;
    by("hint").replaceChildren();
    list("result", []);
    const kept = found.said.length - found.frames.reduce((sum, frame) => sum + frame.said.length, 0);
    let lines = found.said.slice(0, Math.max(0, kept));
    const slow = !quick && !calm.matches;
    for (const [number, frame] of found.frames.entries()) {
      draw(frame);
      lines = [...lines, ...frame.said];
      list("said", lines);
      if (number < found.frames.length - 1) {
        by("spots").replaceChildren();
        say(frame.said.length ? `${frame.said.join(". ")}.` : "");
        if (slow) await sleep(PAUSE);
        if (mine !== showing) return;
      }
    }
    const last = found.frames[found.frames.length - 1];
    const others = last.said.filter((line) => found.person === null || !/^you\b/.test(line));
    say([others.length ? `${others.join(". ")}.` : "", turnOf(last)].filter(Boolean).join(" "));
    if (found.over) {
      const hidden = found.over.hidden.length ? [`What was played: ${found.over.hidden.join("; ")}`] : [];
      list("result", [...found.over.lines, ...hidden, `Seed ${found.seed}.`]);
    }
    show("hint-button", Boolean(found.hints && found.offer));
    const watched = found.person === null && !found.over;
    show("next-button", watched);
    show("run-button", watched);
    show("back-button", false);
    show("scrub", false);
    by("step-shown").textContent = "";
    show("takeback-button", Boolean(found.back && (found.offer || found.over)));
    show("again-button", Boolean(found.over));
    show("swapped-button", Boolean(found.over) && found.seats.length === 2);
    show("leave-button", true);
    offer(focus);
  };

  // ---- a match that is played

  const remember = (parameters) => window.history.replaceState(null, "", `play${parameters ? `?${parameters}` : ""}`);

  const begin = (seats, seed, adviser) => guarded(async () => {
    stop();
    if (match && match.id) ask(`matches/${match.id}/leave`, {}).catch(() => undefined);
    const wish = { seats };
    if (seed) {
      if (!/^\d{1,19}$/.test(seed) || Number(seed) > Number.MAX_SAFE_INTEGER) throw new Error(`Seed '${seed}': expected a whole number, at least 0 and under 2^53.`);
      wish.seed = Number(seed);
    }
    if (adviser) wish.adviser = adviser;
    const found = await ask("matches", wish);
    remember(`match=${encodeURIComponent(found.id)}`);
    await present(found, { focus: null });
    by("match").scrollIntoView({ block: "start" });
    if (found.person !== null && !found.over && !found.offer) await onward(null);
  });

  const onward = async (focus) => {
    while (match.person !== null && !match.over && !match.offer) {
      await present(await ask(`matches/${match.id}/go`, { number: match.number }), { focus });
    }
  };

  const take = (action) => guarded(async () => {
    const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.action : undefined;
    say("Thinking.");
    const found = await ask(`matches/${match.id}/go`, { number: match.number, action });
    await present(found, { focus: focus ?? action[0] });
    await onward(focus ?? action[0]);
  });

  const step = () => guarded(async () => {
    const found = await ask(`matches/${match.id}/go`, { number: match.number });
    await present(found, { quick: true });
    if (found.over) { stop(); by("again-button").focus({ preventScroll: true }); }
  });

  const hint = () => guarded(async () => {
    const found = await ask(`matches/${match.id}/hint`, {});
    const per = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
    const valued = found.moves.some((move) => move.value !== null);
    const signed = (value) => (value === null ? "" : `${value <= -0.005 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);
    const table = make("table");
    const head = make("tr");
    ["action", "probability", ...(valued ? ["value after it"] : [])].forEach((name) => head.append(make("th", name, { scope: "col" })));
    const rows = found.moves.slice(0, 12).map((move) => {
      const row = make("tr");
      row.append(make("th", move.name, { scope: "row" }), make("td", per(move.probability), { class: "n" }));
      if (valued) row.append(make("td", signed(move.value), { class: "n" }));
      return row;
    });
    const thead = make("thead"); thead.append(head);
    const tbody = make("tbody"); tbody.append(...rows);
    table.append(thead, tbody);
    const worth = found.value === null ? "" : `, which values your position at ${signed(found.value)}`;
    by("hint").replaceChildren(make("p", `By ${found.by}${worth}:`), table);
    found.moves.forEach((move) => {
      const button = document.querySelector(`[data-action="${move.action}"]`);
      if (!button) return;
      button.querySelectorAll(".share").forEach((old) => old.remove());
      button.append(make("span", per(move.probability), { class: "share", "aria-hidden": "true" }));
    });
  });

  // ---- a recorded match

  const watchRecorded = (id) => guarded(async () => {
    stop();
    const found = await ask(`recorded/${encodeURIComponent(id)}`);
    showing += 1;
    recorded = found;
    match = null;
    at = 0;
    remember(`recorded=${encodeURIComponent(id)}`);
    by("match").hidden = false;
    by("match-title").textContent = `Recorded match ${found.match}: ${listed(found.seats)}`;
    by("scrub").max = found.frames.length - 1;
    for (const [name, shown] of Object.entries({ "hint-button": false, "takeback-button": false, "again-button": false, "swapped-button": false, "leave-button": true, "next-button": true, "back-button": true, "run-button": true, scrub: true, typed: false })) show(name, shown);
    by("hint").replaceChildren();
    by("spots").replaceChildren();
    by("moves").replaceChildren();
    replay(0);
    by("match").scrollIntoView({ block: "start" });
    by("next-button").focus({ preventScroll: true });
  });

  const replay = (step) => {
    at = Math.max(0, Math.min(step, recorded.frames.length - 1));
    const frame = recorded.frames[at];
    const last = at === recorded.frames.length - 1;
    draw(frame);
    list("said", recorded.frames.slice(0, at + 1).flatMap((one) => one.said));
    list("result", last && recorded.ended ? [recorded.ended] : []);
    by("scrub").value = at;
    by("scrub").setAttribute("aria-valuetext", `step ${at} of ${recorded.frames.length - 1}`);
    by("step-shown").textContent = `step ${at} of ${recorded.frames.length - 1}`;
    say([frame.said.join(". "), last ? recorded.ended : ""].filter(Boolean).join(". ") || "The beginning.");
    if (last) stop();
  };

  // ---- matches that go on by themselves

  const stop = () => {
    window.clearInterval(running);
    running = 0;
    by("run-button").textContent = "Play on";
    by("run-button").setAttribute("aria-pressed", "false");
  };
  const run = () => {
    if (running) return stop();
    if (recorded && at === recorded.frames.length - 1) replay(0);
    by("run-button").textContent = "Pause";
    by("run-button").setAttribute("aria-pressed", "true");
    running = window.setInterval(next, 700);
  };
  const next = () => (recorded ? replay(at + 1) : match && !match.over ? step() : stop());

  // ---- the form, the list of recorded matches, and keys

  const fields = () => [...document.querySelectorAll("#seat-fields input")].map((field) => field.value.trim());

  const setup = () => {
    const names = about.names.filter((name) => name !== about.person);
    by("names").replaceChildren(...[about.person, ...names].map((name) => make("option", undefined, { value: name })));
    const rest = names[0] || about.person;
    for (let seat = 0; seat < about.seats; seat += 1) {
      const holder = make("div");
      const field = make("input", undefined, { id: `seat-${seat}`, list: "names", required: "", autocomplete: "off", spellcheck: "false" });
      field.value = seat === 0 ? about.person : rest;
      holder.append(make("label", about.places[seat], { for: `seat-${seat}` }), field);
      by("seat-fields").append(holder);
    }
    by("subject").textContent = `Play ${about.game}: against any competitor of this run, or watch two of them`;
  };

  const listRecorded = async () => {
    try {
      const found = await ask("recorded");
      by("recorded-none").textContent = "No match was recorded: rollout.record sets the share of matches that are.";
      show("recorded-none", !found.length);
      show("recorded-table", Boolean(found.length));
      by("recorded-rows").replaceChildren(...found.map((one) => {
        const row = make("tr");
        const button = make("button", one.id, { type: "button", "aria-label": `Show match ${one.id}` });
        button.addEventListener("click", () => watchRecorded(one.id));
        const first = make("th", undefined, { scope: "row" });
        first.append(button);
        row.append(first, make("td", one.competitors), make("td", one.outcomes), make("td", one.env_steps, { class: "n" }), make("td", one.purpose));
        return row;
      }));
    } catch (error) { by("recorded-none").textContent = error.message; }
  };

  const towards = (from, key) => {
    const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    const middle = (button) => { const box = button.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
    const [fx, fy] = middle(from);
    let best = null;
    for (const button of moveButtons()) {
      const [bx, by_] = middle(button);
      const along = (bx - fx) * x + (by_ - fy) * y;
      const across = Math.abs((bx - fx) * y) + Math.abs((by_ - fy) * x);
      if (button !== from && along > 1 && (!best || along + 3 * across < best.far)) best = { button, far: along + 3 * across };
    }
    return best && best.button;
  };

  by("match").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input")) return;
    const moves = moveButtons();
    if (event.key.startsWith("Arrow") && moves.includes(event.target)) {
      const other = towards(event.target, event.key);
      if (other) { other.focus(); }
      event.preventDefault();
    } else if (event.key === "?" && !by("hint-button").hidden) {
      hint();
      event.preventDefault();
    } else {
      const meant = moves.find((button) => button.dataset.key && button.dataset.key === event.key.toLowerCase());
      if (meant) { meant.focus({ preventScroll: true }); meant.click(); event.preventDefault(); }
    }
  });

  by("setup-form").addEventListener("submit", (event) => { event.preventDefault(); begin(fields(), by("seed").value.trim()); });
  by("typed").addEventListener("submit", (event) => {
    event.preventDefault();
    const numbers = by("typed-action").value.trim().split(/\s+/).map(Number);
    if (numbers.some((number) => !Number.isFinite(number))) return complain("Expected numbers, with spaces between.");
    by("typed-action").value = "";
    take(numbers);
  });
  by("hint-button").addEventListener("click", hint);
  by("takeback-button").addEventListener("click", () => guarded(async () => {
    await present(await ask(`matches/${match.id}/back`, {}), { quick: true, focus: null });
  }));
  by("back-button").addEventListener("click", () => { stop(); replay(at - 1); });
  by("next-button").addEventListener("click", () => { stop(); next(); });
  by("run-button").addEventListener("click", run);
  by("scrub").addEventListener("input", () => { stop(); replay(Number(by("scrub").value)); });
  by("again-button").addEventListener("click", () => begin(match.seats));
  by("swapped-button").addEventListener("click", () => begin([...match.seats].reverse()));
  by("leave-button").addEventListener("click", () => {
    stop();
    showing += 1;
    if (match) ask(`matches/${match.id}/leave`, {}).catch(() => undefined);
    match = recorded = null;
    by("match").hidden = true;
    remember("");
    by("seat-0").focus();
  });

  const start = async () => {
    const wanted = new URLSearchParams(window.location.search);
    try { about = await ask("about"); } catch (error) { return complain(error.message); }
    setup();
    listRecorded();
    if (wanted.get("recorded")) return watchRecorded(wanted.get("recorded"));
    if (wanted.get("match")) {
      return guarded(async () => {
        try { await present(await ask(`matches/${encodeURIComponent(wanted.get("match"))}`), { quick: true, focus: null }); }
        catch (error) { remember(""); throw error; }
      });
    }
    const seats = wanted.getAll("seat").slice(0, 16);
    if (seats.length) {
      document.querySelectorAll("#seat-fields input").forEach((field, seat) => { if (seats[seat]) field.value = seats[seat]; });
      begin(seats, wanted.get("seed"), wanted.get("adviser"));
    }
  };
  start();
})();
