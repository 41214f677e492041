// Before anything is painted: dark or light, as it was chosen here before.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("zenturio-theme");
  } catch {
    // A browser that keeps nothing has the system's choice.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
