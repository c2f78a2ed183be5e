// A chart's content with the colours of a dark page: `dark` has them by those of a light one. What is a colour is known by
// its name; texts stay.
const darkened = (value, dark, key = "") => {
  if (Array.isArray(value)) return value.map((part) => darkened(part, dark, key));
  if (value !== null && typeof value === "object") {
    if (ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => [name, name === "fgcolor" ? part : darkened(part, dark, name)]));
  }
  const coloured = typeof value === "string" && (/color$/.test(key) || key === "colorscale" || key === "colorway");
  return coloured && Object.hasOwn(dark, value) ? dark[value] : value;
};
