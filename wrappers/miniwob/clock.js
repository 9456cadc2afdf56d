// The page's own time: it stands still until `alignEcho.advance(ms)` lets it go on. Runs before the page's scripts.
// Left out: time stamps of events, which no page reads.
(() => {
  const START = Date.UTC(2024, 0, 15, 12);
  const FRAME = 16;
  const MOST_CALLS = 20000;  // of one advance; a page that asks for more is cut short, every time alike
  const TrueDate = Date;
  const trueFrame = window.requestAnimationFrame.bind(window);
  let now = 0, last = 0;
  const due = new Map();  // id -> {at, every, call}

  const later = (call, delay, every) => {
    const wait = Math.max(1, Number(delay) || 0);
    due.set(++last, {at: now + wait, every: every ? wait : 0, call});
    return last;
  };
  const cancel = (id) => { due.delete(id); };
  const body = (what, given) => typeof what === 'function' ? () => what(...given) : () => (0, eval)(String(what));
  const nextFrame = (call) => later(() => call(now), FRAME - now % FRAME, false);

  window.setTimeout = (what, delay, ...given) => later(body(what, given), delay, false);
  window.setInterval = (what, delay, ...given) => later(body(what, given), delay, true);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = window.cancelIdleCallback = cancel;
  window.requestAnimationFrame = nextFrame;
  window.requestIdleCallback = (call) => later(() => call({didTimeout: false, timeRemaining: () => 10}), 1, false);
  performance.now = () => now;
  window.Date = new Proxy(TrueDate, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [START + now], made),
    apply: () => new TrueDate(START + now).toString(),
    get: (target, name) => name === 'now' ? () => START + now : Reflect.get(target, name),
  });
  window.alert = window.print = () => {};
  window.confirm = () => false;
  window.prompt = window.open = () => null;

  const advance = (ms) => {
    const end = now + ms;
    for (let calls = 0; calls < MOST_CALLS; calls++) {
      let first = null;
      for (const [id, one] of due) {
        if (one.at <= end && (first === null || one.at < due.get(first).at)) first = id;
      }
      if (first === null) break;
      const one = due.get(first);
      now = Math.max(now, one.at);
      if (one.every) one.at = now + one.every; else due.delete(first);
      try { one.call(); } catch (error) { console.error(error); }
    }
    now = end;
  };
  // Until pictures are there and two frames were drawn for real: by then scrolls, hovers and focus were told to the page.
  const settle = (done) => {
    const pictures = [...document.images].map((picture) => picture.decode());
    Promise.allSettled(pictures).then(() => trueFrame(() => trueFrame(() => done())));
  };

  window.alignEcho = {advance, settle};
})();
