// What an interface changed of an observation: words that it took out, and words that it put in.

const MOST_CELLS = 400000;

const wordsOf = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];

// Pieces [sign, text]: "=" stands in both, "-" only in the raw text, "+" only in the shown one.
function difference(raw, shown) {
  const a = wordsOf(raw);
  const b = wordsOf(shown);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end])
    end += 1;
  const pieces = [["=", a.slice(0, start)]];
  pieces.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  pieces.push(["=", a.slice(a.length - end)]);
  return pieces.map(([sign, words]) => [sign, words.join("")]).filter(([, text]) => text);
}

// The part between what both begin and end with: by the longest common subsequence, where that is soon found.
function middle(a, b) {
  if (!a.length || !b.length || a.length * b.length > MOST_CELLS)
    return [
      ["-", a],
      ["+", b],
    ];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const pieces = [];
  const add = (sign, word) => {
    const last = pieces[pieces.length - 1];
    if (last && last[0] === sign) last[1].push(word);
    else pieces.push([sign, [word]]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("=", a[i]);
      i += 1;
      j += 1;
    } else if (j === b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      add("-", a[i]);
      i += 1;
    } else {
      add("+", b[j]);
      j += 1;
    }
  }
  return pieces;
}

// The two observations as one text with marks; a long piece has a button for its rest.
function compared(raw, shown) {
  const tags = { "=": "span", "-": "del", "+": "ins" };
  return el(
    "div",
    { class: "text" },
    difference(raw, shown).map(([sign, text]) => el(tags[sign], {}, passage(text, "piece"))),
  );
}
