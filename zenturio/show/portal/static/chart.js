// The chart builder: the form becomes the address, and the address becomes a chart.
"use strict";
{
  const form = document.getElementById("query");
  const place = document.getElementById("figures");
  const diagnostic = document.getElementById("diagnostic");
  const page = (form && form.dataset.page) || "/chart";

  const kind = () => (form.elements.kind ? form.elements.kind.value : "");

  // Hide and disable the fields that this kind of chart does not have.
  const fit = () => {
    for (const field of form.querySelectorAll("[data-for]")) {
      const used = field.dataset.for.split(" ").includes(kind());
      field.hidden = !used;
      for (const input of field.matches("input, select") ? [field] : field.querySelectorAll("input, select")) {
        input.disabled = !used || Boolean(input.closest("[data-for][hidden]"));
      }
    }
  };

  const queryString = () => {
    const defaults = { agg: "mean" };
    const parameters = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value !== "" && defaults[name] !== value) parameters.append(name, value);
    }
    return parameters;
  };

  // Add an empty select after the last one, where several choices may be made.
  const grow = (changed) => {
    if (changed.tagName !== "SELECT" || !["study", "y"].includes(changed.name)) return;
    const field = changed.closest("fieldset");
    if (!field) return;
    const all = [...field.querySelectorAll("select")];
    const last = all[all.length - 1];
    if (last.value !== "") {
      const next = last.cloneNode(true);
      next.value = "";
      next.setAttribute("aria-label", changed.name === "y" ? "Another metric" : "Another study");
      if (!next.querySelector('option[value=""]')) next.prepend(new Option(changed.name === "y" ? "Add a metric …" : "Add a study …", "", true, true));
      next.options[0].textContent = changed.name === "y" ? "Add a metric …" : "Add a study …";
      field.append(next);
    }
  };

  const showChosen = (chosen) => {
    for (const option of form.querySelectorAll("option[data-empty]")) {
      const select = option.parentElement;
      if (select.disabled || !option.dataset.empty) continue;
      const value = chosen[select.name];
      const first = select === form.querySelector(`select[name="${select.name}"]:not(:disabled)`);
      option.textContent = first && value && select.value === "" ? `${option.dataset.empty}: ${value}` : option.dataset.empty;
    }
  };

  const selectRows = (condition) => {
    form.elements.rows.value = condition;
    history.replaceState(null, "", `/chart?${queryString()}`);
    showRows();
  };

  const listenTo = (target, figure) => {
    const meaning = figure.selection;
    if (!meaning) return;
    const { ofSelection, ofPoint, ofStrands } = window.zenSelection;
    target.on("plotly_selected", (event) => {
      if (event) selectRows(ofSelection(meaning, event, target.layout));
    });
    target.on("plotly_deselect", () => selectRows(""));
    target.on("plotly_click", (event) => {
      if (event.points.length) selectRows(ofPoint(meaning, event.points[0], figure.kind));
    });
    target.on("plotly_restyle", () => {
      if (figure.kind === "parallel") selectRows(ofStrands(meaning, target.data[0]));
    });
  };

  let drawRequest = 0;
  const draw = async () => {
    const request = ++drawRequest;
    place.setAttribute("aria-busy", "true");
    const parameters = queryString();
    parameters.delete("rows");
    const answer = await window.zenDraw.request(page, parameters, place);
    if (request !== drawRequest) return;
    diagnostic.hidden = !answer.error;
    diagnostic.textContent = answer.error || "";
    const sql = document.getElementById("sql");
    if (sql) sql.textContent = answer.sql || "";
    // Without a chart, the reason is all that there is to see.
    place.hidden = document.querySelector(".under").hidden = Boolean(answer.error);
    if (answer.error) {
      window.zenDraw.clear(place);
    } else {
      await window.zenDraw.show(place, answer, listenTo);
      showChosen(answer.chosen);
    }
    place.setAttribute("aria-busy", "false");
    document.dispatchEvent(new CustomEvent("zen:drawn"));
  };

  let rowsRequest = 0;
  const showRows = async () => {
    const request = ++rowsRequest;
    const target = document.getElementById("rows");
    if (!target) return;
    const hadFocus = document.activeElement && target.contains(document.activeElement);
    const { text, error } = await zenRequests.get(`/chart/rows?${queryString()}`);
    if (request !== rowsRequest) return;
    // A wrong condition comes back with its form, where it can be corrected.
    if (error && !text.includes('id="selection"')) zenRequests.showErrorIn(target, error);
    else target.innerHTML = text;
    if (hadFocus && target.querySelector('input[name="rows"]')) target.querySelector('input[name="rows"]').focus();
  };

  const address = () => {
    const parameters = queryString();
    for (const link of document.querySelectorAll("[data-file]")) {
      link.href = `${page}/file.${link.dataset.file}?${parameters}`;
    }
    document.getElementById("report").href = `/report/add?chart=${page.slice(1)}&${parameters}`;
    return `${page}?${parameters}`;
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
      // Other studies have other columns: reload the page.
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
      if (event.target.id !== "selection") return;
      event.preventDefault();
      selectRows(event.target.elements.rows.value);
    });
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-unselect]")) selectRows("");
      if (event.target.closest("#link")) copy(location.href);
    });
    document.addEventListener("zen:theme", draw);
    window.addEventListener("popstate", () => location.reload());
    draw();
    showRows();
  }
}
