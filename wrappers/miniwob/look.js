// What stands on the screen, as data: one entry for each element that can be seen. Runs before the page's scripts.
// Left out: the instruction's words, which are the goal; the page's own clock and scores, which are hidden. Also here:
// which element a click is for, how a page begins, and that it cannot be left.
(() => {
  const HIDDEN = new Set(['reward-display', 'click-canvas', 'sync-task-cover']);
  const SILENT = new Set(['SCRIPT', 'STYLE', 'HEAD', 'TITLE', 'DEFS', 'BR', 'TBODY', 'HR', 'WBR', 'tspan', 'defs']);
  const WHOLE = new Set(['BUTTON', 'TEXTAREA', 'IMG']);  // what is in them is part of them
  const CONTROLS = new Set(['A', 'BUTTON', 'INPUT', 'TEXTAREA', 'SELECT', 'OPTION', 'IMG', 'CANVAS']);
  const SHAPES = new Set(['circle', 'ellipse', 'rect', 'polygon', 'polyline', 'path', 'line', 'text', 'svg', 'image']);
  const CONTROL = 'button, input, textarea, select';
  const CLEAR = 'rgba(0, 0, 0, 0)';
  const STYLE = `
    *, *::before, *::after {
      transition: none !important; animation: none !important; scroll-behavior: auto !important;
      caret-color: transparent !important;
    }
    #reward-display, #click-canvas { display: none !important; }
    select:not([multiple]), select:not([multiple])::picker(select) { appearance: base-select; }`;

  const tidy = (text) => text.replace(/\s+/g, ' ').trim();
  const cut = (box, other) => {
    const left = Math.max(box.left, other.left), top = Math.max(box.top, other.top);
    const right = Math.min(box.right, other.right), bottom = Math.min(box.bottom, other.bottom);
    return {left, top, right, bottom};
  };
  const area = (box) => Math.max(0, box.right - box.left) * Math.max(0, box.bottom - box.top);

  // The part of an element that can be seen: of its largest piece, if it is broken over lines. null if none can.
  const visible = (element) => {
    let box = null;
    for (const piece of element.getClientRects()) if (box === null || area(piece) > area(box)) box = piece;
    if (box === null) return null;
    box = cut(box, {left: 0, top: 0, right: innerWidth, bottom: innerHeight});
    const fixed = (one) => getComputedStyle(one).position === 'fixed';
    for (let at = element; at.parentElement && !fixed(at) && !at.matches(':popover-open'); at = at.parentElement) {
      const style = getComputedStyle(at.parentElement);
      if (at.parentElement !== document.body && style.overflow !== 'visible' && style.display !== 'inline') {
        box = cut(box, at.parentElement.getBoundingClientRect());
      }
    }
    const width = box.right - box.left, height = box.bottom - box.top;
    const drawn = element instanceof SVGElement;  // a line has no width or no height
    return Math.min(width, height) >= (drawn ? 0 : 1) && Math.max(width, height) >= 3 ? box : null;
  };
  const center = (box) => [Math.floor((box.left + box.right) / 2), Math.floor((box.top + box.bottom) / 2)];
  const related = (one, other) => one.contains(other) || other.contains(one);
  const covered = (element, box) => {
    const hit = document.elementFromPoint(...center(box));
    return hit !== null && !related(element, hit) && !(hit.closest('label') || hit).contains(element);
  };

  const ownText = (element) => {
    const texts = [...element.childNodes].filter((node) => node instanceof Text && node.data.trim());
    if (element.tagName === 'text' || WHOLE.has(element.tagName)) return tidy(element.textContent);
    if (!texts.length) return '';
    const apart = (child) => !getComputedStyle(child).display.startsWith('inline') ||
      child.matches(CONTROL) || child.querySelector(CONTROL) !== null;
    return tidy([...element.children].some(apart) ? texts.map((node) => node.data).join(' ') : element.textContent);
  };
  const hex = (color) => {
    const parts = (color.match(/^rgba?\(([\d., ]+)\)$/) || ['', ''])[1].split(',').map(Number);
    if (parts.length < 3 || parts[3] === 0) return '';
    return '#' + parts.slice(0, 3).map((part) => Math.round(part).toString(16).padStart(2, '0')).join('');
  };
  const paint = (element, style) => {
    if (element.matches('svg, ' + CONTROL) && !element.matches('button')) return '';
    if (element instanceof SVGElement) return hex(style.fill) || hex(style.stroke);
    const color = hex(style.backgroundColor);
    return color === '#ffffff' ? '' : color;
  };
  const bare = (element, style) => style.backgroundImage === 'none' && style.backgroundColor === CLEAR &&
    style.content === 'normal' && parseFloat(style.borderTopWidth) === 0;

  const says = (element) => {
    if (element instanceof HTMLSelectElement) {
      return element.multiple ? '' : [...element.selectedOptions].map((one) => tidy(one.textContent)).join(', ');
    }
    if (element instanceof HTMLInputElement && /^(checkbox|radio|image)$/.test(element.type)) return '';
    if (element instanceof HTMLInputElement && element.type === 'password') return '*'.repeat(element.value.length);
    if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) return element.value;
    return element.alt || ownText(element) || element.getAttribute('title') || '';
  };
  const states = (element, box) => {
    const found = [];
    if (element.type === 'checkbox' || element.type === 'radio') found.push(element.checked ? 'checked' : 'unchecked');
    if (element instanceof HTMLOptionElement && element.selected) found.push('selected');
    if (element === document.activeElement && element !== document.body) found.push('focused');
    if (element.disabled) found.push('disabled');
    if (covered(element, box)) found.push('covered');
    if (element.placeholder && element.value === '') found.push('hint ' + JSON.stringify(element.placeholder));
    return found;
  };
  const kind = (element) => {
    const tag = element.tagName.toLowerCase();
    return element instanceof HTMLInputElement ? `input ${element.type}` : tag;
  };
  const name = (element) => {
    const classes = typeof element.className === 'string' ? element.className.split(/\s+/).filter(Boolean) : [];
    return (element.id ? `#${element.id}` : '') + classes.map((one) => `.${one}`).join('');
  };

  const shown = (element, style) => {
    if (CONTROLS.has(element.tagName) || SHAPES.has(element.tagName)) return true;
    if (element.closest('#query')) return !element.textContent.trim() && !bare(element, style) && element.id !== 'query';
    return ownText(element) !== '';
  };
  const entry = (element, style, box) => {
    const text = says(element), typed = element.matches('input, textarea') && !/^(checkbox|radio)$/.test(element.type);
    const plain = text !== '' || element.matches('input, textarea, select');
    return {
      kind: kind(element), text: text || typed ? text : null, name: plain ? '' : name(element),
      color: text === '' || element instanceof SVGElement ? paint(element, style) : '',
      states: states(element, box), center: center(box),
      size: [Math.round(box.right - box.left), Math.round(box.bottom - box.top)],
    };
  };
  const look = () => {
    const found = [];
    const walk = (element) => {
      if (HIDDEN.has(element.id) || SILENT.has(element.tagName)) return;
      const style = getComputedStyle(element);
      if (style.display === 'none') return;
      const box = style.visibility === 'visible' && style.opacity !== '0' ? visible(element) : null;
      const away = element instanceof HTMLOptionElement && box !== null && covered(element, box);  // scrolled out
      const seen = box !== null && !away && element !== document.body;
      const listed = seen && shown(element, style);
      if (listed) found.push(entry(element, style, box));
      const before = found.length;
      if (!WHOLE.has(element.tagName)) for (const child of element.children) walk(child);
      const empty = found.length === before && !element.closest('#query');  // a card, an icon: nothing in it is listed
      if (seen && !listed && empty && !bare(element, style)) found.push(entry(element, style, box));
    };
    walk(document.body);
    return found;
  };

  // Which element a point lies on, by its place in the page; null where the point itself counts.
  const target = (x, y) => {
    let hit = document.elementFromPoint(x, y);
    if (hit === null || hit === document.body || hit === document.documentElement) return 'page';
    const label = hit.closest('label');
    if (label && label.control) hit = label.control;
    hit = hit.closest('a, button, option') || hit;
    if (hit.matches('svg, canvas, textarea, [type=range], .ui-slider, .ui-slider *')) return null;
    const path = [];
    for (let at = hit; at.parentElement; at = at.parentElement) path.push([...at.parentElement.children].indexOf(at));
    return path.reverse().join('.');
  };

  // The page cannot be left: neither by a form, nor by a link, nor by a link that is dropped on it.
  const stay = (event) => {
    const link = event.type === 'click' && event.target.closest && event.target.closest('a[href]');
    if (event.type !== 'click' || (link && !link.getAttribute('href').startsWith('#'))) event.preventDefault();
  };
  for (const way of ['submit', 'click', 'dragstart']) window.addEventListener(way, stay);

  document.addEventListener('DOMContentLoaded', () => {
    const sheet = document.createElement('style');
    sheet.textContent = STYLE;
    document.head.append(sheet);
  });
  // Pictures that style sheets name: one that is first shown later must not come late.
  const pictures = [];
  const load = async () => {
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => [rule, sheet.href]));
    for (const [rule, href] of rules) {
      for (const found of rule.cssText.matchAll(/url\("([^")]+)"\)/g)) {
        const picture = new Image();
        picture.src = new URL(found[1], href || document.baseURI).href;
        pictures.push(picture);
      }
    }
    await Promise.allSettled(pictures.map((picture) => picture.decode()));
  };
  const begin = async (seed, mode) => {
    await load();
    core.EPISODE_MAX_TIME = 1e12;
    core.setDataMode(mode);
    Math.seedrandom(seed);
    core.startEpisodeReal();
    return core.getUtterance();
  };
  const told = () => ({elements: WOB_DONE_GLOBAL ? [] : look(), done: WOB_DONE_GLOBAL, reward: WOB_RAW_REWARD_GLOBAL});
  Object.assign(window.alignEcho, {told, target, begin, visible, center});
})();
