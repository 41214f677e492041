// A report: its charts are drawn one after the other, each as its own page draws it.
"use strict";
{
  const drawAll = async () => {
    for (const place of document.querySelectorAll("[data-target]")) {
      place.setAttribute("aria-busy", "true");
      const [path, given] = place.dataset.target.split("?");
      const answer = await window.zenDraw.asked(path, new URLSearchParams(given), place);
      if (answer.said) {
        const complaint = document.createElement("pre");
        complaint.className = "complaint";
        complaint.textContent = answer.said;
        place.replaceChildren(complaint);
      } else {
        await window.zenDraw.show(place, answer);
      }
      place.setAttribute("aria-busy", "false");
    }
  };

  document.addEventListener("zen:theme", drawAll);
  drawAll();
}
