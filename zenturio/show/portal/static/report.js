// Draws the charts of a report, one after the other, as their own pages do.
"use strict";
{
  const drawAll = async () => {
    for (const place of document.querySelectorAll("[data-target]")) {
      place.setAttribute("aria-busy", "true");
      const [path, query] = place.dataset.target.split("?");
      const answer = await window.zenDraw.request(path, new URLSearchParams(query), place);
      if (answer.error) {
        const diagnostic = document.createElement("pre");
        diagnostic.className = "diagnostic";
        diagnostic.textContent = answer.error;
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
