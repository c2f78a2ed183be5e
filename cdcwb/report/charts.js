// Draws every chart of the page from the JSON beside it. Where that fails, the numbers appear in its place.
(() => {
  for (const box of document.querySelectorAll("figure.chart")) {
    const failed = (error) => { box.classList.add("failed"); console.error(error); };
    try {
      const figure = JSON.parse(box.querySelector("script").textContent);
      Plotly.newPlot(box.querySelector(".drawing"), figure.data, figure.layout, figure.config).catch(failed);
    } catch (error) {
      failed(error);
    }
  }
})();
