// While a sweep runs: asks every two seconds whether there is anything new, and puts it into the page as it stands.
"use strict";
(() => {
  const EVERY = 2000;
  const badge = document.getElementById("live");
  let version = Number(document.documentElement.dataset.version), newest = null, ended = false;

  function ago(seconds) {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
  }

  function tell(state) {
    if (state?.error) badge.textContent = state.error;
    else if (ended) badge.textContent = "'baton watch' has ended; the page stays as it was last.";
    else if (!newest) badge.textContent = "Live. Nothing has been trained yet; this page waits for the first evaluation.";
    else badge.textContent = `Live. Newest evaluation: ${new Date(newest * 1000).toLocaleTimeString()} (${ago(Date.now() / 1000 - newest)}).`;
    badge.classList.toggle("ended", ended || Boolean(state?.error));
  }

  function put(section, made) {
    for (const part of made.querySelectorAll("[data-part]")) {
      const here = section.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (!here || here.innerHTML === part.innerHTML) continue;
      const open = [...here.querySelectorAll("details")].map((details) => details.open);
      here.innerHTML = part.innerHTML;
      here.querySelectorAll("details").forEach((details, nth) => (details.open = open[nth] ?? details.open));
    }
    const names = (root) => [...root.querySelectorAll("[data-figure]")].map((figure) => figure.dataset.figure).join("\n");
    if (names(section) !== names(made)) {
      section.querySelector(".figures").replaceWith(made.querySelector(".figures"));
      section.querySelectorAll("[data-figure]").forEach(baton.build);
    } else {
      section.querySelectorAll("[data-figure]").forEach(baton.refresh);
    }
  }

  async function fetched(path) {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }

  async function look() {
    let state;
    try {
      state = await fetched("state");
      newest = state.newest;
      if (state.version !== version) {
        const fresh = await fetched("fresh");
        baton.figures = fresh.figures;
        for (const [id, html] of Object.entries(fresh.sections)) {
          const made = document.createElement("template");
          made.innerHTML = html;
          const section = document.getElementById(id);
          if (section) put(section, made.content.firstElementChild);
        }
        version = fresh.version;
        document.documentElement.dataset.version = version;
      }
      ended = false;
    } catch {
      ended = true;
    }
    tell(state);
    setTimeout(look, EVERY);
  }

  look();
})();
