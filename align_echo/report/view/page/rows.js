// The list: which episodes are asked for, in which order, and only those elements that can be seen.

const ROW = 56; // pixels, as in viewer.css
const SORTS = {
  "as stored": null,
  "score, low first": (a, b) => scoreless(a, b) || a.score - b.score,
  "score, high first": (a, b) => scoreless(a, b) || b.score - a.score,
  "turns, few first": (a, b) => a.turns - b.turns,
  "turns, many first": (a, b) => b.turns - a.turns,
  "tokens, many first": (a, b) => b.tokens - a.tokens,
  task: (a, b) => (a.task < b.task ? -1 : a.task > b.task ? 1 : a.sample - b.sample),
};
// Episodes without a score come last.
const scoreless = (a, b) => (a.score === null) - (b.score === null);
const TROUBLES = {
  "any trouble": (row) => row.errors || row.violations || row.problems,
  "interface error": (row) => row.errors,
  violation: (row) => row.violations,
  "no action": (row) => row.problems,
  critique: (row) => row.critique || row.reviews.length,
};

const asked = { words: [], result: "", part: "", type: "", hint: "", trouble: "", sort: "as stored" };
let listed = []; // rows in the order shown
let inText = null; // numbers of rows whose text holds the words; null where nothing is searched

function matches(row) {
  return (
    (!asked.result || row.result === asked.result) &&
    (asked.part === "" || row.part === Number(asked.part)) &&
    (!asked.type || row.type === asked.type) &&
    (asked.hint === "" || row.hints.includes(Number(asked.hint))) &&
    (!asked.trouble || TROUBLES[asked.trouble](row)) &&
    (!asked.words.length ||
      asked.words.every((word) => row.hay.includes(word)) ||
      (inText && inText.has(row.number)))
  );
}

function relist(progress = 1) {
  listed = index.rows.filter(matches);
  const order = SORTS[asked.sort];
  if (order) listed.sort((a, b) => order(a, b) || a.number - b.number);
  const searching = progress < 1 ? `, searching texts: ${Math.round(progress * 100)}%` : "";
  const all = index.rows.length;
  const shown =
    listed.length === all
      ? count(all, "episode")
      : `${listed.length.toLocaleString("en")} of ${count(all, "episode")}`;
  document.getElementById("count").textContent =
    shown + searching + (index.damaged.length ? "; damaged lines were left out" : "");
  document.getElementById("rows").style.height = `${listed.length * ROW}px`;
  draw();
}

function focusedRow() {
  const { activeElement } = document;
  return document.getElementById("rows").contains(activeElement) ? index.rows[activeElement.dataset.number] : null;
}

// The list is one stop of the Tab key, the row that was read last; arrow keys move within it.
function draw(focused = focusedRow()) {
  const list = document.getElementById("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(listed.length, first + Math.ceil((list.clientHeight || 800) / ROW) + 8);
  const inside = listed.slice(first, last);
  const rows = inside.map((row, place) => drawn(row, first + place));
  document.getElementById("rows").replaceChildren(...rows);
  if (!rows.length) return;
  const stop = rows[inside.indexOf([focused, state.last].find((row) => inside.includes(row)) || inside[0])];
  stop.tabIndex = 0;
  if (focused) stop.focus({ preventScroll: true });
}

function onListKey(event) {
  const focused = focusedRow();
  const at = listed.indexOf(focused);
  const places = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: listed.length - 1 };
  const row = listed[places[event.key]];
  if (at < 0 || !row) return;
  event.preventDefault();
  scrollTo(row);
  draw(row);
}

function drawn(row, place) {
  const about = [partLabel(row), row.type, row.sample ? `sample ${row.sample}` : "", count(row.turns, "turn")];
  if (row.tokens) about.push(`${row.tokens.toLocaleString("en")} tokens`);
  const signs = [
    row.errors && chip("error", "bad"),
    row.violations && chip("violation", "bad"),
    row.hints.length && chip("rule"),
  ];
  const made = el(
    "a",
    {
      class: "row",
      href: address(row),
      title: plain(row.task),
      tabindex: -1,
      "data-number": row.number,
      "aria-current": state.row === row ? "true" : null,
    },
    el(
      "span",
      { class: "first" },
      mark(row),
      el("span", { class: "task" }, row.short.slice(0, 200)),
      ...signs.filter(Boolean),
    ),
    el(
      "span",
      { class: "second" },
      `${scoreOf(row)} \u00b7 ${about.filter(Boolean).join(" \u00b7 ").slice(0, 200)}`,
    ),
  );
  made.style.top = `${place * ROW}px`;
  return made;
}

const mark = (row) => el("span", { class: `mark ${row.result}` }, row.result);

function scrollTo(row) {
  const place = listed.indexOf(row);
  const list = document.getElementById("list");
  if (place < 0 || !list.clientHeight) return;
  const top = place * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}

// ---------------------------------------------------------------- what can be asked for

function chooser(label, name, options) {
  const made = el("select", { "aria-label": label, id: `ask-${name}` });
  for (const [value, text] of options) made.append(el("option", { value }, text.slice(0, 120)));
  onChoice(made, (value) => {
    asked[name] = value;
    document.getElementById("list").scrollTop = 0;
    relist();
  });
  return made;
}

function buildChoices() {
  const counted = (values) => {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    return counts;
  };
  const parts = counted(index.rows.map((row) => row.part));
  const types = counted(index.rows.map((row) => row.type).filter(Boolean));
  const hints = counted(index.rows.flatMap((row) => row.hints));
  const results = counted(index.rows.map((row) => row.result));
  const most = (counts) => [...counts].sort((a, b) => b[1] - a[1]);
  const choices = [
    ["result", "any result", ["won", "lost", "fault"].map((name) => [name, `${name} (${results.get(name) || 0})`])],
    [
      "part",
      "any part",
      [...parts].map(([part, n]) => [
        part,
        `${partLabel({ run: index.parts[part][0], partName: index.parts[part][1] })} (${n})`,
      ]),
    ],
    ["type", "any type", [...types].sort().map(([type, n]) => [type, `${type} (${n})`])],
    ["hint", "any rule", most(hints).map(([hint, n]) => [hint, `${index.hints[hint]} (${n})`])],
    ["trouble", "all episodes", Object.keys(TROUBLES).map((name) => [name, name])],
  ].filter(([, , options]) => options.length > 0);
  const box = document.getElementById("choices");
  const labels = {
    result: "Result",
    part: "Part",
    type: "Task type",
    hint: "Rule that was shown",
    trouble: "Trouble",
  };
  for (const [name, any, options] of choices) box.append(chooser(labels[name], name, [["", any], ...options]));
  box.append(
    chooser(
      "Order",
      "sort",
      Object.keys(SORTS).map((name) => [name, name === "as stored" ? "order: as stored" : name]),
    ),
  );
}

let searching = 0;

// Tasks, types and goals are looked through at once, all other text behind them.
function search(text) {
  searching += 1;
  const mine = searching;
  asked.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  inText = null;
  document.getElementById("list").scrollTop = 0;
  if (!asked.words.length) return relist();
  relist(0);
  return searchTexts(
    asked.words,
    () => mine === searching,
    (found, progress) => {
      inText = found;
      relist(progress);
    },
  );
}
