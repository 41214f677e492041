// Requests that fail: what went wrong stands where the answer would have stood, and nothing that
// answered an earlier question stays there.
"use strict";
{
  const GONE = "The portal does not answer.";
  const OUT = "You are not logged in any more: reload this page.";

  // Our pages say in one place what is wrong.
  const wrongIn = (text, status) => {
    if (status === 401) return OUT;
    const page = new DOMParser().parseFromString(text, "text/html");
    const place = page.querySelector(".diagnostic, [role=alert], main.alone p");
    return (place && place.textContent.trim()) || `The portal answered with the status ${status}.`;
  };

  const diagnostic = (text) => {
    const place = document.createElement("pre");
    place.className = "diagnostic";
    place.setAttribute("role", "alert");
    place.textContent = text;
    return place;
  };

  // Forms are marked to stay: what was typed can be corrected there.
  const complainIn = (place, text) => {
    for (const child of [...place.childNodes]) {
      if (!(child instanceof Element && child.hasAttribute("data-kept"))) child.remove();
    }
    place.append(diagnostic(text));
  };

  const dismiss = (place) => {
    const note = place.previousElementSibling;
    if (note && note.hasAttribute("data-stale")) note.remove();
  };

  // What renews itself stays, and above it stands that it is old.
  const complainAbove = (place, text) => {
    dismiss(place);
    const note = diagnostic(`${text} What stands below was seen before.`);
    note.dataset.stale = "";
    place.before(note);
  };

  const fail = (place, text) => {
    if (place.hasAttribute("data-renewed")) complainAbove(place, text);
    else complainIn(place, text);
  };

  // An answer as text, or in `said` what is wrong.
  const ask = async (address) => {
    try {
      const response = await fetch(address);
      const text = await response.text();
      if (response.ok) return { text };
      const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
      return { text, said: isJson ? JSON.parse(text).said : wrongIn(text, response.status) };
    } catch {
      return { text: "", said: GONE };
    }
  };

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (xhr.status < 400) {
      dismiss(target);
      return;
    }
    const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
    event.detail.isError = false;
    if (target.id && page.getElementById(target.id)) event.detail.shouldSwap = true;
    else fail(target, wrongIn(xhr.responseText, xhr.status));
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => fail(event.detail.target, GONE));
  }

  window.zenRequests = { GONE, ask, complainAbove, complainIn, dismiss };
}
