// One turn: what the agent did, what it was shown and what the environment had said, and all that is told of it.

const VIEWS = ["changes", "shown", "raw"];

function turn({ row, episode }, number, isCompared) {
  const step = episode.steps[number];
  const before = number ? episode.steps[number - 1] : {};
  return el(
    "section",
    { class: `turn${row === state.row ? "" : " other"}`, "data-turn": number + 1, tabindex: -1 },
    el(
      "header",
      {},
      el("a", { class: "number", href: address(row, { turn: number + 1 }) }, `turn ${number + 1}`),
      isCompared ? el("span", { class: "part" }, partLabel(row)) : null,
      number && isRepeated(before, step) ? chip("as the turn before") : null,
      figures(step, before),
    ),
    said(step),
    observation(step),
    troubles(step),
    step.choice ? candidates(step) : labelled(step),
    (step.hints || []).map((event) => hint(row, event)),
  );
}

const tokens = (read, written) =>
  chip(`tokens ${read.toLocaleString("en")} + ${written.toLocaleString("en")}`);

// The same action with the same answer as in the turn before.
function isRepeated(before, step) {
  return step.action !== null && step.action === before.action && step.observation === before.observation;
}

function figures(step, before) {
  const chips = [];
  const score = step.score || 0;
  if (step.reward)
    chips.push(chip(`reward ${step.reward > 0 ? "+" : ""}${share(step.reward)}`, step.reward > 0 ? "good" : "bad"));
  if (score !== (before.score || 0)) chips.push(chip(`score ${share(score)}`, "good"));
  if (step.engine_calls !== undefined) chips.push(chip(count(step.engine_calls, "engine call")));
  if (step.terminated) chips.push(chip("ended here"));
  if (step.truncated) chips.push(chip("cut off by the step limit"));
  const usage = step.usage || {};
  const spent = [usage.prompt_tokens, usage.completion_tokens].map((part) => (part === undefined ? 0 : part));
  if (spent.includes(null)) chips.push(chip("tokens not told"));
  else if (spent[0] || spent[1]) chips.push(tokens(...spent));
  else if (step.tokens) chips.push(tokens(...step.tokens));
  return chips;
}

// The action; where the reply holds more than that, the reply below it.
function said(step) {
  const reply = step.reply === undefined ? step.action : step.reply;
  const action =
    step.action === null ? el("div", { class: "action none" }, "no action") : passage(step.action, "action");
  const thought = (step.thinking || "").trim();
  const thinking = thought
    ? [folded(`thinking, ${count(thought.length, "character")}`, "reply", passage(thought))]
    : [];
  if (reply === step.action || !reply.trim()) return [action, ...thinking];
  const open = step.action === null;
  const box = folded(`whole reply, ${count(reply.length, "character")}`, "reply", passage(reply));
  box.open = open;
  return [action, ...thinking, box];
}

function observation(step) {
  if (step.raw_observation === undefined) return passage(step.observation);
  if (step.raw_observation === null) {
    return [el("div", { class: "quiet" }, "the environment was not asked"), passage(step.observation)];
  }
  if (state.view === "raw")
    return [el("div", { class: "quiet" }, "as the environment said it"), passage(step.raw_observation)];
  if (state.view === "shown")
    return [el("div", { class: "quiet" }, "as the agent was shown it"), passage(step.observation)];
  return compared(step.raw_observation, step.observation);
}

function troubles(step) {
  const lines = [];
  if (step.problem) lines.push(["no action", step.problem]);
  if ((step.residue || []).length) lines.push(["taken off the reply", step.residue.join(" ")]);
  if (step.cut_off) lines.push(["cut off", "the model's limit of tokens ended the reply"]);
  if (step.interface_error) lines.push(["interface error", step.interface_error]);
  for (const { action, reason } of step.violations || []) lines.push(["violation", `${action}: ${reason}`]);
  for (const what of step.forged || []) lines.push(["forged", `the interface claimed its own ${what}`]);
  return lines.map(([kind, text]) =>
    el("div", { class: "trouble" }, el("b", {}, kind), " ", passage(text, "piece")),
  );
}

// What the oracle called the action of a turn that was not chosen among several.
function labelled(step) {
  const label = (step.labels || {})[step.action];
  return label ? el("div", { class: "quiet" }, `oracle: ${label}`) : null;
}

function candidates({ choice, labels }) {
  const rows = choice.candidates.map((each, number) =>
    el(
      "tr",
      { class: number === choice.taken ? "taken" : "" },
      el("td", {}, number === choice.taken ? "\u2192" : ""),
      el("td", { class: "mono" }, each.action === null ? "no action" : each.action.slice(0, LONGEST)),
      el("td", { class: each.verdict || "" }, each.verdict || "-"),
      el("td", { class: "figure" }, typeof each.p_correct === "number" ? bar(each.p_correct) : "-"),
      el("td", { class: "figure" }, typeof each.logprob === "number" ? each.logprob.toFixed(2) : "-"),
      labels ? el("td", { class: "oracle" }, labels[each.action] || "-") : null,
    ),
  );
  const names = ["candidate", "verdict", "p(correct)", "log p", ...(labels ? ["oracle"] : [])];
  const heads = [el("th", {}, el("span", { class: "unseen" }, "taken")), names.map((name) => el("th", {}, name))];
  const taken = choice.taken === undefined || choice.taken === null ? " (another's action was carried out)" : "";
  const box = folded(`${count(rows.length, "candidate")}${taken}`, "candidates", wide("candidates", heads, rows));
  box.open = true;
  return box;
}

function bar(value) {
  const meter = el("meter", { "aria-label": "p(correct)", min: 0, max: 1, value: Math.min(1, Math.max(0, value)) });
  return [meter, ` ${value.toFixed(2)}`];
}

// What came of a rule on this turn, and the rules on record that name the same commands, with their experiments.
function hint(row, event) {
  const came =
    event.came_true === true
      ? chip("came true", "good")
      : event.came_true === false
        ? chip("did not come true", "bad")
        : null;
  const chips = [
    event.fired && chip("shown"),
    event.followed && chip("followed"),
    came,
    event.silenced && chip("silenced", "bad"),
  ];
  const known = index.interfaces[row.interface];
  const behind = (known.behind[index.hintNumbers.get(event.rule)] || []).map((number) => known.rules[number]);
  const head = [el("span", { class: "rule" }, event.rule), chips.filter(Boolean)];
  if (!behind.length) return el("div", { class: "hint" }, head);
  return el(
    "details",
    { class: "hint" },
    el("summary", {}, head),
    el(
      "p",
      { class: "quiet" },
      `${count(behind.length, "rule")} on record of ${known.label} that name the same commands:`,
    ),
    behind.map(rule),
  );
}

function rule([text, support, refuted, tasks, counterexample, untested]) {
  const tried = untested
    ? "not tested: no experiment could decide it"
    : `${count(support, "experiment")} for, ${refuted.toLocaleString("en")} against, on ${count(tasks, "task")}`;
  return el(
    "div",
    { class: "evidence" },
    passage(text),
    el("div", { class: "quiet" }, tried),
    counterexample ? el("div", { class: "quiet" }, "against it: ", passage(counterexample, "piece")) : null,
  );
}
