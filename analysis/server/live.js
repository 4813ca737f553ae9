// Shows changes of the run in the open page, section by section, without a reload. The reader's position is
// kept, and updates can be paused.
(() => {
  "use strict";
  const { replaceSection } = window.leagueReport;
  let drawn = Number(document.getElementById("drawn").dataset.number);
  let paused = false;
  let ended = document.getElementById("drawn").hasAttribute("data-ended");
  let waiting = null; // updates that came while paused: the newest of each section

  const bar = document.createElement("div");
  const said = document.createElement("p");
  const pause = document.createElement("button");
  bar.className = "live";
  said.id = "live-status";
  said.setAttribute("role", "status");
  pause.id = "live-pause";
  pause.type = "button";
  pause.textContent = "Pause";
  pause.setAttribute("aria-pressed", "false");
  bar.append(pause, said);
  if (document.getElementById("drawn").hasAttribute("data-plays")) {
    const play = document.createElement("a");
    play.id = "play-link";
    play.href = "play";
    play.textContent = "Play against these agents";
    bar.append(play);
  }
  document.querySelector("header").append(bar);

  // Screen readers announce only important changes (`aloud`): an announcement each second would disturb.
  const say = (text, aloud = false) => {
    said.setAttribute("aria-live", aloud ? "polite" : "off");
    said.textContent = text;
  };

  const state = () => say(ended ? "This page changes if the run goes on." : "Live.", true);

  const summaryOf = (element) => (element && element.matches("summary") ? element.textContent : null);

  const bring = ({ id, html }) => {
    const section = document.getElementById(id);
    if (!section) return;
    const focused = section.contains(document.activeElement) ? summaryOf(document.activeElement) : null;
    // The section that is being read must not move when a section above it grows.
    const read = [...document.querySelectorAll("main > section")].find((s) => s.getBoundingClientRect().bottom > 0);
    const steady = read && read.id !== id ? read : null;
    const before = steady && steady.getBoundingClientRect().top;
    replaceSection(id, html);
    if (steady) window.scrollBy({ top: steady.getBoundingClientRect().top - before, behavior: "instant" });
    if (focused === null) return;
    const lines = [...document.getElementById(id).querySelectorAll("summary")];
    const again = lines.find((line) => line.textContent === focused);
    if (again) again.focus({ preventScroll: true });
  };

  const show = (news) => {
    const ids = news.order.join();
    const here = [...document.querySelectorAll("main > section")].map((section) => section.id).join();
    if (ids !== here) return location.reload(); // another kind of page: a new run was started in this folder
    news.sections.forEach(bring);
    document.getElementById("as-of").textContent = news.asOf;
    ended = news.ended;
    if (news.trouble) say(`The run cannot be read: ${news.trouble} This page shows the last state that could be read.`, true);
    else if (ended) state();
    else say(`Live: up to date at ${new Date().toLocaleTimeString()}.`);
  };

  const merged = (older, newer) => {
    const sections = new Map([...(older ? older.sections : []), ...newer.sections].map((s) => [s.id, s]));
    return { ...newer, sections: [...sections.values()] };
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (paused) return say("Paused: this page stays as it is.", true);
    state();
    if (waiting) show(waiting);
    waiting = null;
  });

  const source = new EventSource(`events?since=${drawn}`);
  source.addEventListener("open", () => paused || state());
  source.addEventListener("error", () => {
    say("The server does not answer. This page shows its last state, and tries to connect again.", true);
  });
  source.addEventListener("message", (event) => {
    drawn = Number(event.lastEventId);
    const news = JSON.parse(event.data);
    if (paused) waiting = merged(waiting, news);
    else show(news);
  });
})();
