// Elements and text. Every text of an episode comes into the page here, as text and never as markup.

const ODD = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;
const LONGEST = 6000;

// What steers a terminal or turns text round is shown by name, so that it does neither.
function plain(text) {
  const name = (sign) => sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return String(text).replace(ODD, (sign) => `\u2039U+${name(sign)}\u203a`);
}

// An element; strings among its children become text. `attributes` are ours, never an episode's, but for values.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return made;
}

const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const share = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(3));

// A text as it stands, with its line breaks. Of a very long one the beginning, and a button for the rest.
function passage(text, kind = "text") {
  const tag = kind === "piece" ? "span" : "div";
  if (text.length <= LONGEST) return el(tag, { class: kind }, text);
  const box = el(tag, { class: kind }, text.slice(0, LONGEST), " ");
  const all = () => {
    box.replaceChildren(document.createTextNode(plain(text)));
    box.tabIndex = -1;
    box.focus({ preventScroll: true }); // the button that had it is gone
  };
  box.append(el("button", { type: "button", onclick: all }, `... all ${count(text.length, "character")}`));
  return box;
}

function folded(title, kind, ...children) {
  return el("details", { class: kind }, el("summary", {}, title), ...children);
}

// A table that is wider than the page is scrolled by keys too.
function wide(label, head, rows) {
  const table = el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
  return el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": label }, table);
}

// What is to be done once a choice was made. A choice by pointer gives the keys back to the page; one by arrow keys may
// still go on.
function onChoice(box, action) {
  let isByKey = false;
  box.addEventListener("keydown", () => {
    isByKey = true;
  });
  box.addEventListener("pointerdown", () => {
    isByKey = false;
  });
  box.addEventListener("change", () => {
    if (!isByKey) box.blur();
    action(box.value);
  });
}

function chip(text, kind = "") {
  return el("span", { class: `chip ${kind}` }, text);
}
