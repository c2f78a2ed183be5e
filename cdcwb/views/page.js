/* Panels that share a selection. Their content comes from the kernel: figures as JSON, tables as HTML with escaped captured
   text. Everything else is inserted as text. */

const LOADED = "__cdcwb_plotly";
const SOON = 250;

/* plotly.js is a part of the state of a widget in the kernel, and is read once for each page of the browser; nothing is fetched
   from elsewhere. */
function plotly(model) {
  return (globalThis[LOADED] ??= (async () => {
    const holder = await model.widget_manager.get_model(model.get("about").plotly);
    const packed = new Blob([holder.get("script")]).stream().pipeThrough(new DecompressionStream("gzip"));
    const source = await new Response(packed).text();
    const parts = ["const module = { exports: {} }; const exports = module.exports;", source, "\n;export default module.exports;"];
    const url = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
    const made = (await import(url)).default;
    URL.revokeObjectURL(url);
    return made;
  })().catch((wrong) => { delete globalThis[LOADED]; throw wrong; }));
}

/* Whether JupyterLab can show the explorer in a pane below the notebook. */
function canSplit() {
  const config = document.getElementById("jupyter-config-data");
  if (!config || !document.querySelector(".jp-LabShell")) return false;
  return (JSON.parse(config.textContent).federated_extensions ?? []).some((one) => one.name === "@jupyter-widgets/jupyterlab-sidecar");
}

const isDark = () => {
  const said = document.body.dataset.jpThemeLight;
  return said === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : said === "false";
};

/* Rows, cells and points anywhere on the page of the browser link to records: an open widget of their capture sends the click to
   the kernel. A link has the name of the capture and the number of the record; a cell may have another record than its row. */
const OPEN = (globalThis.__cdcwb_open ??= new Map());

const explorers = (capture) => [...document.querySelectorAll(".cdcwb-explorer")].filter((node) => node.dataset.capture === capture && node.offsetParent !== null);

function lead(capture, record, row = false) {
  const page = OPEN.get(capture)?.values().next().value;
  if (page && record !== undefined && record !== "") page.record(Number(record), row);
}

const captureOf = (row) => row.closest("[data-capture]")?.dataset.capture;

/* The button for the history of the hovered or focused row, at the end of that row. */
function offerHistory(rowOf, show) {
  let row = null;
  const button = make("button", { type: "button", tabindex: "-1", title: "List every record that changes this row of its table (r, or Shift and a click)" }, "Row history");
  const box = make("div", { class: "cdcwb-box cdcwb-history", hidden: true }, button);
  const hide = () => { box.hidden = true; row = null; };
  button.addEventListener("click", () => { show(row, true); hide(); });
  const follow = (event) => {
    if (box.contains(event.target)) return;
    const found = rowOf(event.target);
    if (found && found === row && !box.hidden) return;
    row = found;
    box.hidden = !row || !OPEN.has(captureOf(row));
    if (box.hidden) return;
    const [line, area] = [row, row.closest(".cdcwb-scroll") ?? row].map((node) => node.getBoundingClientRect());
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(area.left, Math.min(line.right, area.right - width))}px`;
    box.style.top = `${line.top + Math.max(0, Math.min(line.height, 28) - height) / 2}px`;
  };
  document.body.append(box);
  document.addEventListener("mousemove", follow); // scrolling under a resting pointer fires no mouseenter
  document.addEventListener("focusin", follow);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
}

function listen() {
  if (globalThis.__cdcwb_listens) return;
  globalThis.__cdcwb_listens = true;
  const of = (node) => node.closest?.("tr[data-record], td[data-record]") ?? null;
  const show = (row, history) => row.isConnected && lead(captureOf(row), row.dataset.record, history);
  offerHistory(of, show);
  document.addEventListener("click", (event) => {
    const row = of(event.target);
    if (row && (event.shiftKey || !window.getSelection().toString())) show(row, event.shiftKey);
  });
  document.addEventListener("mousedown", (event) => { if (event.shiftKey && of(event.target)) event.preventDefault(); }); // prevents the selection of text
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches?.("tr[data-record], td[data-record]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "Enter" && event.key !== "r") return;
    event.stopPropagation();
    show(event.target, event.key === "r");
  }, true);
  const bound = new WeakSet();
  document.addEventListener("mouseover", (event) => { // other code draws and redraws the charts
    const row = of(event.target);
    if (row && !row.title && OPEN.has(captureOf(row))) row.title = "Click: the record. Row history, r, or Shift and a click: every record that changes the same row.";
    const chart = event.target.closest?.(".js-plotly-plot");
    const capture = chart?.layout?.meta?.capture;
    if (!capture || !chart._ev || bound.has(chart._ev)) return;
    bound.add(chart._ev);
    chart.on("plotly_click", (clicked) => lead(capture, String(clicked.points[0].id ?? "").split("~")[0])); // the part after ~ makes ids unique
  });
}

class Controls {
  constructor(page) {
    this.page = page;
    this.open = null;
    this.typing = null;
    const button = (text, step) => make("button", { type: "button", "data-do": step, onclick: () => page.send(step) }, text);
    this.fields = make("div", { class: "fields" });
    this.text = make("input", {
      type: "search", "aria-label": "text", placeholder: "text in table, transaction, user, position, column", spellcheck: "false",
      oninput: () => { clearTimeout(this.typing); this.typing = setTimeout(() => page.send("set", { field: "text", value: this.text.value }), SOON); },
    });
    this.time = make("button", { type: "button", class: "time", title: "all times again", onclick: () => page.send("time", { x: null }) });
    this.without = make("input", { type: "checkbox", onchange: () => page.send("set", { field: "without_time", value: this.without.checked }) });
    this.withoutText = make("span");
    this.withoutLabel = make("label", { class: "without" }, this.without, this.withoutText);
    this.name = make("input", { type: "text", "aria-label": "name of the selection", placeholder: "name", size: 12,
      onkeydown: (event) => { if (event.key === "Enter") this.keep(); } });
    this.kept = make("select", { "aria-label": "kept selections", onchange: () => { if (this.kept.value) page.send("use", { name: this.kept.value }); } });
    this.python = make("code", { class: "python" });
    this.count = make("b", { class: "count", role: "status" });
    [this.undo, this.redo, this.reset] = [button("Undo", "undo"), button("Redo", "redo"), button("Reset", "reset")];
    this.node = make("div", { class: "cdcwb-box cdcwb-controls", role: "group", "aria-label": "selection", "data-lm-suppress-shortcuts": "true" },
      make("div", { class: "row" }, this.fields, this.text),
      make("div", { class: "row" }, this.count, this.time, this.withoutLabel, make("span", { class: "gap" }), this.undo, this.redo, this.reset, this.name,
        make("button", { type: "button", onclick: () => this.keep() }, "Keep"), this.kept),
      make("div", { class: "row" }, this.python));
    document.addEventListener("pointerdown", this.outside = (event) => {
      if (!event.composedPath().includes(this.fields)) for (const one of this.fields.children) one.open = false;
    });
  }

  close() { document.removeEventListener("pointerdown", this.outside); clearTimeout(this.typing); }

  keep() { if (this.name.value.trim()) { this.page.send("keep", { name: this.name.value }); this.name.value = ""; } }

  show(told) {
    this.count.textContent = `${counted(told.count)} of ${counted(told.total)} changes`;
    this.time.textContent = told.time === null ? "" : `${told.time} ✕`;
    this.time.hidden = told.time === null;
    this.withoutLabel.hidden = !told.without_time || told.time === null;
    this.without.checked = told.with_those;
    this.withoutText.textContent = ` and ${counted(told.without_time)} without a time`;
    if (document.activeElement !== this.text) this.text.value = told.text;
    this.undo.disabled = !told.steps[0];
    this.redo.disabled = !told.steps[1];
    this.reset.disabled = told.python === "Selection()";
    this.python.textContent = told.python;
    this.kept.hidden = !told.kept.length;
    this.kept.replaceChildren(make("option", { value: "" }, "kept selections"), ...told.kept.map((name) => make("option", { value: name }, name)));
    const fields = told.fields.filter((field) => field.values.length);
    if (fields.map((field) => field.name).join() !== [...this.fields.children].map((node) => node.dataset.field).join())
      this.fields.replaceChildren(...fields.map((field) => this.field(field)));
    for (const [place, field] of fields.entries()) this.fill(this.fields.children[place], field);
  }

  field(field) {
    const find = make("input", { type: "search", "aria-label": `find in ${field.name}`, placeholder: "find", oninput: () => this.find(node) });
    const node = make("details", { "data-field": field.name, ontoggle: () => { if (node.open) { find.value = ""; this.find(node); } } },
      make("summary", {}), make("div", { class: "menu" }, find, make("div", { class: "values" })));
    return node;
  }

  find(node) {
    const wanted = node.querySelector("input[type=search]").value.toLowerCase();
    for (const label of node.querySelectorAll("label")) label.hidden = !label.dataset.value.toLowerCase().includes(wanted);
  }

  fill(node, field) {
    const chosen = field.values.filter((one) => one[2]).map((one) => one[0]);
    node.querySelector("summary").textContent = chosen.length ? `${field.name}: ${chosen.length > 2 ? chosen.length : chosen.join(", ")}` : field.name;
    node.classList.toggle("chosen", chosen.length > 0);
    node.querySelector("input[type=search]").hidden = field.values.length < 9;
    node.querySelector(".values").replaceChildren(...field.values.map(([value, count, on]) => {
      const box = make("input", { type: "checkbox", onchange: () => this.page.send("toggle", { field: field.name, value }) });
      box.checked = on;
      return make("label", { "data-value": value }, box, make("span", { class: "value" }, value), make("span", { class: "number" }, counted(count)));
    }));
    this.find(node);
  }
}

class Chart {
  constructor(panel, number) {
    [this.panel, this.number, this.node, this.Plotly] = [panel, number, make("div", { class: "plot" }), null];
  }

  /* Draws the figure of the JSON text `source`, with other shapes than those that it has; returns whether it is still that of `version`. */
  async draw(source, shapes, version) {
    const { page, name } = this.panel, night = isDark();
    const coloured = (value) => (night ? darkened(value, page.dark) : value);
    if (this.source !== source || this.night !== night) this.figure = coloured(JSON.parse(source));
    [this.source, this.night] = [source, night];
    const { figure, node } = this;
    const loaded = await plotly(page.model);
    if (this.panel.version !== version) return; // a later answer will follow
    const first = !this.Plotly, marks = { shapes: coloured(shapes), selections: [] }, text = JSON.stringify(marks);
    const same = this.drawn === figure;
    if (same && this.marked === text && !node.layout.selections?.length) return;
    [this.Plotly, this.quiet] = [loaded, true];
    if (same) await loaded.relayout(node, marks);
    else {
      const margin = { ...figure.layout.margin, ...(figure.layout.xaxis?.type === "date" ? page.margins : {}) };
      await loaded.react(node, figure.data, { ...figure.layout, margin, ...marks }, { ...figure.config, responsive: true });
    }
    [this.drawn, this.marked, this.quiet] = [figure, text, false];
    if (!same) await page.align();
    if (!first) return;
    const about = { panel: name, figure: this.number };
    node.on("plotly_selected", (event) => { if (event?.range?.x) page.send("brush", { ...about, x: event.range.x.map(String) }); });
    node.on("plotly_deselect", () => page.send("brush", { ...about, x: null }));
    node.on("plotly_relayout", (event) => {
      if (this.quiet) return;
      if ("xaxis.range[0]" in event) page.send("zoom", { ...about, x: [String(event["xaxis.range[0]"]), String(event["xaxis.range[1]"])] });
      else if (event["xaxis.autorange"]) page.send("zoom", { ...about, x: null });
    });
    node.on("plotly_click", (event) => {
      const [point] = event.points;
      page.ask("point", { ...about, id: point.id ?? null, x: String(point.x), custom: point.customdata ?? null });
    });
  }

  close() { if (this.Plotly) this.Plotly.purge(this.node); }
}

class Panel {
  constructor(page, about) {
    [this.page, this.name, this.trait, this.charts, this.kinds] = [page, about.name, about.trait, [], null];
    this.title = about.title ? make("h3", {}, about.title) : null;
    this.headline = make("p", { class: "headline" });
    this.body = make("div", { class: "body" });
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.localName === "th") this.click(event); });
    this.node = make("section", { class: "cdcwb-panel", "data-panel": this.name, "aria-busy": "true" },
      make("div", { class: "cdcwb-box" }, this.title, about.help ? make("p", { class: "help" }, about.help) : null, this.headline), this.body);
  }

  click(event) {
    const box = event.target.closest("[data-table]"), head = event.target.closest("th.sortable");
    const table = Number(box?.dataset.table);
    if (head) this.page.send("sort", { panel: this.name, table, column: [...head.parentNode.children].indexOf(head) });
    else if (event.target.closest("button.more")) this.page.send("more", { panel: this.name, table });
  }

  /* Blocks of the same kinds as before stay where they are, so that nothing moves below the pointer. */
  lay(blocks) {
    const kinds = blocks.map((block) => block.kind).join();
    if (kinds !== this.kinds) {
      const figures = blocks.filter((block) => block.kind === "figure").length;
      for (const chart of this.charts.splice(figures)) chart.close();
      while (this.charts.length < figures) this.charts.push(new Chart(this, this.charts.length));
      const charts = [...this.charts];
      this.body.replaceChildren(...blocks.map((block) => (block.kind === "figure" ? charts.shift().node : make("div", { class: `cdcwb-box ${block.kind}` }))));
      this.kinds = kinds;
    }
    let table = 0;
    for (const [place, block] of blocks.entries()) {
      if (block.kind === "figure") continue;
      const node = this.body.children[place];
      node.innerHTML = block.html; // from the kernel, captured text escaped
      if (block.kind !== "table") continue;
      node.dataset.table = table++;
      for (const [column, head] of [...node.querySelectorAll("th")].entries())
        if (block.sortable[column]) { head.tabIndex = 0; head.classList.add("sortable"); if (block.sorted[0] === column) head.setAttribute("aria-sort", block.sorted[1] ? "descending" : "ascending"); }
      if (block.more) node.append(make("button", { type: "button", class: "more" }, "Show more"));
    }
  }

  async show() {
    const answer = this.page.model.get(`panel_${this.trait}`);
    if (!answer.version) return; // not drawn yet
    this.version = answer.version;
    this.headline.textContent = answer.headline;
    this.headline.hidden = !answer.headline;
    this.lay(answer.blocks);
    const data = this.page.model.get(`figures_${this.trait}`), shapes = answer.blocks.filter((block) => block.kind === "figure");
    const sources = shapes.length ? JSON.parse(new TextDecoder().decode(data)) : [];
    try {
      for (const [number, chart] of this.charts.entries()) await chart.draw(sources[number], shapes[number].shapes, answer.version);
    } catch (wrong) {
      this.headline.textContent = `The chart cannot be drawn: ${wrong.message}`;
      throw wrong;
    } finally {
      if (this.version === answer.version) this.node.setAttribute("aria-busy", "false");
      this.node.dataset.version = answer.version;
    }
  }

  close() { for (const chart of this.charts) chart.close(); }
}

class Page {
  constructor(model, el) {
    this.model = model;
    const about = model.get("about");
    this.capture = about.capture;
    this.dark = about.dark;
    this.controls = about.controls ? new Controls(this) : null;
    this.panels = new Map(about.panels.map((one) => [one.name, new Panel(this, one)]));
    this.wrong = make("p", { class: "cdcwb-note wrong", role: "alert", hidden: true });
    this.waiting = make("p", { class: "cdcwb-note waiting", role: "status", hidden: !about.panels.length }, "This view is drawn …");
    if (this.controls) this.controls.node.style.display = "none";
    this.root = make("div", { class: "cdcwb-live" },
      make("div", { class: "cdcwb-box" }, about.title ? make("h2", {}, about.title) : null, this.headline = make("p", { class: "answer" })),
      this.controls?.node, make("div", { class: "cdcwb-box" }, this.waiting, this.wrong), ...[...this.panels.values()].map((panel) => panel.node));
    el.append(this.root);
    this.heard = { "msg:custom": (message) => this.hear(message), "change:wrong": () => this.warn(), "change:bar": () => this.control() };
    for (const panel of this.panels.values()) this.heard[`change:panel_${panel.trait}`] = () => this.show(panel);
    for (const [event, handler] of Object.entries(this.heard)) model.on(event, handler);
    this.themes = new MutationObserver(() => { for (const panel of this.panels.values()) panel.show(); });
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
    this.seen = new IntersectionObserver((entries) => {
      for (const one of entries) this.send("seen", { panel: one.target.dataset.panel, on: one.isIntersecting });
    }, { rootMargin: "200px" });
    if (!OPEN.has(about.capture)) OPEN.set(about.capture, new Set());
    OPEN.get(about.capture).add(this);
    listen();
    this.send("open", { beside: canSplit() });
    this.warn();
    this.control();
    for (const panel of this.panels.values()) { this.show(panel); this.seen.observe(panel.node); }
  }

  send(step, about = {}) { this.model.send({ do: step, ...about }); }

  record(number, row) { this.ask("record", { record: number, row }); }

  /* Sends a step that shows a record: in a visible explorer, else one becomes visible. */
  ask(step, about) {
    const seen = () => explorers(this.capture);
    this.send(step, { ...about, seen: seen().length > 0 });
    clearInterval(this.coming);
    let left = 100;
    if (!seen().length)
      this.coming = setInterval(() => {
        const [node] = seen();
        node?.scrollIntoView({ block: "nearest" });
        if (node || !left--) clearInterval(this.coming);
      }, 200);
  }

  hear(message) {
    for (const name of message.stale ?? []) this.panels.get(name)?.node.setAttribute("aria-busy", "true");
  }

  warn() {
    this.wrong.textContent = this.model.get("wrong");
    this.wrong.hidden = !this.wrong.textContent;
    if (!this.wrong.hidden) this.waiting.hidden = true;
  }

  control() {
    const told = this.model.get("bar");
    if (!told.python || !this.controls) return;
    this.controls.node.style.display = "";
    this.controls.show(told);
  }

  /* Charts over time have the margins of the one whose labels need most, so that times are below each other. */
  async align() {
    const charts = [...this.panels.values()].flatMap((panel) => panel.charts);
    const drawn = charts.filter(({ Plotly, node }) => Plotly && node._fullLayout?.xaxis?.type === "date");
    const most = (side) => Math.max(...drawn.map(({ node }) => node._fullLayout._size[side]));
    const margins = (this.margins = { l: most("l"), r: most("r") }); // the next figures begin with them
    for (const { Plotly, node } of drawn) {
      const missing = Object.entries(margins).filter(([side, size]) => node._fullLayout._size[side] < size - 0.5);
      if (missing.length) await Plotly.relayout(node, Object.fromEntries(missing.map(([side, size]) => [`margin.${side}`, size])));
    }
  }

  show(panel) {
    const { version, answer } = this.model.get(`panel_${panel.trait}`);
    if (!version) return;
    this.waiting.hidden = true;
    if (answer !== undefined) this.headline.textContent = answer;
    panel.show();
  }

  close() {
    for (const [event, handler] of Object.entries(this.heard)) this.model.off(event, handler);
    OPEN.get(this.capture)?.delete(this);
    clearInterval(this.coming);
    this.themes.disconnect();
    this.seen.disconnect();
    this.controls?.close();
    for (const panel of this.panels.values()) panel.close();
  }
}

function render({ model, el }) {
  const page = new Page(model, el);
  return () => page.close();
}

export default { render };
