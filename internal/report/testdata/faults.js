// Gives a list of what is wrong with the page as it is shown now: parts wider than
// the window, labels that pictures cut off, pale text, pictures without a name,
// headings out of order. What may be scrolled for itself may be wide.
(() => {
  const faults = [];
  const name = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}"> "${(e.textContent || "").trim().slice(0, 40)}"`;
  const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  const all = [...document.body.querySelectorAll("*")].filter(shown);
  const inside = (e) => e.closest(".scroll, pre");

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    faults.push(`the page is ${document.documentElement.scrollWidth} wide, wider than the window of ${width}`);
  }
  for (const e of all) {
    const box = e.getBoundingClientRect();
    if (!inside(e) && !e.closest("svg") && (box.right > width + 1 || box.left < -1)) {
      faults.push(`${name(e)} reaches from ${box.left} to ${box.right}, wider than the window of ${width}`);
    }
  }

  for (const text of all.filter((e) => e.tagName === "text")) {
    const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
    const room = getComputedStyle(text.ownerSVGElement).overflow === "visible" ? 12 : 1.5;
    if (box.left < frame.left - room || box.right > frame.right + room || box.top < frame.top - room || box.bottom > frame.bottom + room) {
      faults.push(`${name(text)} is cut off by its picture`);
    }
  }

  // Contrast by WCAG 2.2, of text on the colours behind it.
  const parse = (c) => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, under) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const layers = [];
    for (let p = e; p; p = p.parentElement) layers.push(parse(getComputedStyle(p).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const seen = new Set();
  for (const e of all) {
    if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
    if (e.tagName === "title" || e.tagName === "TITLE") continue;
    const style = getComputedStyle(e), drawn = e.ownerSVGElement != null;
    const under = behind(e), ink = over(parse(drawn ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    const key = `${ink} on ${under}`;
    if (ratio < (large ? 3 : 4.5) && !seen.has(key)) {
      seen.add(key);
      faults.push(`${name(e)} has a contrast of ${ratio.toFixed(2)}: ${key}`);
    }
  }

  for (const e of all) {
    const tag = e.tagName.toLowerCase();
    if (tag === "svg" && e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))) {
      faults.push(`${name(e)} is a picture with no name`);
    }
    if (tag === "img" && !e.getAttribute("alt")) faults.push(`${name(e)} has no alternative text`);
    if (tag === "section" && !e.matches("[aria-label]") && !e.querySelector("h2")) faults.push(`${name(e)} has no heading`);
  }
  let level = 0;
  for (const h of all.filter((e) => /^H[1-6]$/.test(e.tagName))) {
    const next = Number(h.tagName[1]);
    if (next > level + 1) faults.push(`${name(h)} follows a heading of level ${level}: the heading is out of order`);
    level = next;
  }
  return faults.slice(0, 40);
})()
