// What a page shows, measured: `probe(root)` finds every text, table, card and chart below an element and tells what is
// wrong with them. Colours are composed with what is behind them; contrast is that of WCAG 2.
const probe = (root) => {
  const parse = (text) => {
    const found = text.match(/^(?:rgba?|color)\((srgb )?(.+)\)$/);
    if (!found) return [0, 0, 0, 0];
    const parts = found[2].split(/[\s,/]+/).map(Number);
    const scale = found[1] ? 255 : 1;
    return [parts[0] * scale, parts[1] * scale, parts[2] * scale, parts[3] ?? 1];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => part * a + below[at] * (1 - a));
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const ancestors = (node) => (node ? [...ancestors(node.parentElement), node] : []);
  const behind = (node) => {
    let colour = [255, 255, 255];
    for (const one of ancestors(node)) colour = over(parse(getComputedStyle(one).backgroundColor), colour);
    return colour;
  };
  const faded = (node) => ancestors(node).reduce((all, one) => all * Number(getComputedStyle(one).opacity), 1);
  const seen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
  const painted = (node, what, paper) => {
    const style = getComputedStyle(node);
    const [r, g, b, a] = parse(style[what]);
    return over([r, g, b, a * Number(style[what === "fill" ? "fillOpacity" : "strokeOpacity"]) * faded(node)], paper);
  };
  const ours = ".cdcwb-verdict, .cdcwb-answer, .cdcwb-cards, .cdcwb-note, .cdcwb-scroll, .cdcwb-document, .cdcwb-bytes, .cdcwb-traps";
  const all = (selector, from = root) => [...from.querySelectorAll(selector)].filter(seen);
  const told = (node, text = node.textContent) => `<${node.nodeName} ${node.getAttribute("class")}> ${text.trim().slice(0, 50)}`;
  const wrong = { texts: [], chartTexts: [], marks: [], overlaps: [], outside: [], aligned: [], cards: [], bars: [] };
  const counts = { texts: 0, chartTexts: 0, marks: 0, cells: 0, cards: 0, charts: 0, bars: 0 };

  const leaves = (node) => {
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  const rectangles = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((box) => box.width > 0);
  };
  for (const box of all(ours)) {
    if (box.parentElement.closest(ours)) continue;
    for (const leaf of leaves(box)) {
      const node = leaf.parentElement;
      if (!seen(node)) continue;
      counts.texts += 1;
      const paper = behind(node);
      const [r, g, b, a] = parse(getComputedStyle(node).color);
      const found = contrast(over([r, g, b, a * faded(node)], paper), paper);
      if (found < 4.5) wrong.texts.push(`${told(node)}: ${found.toFixed(2)}`);
    }
  }
  for (const row of all("table.cdcwb tr")) {
    const cells = [...row.cells];
    for (const [at, cell] of cells.entries()) {
      counts.cells += 1;
      const box = cell.getBoundingClientRect();
      const next = cells[at + 1]?.getBoundingClientRect();
      if (next && next.left < box.right - 1) wrong.overlaps.push(told(cell));
      if (rectangles(cell).some((text) => text.left < box.left - 1 || text.right > box.right + 1)) wrong.outside.push(told(cell));
      const align = getComputedStyle(cell).textAlign;
      const wanted = cell.classList.contains("number") ? ["right"] : cell.classList.contains("badge") ? [align] : ["left", "start"];
      if (!wanted.includes(align)) wrong.aligned.push(`${told(cell)}: ${align}`);
    }
  }
  for (const card of all(".cdcwb-cards > div")) {
    counts.cards += 1;
    const box = card.getBoundingClientRect();
    const [label, value] = ["dt", "dd > b"].map((part) => card.querySelector(part));
    const inside = [label, ...card.querySelectorAll("dd, b, span")].every((part) => {
      const own = part.getBoundingClientRect();
      return own.left >= box.left && own.right <= box.right && own.top >= box.top && own.bottom <= box.bottom;
    });
    const below = value.getBoundingClientRect().top >= label.getBoundingClientRect().bottom - 1;
    const texts = rectangles(card).every((text) => text.left >= box.left && text.right <= box.right && text.bottom <= box.bottom);
    if (!inside || !below || !texts || Number(getComputedStyle(card).borderTopWidth.slice(0, -2)) === 0) wrong.cards.push(told(card));
  }
  for (const chart of all(".js-plotly-plot")) {
    counts.charts += 1;
    const paper = parse(getComputedStyle(chart.querySelector(".main-svg")).backgroundColor).slice(0, 3);
    for (const text of all(".main-svg text", chart)) {
      if (!text.textContent.trim() || text.closest(".modebar, .hoverlayer")) continue;
      counts.chartTexts += 1;
      const mark = text.closest(".bartext-inside") ? text.closest(".point")?.querySelector("path") : null;
      const points = text.closest(".trace.scatter")?.querySelectorAll("path.point") ?? [];
      const under = text.closest(".textpoint") && getComputedStyle(text).textAnchor === "middle"
        ? points[[...text.closest(".text").querySelectorAll(".textpoint")].indexOf(text.closest(".textpoint"))] : mark;
      const ground = under ? painted(under, "fill", paper) : paper;
      if (text.closest(".heatmaplayer")) continue; // its cells are a picture
      const found = contrast(painted(text, "fill", ground), ground);
      if (found < 4.5) wrong.chartTexts.push(`${told(text)}: ${found.toFixed(2)}`);
    }
    for (const panel of all(".barlayer", chart)) {
      const bars = all(".point path", panel).map((bar) => bar.getBBox()).sort((one, other) => one.x - other.x);
      counts.bars += bars.length;
      for (const [at, one] of bars.entries()) {
        for (const other of bars.slice(at + 1)) {
          if (other.x > one.x + one.width - 1) break;
          const top = Math.max(one.y, other.y);
          const bottom = Math.min(one.y + one.height, other.y + other.height);
          const wide = Math.min(one.x + one.width, other.x + other.width) - other.x;
          if (wide > 1 && bottom - top > 1) wrong.bars.push(`${wide.toFixed(1)} × ${(bottom - top).toFixed(1)} px at ${other.x.toFixed()}, ${top.toFixed()}`);
        }
      }
    }
    for (const mark of all(".barlayer .point path, .scatterlayer path.point, .scatterlayer path.js-line", chart)) {
      const { width, height } = mark.getBBox();
      if (mark.closest(".barlayer") && Math.min(width, height) < 0.01) continue; // a bar of nothing draws nothing
      counts.marks += 1;
      const style = getComputedStyle(mark);
      const wide = parseFloat(style.strokeWidth) > 0 && style.stroke !== "none";
      const kinds = [...(wide ? ["stroke"] : []), ...(/^rgb/.test(style.fill) ? ["fill"] : [])];
      const found = Math.max(...kinds.map((kind) => contrast(painted(mark, kind, paper), paper)));
      if (found < 3) wrong.marks.push(`${mark.closest(".trace")?.getAttribute("class")}: ${found.toFixed(2)}`);
    }
  }
  const papers = [...new Set(all(".js-plotly-plot .main-svg:first-child").map((one) => getComputedStyle(one).backgroundColor))];
  const inks = [...new Set(all(".js-plotly-plot .ytick text, .js-plotly-plot .xtick text").map((one) => getComputedStyle(one).fill))];
  const cells = [...new Set(all("table.cdcwb td.text, table.cdcwb td.number").map((one) => getComputedStyle(one).color))];
  return { wrong, counts, papers, inks, cells };
};
