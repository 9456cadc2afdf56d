// The data of the page: an index with a row for each episode, and chunks of episodes that are read when asked for.

const COLUMNS = [
  "part",
  "task",
  "type",
  "sample",
  "result",
  "score",
  "turns",
  "tokens",
  "hints",
  "errors",
  "violations",
  "problems",
  "interface",
  "critique",
  "reviews",
  "goal",
  "chunk",
  "at",
];
const KEPT = 6; // chunks
const LONG_TASK = 40; // characters, above which the list leaves out what all ids of a run begin with

let index = null; // parts, rows, hints, interfaces, damaged
const chunks = new Map();

async function embedded(id) {
  const stored = JSON.parse(document.getElementById(id).textContent);
  if (!stored.gzip) return stored;
  const packed = atob(stored.gzip);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function readIndex() {
  const stored = await embedded("index");
  const copies = new Map();
  const leads = new Map(
    stored.parts.map(([run]) => [
      run,
      commonLead(stored.rows.filter((values) => stored.parts[values[0]][0] === run)),
    ]),
  );
  stored.rows = stored.rows.map((values, number) => {
    const row = { number };
    COLUMNS.forEach((name, column) => {
      row[name] = values[column];
    });
    [row.run, row.partName, row.samples] = stored.parts[row.part];
    const key = keyOf(row);
    row.copy = copies.get(key) || 0;
    copies.set(key, row.copy + 1);
    row.short = row.task.length > LONG_TASK ? row.task.slice(leads.get(row.run)) : row.task;
    row.hay = `${row.task}\n${row.type}\n${row.goal}`.toLowerCase();
    return row;
  });
  stored.hintNumbers = new Map(stored.hints.map((hint, number) => [hint, number]));
  stored.manyRuns = new Set(stored.parts.map((part) => part[0])).size > 1;
  index = stored;
}

// An episode that broke has no score.
const scoreOf = (row) => (row.score === null ? "-" : share(row.score));
const keyOf = (row) => JSON.stringify([row.run, row.partName, row.task, row.sample]);
const partLabel = (row) => (index.manyRuns ? `${row.run}: ${row.partName}` : row.partName);

// How many characters the task ids of a run begin with alike, up to a slash: a split's name, which tells nothing.
function commonLead(rows) {
  if (rows.length < 2) return 0;
  let lead = rows[0][1];
  for (const row of rows) while (lead && !row[1].startsWith(lead)) lead = lead.slice(0, -1);
  return lead.lastIndexOf("/") + 1;
}

// A chunk's episodes; the last few that were read are kept.
function readChunk(number) {
  const known = chunks.get(number);
  const chunk = known || embedded(`chunk-${number}`);
  chunks.delete(number);
  chunks.set(number, chunk);
  if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
  return chunk;
}

async function readEpisode(row) {
  return (await readChunk(row.chunk))[row.at];
}

// Everything of an episode that the search looks through, but for the rules told up front, which all share.
function wholeText(episode) {
  const parts = [episode.initial_observation, episode.critique, episode.goal, episode.reset_error];
  if (episode.fault) parts.push(episode.fault.error, episode.fault.message);
  for (const review of episode.reviews || []) parts.push(review.reply);
  for (const step of episode.steps) {
    parts.push(step.action, step.reply, step.observation, step.raw_observation, step.problem, step.interface_error);
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}

// Numbers of the rows whose episodes hold all words, told chunk by chunk so that the page stays alive.
async function searchTexts(words, isWanted, onProgress) {
  const total = index.rows.length ? index.rows[index.rows.length - 1].chunk + 1 : 0;
  const byChunk = Array.from({ length: total }, () => []);
  for (const row of index.rows) byChunk[row.chunk].push(row);
  const found = new Set();
  for (let number = 0; number < total; number += 1) {
    const known = chunks.get(number);
    const episodes = await (known || embedded(`chunk-${number}`));
    if (!isWanted()) return;
    for (const row of byChunk[number]) {
      const text = `${row.hay}\n${wholeText(episodes[row.at])}`;
      if (words.every((word) => text.includes(word))) found.add(row.number);
    }
    onProgress(found, (number + 1) / total);
    await new Promise((resume) => {
      setTimeout(resume);
    });
  }
}
