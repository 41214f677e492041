// Draws the figures of the portal into a page: in a light or dark theme, wide or narrow.
"use strict";
{
  const config = {
    displaylogo: false,
    responsive: true,
    scrollZoom: false,
    // Nothing leaves this machine, and images come from the links below the chart.
    modeBarButtonsToRemove: ["toImage", "lasso2d", "sendChartToCloud"],
  };
  const NARROW = 640;
  // So many tick labels have room below a narrow chart.
  const NAMES = 14;

  const isNarrow = (place) => place.clientWidth < NARROW;

  const request = async (page, parameters, place) => {
    if (isDark()) parameters.set("dark", "1");
    if (isNarrow(place)) parameters.set("narrow", "1");
    const { text, error } = await zenRequests.get(`${page}/figure?${parameters}`);
    return error ? { error } : JSON.parse(text);
  };

  const fitLayout = (layout, place) => {
    if (!isNarrow(place)) return layout;
    layout.legend = { ...layout.legend, orientation: "h", x: 0, y: -0.18, yanchor: "top" };
    layout.margin = { ...layout.margin, l: 48, r: 8 };
    for (const side of Object.keys(layout).filter((name) => name.startsWith("xaxis")).map((name) => layout[name])) {
      const every = Math.ceil((side.ticktext || []).length / NAMES);
      for (const key of every > 1 ? ["tickvals", "ticktext"] : []) side[key] = side[key].filter((_, at) => at % every === 0);
    }
    if (layout.coloraxis) {
      const beside = { thickness: 10, len: 300, lenmode: "pixels", y: 1, yanchor: "top" };
      layout.coloraxis.colorbar = { ...layout.coloraxis.colorbar, ...beside };
    }
    for (const name of Object.keys(layout).filter((each) => each.startsWith("scene"))) {
      const eye = layout[name].camera && layout[name].camera.eye;
      for (const side of Object.keys(eye || {})) eye[side] *= 1.75;
    }
    return layout;
  };

  // Remove the old figures before new ones are drawn.
  const clear = (place) => {
    for (const old of place.querySelectorAll(".plot")) Plotly.purge(old);
    place.replaceChildren();
  };

  const show = async (place, answer, listen) => {
    const figures = answer.figures.map((figure) => {
      const holder = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const title = document.createElement("h2");
      title.textContent = figure.title;
      const note = document.createElement("p");
      note.className = "faint";
      note.textContent = figure.note;
      caption.append(title, note);
      const target = document.createElement("div");
      target.className = "plot";
      holder.append(caption, target);
      return [holder, target, figure];
    });
    clear(place);
    place.replaceChildren(...figures.map(([holder]) => holder));
    for (const [, target, figure] of figures) {
      const layout = fitLayout(figure.layout, place);
      if (listen && figure.selection && !["surface", "pie", "parallel", "heatmap"].includes(figure.kind)) layout.dragmode = "select";
      await Plotly.newPlot(target, figure.data, layout, config);
      if (listen) listen(target, figure);
    }
  };

  window.zenDraw = { request, clear, show };
}
