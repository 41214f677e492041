// Figures that the portal answers with, drawn into a page: by day or by night, wide or narrow.
"use strict";
{
  const config = {
    displaylogo: false,
    responsive: true,
    scrollZoom: false,
    // Nothing leaves this machine, and pictures come from the links below.
    modeBarButtonsToRemove: ["toImage", "lasso2d", "sendChartToCloud"],
  };
  const NARROW = 640;
  // Of values below an axis: so many have room there.
  const NAMES = 14;

  const isNarrow = (place) => place.clientWidth < NARROW;

  const asked = async (page, given, place) => {
    if (isDark()) given.set("dark", "1");
    if (isNarrow(place)) given.set("narrow", "1");
    const { text, said } = await zenRequests.ask(`${page}/figure?${given}`);
    return said ? { said } : JSON.parse(text);
  };

  const fitLayout = (layout, place) => {
    if (!isNarrow(place)) return layout;
    layout.legend = { ...layout.legend, orientation: "h", x: 0, y: -0.18, yanchor: "top" };
    layout.margin = { ...layout.margin, l: 48, r: 8 };
    for (const side of Object.keys(layout).filter((each) => each.startsWith("xaxis")).map((each) => layout[each])) {
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

  // Nothing old stands under a new question.
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
      if (listen && figure.brush && !["surface", "pie", "parallel", "heatmap"].includes(figure.kind)) layout.dragmode = "select";
      await Plotly.newPlot(target, figure.data, layout, config);
      if (listen) listen(target, figure);
    }
  };

  window.zenDraw = { asked, clear, show };
}
