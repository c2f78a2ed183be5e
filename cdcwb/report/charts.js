// Draws every chart of the page from the JSON next to it, in the colours of a light or a dark page. Where that fails, the
// numbers appear in its place.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const colours = document.getElementById("dark");
  if (!colours) return; // a page without charts
  const dark = JSON.parse(colours.textContent);
  const small = matchMedia("(max-width: 600px)");
  // On a small page an axis has as many of its ticks as fit side by side, and a long title two lines: turned labels would
  // take the room of the panels.
  const fitted = (figure, width) => {
    if (!small.matches) return figure;
    const axis = ([name, about]) => {
      if (!/^xaxis\d*$/.test(name)) return [name, about];
      const texts = about.ticktext ?? [];
      const longest = Math.max(1, ...texts.flatMap((text) => text.split("<br>")).map((line) => line.length));
      const every = Math.ceil(texts.length / Math.max(1, Math.floor((width - 60) / (8 * longest))));
      const few = texts.length ? { ticktext: texts.filter((_, at) => at % every === 0), tickvals: about.tickvals.filter((_, at) => at % every === 0) } : {};
      const title = about.title?.text ?? "", room = Math.floor(width / 7);
      const end = title.length > room ? Math.max(...[", ", ": ", " ("].map((mark) => title.lastIndexOf(mark, room) + mark.indexOf(" "))) : -1;
      return [name, { ...about, ...few, title: { ...about.title, text: end > 0 ? `${title.slice(0, end)}<br>${title.slice(end + 1)}` : title } }];
    };
    return { ...figure, layout: Object.fromEntries(Object.entries(figure.layout).map(axis)) };
  };
  const draw = (light) => {
    const wanted = root.dataset.theme;
    const night = !light && (wanted === "dark" || (wanted !== "light" && system.matches));
    const drawing = [...document.querySelectorAll("figure.chart")].map((box) => {
      const failed = (error) => { box.classList.add("failed"); console.error(error); };
      try {
        const content = JSON.parse(box.querySelector("script").textContent);
        const drawing = box.querySelector(".drawing");
        const figure = fitted(night ? darkened(content, dark) : content, drawing.clientWidth);
        return Plotly.react(drawing, figure.data, figure.layout, { ...figure.config, responsive: true })
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
  for (const change of [system, small]) change.addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));
})();
