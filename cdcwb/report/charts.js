// Draws every chart of the page from the JSON beside it, in the colours of a light or a dark page. Where that fails, the
// numbers appear in its place.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = JSON.parse(document.getElementById("dark").textContent);
  const darkened = (value, key = "") => {
    if (Array.isArray(value)) return value.map((part) => darkened(part, key));
    if (value !== null && typeof value === "object") {
      const kept = (name) => name === "textfont" || name === "fgcolor";
      return Object.fromEntries(
        Object.entries(value).map(([name, part]) => [name, kept(name) ? part : darkened(part, name)]));
    }
    const coloured = typeof value === "string" && (/color$/.test(key) || key === "colorscale" || key === "colorway");
    return coloured && Object.hasOwn(dark, value) ? dark[value] : value;
  };
  const draw = (light) => {
    const wanted = root.dataset.theme;
    const night = !light && (wanted === "dark" || (wanted !== "light" && system.matches));
    for (const box of document.querySelectorAll("figure.chart")) {
      const failed = (error) => { box.classList.add("failed"); console.error(error); };
      try {
        const content = JSON.parse(box.querySelector("script").textContent);
        const figure = night ? darkened(content) : content;
        Plotly.react(box.querySelector(".drawing"), figure.data, figure.layout, figure.config)
          .then(() => box.classList.add("drawn"), failed);
      } catch (error) {
        failed(error);
      }
    }
  };
  draw(false);
  system.addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));
})();
