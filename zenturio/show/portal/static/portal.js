// What pages do beyond links and forms: the theme, live progress, copying, keys.
"use strict";

const said = (text) => {
  const place = document.getElementById("said");
  place.textContent = text;
  clearTimeout(said.timer);
  said.timer = setTimeout(() => (place.textContent = ""), 2500);
};

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("zenturio-theme", theme);
  } catch {
    // It holds for this page, then.
  }
  document.dispatchEvent(new CustomEvent("zen:theme", { detail: theme }));
};

// Progress: one stream for what is in sight; hidden tabs hold no connection (browsers have few).
let stream = null;

const ended = (place) => {
  const bar = place.querySelector("[aria-valuenow]");
  return bar && bar.getAttribute("aria-valuenow");
};

const hear = (event) => {
  const { studies, news } = JSON.parse(event.data);
  for (const [name, html] of Object.entries(news)) {
    for (const place of document.querySelectorAll("[data-standing]")) {
      if (place.dataset.standing !== name) continue;
      const before = ended(place);
      place.innerHTML = html;
      // Tables and failures are not changed under the eyes of who reads them.
      if (ended(place) !== before) for (const newer of document.querySelectorAll("[data-newer]")) newer.hidden = false;
    }
  }
  if (document.querySelector('[data-live="home"]')) {
    const shown = [...document.querySelectorAll("[data-standing]")].map((each) => each.dataset.standing);
    if (shown.length !== studies.length || studies.some((name) => !shown.includes(name))) location.reload();
  }
};

const listen = () => {
  const wanted = !document.hidden && document.querySelector("[data-live]");
  if (wanted && !stream) {
    stream = new EventSource("/live");
    stream.onmessage = hear;
    stream.onopen = () => zenRequests.dismiss(wanted);
    stream.onerror = () => zenRequests.complainAbove(wanted, zenRequests.GONE);
  } else if (!wanted && stream) {
    stream.close();
    stream = null;
  }
};

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    said("copied");
  } catch {
    said("this browser does not let pages copy");
  }
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "theme") setTheme(isDark() ? "light" : "dark");
  if (button.dataset.copy) copy(document.getElementById(button.dataset.copy).textContent);
  if (button.dataset.text) copy(button.dataset.text);
});

// Keys: / to the filter, g then a letter to a page, j and k along the rows of a table.
let before = "";
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const form = event.target.matches("[data-send]") && event.target.form;
    if (form) form.requestSubmit();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key;
  if (key === "/") {
    const filter = document.querySelector("[data-filter]");
    if (filter) {
      filter.focus();
      event.preventDefault();
    }
  } else if (before === "g") {
    const target = document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
    if (target) target.click();
  } else if (key === "j" || key === "k") {
    const links = [...document.querySelectorAll("tbody [data-row]")];
    const at = links.indexOf(document.activeElement);
    const next = links[Math.min(Math.max(at + (key === "j" ? 1 : -1), 0), links.length - 1)];
    if (next) next.focus();
  }
  before = key;
});

// What is renewed by itself stays as it is while somebody is at it, or while nothing is new.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.hasAttribute("data-renewed")) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const place = event.detail.target;
  if (!place.hasAttribute("data-renewed") || event.detail.xhr.status >= 400) return;
  const text = event.detail.serverResponse;
  const isNews = text.includes("data-news");
  const busy = !isNews && (place.contains(document.activeElement) || place.querySelector("details[open]"));
  if ((place.shown === text && !isNews) || busy) event.detail.shouldSwap = false;
  else place.shown = text;
});

document.addEventListener("visibilitychange", listen);
document.addEventListener("htmx:afterSettle", listen);
window.addEventListener("pagehide", () => stream && stream.close());
listen();
