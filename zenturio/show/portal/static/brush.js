// From a place in a chart to a condition of the expression language.
"use strict";
{
  const literal = (value, type) => {
    if (type === "str") return `'${String(value).replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`;
    if (type === "bool") return String(value);
    return String(Number.parseFloat(value));
  };

  const plainText = (text) => {
    // Names stand in a figure as plotly wants them: escaped.
    const place = document.createElement("textarea");
    place.innerHTML = String(text);
    return place.value;
  };

  const equals = (part, value) => {
    if (!part || value === "(none)" || value === undefined) return null;
    const type = part.type;
    if (type === "str" || type === "bool") return `${part.of} == ${literal(value, type)}`;
    const number = Number.parseFloat(value);
    if (Number.isInteger(number)) return `${part.of} == ${number}`;
    // What stands under an axis has six digits.
    const near = Math.abs(number) * 1e-5;
    return `abs(${part.of} - ${number < 0 ? `(${number})` : number}) <= ${near}`;
  };

  const between = (part, low, high) => {
    if (!part) return null;
    const digits = (value) => Number(value.toPrecision(6));
    const pad = Math.abs(high - low) * 1e-5;
    return `${part.of} >= ${digits(Math.min(low, high) - pad)} and ${part.of} <= ${digits(Math.max(low, high) + pad)}`;
  };

  const oneOf = (part, values) => {
    const known = [...new Set(values)].filter((value) => value !== "(none)" && value !== undefined);
    if (!part || !known.length) return null;
    if (known.length === 1) return equals(part, known[0]);
    const whole = part.type === "str" || part.type === "bool" || known.every((value) => Number.isInteger(Number(value)));
    if (whole) return `${part.of} in (${known.map((value) => literal(value, part.type)).join(", ")})`;
    return `(${known.map((value) => equals(part, value)).join(" or ")})`;
  };

  const allOf = (conditions) => conditions.filter(Boolean).join(" and ");

  const panelOf = (axis) => Number.parseInt(String(axis || "x").slice(1) || "1", 10) - 1;

  // A box that was drawn: ranges where the axis has numbers, else what lies in it.
  const ofSelection = (meant, event, layout) => {
    const range = event.range || {};
    const key = Object.keys(range).find((name) => name.startsWith("x"));
    if (!key) return "";
    const panel = panelOf(key);
    const along = (letter, part) => {
      const name = panel ? `${letter}${panel + 1}` : letter;
      const axis = layout[name.replace(letter, `${letter}axis`)] || {};
      const ends = range[name];
      if (!part || !ends) return null;
      if (axis.type !== "category" && part.type !== "str" && !part.texts) return between(part, ends[0], ends[1]);
      const texts = part.texts || axis.categoryarray || [];
      const [low, high] = ends.map(Number).sort((a, b) => a - b);
      return oneOf(part, texts.filter((_, at) => at >= low - 0.001 && at <= high + 0.001));
    };
    const own = meant.panels ? meant.panels[panel] : meant.x;
    const facet = meant.facet ? equals(meant.facet, meant.facets[panel]) : null;
    return allOf([along("x", own), along("y", meant.y), facet]);
  };

  // A bar, a tile, a slice, a point: what it stands for.
  const ofPoint = (meant, point, kind) => {
    const data = point.data;
    const panel = data.xaxis ? panelOf(data.xaxis) : point.pointNumber && kind === "pie" ? data.panel || 0 : 0;
    const part = meant.panels ? meant.panels[panel] : meant.x;
    let x = kind === "pie" ? plainText(point.label) : point.x;
    if (part && part.texts) x = part.texts[Math.round(point.x)];
    const conditions = [x === undefined || String(x).endsWith(" others") ? null : equals(part, x)];
    if (kind === "heatmap" || kind === "surface" || kind === "scatter") conditions.push(equals(meant.y, point.y));
    if (meant.colour && data.legendgroup) conditions.push(equals(meant.colour, data.legendgroup));
    if (meant.facet && kind !== "pie") conditions.push(equals(meant.facet, meant.facets[panel]));
    return allOf(conditions);
  };

  // Parallel axes: what each of them is held to.
  const ofStrands = (meant, data) =>
    allOf(
      data.dimensions.map((dimension, at) => {
        const part = meant.axes[at];
        const given = dimension.constraintrange;
        if (!given || !part.of) return null;
        const ranges = Array.isArray(given[0]) ? given : [given];
        const conditions = ranges.map(([low, high]) => {
          if (part.texts) return oneOf(part, part.texts.filter((_, place) => place >= low && place <= high));
          return part.log ? between(part, 10 ** low, 10 ** high) : between(part, low, high);
        });
        return conditions.length > 1 ? `(${conditions.map((each) => `(${each})`).join(" or ")})` : conditions[0];
      }),
    );

  window.zenBrush = { ofSelection, ofPoint, ofStrands };
}
