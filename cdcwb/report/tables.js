// Tables of a page: sorted by a click on a heading, filtered by a field above those of more than ten rows, copied and saved
// as CSV. A cell that is shown in words has its value in data-value; a heading has the kind of its values in data-kind and
// their unit in data-unit. Without this script the tables are there as they are.
(() => {
  const MANY = 10;
  const value = (cell) => (cell.querySelector(".null") ? "" : cell.dataset.value ?? cell.querySelector(".shown")?.textContent ?? cell.textContent);
  const make = (name, attributes, text = "") => {
    const node = document.createElement(name);
    for (const [key, held] of Object.entries(attributes)) node.setAttribute(key, held);
    node.textContent = text;
    return node;
  };
  const text = new Intl.Collator("en", { numeric: true });
  // Numbers of any size in the order of their values: equal floats are compared by their digits.
  const digits = (held) => (/^-?\d+$/.test(held) ? BigInt(held) : null);
  const compare = {
    number: (one, other) => {
      const [a, b] = [digits(one), digits(other)];
      if (a !== null && b !== null) return a < b ? -1 : a > b ? 1 : 0;
      return Number(one) - Number(other);
    },
    time: (one, other) => (one < other ? -1 : one > other ? 1 : 0),
    text: (one, other) => text.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0),
  };
  // A spreadsheet takes a cell that begins so for a formula; a plain number is none.
  const safe = (held) => (/^[=+\-@\t\r]/.test(held) && !/^-?\d+(\.\d+)?$/.test(held) ? `'${held}` : held);
  const quoted = (held) => (/[",\r\n]/.test(held) ? `"${held.replaceAll('"', '""')}"` : held);
  const named = (table) => {
    const before = [...document.querySelectorAll("h1, h2, h3, .cdcwb-note")].filter(
      (node) => node.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING && !node.hidden && !node.closest(".instead"));
    const heading = before.filter((node) => node.localName !== "p").pop()?.textContent ?? "table";
    return `${document.querySelector("h1")?.textContent ?? ""} ${heading}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  };
  const write = async (content) => {
    if (navigator.clipboard && isSecureContext) {
      try { return await navigator.clipboard.writeText(content); } catch { /* not allowed: the way below needs no leave */ }
    }
    const area = make("textarea", { "aria-hidden": "true", style: "position: fixed; top: 0; opacity: 0" });
    const focused = document.activeElement;
    area.value = content;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    if (!done) throw new Error("the clipboard cannot be used");
  };
  const save = (name, content) => {
    const address = URL.createObjectURL(new Blob(["\ufeff", content], { type: "text/csv;charset=utf-8" }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  };

  const equip = (table) => {
    const box = table.closest(".cdcwb-scroll");
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const all = [...body.rows];
    const total = all.length;
    const count = (number) => `${number.toLocaleString("en")} ${number === 1 ? "row" : "rows"}`;
    const tools = make("div", { class: "cdcwb-tools", role: "group", "aria-label": "Table" });
    const status = make("span", { class: "status", role: "status" });
    const say = (told) => { status.textContent = told; };
    const shown = () => [...body.rows].filter((row) => !row.hidden);
    const grid = () => [
      heads.map((head) => head.dataset.title + (head.dataset.unit ? ` (${head.dataset.unit})` : "")),
      ...shown().map((row) => [...row.cells].map(value)),
    ].map((row) => row.map(safe));

    if (total > MANY) {
      const field = make("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", spellcheck: "false" });
      const words = new Map(all.map((row) => [row, [...row.cells].map((cell) => `${cell.textContent}\n${value(cell)}`).join("\n").toLowerCase()]));
      field.addEventListener("input", () => {
        const wanted = field.value.trim().toLowerCase();
        for (const row of all) row.hidden = !words.get(row).includes(wanted);
        say(wanted ? `${shown().length.toLocaleString("en")} of ${count(total)}` : "");
      });
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !field.value) return;
        event.preventDefault();
        field.value = "";
        field.dispatchEvent(new Event("input"));
      });
      tools.append(field);
    }
    const button = (label, title, act) => {
      const made = make("button", { type: "button", title }, label);
      made.addEventListener("click", act);
      tools.append(made);
    };
    button("Copy", "Copy the rows that are shown, to paste into a spreadsheet", () => {
      const cells = grid();
      const content = cells.map((row) => row.map((held) => held.replace(/[\t\r\n]+/g, " ")).join("\t")).join("\n");
      write(content).then(() => say(`${count(cells.length - 1)} copied`), (error) => say(error.message));
    });
    button("CSV", "Save the rows that are shown as a CSV file", () => {
      const cells = grid();
      save(`${named(table)}.csv`, cells.map((row) => `${row.map(quoted).join(",")}\r\n`).join(""));
      say(`${count(cells.length - 1)} saved`);
    });
    tools.append(status);
    box.before(tools);

    if (total > 1) {
      for (const [at, head] of heads.entries()) {
        const kind = compare[head.dataset.kind] ? head.dataset.kind : "text";
        const sorter = make("button", { type: "button", class: "sort", title: "Sort" });
        sorter.append(...head.childNodes);
        head.append(sorter);
        sorter.addEventListener("click", () => {
          const before = head.getAttribute("aria-sort");
          const next = before === "ascending" ? "descending" : before === "descending" ? null : "ascending";
          for (const other of heads) other.removeAttribute("aria-sort");
          if (next) head.setAttribute("aria-sort", next);
          const sign = next === "descending" ? -1 : 1;
          const keys = new Map(all.map((row) => [row, value(row.cells[at])]));
          const order = next === null ? all : [...all].sort((one, other) => {
            const [a, b] = [keys.get(one), keys.get(other)];
            if (a === "" || b === "") return (a === "") - (b === ""); // what is not known is last either way
            return sign * compare[kind](a, b);
          });
          body.append(...order);
        });
      }
    }
    for (const cell of body.querySelectorAll('td[title^="cdcwb inspect "]')) {
      const command = cell.title;
      const told = make("span", { class: "shown" });
      told.append(...cell.childNodes);
      const copy = make("button", { type: "button", class: "inspect", title: `Copy: ${command}`, "aria-label": `Copy the command that shows the record: ${command}` });
      copy.addEventListener("click", () => write(command).then(() => say(`copied: ${command}`), (error) => say(error.message)));
      cell.removeAttribute("title");
      cell.append(told, copy);
    }
  };
  for (const head of document.querySelectorAll("table.cdcwb > thead th")) head.dataset.title ??= head.textContent;
  for (const table of document.querySelectorAll(".cdcwb-scroll > table.cdcwb:not(.cdcwb-rows)")) {
    if (table.tHead && table.tBodies.length === 1 && !table.querySelector("[colspan], [rowspan]") && !table.closest(".cdcwb-document, .cdcwb-bytes")) equip(table);
  }
})();
