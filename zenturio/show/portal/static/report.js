// A report: its charts are drawn one after the other, each as its own page draws it.
"use strict";
{
  const drawAll = async () => {
    for (const place of document.querySelectorAll("[data-target]")) {
      place.setAttribute("aria-busy", "true");
      const [path, given] = place.dataset.target.split("?");
      const answer = await window.zenDraw.asked(path, new URLSearchParams(given), place);
      if (answer.said) {
        const diagnostic = document.createElement("pre");
        diagnostic.className = "diagnostic";
        diagnostic.textContent = answer.said;
        place.replaceChildren(diagnostic);
      } else {
        await window.zenDraw.show(place, answer);
      }
      place.setAttribute("aria-busy", "false");
    }
  };

  document.addEventListener("zen:theme", drawAll);
  drawAll();
}
