// Loads the scripts that the pages of a suite share. Where their file is not there, or not complete, the page states that and
// shows the numbers of its charts. From a disk no hash can be checked: the file's name has it.
(() => {
  const { file, integrity } = JSON.parse(document.getElementById("shared").textContent);
  const missing = () => {
    for (const box of document.querySelectorAll("figure.chart")) box.classList.add("failed");
    document.getElementById("missing").hidden = false;
  };
  const script = document.createElement("script");
  script.addEventListener("error", missing);
  script.addEventListener("load", () => {
    if (!document.documentElement.classList.contains("complete")) missing();
  });
  if (location.protocol !== "file:") script.integrity = integrity;
  script.src = file;
  document.head.append(script);
})();
