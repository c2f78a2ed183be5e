/* The panes of the explorer. Their content comes from the kernel and is inserted as text, never as markup. */

const LEAST = 60; // px of a neighbour of a splitter
const MARGIN = 6; // px around the explorer in a pane
const ROW = 24;
const DUMP = 20;
const GAP = 10;
const TABS = ["Fields", "Values", "Mask", "Schema"];
const KEYS = [
  ["j ↓", "next record"], ["k ↑", "previous record"], ["PgDn", "a page on"], ["PgUp", "a page back"],
  ["Home", "first record"], ["End", "last record"], ["n", "next problem"], ["p", "previous problem"],
  ["t", "follow the transaction"], ["r", "follow the row"], ["b", "filter before this one"], ["/", "filter line"],
  ["g", "go to a place"], ["f", "filter by a value of the record, or of the field"], ["s", "saved filters"], ["m", "bookmark, with a note"], ["c", "copy the record"],
  ["1 – 4", "fields, values, mask, schema"], ["Enter", "into the fields: ↑ ↓ ← →"], ["Esc", "end the search, back to the records"], ["?", "this help"],
];
const PICKS = ["table", "operation", "outcome", "problem"];
/* The columns of the list: width, content of a cell, and the column in filters. */
const LIST = [
  { name: "record", width: "minmax(58px, auto)", look: "number", text: (row) => counted(row.row + 1) },
  { name: "mark", head: "", width: "14px", text: (row) => (row.mark === null ? "" : "★"), title: (row) => row.mark || (row.mark === null ? "" : "bookmarked") },
  { name: "time", width: "194px", look: "mono", text: (row) => row.time || row.ended || "",
    title: (row) => (row.time || !row.ended ? row.time || "" : `${row.ended}: when its transaction ended; the record has no time of its own`) },
  { name: "what", width: "122px", by: (row) => (row.operation ? "operation" : "kind"), text: (row) => row.what || row.type || "" },
  { name: "table", width: "minmax(80px, 1fr)" },
  { name: "transaction", width: "minmax(90px, 1fr)", look: "mono muted tail" },
  { name: "position", width: "minmax(120px, 1.2fr)", look: "mono tail" },
  { name: "offset", width: "86px", look: "number mono", text: (row) => counted(row.offset) },
  { name: "length", width: "54px", look: "number mono", text: (row) => counted(row.length) },
  { name: "problem", width: "minmax(80px, 0.9fr)",
    text: (row) => (row.problem ? `${row.severity === "error" ? "✕" : row.severity === "info" ? "i" : "▲"} ${row.problem}` : "") },
];
const COPIES = { json: "JSON", hex: "Hex", xds: "XDS" };

const plural = (number, word) => `${counted(number)} ${word}${Number(number) === 1 ? "" : "s"}`;

/* One of eight colours for a text, always the same one for equal texts. */
const coloured = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7) % 8;

class Panes {
  constructor(model, el) {
    this.model = model;
    this.state = null;
    this.about = { looks: {}, columns: {}, copies: [], places: [] };
    this.detail = null;
    this.first = 0;
    this.count = 12;
    this.asked = 0;
    this.waiting = new Set();
    this.soon = null;
    this.answered = 0;
    this.tab = "Fields";
    this.field = null;
    this.folded = new Set();
    this.everything = false;
    this.hidden = new Set();
    this.widths = {};
    this.offered = [];
    this.build(el);
    this.listen = (message) => this.hear(message);
    model.on("msg:custom", this.listen);
    this.watch();
    this.hear(model.get("begin"));
    this.ask("open");
  }

  /* --- the page ------------------------------------------------------------------------------------------------- */

  build(el) {
    const button = (text, key, step) => {
      const at = text.toLowerCase().indexOf(key);
      const words = at < 0 ? [text] : [text.slice(0, at), make("u", {}, text[at]), text.slice(at + 1)];
      return make("button", { type: "button", title: `${text} (${key})`, onclick: () => { step(); this.root.focus(); } }, ...words);
    };
    this.filter = make("input", {
      class: "filter", spellcheck: "false", autocomplete: "off", "aria-label": "filter",
      placeholder: 'filter, such as  table == "HR.EMP" and operation == "UPDATE" and after.STATE == "PAID"',
      role: "combobox", "aria-expanded": "false", "aria-autocomplete": "list",
      oninput: () => this.complete(), onblur: () => this.offer([]), onkeydown: (event) => this.inFilter(event),
    });
    this.menu = make("div", { class: "menu offers", role: "listbox", "aria-label": "completions" });
    this.picks = Object.fromEntries(PICKS.map((name) => [name, make("select", { "aria-label": name, onchange: (event) => this.pick(name, event.target) })]));
    this.place = make("input", {
      class: "go", spellcheck: "false", autocomplete: "off", "aria-label": "go to",
      placeholder: "go to position, offset N, time …",
      onkeydown: (event) => this.typed(event, () => this.ask("go", { text: this.place.value })),
    });
    this.said = make("div", { class: "said", role: "alert" });
    this.found = make("span", { role: "status" });
    this.bar = make("progress", { max: 1, "aria-label": "searched" });
    this.stop = make("button", { type: "button", title: "Cancel (Esc)", onclick: () => this.cancel() }, "Cancel");
    this.searching = make("div", { class: "bar searching", hidden: true }, this.bar, this.found, this.stop);
    this.follows = make("input", { type: "checkbox", onchange: () => this.ask("follow", { on: this.follows.checked }) });
    this.limits = make("span", {});
    this.selection = make("div", { class: "bar selection", hidden: true }, make("label", {}, this.follows, "follow the selection"), this.limits,
      make("button", { type: "button", title: "select everything again, in all views", onclick: () => { this.ask("unselect"); this.root.focus(); } }, "✕ Reset"));
    this.note = make("div", { class: "bar note", role: "status", hidden: true });
    this.list = make("div", { class: "list", role: "listbox", "aria-label": "records", onwheel: (event) => this.wheel(event) });
    this.thumb = make("div", { class: "thumb" });
    this.track = make("div", { class: "track", onpointerdown: (event) => this.drag(event) }, this.thumb);
    this.head = make("div", { class: "line head" });
    this.list.addEventListener("contextmenu", (event) => this.cellMenu(event));
    this.tabs = make("div", { class: "tabs", role: "tablist" });
    this.notes = make("div", { class: "notes" });
    this.body = make("div", { class: "body", tabindex: "-1", onkeydown: (event) => this.inFields(event) });
    this.body.addEventListener("contextmenu", (event) => this.fieldMenu(event));
    this.over = make("div", { class: "tabs" });
    this.room = make("div", { class: "room" });
    this.bytes = make("div", { class: "body bytes", tabindex: "-1", onscroll: () => this.drawBytes() }, this.room);
    this.status = make("div", { class: "status" });
    this.root = make(
      "div",
      { class: "cdcwb-explorer", "data-capture": this.model.get("capture") || null, tabindex: "0", role: "application", "aria-label": "capture explorer", "data-lm-suppress-shortcuts": "true", onkeydown: (event) => this.pressed(event) },
      this.status,
      make("div", { class: "bars" }, make("div", { class: "bar" }, make("div", { class: "entry" }, this.filter, this.menu),
        make("button", { type: "button", onclick: () => this.ask("filter", { text: this.filter.value }) }, "Apply"),
        make("button", { type: "button", onclick: () => this.ask("filter", { text: "" }) }, "Clear")),
      this.said,
      this.searching,
      this.selection,
      this.note,
      make("div", { class: "bar" },
        button("Back", "b", () => this.ask("back")),
        button("Previous problem", "p", () => this.ask("problem", { by: -1 })),
        button("Next problem", "n", () => this.ask("problem", { by: 1 })),
        button("Transaction", "t", () => this.ask("transaction")),
        button("Row", "r", () => this.follow()),
        this.place, make("span", { class: "gap" }),
        make("button", { type: "button", onclick: () => this.showColumns() }, "Columns"),
        button("Saved filters", "s", () => this.showSaved()),
        button("Bookmark", "m", () => this.showMark()),
        button("Copy", "c", () => this.showCopy()),
        button("?", "?", () => this.showHelp())),
      make("div", { class: "bar picks" }, ...PICKS.map((name) => make("label", {}, `${name} `, this.picks[name])))),
      this.work = make("div", { class: "work" },
        make("div", { class: "records" }, make("div", { class: "across" }, this.head, this.list), this.track),
        this.splitter("the list and the fields"),
        make("div", { class: "panes" },
          make("div", { class: "pane" }, this.tabs, this.notes, this.body),
          this.splitter("the fields and the bytes"),
          make("div", { class: "pane" }, this.over, this.bytes))),
    );
    el.append(this.root);
  }

  /* A bar between two neighbours; dragging it, or an arrow key, gives space of one to the other. */
  splitter(what) {
    const share = (bar, by) => {
      const along = getComputedStyle(bar.parentElement).flexDirection === "row" ? "width" : "height";
      const [before, after] = [bar.previousElementSibling, bar.nextElementSibling];
      const [first, second] = [before, after].map((node) => node.getBoundingClientRect()[along]);
      const given = Math.max(LEAST - first, Math.min(second - LEAST, by));
      [before.style.flexGrow, after.style.flexGrow] = [first + given, second - given];
    };
    const bar = make("div", { class: "split", role: "separator", tabindex: "0", title: "drag to share the space", "aria-label": `between ${what}` });
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
      let at = event;
      bar.onpointermove = (now) => {
        share(bar, getComputedStyle(bar.parentElement).flexDirection === "row" ? now.clientX - at.clientX : now.clientY - at.clientY);
        at = now;
      };
      bar.onpointerup = () => { bar.onpointermove = null; };
    });
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -20, ArrowUp: -20, ArrowRight: 20, ArrowDown: 20 }[event.key];
      if (by) { event.preventDefault(); event.stopPropagation(); share(bar, by); }
    });
    return bar;
  }

  /* As high as the pane of JupyterLab that it is in; wide and low ones have the list to the left of the fields. */
  fit() {
    const pane = this.root.closest(".jupyterlab-sidecar");
    if (pane && !this.root.style.height) this.sizes.observe(pane);
    const height = pane ? pane.clientHeight - 2 * MARGIN : 0;
    this.root.style.height = pane ? `${height}px` : "";
    const width = this.root.clientWidth, shape = width < 760 ? "narrow" : pane && width >= 1000 && height < 640 ? "low" : "";
    for (const name of ["narrow", "low"]) this.root.classList.toggle(name, shape === name);
    this.root.classList.toggle("fits", Boolean(pane));
    if (shape !== this.shape) for (const node of this.work.querySelectorAll(".records, .panes, .pane")) node.style.flexGrow = "";
    this.shape = shape;
  }

  watch() {
    this.sizes = new ResizeObserver(() => {
      this.fit();
      const count = Math.max(4, Math.floor(this.list.clientHeight / ROW));
      if (count !== this.count && this.list.clientHeight) { this.count = count; this.ask(this.answered ? "page" : "open"); } // which scrolls to the current record
      this.drawBytes();
    });
    for (const node of [this.root, this.list, this.bytes]) this.sizes.observe(node);
    this.theme = () => {
      const said = document.body.dataset.jpThemeLight;
      const dark = said === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : said === "false";
      this.root.classList.toggle("dark", dark);
    };
    this.themes = new MutationObserver(this.theme);
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
    this.theme();
  }

  close() {
    this.model.off("msg:custom", this.listen);
    this.sizes.disconnect();
    this.themes.disconnect();
    clearTimeout(this.soon);
    clearTimeout(this.typing);
    clearTimeout(this.looking);
  }

  /* --- messages ------------------------------------------------------------------------------------------------- */

  ask(step, about = {}) {
    this.asked += 1;
    this.waiting.add(this.asked);
    this.showBusy();
    this.model.send({ id: this.asked, do: step, first: this.first, count: this.count, ...about });
  }

  /* While a search runs in the kernel, the page polls its progress and its matches. */
  drawSearch({ search }) {
    this.searching.hidden = !search;
    clearTimeout(this.looking);
    if (!search) return;
    this.found.textContent = search.sentence;
    this.bar.value = search.part;
    this.bar.hidden = this.stop.hidden = !search.running;
    if (search.running) this.looking = setTimeout(() => { this.ask("page"); this.polled = this.asked; }, 50);
  }

  /* The selection of the capture's views. */
  drawSelection({ selection }) {
    this.selection.hidden = !selection;
    if (!selection) return;
    this.follows.checked = selection.follows;
    this.limits.textContent = `selection: ${selection.sentence}`;
    this.limits.classList.toggle("muted", !selection.follows);
  }

  cancel() { this.ask("cancel"); this.root.focus(); }

  showBusy() { this.root.setAttribute("aria-busy", String(this.waiting.size > 0 || this.soon !== null)); }

  hear(message) {
    if (message.chosen !== undefined) return this.ask("chosen");
    if (message.changed) return this.ask("page");
    this.waiting.delete(message.id);
    if (message.about) {
      this.about = message.about;
      this.drawHead();
    }
    if (message.error !== undefined) this.wrong(message);
    else if (message.state && message.id >= this.answered && message.id !== this.polled) this.say("");
    if (message.completions && message.id === this.completing) this.offer(message.completions);
    if (message.detail) this.showDetail(message.detail);
    if (message.terms) this.showTerms(message.terms);
    if (message.copied) this.showCopied(message.copied);
    if (message.state && message.id >= this.answered) {
      this.answered = message.id;
      this.showState(message.state, message.error !== undefined);
    }
    this.showBusy();
  }

  say(text) { this.said.textContent = text; this.filter.classList.remove("wrong"); }

  wrong(message) {
    this.say(message.error);
    if (message.place !== null && message.place !== undefined) {
      this.filter.classList.add("wrong");
      if (document.activeElement === this.filter) this.filter.setSelectionRange(message.place, this.filter.value.length);
    }
  }

  showState(state, failed) {
    const before = this.state;
    this.state = state;
    this.first = state.first;
    if (!failed && document.activeElement !== this.filter) this.filter.value = state.filter;
    this.filter.classList.toggle("good", state.filter !== "" && !failed);
    this.drawSearch(state);
    this.drawSelection(state);
    this.note.textContent = state.note;
    this.note.hidden = !state.note;
    this.drawList();
    this.drawStatus();
    if (!this.asked) return; // the first answer, of the state: the record may be another one by now
    if (!this.detail || !before || this.detail.row !== state.chosen || before.marks !== state.marks) {
      clearTimeout(this.soon);
      this.soon = setTimeout(() => {
        this.soon = null;
        this.ask("detail", { row: state.chosen });
      }, before ? 60 : 0);
    }
  }

  /* --- the list ------------------------------------------------------------------------------------------------- */

  drawList() {
    const { rows, chosen, shown } = this.state;
    this.list.replaceChildren(...rows.map((row) => this.line(row, row.row === chosen)));
    const running = this.state.search && this.state.search.running;
    const selected = this.state.selection && this.state.selection.follows ? " within the selection" : "";
    const none = running ? "No record found yet." : `No record passes this filter${selected}. ${this.state.hint}`;
    if (!rows.length) this.list.replaceChildren(make("div", { class: "nothing" }, none));
    this.drawPicks();
    const height = this.track.clientHeight;
    const part = Math.min(1, this.count / Math.max(1, shown));
    const size = Math.max(22, height * part);
    const reach = Math.max(1, shown - this.count);
    this.thumb.style.height = `${size}px`;
    this.thumb.style.top = `${(height - size) * Math.min(1, this.first / reach)}px`;
    this.track.style.visibility = part < 1 ? "visible" : "hidden";
  }

  line(row, chosen) {
    const cells = this.columns.map((column) => {
      const text = column.text ? column.text(row) : row[column.name] || "";
      const cell = make("span", { class: column.look || "", title: column.title ? column.title(row) : text, "data-column": column.name });
      cell.append(column.look && column.look.includes("tail") ? make("bdi", {}, text) : text);
      return cell;
    });
    const cell = (name) => cells[this.columns.findIndex((column) => column.name === name)] || make("span");
    const look = this.about.looks[row.operation] || null;
    const swatch = make("span", { class: "swatch", "data-pattern": look ? look[1] : "" });
    if (look) swatch.style.setProperty("--look", look[0]);
    cell("what").classList.add("what");
    cell("what").replaceChildren(swatch, make("span", {}, row.what || row.type || ""));
    if (!row.time && row.ended) cell("time").classList.add("inherited");
    if (row.transaction) cell("transaction").dataset.colour = coloured(row.transaction);
    cell("problem").className = `problem ${row.severity || ""}`;
    return make(
      "div",
      { class: `line${chosen ? " chosen" : ""}`, role: "option", "aria-selected": String(chosen), "data-row": row.row,
        onclick: () => { this.ask("choose", { row: row.row }); this.root.focus(); } },
      ...cells,
    );
  }

  get columns() { return LIST.filter((column) => !this.hidden.has(column.name)); }

  drawHead() {
    const named = { time: `time (${this.about.zone})`, mark: "" };
    this.head.replaceChildren(...this.columns.map((column) => make(
      "span", { class: `${(column.look || "").includes("number") ? "number " : ""}heading`, title: column.name }, named[column.name] ?? column.name,
      make("span", { class: "grip", title: "drag to make the column wider or narrower", onpointerdown: (event) => this.resize(event, column) }))));
    this.setWidths();
  }

  setWidths() {
    const widths = this.columns.map((column) => this.widths[column.name] || column.width);
    const least = widths.reduce((sum, width) => sum + Number(/\d+/.exec(width)[0]) + GAP, 2 * GAP);
    this.root.style.setProperty("--columns", widths.join(" "));
    this.root.style.setProperty("--least", `${least}px`);
  }

  resize(event, column) {
    event.preventDefault();
    const grip = event.target;
    const begin = grip.parentElement.getBoundingClientRect().width - event.clientX;
    grip.setPointerCapture(event.pointerId);
    grip.onpointermove = (at) => {
      this.widths[column.name] = `${Math.max(14, Math.round(begin + at.clientX))}px`;
      this.setWidths();
    };
    grip.onpointerup = () => { grip.onpointermove = null; };
  }

  showColumns() {
    const turn = (column, shown) => { this.hidden[shown ? "delete" : "add"](column.name); this.drawHead(); this.drawList(); };
    const boxes = LIST.filter((column) => column.name !== "record").map((column) => {
      const box = make("input", { type: "checkbox", onchange: () => turn(column, box.checked) });
      box.checked = !this.hidden.has(column.name);
      return make("label", {}, box, ` ${column.name}`);
    });
    const again = () => { this.hidden.clear(); this.widths = {}; this.drawHead(); this.drawList(); this.shut(); };
    this.box("Columns of the list", make("div", { class: "choices" }, ...boxes),
      make("div", { class: "choices" }, make("button", { type: "button", onclick: again }, "All, as wide as at first"), this.closing()));
  }

  /* --- filters without typing ----------------------------------------------------------------------------------- */

  drawPicks() {
    for (const [name, select] of Object.entries(this.picks)) {
      const values = (this.about.choices || {})[name] || [];
      const chosen = this.state.only[name];
      const all = chosen !== null && !values.includes(chosen) ? [...values, chosen] : values;
      if (document.activeElement !== select) {
        select.replaceChildren(make("option", { value: "" }, "any"), ...all.map((one, at) => make("option", { value: String(at + 1) }, one)));
        select.selectedIndex = chosen === null ? 0 : all.indexOf(chosen) + 1;
      }
      select.disabled = !all.length;
      select.classList.toggle("good", chosen !== null);
    }
  }

  pick(name, select) {
    const value = select.selectedIndex ? select.selectedOptions[0].textContent : null;
    this.root.focus();
    this.ask("only", { column: name, value });
  }

  /* The values in a row of the list, as buttons that filter by them. */
  narrowing(row, columns) {
    return columns.flatMap((column) => {
      const name = column.by ? column.by(row) : column.name;
      const value = name === "time" ? row.time : row[name];
      if (!(name in this.about.columns)) return [];
      const said = value === null || value === undefined ? "nothing" : String(value);
      const step = (other) => { this.shut(); this.ask("narrow", { column: name, row: row.row, other }); };
      return [make("div", { class: "choices narrow" },
        make("button", { type: "button", "data-narrow": name, onclick: () => step(false) }, `Only ${name} ${said}`),
        make("button", { type: "button", onclick: () => step(true) }, "all others"))];
    });
  }

  cellMenu(event) {
    const cell = event.target.closest("[data-column]");
    const line = event.target.closest("[data-row]");
    const row = line && this.state.rows.find((one) => one.row === Number(line.dataset.row));
    const column = cell && LIST.find((one) => one.name === cell.dataset.column);
    const buttons = row && column ? this.narrowing(row, [column]) : [];
    if (!buttons.length) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has a menu of its own
    this.box("Filter by this value", ...buttons, make("div", { class: "choices" }, this.closing()));
    this.veil.querySelector("button").focus();
  }

  showNarrow() {
    const row = this.state.rows.find((one) => one.row === this.state.chosen);
    if (!row) return;
    this.box(`Filter by a value of record ${counted(row.row + 1)}`, ...this.narrowing(row, LIST), make("div", { class: "choices" }, this.closing()));
    this.veil.querySelector("button").focus();
  }

  /* Filters for a field of the record, or for a cell of its values. */
  showTerms(terms) {
    const step = (clause) => { this.shut(); this.ask("add", { clause }); };
    this.box("Filter by this value",
      ...terms.map((one) => make("div", { class: "choices narrow" }, make("button", { type: "button", onclick: () => step(one.clause) }, one.shown))),
      make("div", { class: "choices" }, this.closing()));
    this.veil.querySelector("button").focus();
  }

  fieldMenu(event) {
    const line = event.target.closest(".field");
    const cell = event.target.closest("[data-image]");
    if (!line && !cell) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab has a menu of its own
    if (line) this.choose(this.nodes[Number(line.dataset.number)]);
    this.askTerms(cell);
  }

  askTerms(cell) {
    if (cell) this.ask("terms", { image: cell.dataset.image, column: cell.dataset.column });
    else this.ask("terms", { field: this.nodes.indexOf(this.field) });
  }

  complete() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      if (document.activeElement !== this.filter) return;
      this.ask("complete", { text: this.filter.value.slice(0, this.filter.selectionStart) });
      this.completing = this.asked;
    }, 80);
  }

  offer(found) {
    this.offered = document.activeElement === this.filter ? found : [];
    this.picked = -1;
    this.drawOffers();
  }

  drawOffers() {
    this.menu.replaceChildren(...this.offered.map((one, at) => make(
      "div", { role: "option", class: at === this.picked ? "chosen" : "", "aria-selected": String(at === this.picked),
        onpointerdown: (event) => { event.preventDefault(); this.accept(one); } }, one.text)));
    this.filter.setAttribute("aria-expanded", String(this.offered.length > 0));
  }

  accept(one) {
    const { value, selectionStart } = this.filter;
    const begin = `${value.slice(0, one.from)}${one.text}${one.text.endsWith(".") ? "" : " "}`;
    this.filter.value = begin + value.slice(selectionStart).trimStart();
    this.filter.setSelectionRange(begin.length, begin.length);
    this.offer([]);
    this.complete();
  }

  inFilter(event) {
    const turns = { ArrowDown: 1, ArrowUp: -1 };
    if (this.offered.length && turns[event.key]) {
      event.preventDefault();
      this.picked = (this.picked + turns[event.key] + this.offered.length + (this.picked < 0 && turns[event.key] < 0 ? 1 : 0)) % this.offered.length;
      this.drawOffers();
    } else if (this.offered.length && (event.key === "Tab" || (event.key === "Enter" && this.picked >= 0))) {
      event.preventDefault();
      this.accept(this.offered[Math.max(0, this.picked)]);
    } else if (this.offered.length && event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.offer([]);
    } else if (event.key === "Enter") {
      this.offer([]);
      this.typed(event, () => this.ask("filter", { text: this.filter.value }));
    }
  }

  scrollTo(first) {
    const last = Math.max(0, this.state.shown - this.count);
    const next = Math.max(0, Math.min(Math.round(first), last));
    if (next !== this.first) { this.first = next; this.ask("page"); }
  }

  wheel(event) {
    if (!this.state || this.state.shown <= this.count || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    this.scrollTo(this.first + Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / 40)));
  }

  drag(event) {
    const box = this.track.getBoundingClientRect();
    const grip = this.thumb.offsetHeight;
    const held = event.target === this.thumb ? event.clientY - this.thumb.getBoundingClientRect().top : grip / 2;
    const go = (at) => {
      const share = (at.clientY - box.top - held) / Math.max(1, box.height - grip);
      this.scrollTo(Math.max(0, Math.min(1, share)) * (this.state.shown - this.count));
    };
    this.track.setPointerCapture(event.pointerId);
    this.track.onpointermove = go;
    this.track.onpointerup = () => { this.track.onpointermove = null; };
    go(event);
  }

  drawStatus() {
    const { shown, records, problems, marks, took, filter } = this.state;
    const parts = [shown === records ? plural(records, "record") : `${counted(shown)} of ${plural(records, "record")}`];
    if (filter && !this.state.search) parts.push(`filtered in ${counted(took)} ms`);
    parts.push(plural(problems, "problem"), plural(marks, "bookmark"), `${this.about.format}, ${this.about.files}`);
    parts.push(this.about.home ? `bookmarks are kept in ${this.about.home}` : "bookmarks last as long as the kernel: save the capture, or name a folder, to keep them");
    this.status.replaceChildren(...parts.map((part) => make("span", { title: part }, part)));
  }

  /* --- one record ----------------------------------------------------------------------------------------------- */

  showDetail(detail) {
    const same = this.detail && this.detail.row === detail.row;
    const name = this.field && this.field.path;
    this.detail = detail;
    this.field = null;
    this.data = detail.bytes === null ? null : detail.bytes.match(/../g) || [];
    this.number(detail.tree, null, "");
    this.drawTabs();
    this.drawNotes();
    this.drawOver();
    if (!same) this.bytes.scrollTop = 0;
    this.choose(name ? this.nodes.find((node) => node.path === name) || null : null);
  }

  number(node, parent, path) {
    if (!parent) this.nodes = [];
    node.parent = parent;
    node.path = `${path}/${node.name}`;
    this.nodes.push(node);
    for (const child of node.children) this.number(child, node, node.path);
  }

  drawTabs() {
    const pick = (tab) => make("button", {
      type: "button", role: "tab", "aria-selected": String(tab === this.tab),
      onclick: () => { this.tab = tab; this.drawTabs(); this.drawBody(); },
    }, tab);
    const quiet = make("input", { type: "checkbox", onchange: () => { this.everything = quiet.checked; this.drawBody(); } });
    quiet.checked = this.everything;
    const all = this.nodes.some((node) => node.quiet) ? make("label", { title: "white space and labels too" }, quiet, "every byte") : null;
    this.tabs.replaceChildren(...TABS.map(pick), ...(all && this.tab === "Fields" ? [all] : []));
  }

  drawNotes() {
    const lines = this.detail.problems.map((one) =>
      make("p", {}, make("span", { class: `problem ${one.severity}` }, `${one.code} `), one.sentence));
    if (this.detail.note) lines.push(make("p", { class: "muted" }, this.detail.note));
    if (this.detail.mark !== null) lines.push(make("p", {}, `★ ${this.detail.mark || "bookmarked"}`));
    this.notes.replaceChildren(...lines);
  }

  drawOver() {
    const { title, file, offset, length, unit } = this.detail;
    const place = unit === "byte" ? `${file}, offset ${counted(offset)}, ${plural(length, "byte")}` : `${file}, ${unit} ${counted(offset)}`;
    this.over.replaceChildren(make("span", { class: "title" }, title), make("span", { class: "about", title: place }, place));
  }

  drawBody() {
    const draw = { Fields: () => this.fields(), Values: () => this.values(), Mask: () => this.masks(), Schema: () => this.schema() };
    this.body.replaceChildren(...draw[this.tab]());
  }

  /* --- fields --------------------------------------------------------------------------------------------------- */

  seen() {
    const found = [];
    const visit = (node, depth) => {
      if (node.quiet && !node.problem && !this.everything) return;
      found.push([node, depth]);
      if (!this.folded.has(node.path)) for (const child of node.children) visit(child, depth + 1);
    };
    visit(this.detail.tree, 0);
    return found;
  }

  fields() {
    const lines = this.seen().map(([node, depth]) => this.fieldLine(node, depth));
    if (this.detail.tree.left) lines.push(make("p", { class: "muted notes" }, `${plural(this.detail.tree.left, "more field")}, left out here: cdcwb inspect shows them`));
    return lines;
  }

  fieldLine(node, depth) {
    const group = node.children.length > 0;
    const turn = make("span", { class: "turn", onclick: (event) => { event.stopPropagation(); this.fold(node); } }, group ? (this.folded.has(node.path) ? "▶" : "▼") : "");
    const line = make(
      "div",
      { class: `field${node === this.field ? " chosen" : ""}`, "data-number": this.nodes.indexOf(node), "data-at": node.at, "data-length": node.length,
        onclick: () => this.choose(node), ondblclick: () => this.fold(node), onmouseenter: () => this.point(node), onmouseleave: () => this.point(null),
        title: [node.name, node.value, node.meaning].filter((text) => text).join("\n") },
      turn,
      make("span", { class: group && depth < 2 ? "name group" : "name" }, node.name),
      node.value === null ? null : make("span", { class: "value" }, node.value),
      node.cut ? this.more(node.name, { field: this.nodes.indexOf(node) }) : null,
      node.meaning ? make("span", { class: "meaning muted" }, node.meaning) : null,
      node.problem ? make("span", { class: "problem" }, `▲ ${node.problem}`) : null,
    );
    line.style.setProperty("--depth", depth);
    return line;
  }

  /* Shows the complete value of a shortened field. */
  more(name, about) {
    const step = (event) => { event.stopPropagation(); this.ask("whole", { name, ...about }); };
    return make("button", { type: "button", class: "more", title: "the whole value", onclick: step }, "all");
  }

  fold(node) {
    if (!node.children.length) return;
    if (!this.folded.delete(node.path)) this.folded.add(node.path);
    this.drawBody();
  }

  span(node) {
    while (node && !node.length) node = node.parent;
    return node ? [node.at, node.at + node.length] : [0, 0];
  }

  choose(node) {
    this.field = node;
    for (let up = node && node.parent; up; up = up.parent) this.folded.delete(up.path);
    if (node && node.quiet) this.everything = true;
    this.drawBody();
    const line = this.body.querySelector(".field.chosen");
    if (line) line.scrollIntoView({ block: "nearest" });
    if (node) this.reveal(this.span(node)[0]);
    this.drawBytes();
  }

  point(node) { this.pointed = node; this.drawBytes(); }

  at(offset) {
    let found = null;
    for (const node of this.nodes) {
      if (node.length && node.at <= offset && offset < node.at + node.length) found = !found || node.length <= found.length ? node : found;
    }
    return found;
  }

  /* --- bytes ---------------------------------------------------------------------------------------------------- */

  get width() { return this.bytes.clientWidth < 560 ? 8 : 16; }

  reveal(offset) {
    const top = Math.floor(offset / this.width) * DUMP;
    const { scrollTop, clientHeight } = this.bytes;
    if (top < scrollTop || top + 2 * DUMP > scrollTop + clientHeight) this.bytes.scrollTop = Math.max(0, top - clientHeight / 3);
  }

  drawBytes() {
    if (!this.detail) return;
    if (this.data === null) {
      this.room.style.height = "auto";
      this.room.replaceChildren(make("p", { class: "muted notes" }, "This record has no bytes of its own here: its fields are those of the event."));
      return;
    }
    const width = this.width;
    const total = Math.ceil(this.data.length / width);
    this.room.style.height = `${(total + (this.detail.bytes_left ? 1 : 0)) * DUMP}px`;
    const first = Math.max(0, Math.floor(this.bytes.scrollTop / DUMP) - 2);
    const last = Math.min(total, first + Math.ceil(this.bytes.clientHeight / DUMP) + 5);
    const on = this.span(this.field);
    const under = this.span(this.pointed);
    const lines = [];
    for (let number = first; number < last; number += 1) lines.push(this.dump(number, width, on, under));
    if (this.detail.bytes_left && last === total) {
      const more = make("div", { class: "dump muted" }, `${plural(this.detail.bytes_left, "more byte")}, left out here: Copy, Hex has them`);
      more.style.top = `${total * DUMP}px`;
      lines.push(more);
    }
    this.room.replaceChildren(...lines);
  }

  dump(number, width, on, under) {
    const begin = number * width;
    const codes = this.data.slice(begin, begin + width);
    const look = (offset) => (on[0] <= offset && offset < on[1] ? " on" : under[0] <= offset && offset < under[1] ? " under" : "");
    const pick = (offset) => ({ onclick: () => this.fromByte(offset), "data-byte": offset });
    const cells = [make("span", { class: "place" }, begin.toString(16).padStart(8, "0"))];
    for (let at = 0; at < width; at += 1) {
      const offset = begin + at;
      const code = codes[at];
      const half = at > 0 && at % 8 === 0 ? " half" : "";
      cells.push(code === undefined ? make("i", { class: half }) : make("i", { class: (code === "00" ? "zero" : "") + half + look(offset), ...pick(offset) }, code));
    }
    codes.forEach((code, at) => {
      const value = parseInt(code, 16);
      const shown = value >= 0x20 && value < 0x7f ? String.fromCharCode(value) : "·";
      cells.push(make("b", { class: (at === 0 ? "start" : "") + (shown === "·" ? " zero" : "") + look(begin + at), ...pick(begin + at) }, shown));
    });
    const line = make("div", { class: "dump" }, ...cells);
    line.style.top = `${number * DUMP}px`;
    return line;
  }

  fromByte(offset) {
    this.tab = "Fields";
    this.drawTabs();
    this.choose(this.at(offset));
    this.root.focus();
  }

  /* --- values, masks, schema ------------------------------------------------------------------------------------ */

  table(heads, rows) {
    const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
    return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  }

  nothing(text) { return [make("p", { class: "muted notes" }, text)]; }

  values() {
    if (!this.detail.values.length) return this.nothing("This record holds no values of a row.");
    const cell = (there, value, image, column, cut) => {
      if (!there) return make("td", { class: "null" }, "not captured");
      const about = { "data-image": image, "data-column": column, tabindex: "0", class: value === null ? "null" : "mono" };
      return make("td", about, value === null ? "NULL" : value, cut ? this.more(column, { image, column }) : null);
    };
    const rows = this.detail.values.map((one) => make(
      "tr", { class: one.changed ? "changed" : "" },
      make("td", {}, one.name, one.key ? make("span", { class: "tag" }, "key") : null, one.changed ? make("span", { class: "tag" }, "changed") : null),
      cell(one.has_before, one.before, "before", one.column, one.before_cut),
      cell(one.has_after, one.after, one.alone ? "key" : "after", one.column, one.after_cut),
    ));
    return [this.table(["column", "before", "after"], rows)];
  }

  masks() {
    if (!this.detail.masks.length) return this.nothing("This record has no mask.");
    return this.detail.masks.flatMap((mask) => [
      make("h4", {}, `${mask.name} `, make("span", { class: "mono" }, mask.text)),
      make("p", { class: "muted notes" }, mask.note),
      make("div", { class: "bits" }, ...mask.bits.map((one) => make(
        "span", { class: `bit${one.set ? " set" : ""}${one.header ? " header" : ""}`, title: `${one.column}, bit ${one.bit}: ${one.set ? "set" : "not set"}${one.header ? ", a header column" : ""}` },
        make("span", { class: "box" }, `${one.bit} ${one.set ? "■" : "□"}`), one.column))),
    ]);
  }

  schema() {
    const schema = this.detail.schema;
    if (!schema) return this.nothing("No table version is known for this record.");
    const said = (value) => (value === null || value === undefined ? "" : String(value));
    const rows = schema.columns.map((one) => make(
      "tr", {}, make("td", {}, String(one.ordinal)), make("td", {}, one.name, one.key ? make("span", { class: "tag" }, `key ${one.key}`) : null),
      make("td", { class: "mono" }, one.type), make("td", {}, said(one.length)),
      make("td", {}, one.nullable === null ? "not given" : one.nullable ? "yes" : "no"),
    ));
    return [
      make("h4", {}, `${schema.table}, version ${schema.version}`),
      make("p", { class: "muted notes" }, `${schema.size}, from: ${schema.origin}`
        + (schema.first_position ? `, first used at ${schema.first_position}` : "")
        + (schema.others.length ? `; other versions of the table: ${schema.others.join(", ")}` : "")),
      this.table(["#", "column", "type", "length", "NULL allowed"], rows),
    ];
  }

  /* --- dialogs -------------------------------------------------------------------------------------------------- */

  box(title, ...children) {
    this.shut();
    this.veil = make("div", { class: "veil", onclick: (event) => { if (event.target === this.veil) this.shut(); } },
      make("div", { class: "box-of", role: "dialog", "aria-label": title }, make("h3", {}, title), ...children));
    this.root.append(this.veil);
  }

  shut() {
    if (this.veil) this.veil.remove();
    this.veil = null;
    this.root.focus();
  }

  closing() { return make("button", { type: "button", onclick: () => this.shut() }, "Close"); }

  showHelp() {
    const keys = KEYS.flatMap(([key, what]) => [make("kbd", {}, key), make("span", {}, what)]);
    const columns = Object.entries(this.about.columns).map(([name, kind]) => `${name} (${kind})`).join(", ");
    this.box("Keys and filters", make("div", { class: "keys" }, ...keys),
      make("p", {}, "A filter compares columns: ", make("span", { class: "mono" }, 'table == "HR.EMP" and not operation in ("INSERT", "DELETE")'),
        ". Signs: == != < <= > >= in contains matches, with and, or, not and parentheses; null is a value. Times: ISO 8601 in quotes."),
      make("p", {}, "Values of rows: ", make("span", { class: "mono" }, 'before.state == "NEW" and after.total >= 12.5'),
        ", also key.NAME; null, missing. They are read in the background; Esc ends it."),
      make("p", { class: "muted" }, `Columns: ${columns}.`),
      make("p", { class: "muted" }, `Places to go to: ${this.about.places.join(", ")}, or a value alone.`),
      make("div", { class: "choices" }, this.closing()));
  }

  showSaved() {
    const name = make("input", { placeholder: "name for the filter in force", "aria-label": "name", onkeydown: (event) => { if (event.key === "Enter") keep(); } });
    const keep = () => { this.ask("save", { name: name.value }); this.shut(); };
    const kept = this.state.saved.flatMap((one) => [
      make("strong", {}, one.name), make("code", {}, one.text),
      make("button", { type: "button", onclick: () => { this.shut(); this.ask("filter", { text: one.text }); } }, "Use"),
      make("button", { type: "button", onclick: () => { this.shut(); this.ask("forget", { name: one.name }); } }, "Forget"),
    ]);
    this.box("Saved filters",
      kept.length ? make("div", { class: "kept" }, ...kept) : make("p", { class: "muted" }, "No filter is saved."),
      make("div", { class: "choices" }, name, make("button", { type: "button", onclick: keep }, "Save the filter in force"), this.closing()));
    name.focus();
  }

  showMark() {
    const old = this.detail ? this.detail.mark : null;
    const note = make("textarea", { "aria-label": "note", placeholder: "note (optional)" });
    note.value = old || "";
    const keep = (text) => { this.ask("mark", { note: text }); this.shut(); };
    note.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep(note.value); });
    this.box(`Bookmark record ${counted(this.state.chosen + 1)}`, note, make("div", { class: "choices" },
      make("button", { type: "button", onclick: () => keep(note.value) }, "Bookmark (Ctrl+Enter)"),
      old === null ? null : make("button", { type: "button", onclick: () => keep(null) }, "Remove the bookmark"), this.closing()));
    note.focus();
  }

  showCopy() {
    const choose = (kind) => this.ask("copy", { kind });
    const buttons = this.about.copies.map((kind, at) => make("button", { type: "button", "data-copy": kind, onclick: () => choose(kind) }, `${at + 1}  ${COPIES[kind] || kind}`));
    this.box(`Copy record ${counted(this.state.chosen + 1)}`, make("div", { class: "choices" }, ...buttons, this.closing()));
    this.veil.firstChild.tabIndex = -1;
    this.veil.firstChild.addEventListener("keydown", (event) => {
      const kind = this.about.copies[Number(event.key) - 1];
      if (kind) { event.preventDefault(); choose(kind); }
    });
    this.veil.firstChild.focus();
  }

  showCopied({ kind, text }) {
    const area = make("textarea", { class: "copy", readonly: true, "aria-label": "copy", spellcheck: "false" });
    area.value = text;
    const told = make("p", { class: "muted", role: "status" }, "");
    this.box(COPIES[kind] || kind, area, told, make("div", { class: "choices" }, this.closing()));
    area.focus();
    area.select();
    const done = () => { told.textContent = "Copied to the clipboard."; };
    const failed = () => { told.textContent = "The browser does not let the page copy: Ctrl+C copies the selected text."; };
    if (navigator.clipboard && navigator.clipboard.writeText) navigator.clipboard.writeText(text).then(done, failed);
    else failed();
  }

  follow() {
    this.say("");
    this.status.replaceChildren(make("span", {}, "looking for the row; the first time for a table this takes a while …"));
    this.ask("row");
  }

  /* --- keys ----------------------------------------------------------------------------------------------------- */

  typed(event, enter) {
    if (event.key === "Enter") { event.preventDefault(); enter(); this.root.focus(); }
  }

  inFields(event) {
    const cell = event.target.closest("[data-image]");
    if (event.key === "f" && (cell || (this.tab === "Fields" && this.field))) {
      event.preventDefault();
      event.stopPropagation();
      this.askTerms(cell);
      return;
    }
    if (!this.detail || this.tab !== "Fields") return;
    const lines = this.seen().map(([node]) => node);
    const at = lines.indexOf(this.field);
    const steps = {
      ArrowDown: () => this.choose(lines[Math.min(lines.length - 1, at + 1)]),
      ArrowUp: () => this.choose(lines[Math.max(0, at - 1)]),
      ArrowLeft: () => { if (this.field && this.field.children.length && !this.folded.has(this.field.path)) this.fold(this.field); else if (this.field && this.field.parent) this.choose(this.field.parent); },
      ArrowRight: () => { if (this.field && this.folded.has(this.field.path)) this.fold(this.field); },
    };
    if (steps[event.key]) { event.preventDefault(); event.stopPropagation(); steps[event.key](); }
  }

  pressed(event) {
    event.stopPropagation();
    if (event.key === "Escape") {
      event.preventDefault();
      if (this.veil) this.shut();
      else if (this.state && this.state.search && this.state.search.running) this.cancel();
      else { if (document.activeElement === this.filter && this.state) this.filter.value = this.state.filter; this.root.focus(); this.say(""); }
      return;
    }
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (typing || this.veil || event.ctrlKey || event.metaKey || event.altKey || !this.state) return;
    if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const page = Math.max(1, this.count - 1);
    const steps = {
      ArrowDown: () => this.ask("move", { by: 1 }), j: () => this.ask("move", { by: 1 }),
      ArrowUp: () => this.ask("move", { by: -1 }), k: () => this.ask("move", { by: -1 }),
      PageDown: () => this.ask("move", { by: page }), PageUp: () => this.ask("move", { by: -page }),
      Home: () => this.ask("move", { by: -this.state.records }), End: () => this.ask("move", { by: this.state.records }),
      n: () => this.ask("problem", { by: 1 }), p: () => this.ask("problem", { by: -1 }),
      t: () => this.ask("transaction"), r: () => this.follow(), b: () => this.ask("back"),
      "/": () => { this.filter.focus(); this.filter.select(); }, g: () => { this.place.focus(); this.place.select(); },
      f: () => this.showNarrow(), s: () => this.showSaved(), m: () => this.showMark(), c: () => this.showCopy(), "?": () => this.showHelp(),
      Enter: () => { this.body.focus(); if (!this.field && this.detail) this.choose(this.detail.tree); },
    };
    TABS.forEach((tab, at) => { steps[String(at + 1)] = () => { this.tab = tab; this.drawTabs(); this.drawBody(); }; });
    if (steps[event.key]) { event.preventDefault(); steps[event.key](); }
  }
}

function render({ model, el }) {
  const panes = new Panes(model, el);
  return () => panes.close();
}

export default { render };
