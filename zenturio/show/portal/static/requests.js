// Failed requests: the error is shown in place of the answer, and the answer to an earlier request
// is removed, unless it updates itself.
"use strict";
{
  const GONE = "The portal does not respond.";
  const OUT = "You are logged out. Reload this page.";

  // Our error pages have the message in one of these places.
  const errorIn = (text, status) => {
    if (status === 401) return OUT;
    const page = new DOMParser().parseFromString(text, "text/html");
    const place = page.querySelector(".diagnostic, [role=alert], main.alone p");
    return (place && place.textContent.trim()) || `The portal responded with status ${status}.`;
  };

  const diagnostic = (text) => {
    const place = document.createElement("pre");
    place.className = "diagnostic";
    place.setAttribute("role", "alert");
    place.textContent = text;
    return place;
  };

  // Forms are marked to stay: the input can be corrected there.
  const showErrorIn = (place, text) => {
    for (const child of [...place.childNodes]) {
      if (!(child instanceof Element && child.hasAttribute("data-kept"))) child.remove();
    }
    place.append(diagnostic(text));
  };

  const dismiss = (place) => {
    const note = place.previousElementSibling;
    if (note && note.hasAttribute("data-stale")) note.remove();
  };

  // A part that updates itself stays, with a note that it is old.
  const showErrorAbove = (place, text) => {
    dismiss(place);
    const note = diagnostic(`${text} The information below may be out of date.`);
    note.dataset.stale = "";
    place.before(note);
  };

  const fail = (place, text) => {
    if (place.hasAttribute("data-updates")) showErrorAbove(place, text);
    else showErrorIn(place, text);
  };

  // The answer as text, or in `error` what went wrong.
  const get = async (address) => {
    try {
      const response = await fetch(address);
      const text = await response.text();
      if (response.ok) return { text };
      const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
      return { text, error: isJson ? JSON.parse(text).error : errorIn(text, response.status) };
    } catch {
      return { text: "", error: GONE };
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
    else fail(target, errorIn(xhr.responseText, xhr.status));
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => fail(event.detail.target, GONE));
  }

  window.zenRequests = { GONE, get, showErrorAbove, showErrorIn, dismiss };
}
