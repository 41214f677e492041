// Apply the theme that was chosen here before, before anything is painted.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("zenturio-theme");
  } catch {
    // Without storage the theme is that of the system.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
