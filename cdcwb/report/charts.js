// Draws every chart of the page from the JSON beside it, in the colours of a light or a dark page. Where that fails, the
// numbers appear in its place.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = JSON.parse(document.getElementById("dark").textContent);
  const draw = (light) => {
    const wanted = root.dataset.theme;
    const night = !light && (wanted === "dark" || (wanted !== "light" && system.matches));
    for (const box of document.querySelectorAll("figure.chart")) {
      const failed = (error) => { box.classList.add("failed"); console.error(error); };
      try {
        const content = JSON.parse(box.querySelector("script").textContent);
        const figure = night ? darkened(content, dark) : content;
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
