// Draws every chart of the page from the JSON beside it, in the colours of a light or a dark page. Where that fails, the
// numbers appear in its place.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const colours = document.getElementById("dark");
  if (!colours) return; // a page without charts
  const dark = JSON.parse(colours.textContent);
  const draw = (light) => {
    const wanted = root.dataset.theme;
    const night = !light && (wanted === "dark" || (wanted !== "light" && system.matches));
    const drawing = [...document.querySelectorAll("figure.chart")].map((box) => {
      const failed = (error) => { box.classList.add("failed"); console.error(error); };
      try {
        const content = JSON.parse(box.querySelector("script").textContent);
        const figure = night ? darkened(content, dark) : content;
        return Plotly.react(box.querySelector(".drawing"), figure.data, figure.layout, { ...figure.config, responsive: true })
          .then(() => box.classList.add("drawn"), failed);
      } catch (error) {
        failed(error);
      }
    });
    Promise.allSettled(drawing).then(align);
  };
  // Charts of times have the same margins, so that one time is at one place of the page. Where there is little room, each
  // has its own.
  const align = () => {
    const boxes = [...document.querySelectorAll("figure.chart.drawn .drawing")].filter((box) => box._fullLayout?.xaxis?.type === "date");
    const own = boxes.map((box) => box._fullLayout._size);
    const [l, r] = ["l", "r"].map((side) => Math.max(...own.map((size) => size[side])));
    if (boxes.length < 2 || innerWidth < 700) return;
    for (const [at, box] of boxes.entries()) {
      if (own[at].l < l - 1 || own[at].r < r - 1) Plotly.relayout(box, { "margin.l": l, "margin.r": r });
    }
  };
  draw(false);
  system.addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));
})();
