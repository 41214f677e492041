// The chart builder: what is chosen becomes the address, and the address becomes a picture.
"use strict";
{
  const form = document.getElementById("wishes");
  const place = document.getElementById("figures");
  const diagnostic = document.getElementById("diagnostic");
  const page = (form && form.dataset.page) || "/chart";

  const kind = () => (form.elements.kind ? form.elements.kind.value : "");

  // Fields that mean nothing for this kind are not there for keyboards and forms either.
  const fit = () => {
    for (const field of form.querySelectorAll("[data-for]")) {
      const used = field.dataset.for.split(" ").includes(kind());
      field.hidden = !used;
      for (const input of field.matches("input, select") ? [field] : field.querySelectorAll("input, select")) {
        input.disabled = !used || Boolean(input.closest("[data-for][hidden]"));
      }
    }
  };

  const wishes = () => {
    const usual = { agg: "mean" };
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value !== "" && usual[name] !== value) given.append(name, value);
    }
    return given;
  };

  // One more choice where several may be made, as soon as the last is taken.
  const grow = (changed) => {
    if (changed.tagName !== "SELECT" || !["study", "y"].includes(changed.name)) return;
    const field = changed.closest("fieldset");
    if (!field) return;
    const all = [...field.querySelectorAll("select")];
    const last = all[all.length - 1];
    if (last.value !== "") {
      const next = last.cloneNode(true);
      next.value = "";
      next.setAttribute("aria-label", changed.name === "y" ? "one more y" : "one more study");
      if (!next.querySelector('option[value=""]')) next.prepend(new Option("and …", "", true, true));
      next.options[0].textContent = "and …";
      field.append(next);
    }
  };

  const tellChosen = (chosen) => {
    for (const option of form.querySelectorAll("option[data-empty]")) {
      const select = option.parentElement;
      if (select.disabled || !option.dataset.empty) continue;
      const taken = chosen[select.name];
      const first = select === form.querySelector(`select[name="${select.name}"]:not(:disabled)`);
      option.textContent = first && taken && select.value === "" ? `${option.dataset.empty}: ${taken}` : option.dataset.empty;
    }
  };

  const brushed = (condition) => {
    form.elements.rows.value = condition;
    history.replaceState(null, "", `/chart?${wishes()}`);
    showRows();
  };

  const listenTo = (target, figure) => {
    const meant = figure.brush;
    if (!meant) return;
    const { ofSelection, ofPoint, ofStrands } = window.zenBrush;
    target.on("plotly_selected", (event) => {
      if (event) brushed(ofSelection(meant, event, target.layout));
    });
    target.on("plotly_deselect", () => brushed(""));
    target.on("plotly_click", (event) => {
      if (event.points.length) brushed(ofPoint(meant, event.points[0], figure.kind));
    });
    target.on("plotly_restyle", () => {
      if (figure.kind === "parallel") brushed(ofStrands(meant, target.data[0]));
    });
  };

  let turn = 0;
  const draw = async () => {
    const mine = ++turn;
    place.setAttribute("aria-busy", "true");
    const given = wishes();
    given.delete("rows");
    const answer = await window.zenDraw.asked(page, given, place);
    if (mine !== turn) return;
    diagnostic.hidden = !answer.said;
    diagnostic.textContent = answer.said || "";
    const sql = document.getElementById("sql");
    if (sql) sql.textContent = answer.sql || "";
    if (answer.said) {
      window.zenDraw.clear(place);
      place.innerHTML = '<p class="faint waiting">nothing is drawn</p>';
    } else {
      await window.zenDraw.show(place, answer, listenTo);
      tellChosen(answer.chosen);
    }
    place.setAttribute("aria-busy", "false");
    document.dispatchEvent(new CustomEvent("zen:drawn"));
  };

  let asking = 0;
  const showRows = async () => {
    const mine = ++asking;
    const target = document.getElementById("rows");
    if (!target) return;
    const held = document.activeElement && target.contains(document.activeElement);
    const { text, said } = await zenRequests.ask(`/chart/rows?${wishes()}`);
    if (mine !== asking) return;
    // A condition that is wrong comes back with its form.
    if (said && !text.includes('id="brushed"')) zenRequests.complainIn(target, said);
    else target.innerHTML = text;
    if (held && target.querySelector('input[name="rows"]')) target.querySelector('input[name="rows"]').focus();
  };

  const address = () => {
    const given = wishes();
    for (const link of document.querySelectorAll("[data-file]")) {
      link.href = `${page}/file.${link.dataset.file}?${given}`;
    }
    document.getElementById("report").href = `/report/add?picture=${page.slice(1)}&${given}`;
    return `${page}?${given}`;
  };

  const changed = () => {
    fit();
    const target = address();
    if (target === location.pathname + location.search) return;
    history.pushState(null, "", target);
    draw();
    showRows();
  };

  if (form) {
    fit();
    history.replaceState(null, "", address());
    form.addEventListener("change", (event) => {
      grow(event.target);
      // Other studies have other columns: the page is made anew.
      if (event.target.name === "study") {
        fit();
        location.assign(address());
      } else {
        changed();
      }
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      changed();
    });
    document.addEventListener("submit", (event) => {
      if (event.target.id !== "brushed") return;
      event.preventDefault();
      brushed(event.target.elements.rows.value);
    });
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-unbrush]")) brushed("");
      if (event.target.closest("#link")) copy(location.href);
    });
    document.addEventListener("zen:theme", draw);
    window.addEventListener("popstate", () => location.reload());
    draw();
    showRows();
  }
}
