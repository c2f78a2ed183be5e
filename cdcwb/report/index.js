// The search field above the matrix: a row stays where its capture or one of its answers has every word that was typed,
// answers that have not are hidden. / goes to the field, Enter to the first answer, Escape clears it. Without this script
// the matrix is there as it is.
(() => {
  const field = document.getElementById("find");
  if (!field) return;
  const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const rows = [...document.querySelectorAll("#matrix tbody tr")].map((row) => ({
    row,
    name: folded(row.cells[0].textContent),
    cells: [...row.cells].slice(1).map((cell) => ({ cell, text: cell.classList.contains("none") ? "" : folded(cell.textContent) })),
  }));
  const status = field.parentElement.querySelector("[role=status]");
  const search = () => {
    const words = folded(field.value).split(/\s+/).filter(Boolean);
    let captures = 0;
    let answers = 0;
    for (const { row, name, cells } of rows) {
      const asked = words.filter((word) => !name.includes(word));
      const fits = cells.map(({ text }) => asked.every((word) => text.includes(word)));
      row.hidden = !fits.includes(true);
      captures += !row.hidden;
      cells.forEach(({ cell, text }, at) => {
        cell.classList.toggle("other", !fits[at]);
        answers += fits[at] && text !== "";
      });
    }
    const number = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
    status.textContent = words.length ? (captures ? `${number(answers, "answer")} of ${number(captures, "capture")}` : "nothing found") : "";
  };
  field.parentElement.hidden = false;
  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      field.value = "";
      search();
    } else if (event.key === "Enter") {
      [...document.querySelectorAll("#matrix td:not(.other) a")].find((link) => link.checkVisibility())?.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target === field) return;
    event.preventDefault();
    field.select();
  });
  window.addEventListener("pageshow", search); // a browser that goes back fills the field as it was
})();
