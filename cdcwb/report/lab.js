// Inside JupyterLab: draws our charts in the colours of its theme, or of the theme that their notebook was asked for, and
// again whenever the theme is switched. The charts themselves are drawn by plotly's own renderer.
const follow = (dark) => {
  if (window.cdcwbFollows) return;
  window.cdcwbFollows = true;
  const light = new WeakMap(); // what a chart was drawn from
  const drawn = new WeakMap(); // and whether it is dark now
  const isDark = (node) => {
    const asked = node.closest(".jp-Notebook")?.querySelector("style[data-theme]")?.dataset.theme;
    return asked === "dark" || (asked !== "light" && document.body.dataset.jpThemeLight === "false");
  };
  const draw = (node) => {
    if (node.layout?.template?.layout?.meta !== "cdcwb" || !window.Plotly) return;
    const first = !light.has(node);
    if (first) light.set(node, { data: node.data, layout: node.layout });
    const night = isDark(node);
    if (night === (drawn.get(node) ?? false)) return;
    drawn.set(node, night);
    const { data, layout } = light.get(node);
    const figure = night ? darkened({ data, layout }, dark) : { data, layout };
    window.Plotly.react(node, figure.data, figure.layout).catch(console.error);
  };
  const look = () => {
    for (const node of document.getElementsByClassName("js-plotly-plot")) draw(node);
    // A saved notebook shows pictures of its charts as they were; a pointer over one makes plotly draw the chart again.
    for (const image of document.querySelectorAll(".jp-RenderedPlotly > .plot-img[src]")) {
      const chart = image.parentElement;
      const ours = image.closest(".jp-Notebook")?.querySelector("style[data-theme]");
      if (ours && !drawn.has(image) && !chart.querySelector(".plot-container")) {
        drawn.set(image, true);
        image.dispatchEvent(new Event("mouseenter"));
      }
    }
  };
  const watched = { subtree: true, childList: true, attributes: true, attributeFilter: ["data-jp-theme-light", "data-theme"] };
  new MutationObserver(look).observe(document.body, watched);
  look();
};
