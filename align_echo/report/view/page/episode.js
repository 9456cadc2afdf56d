// One episode from above to below, or two of one task side by side.

function head(loaded) {
  const { row, episode } = loaded;
  const fault = episode.fault;
  const facts = [
    ["part", partLabel(row)],
    ["agent", episode.agent],
    ["interface", episode.interface || "none"],
    ["environment", [episode.environment, episode.split].filter(Boolean).join(" ")],
    ["type", row.type],
    ["sample", `${row.sample}${row.copy ? `, copy ${row.copy + 1}` : ""}`],
    ["seed", String(episode.seed || 0)],
  ].filter(([, value]) => value);
  const sums = [chip(`score ${scoreOf(row)}`), chip(count(row.turns, "turn"))];
  const reward = episode.steps.reduce((sum, step) => sum + (step.reward || 0), 0);
  sums.push(chip(`reward ${share(reward)}`));
  const read = sumOf(episode, "prompt_tokens");
  const written = sumOf(episode, "completion_tokens");
  if (row.tokens === null) sums.push(chip("tokens not told"));
  else if (row.tokens) sums.push(chip(`tokens ${read.toLocaleString("en")} + ${written.toLocaleString("en")}`));
  const cost = sumOf(episode, "cost_usd");
  if (cost) sums.push(chip(`$${cost.toFixed(4)}`));
  if (episode.context_overflow) sums.push(chip("the model's context was full", "bad"));
  if (episode.ended_by_repeats) sums.push(chip("one action was repeated too often", "bad"));
  return el(
    "div",
    { class: "head" },
    el("div", { class: "sums" }, mark(row), sums),
    el("h2", {}, row.task),
    el(
      "dl",
      {},
      facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    fault ? faultOf(fault) : null,
    episode.reset_error
      ? el(
          "div",
          { class: "trouble" },
          el("b", {}, "interface error at reset"),
          " ",
          passage(episode.reset_error, "piece"),
        )
      : null,
    (episode.reset_violations || []).map(({ action, reason }) =>
      el(
        "div",
        { class: "trouble" },
        el("b", {}, "violation at reset"),
        " ",
        passage(`${action}: ${reason}`, "piece"),
      ),
    ),
    el("h3", {}, "Task"),
    passage(episode.goal),
    episode.critique
      ? [el("h3", {}, "Critique that the agent was shown"), passage(episode.critique, "text critique")]
      : null,
    episode.rules
      ? folded(`Rules told up front, ${count(episode.rules.length, "character")}`, "rules", passage(episode.rules))
      : null,
    rulesOnRecord(row),
    el("h3", {}, "First observation"),
    passage(episode.initial_observation),
  );
}

// What the turns of an episode spent; null where one of them does not tell.
function sumOf(episode, name) {
  const parts = episode.steps.map((step) => (step.usage || {})[name]);
  return parts.includes(null) ? null : parts.reduce((sum, part) => sum + (part || 0), 0);
}

function faultOf(fault) {
  const text = `the ${fault.source} broke: ${fault.error}: ${fault.message}`;
  return el(
    "div",
    { class: "trouble" },
    el("b", {}, "fault"),
    " ",
    passage(text, "piece"),
    fault.traceback ? folded("traceback", "reply", passage(fault.traceback)) : null,
  );
}

function rulesOnRecord(row) {
  const known = index.interfaces[row.interface];
  if (!known.rules.length) return null;
  const box = folded(
    `${count(known.rules.length, "rule")} on record of ${known.label}, made by ${known.backend}`,
    "rules",
  );
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(...known.rules.map(rule));
  });
  return box;
}

// What a critic said of an attempt, with a way to the attempt that followed.
function reviewsOf(loaded) {
  return (loaded.episode.reviews || []).map((review, number) => {
    const next = attemptAfter(loaded.row, number);
    const said = review.critique;
    return el(
      "section",
      { class: "review" },
      el("h3", {}, "What the critic said of this attempt"),
      said
        ? passage(said.reason)
        : el("div", { class: "trouble" }, review.problem || (review.fault || {}).message || "nothing"),
      said && said.suggestions
        ? el(
            "ol",
            {},
            said.suggestions.map((each) => el("li", {}, passage(each, "piece"))),
          )
        : null,
      folded("whole reply", "reply", passage(review.reply || "")),
      next
        ? el(
            "a",
            { class: "button", href: address(loaded.row, { other: next }) },
            `side by side with the attempt after it (${next.result})`,
          )
        : null,
    );
  });
}

// The attempt that was shown a critique: in the part that the critique is of, under the same advice.
function attemptAfter(row, number) {
  const [partName, advice] = row.reviews[number];
  return index.rows.find(
    (other) =>
      other.run === row.run &&
      other.partName === partName &&
      other.task === row.task &&
      other.critique === advice &&
      advice &&
      other !== row &&
      (other.sample - row.sample) % row.samples === 0,
  );
}

const others = (row) => index.rows.filter((other) => other !== row && other.task === row.task);

// How many turns from the first are the same in both.
function partsAt(a, b) {
  const same = (x, y) =>
    x.action === y.action && x.observation === y.observation && (x.action !== null || x.reply === y.reply);
  let at = 0;
  while (at < a.steps.length && at < b.steps.length && same(a.steps[at], b.steps[at])) at += 1;
  return at;
}

function comparing(row, other) {
  const rest = others(row);
  if (!rest.length) return null;
  const chosen = el(
    "select",
    { "aria-label": "Compare with", id: "compare" },
    el("option", { value: "" }, "compare with ..."),
  );
  for (const each of rest.slice(0, 500)) {
    const sample = each.sample || each.copy ? `, sample ${each.sample}${each.copy ? `.${each.copy}` : ""}` : "";
    const option = el(
      "option",
      { value: each.number },
      `${partLabel(each)}${sample}: ${each.result}, ${scoreOf(each)}, ${count(each.turns, "turn")}`,
    );
    option.selected = each === other;
    chosen.append(option);
  }
  onChoice(chosen, (value) => {
    location.hash = address(row, { other: value === "" ? null : index.rows[Number(value)], turn: state.turn });
  });
  return chosen;
}

function toolbar() {
  const view = el(
    "button",
    { type: "button", id: "view", title: "what is shown of a changed observation ( d )", onclick: nextView },
    `observations: ${state.view}`,
  );
  const steps = [
    el(
      "button",
      {
        type: "button",
        class: "back",
        id: "back",
        onclick: () => {
          location.hash = "";
        },
      },
      "\u2190 list",
    ),
    tool("previous", "previous episode ( p )", "\u2191 p", () => nextEpisode(-1)),
    tool("next", "next episode ( n )", "\u2193 n", () => nextEpisode(1)),
    comparing(state.row, state.other),
    view,
    tool("keys", "help ( ? )", "?", help),
  ];
  return el("div", { class: "bar", role: "group", "aria-label": "Moving and comparing" }, steps.filter(Boolean));
}

const tool = (id, title, sign, onclick) =>
  el("button", { type: "button", id, title, "aria-label": title, onclick }, sign);

// The whole right side of the page, for one loaded episode or two.
function shownEpisodes(loaded) {
  const [a, b] = loaded;
  const parts = b ? partsAt(a.episode, b.episode) : -1;
  const grid = el("div", { class: `grid${b ? " two" : ""}` }, loaded.map(head));
  const turns = Math.max(...loaded.map((each) => each.episode.steps.length));
  for (let number = 0; number < turns; number += 1) {
    if (b && number === parts)
      grid.append(
        el(
          "div",
          { class: "parting" },
          number ? `the same until turn ${number}; here they part` : "they part at once",
        ),
      );
    for (const each of loaded) {
      grid.append(
        each.episode.steps[number] ? turn(each, number, Boolean(b)) : el("section", { class: "turn over" }),
      );
    }
  }
  if (b && parts === turns) grid.append(el("div", { class: "parting" }, "both are the same to the end"));
  for (const each of loaded)
    grid.append(
      el(
        "div",
        {},
        reviewsOf(each),
        el(
          "p",
          { class: "end" },
          mark(each.row),
          ` after ${count(each.row.turns, "turn")}, score ${scoreOf(each.row)}`,
        ),
      ),
    );
  return [toolbar(), grid];
}

// What the page begins with: every part with its figures.
function overview() {
  const byPart = new Map();
  for (const row of index.rows) {
    const sums = byPart.get(row.part) || { row, n: 0, won: 0, lost: 0, fault: 0, scored: 0, score: 0, turns: 0 };
    sums.n += 1;
    sums[row.result] += 1;
    sums.scored += row.score !== null;
    sums.score += row.score || 0;
    sums.turns += row.turns;
    byPart.set(row.part, sums);
  }
  const cells = [...byPart.values()].map((sums) => {
    const figures = [sums.n, sums.won, sums.lost, sums.fault].map((number) => number.toLocaleString("en"));
    figures.push(sums.scored ? (sums.score / sums.scored).toFixed(3) : "-", (sums.turns / sums.n).toFixed(1));
    return el(
      "tr",
      {},
      el("td", {}, partLabel(sums.row)),
      figures.map((text) => el("td", { class: "figure" }, text)),
    );
  });
  const heads = ["part", "episodes", "won", "lost", "faults", "mean score", "mean turns"].map((text) =>
    el("th", {}, text),
  );
  return el(
    "div",
    { class: "overview" },
    el("h2", {}, document.title.replace(/ - align-echo$/, "")),
    el("p", { class: "quiet" }, "Choose an episode, or press n. ? lists all keys."),
    wide("parts", heads, cells),
    index.damaged.map((line) => el("div", { class: "trouble" }, line)),
  );
}
