// The page at work: which episode and turn the address names, and the keys.

const state = { row: null, last: null, other: null, turn: 0, view: "changes", shown: 0 };

const KEYS = [
  ["j / k", "next and previous turn"],
  ["n / p", "next and previous episode of the list"],
  ["c", "side by side with the next other episode of the same task"],
  ["d", "of a changed observation: the changes, what was shown, what the environment said"],
  ["/", "search tasks and texts"],
  ["Esc", "leave the search, the comparison, the episode"],
  ["\u2191 / \u2193", "in the list, which Tab leads to: episode before and after; Enter opens it"],
  ["?", "this help"],
];

// ---------------------------------------------------------------- addresses

const named = (row, lead = "") => ({
  [`${lead}run`]: index.manyRuns ? row.run : "",
  [`${lead}part`]: row.partName,
  [`${lead}sample`]: row.sample || "",
  [`${lead}copy`]: row.copy || "",
});

function address(row, { other = null, turn: number = 0 } = {}) {
  const fields = { ...named(row), task: row.task, turn: number || "", ...(other ? named(other, "with.") : {}) };
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== ""));
  return `#${query}`;
}

function rowNamed(query, lead = "") {
  const part = query.get(`${lead}part`);
  const task = query.get("task");
  if (part === null || task === null) return null;
  const run = query.get(`${lead}run`);
  const sample = Number(query.get(`${lead}sample`) || 0);
  const copy = Number(query.get(`${lead}copy`) || 0);
  return (
    index.rows.find(
      (row) =>
        row.task === task &&
        row.partName === part &&
        row.sample === sample &&
        row.copy === copy &&
        (run === null || row.run === run),
    ) || null
  );
}

async function follow() {
  const query = new URLSearchParams(location.hash.slice(1));
  const row = rowNamed(query);
  const other = row && rowNamed(query, "with.");
  const number = Math.max(0, Number(query.get("turn")) || 0);
  const isNew = row !== state.row || other !== state.other;
  Object.assign(state, { row, other, turn: number, last: row || state.row || state.last });
  document.body.classList.toggle("reading", Boolean(row));
  draw();
  if (row) scrollTo(row);
  if (isNew || !row) await show(location.hash.length > 1 && !row);
  markTurn(isNew ? "center" : "nearest");
}

async function show(isUnknown = false) {
  state.shown += 1;
  const mine = state.shown;
  const main = document.getElementById("main");
  if (!state.row) {
    const isHere = isReading();
    main.setAttribute("aria-label", "Overview");
    main.replaceChildren(
      ...(isUnknown ? [el("div", { class: "trouble" }, "this page has no such episode")] : []),
      overview(),
    );
    if (isHere && state.last) document.querySelector("#rows [tabindex='0']")?.focus();
    return;
  }
  const rows = [state.row, state.other].filter(Boolean);
  const episodes = await Promise.all(rows.map(readEpisode));
  if (mine !== state.shown) return;
  const [isHere, held] = [isReading(), document.activeElement.id];
  main.setAttribute("aria-label", `Episode ${plain(state.row.task)}`);
  main.replaceChildren(...shownEpisodes(rows.map((row, number) => ({ row, episode: episodes[number] }))));
  main.scrollTop = 0;
  if (isHere) (document.getElementById(held) || main).focus({ preventScroll: true });
}

// Whether the focus is where it would be lost with what is shown: it then goes to what is shown next.
function isReading() {
  const { activeElement, body } = document;
  return activeElement === body || document.getElementById("main").contains(activeElement) || focusedRow() !== null;
}

// ---------------------------------------------------------------- moving

// Marks the turn that the address names, and gives its element.
function markTurn(block) {
  for (const marked of document.querySelectorAll(".turn.current")) marked.classList.remove("current");
  const turns = document.querySelectorAll(`.turn[data-turn="${state.turn}"]`);
  for (const each of turns) each.classList.add("current");
  if (turns.length) turns[0].scrollIntoView({ block });
  return turns[0];
}

function nextTurn(by) {
  if (!state.row) return;
  const last = Math.max(state.row.turns, state.other ? state.other.turns : 0);
  const number = Math.min(last, Math.max(0, state.turn + by));
  history.replaceState(null, "", address(state.row, { other: state.other, turn: number }));
  state.turn = number;
  const main = document.getElementById("main");
  (markTurn("nearest") || main).focus({ preventScroll: true });
  if (!number) main.scrollTop = 0;
}

function nextEpisode(by) {
  if (!listed.length) return;
  const at = listed.indexOf(state.row);
  const place = at < 0 ? 0 : Math.min(listed.length - 1, Math.max(0, at + by));
  location.hash = address(listed[place]);
}

function nextOther() {
  if (!state.row) return;
  const rest = others(state.row);
  if (!rest.length) return;
  const place = rest.indexOf(state.other) + 1;
  location.hash = address(state.row, { other: rest[place] || null, turn: state.turn });
}

function nextView() {
  state.view = VIEWS[(VIEWS.indexOf(state.view) + 1) % VIEWS.length];
  show().then(() => markTurn("center"));
}

function help() {
  const dialog = document.getElementById("help");
  const rows = KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, what)));
  const legend = el(
    "p",
    {},
    "In an observation, ",
    el("ins", {}, "so"),
    " is what the interface added, ",
    el("del", {}, "so"),
    " what it took away.",
  );
  dialog.replaceChildren(
    el("table", {}, el("tbody", {}, rows)),
    legend,
    el("p", { class: "quiet" }, "The address names the episode and the turn: send it along with the file."),
    el("button", { type: "button", onclick: () => dialog.close() }, "close"),
  );
  dialog.showModal();
}

function leave() {
  const search = document.getElementById("search");
  if (document.activeElement === search) search.blur();
  else if (state.other) location.hash = address(state.row, { turn: state.turn });
  else if (state.row) location.hash = "";
}

const ON_KEY = {
  j: () => nextTurn(1),
  k: () => nextTurn(-1),
  n: () => nextEpisode(1),
  p: () => nextEpisode(-1),
  c: nextOther,
  d: () => state.row && nextView(),
  "/": () => document.getElementById("search").focus(),
  "?": help,
  Escape: leave,
};

function onKey(event) {
  const isTyping = event.target instanceof Element && event.target.matches("input, select, textarea");
  const isOpen = document.getElementById("help").open;
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen || (isTyping && event.key !== "Escape")) return;
  const action = ON_KEY[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

async function begin() {
  await readIndex();
  buildChoices();
  relist();
  let waiting = 0;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(event.target.value), 150);
  });
  document.getElementById("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.target.blur();
  });
  document.getElementById("list").addEventListener("scroll", () => requestAnimationFrame(() => draw()), { passive: true });
  document.getElementById("list").addEventListener("keydown", onListKey);
  addEventListener("resize", () => draw());
  addEventListener("hashchange", follow);
  addEventListener("keydown", onKey);
  await follow();
  document.body.dataset.ready = String(Math.round(performance.now()));
}

begin().catch((error) => {
  const text = `This page could not be read: ${error.message}. It needs a browser of 2023 or newer.`;
  document.getElementById("main").replaceChildren(el("div", { class: "trouble" }, text));
});
