// Turns a selection in a chart into a condition of the expression language.
"use strict";
{
  const literal = (value, type) => {
    if (type === "str") return `'${String(value).replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`;
    if (type === "bool") return String(value);
    return String(Number.parseFloat(value));
  };

  const plainText = (text) => {
    // Names in a figure are escaped for plotly.
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
    // Numbers at ticks have six digits.
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
    const present = [...new Set(values)].filter((value) => value !== "(none)" && value !== undefined);
    if (!part || !present.length) return null;
    if (present.length === 1) return equals(part, present[0]);
    const whole = part.type === "str" || part.type === "bool" || present.every((value) => Number.isInteger(Number(value)));
    if (whole) return `${part.of} in (${present.map((value) => literal(value, part.type)).join(", ")})`;
    return `(${present.map((value) => equals(part, value)).join(" or ")})`;
  };

  const allOf = (conditions) => conditions.filter(Boolean).join(" and ");

  const panelOf = (axis) => Number.parseInt(String(axis || "x").slice(1) || "1", 10) - 1;

  // A box: a range where the axis has numbers, else the categories in it.
  const ofSelection = (meaning, event, layout) => {
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
    const own = meaning.panels ? meaning.panels[panel] : meaning.x;
    const facet = meaning.facet ? equals(meaning.facet, meaning.facets[panel]) : null;
    return allOf([along("x", own), along("y", meaning.y), facet]);
  };

  // A bar, a tile, a slice or a point: the values that it stands for.
  const ofPoint = (meaning, point, kind) => {
    const data = point.data;
    const panel = data.xaxis ? panelOf(data.xaxis) : point.pointNumber && kind === "pie" ? data.panel || 0 : 0;
    const part = meaning.panels ? meaning.panels[panel] : meaning.x;
    let x = kind === "pie" ? plainText(point.label) : point.x;
    if (part && part.texts) x = part.texts[Math.round(point.x)];
    const conditions = [x === undefined || String(x).endsWith(" others") ? null : equals(part, x)];
    if (kind === "heatmap" || kind === "surface" || kind === "scatter") conditions.push(equals(meaning.y, point.y));
    if (meaning.colour && data.legendgroup) conditions.push(equals(meaning.colour, data.legendgroup));
    if (meaning.facet && kind !== "pie") conditions.push(equals(meaning.facet, meaning.facets[panel]));
    return allOf(conditions);
  };

  // Parallel axes: the ranges that are selected on each.
  const ofStrands = (meaning, data) =>
    allOf(
      data.dimensions.map((dimension, at) => {
        const part = meaning.axes[at];
        const selected = dimension.constraintrange;
        if (!selected || !part.of) return null;
        const ranges = Array.isArray(selected[0]) ? selected : [selected];
        const conditions = ranges.map(([low, high]) => {
          if (part.texts) return oneOf(part, part.texts.filter((_, place) => place >= low && place <= high));
          return part.log ? between(part, 10 ** low, 10 ** high) : between(part, low, high);
        });
        return conditions.length > 1 ? `(${conditions.map((condition) => `(${condition})`).join(" or ")})` : conditions[0];
      }),
    );

  window.zenSelection = { ofSelection, ofPoint, ofStrands };
}
