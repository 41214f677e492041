// What pages do besides links and forms: theme, live progress, copying, keyboard shortcuts.
"use strict";

const showMessage = (text) => {
  const place = document.getElementById("message");
  place.textContent = text;
  clearTimeout(showMessage.timer);
  showMessage.timer = setTimeout(() => (place.textContent = ""), 2500);
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
    // Then it applies to this page only.
  }
  document.dispatchEvent(new CustomEvent("zen:theme", { detail: theme }));
};

// Progress: one stream for a visible page; hidden tabs have none, for browsers have few connections.
let stream = null;

const finishedCount = (place) => {
  const bar = place.querySelector("[aria-valuenow]");
  return bar && bar.getAttribute("aria-valuenow");
};

const update = (event) => {
  const { studies, count, news } = JSON.parse(event.data);
  for (const [name, html] of Object.entries(news)) {
    for (const place of document.querySelectorAll("[data-progress]")) {
      if (place.dataset.progress !== name) continue;
      const before = finishedCount(place);
      place.innerHTML = html;
      // Tables and failures do not change while somebody reads them: a link offers the new ones.
      if (finishedCount(place) !== before) for (const newer of document.querySelectorAll("[data-newer]")) newer.hidden = false;
    }
  }
  const home = document.querySelector('[data-live="home"]');
  // Of many studies the page shows a part: their number alone is compared.
  if (home && !studies && Number(home.dataset.studies) !== count) location.reload();
  if (home && studies) {
    const shown = [...document.querySelectorAll("[data-progress]")].map((place) => place.dataset.progress);
    if (shown.length !== studies.length || studies.some((name) => !shown.includes(name))) location.reload();
  }
};

const listen = () => {
  const live = !document.hidden && document.querySelector("[data-live]");
  if (live && !stream) {
    stream = new EventSource("/live");
    stream.onmessage = update;
    stream.onopen = () => zenRequests.dismiss(live);
    stream.onerror = () => zenRequests.showErrorAbove(live, zenRequests.GONE);
  } else if (!live && stream) {
    stream.close();
    stream = null;
  }
};

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    showMessage("Copied");
  } catch {
    showMessage("This browser does not allow pages to copy");
  }
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "theme") setTheme(isDark() ? "light" : "dark");
  if (button.dataset.copy) copy(document.getElementById(button.dataset.copy).textContent);
  if (button.dataset.text) copy(button.dataset.text);
});

// Keys: / focuses the filter, g and a letter open a page, j and k move along the rows of a table.
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

// A part that updates itself is left alone while somebody uses it, or while nothing has changed.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.hasAttribute("data-updates")) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const place = event.detail.target;
  if (!place.hasAttribute("data-updates") || event.detail.xhr.status >= 400) return;
  const text = event.detail.serverResponse;
  const isUpdate = text.includes("data-state-changed");
  const busy = !isUpdate && (place.contains(document.activeElement) || place.querySelector("details[open]"));
  if ((place.shown === text && !isUpdate) || busy) event.detail.shouldSwap = false;
  else place.shown = text;
});

document.addEventListener("visibilitychange", listen);
document.addEventListener("htmx:afterSettle", listen);
window.addEventListener("pagehide", () => stream && stream.close());
listen();
