// Experts of some tasks: what is left to do, read off the page's own state, so that a slip is made good where the page
// lets one. For labels and tests; never shown to an agent. Left out: tasks in which only trying tells what is right.
//
// A plan is a list of steps, {act: 'click', at: [x, y]}, {act: 'scroll', at, way} or {act: 'type', text}; only the first
// has to be exact, the others count. `null`: the task can no longer be done, or has no expert.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const tidy = (text) => text.replace(/\s+/g, ' ').trim();
  const said = (pattern) => (core.getUtterance().match(pattern) || [])[1];
  const quoted = () => said(/"(.*)"/);

  // A point at which a click reaches the element: its middle, or the first of a grid over it that is not covered.
  const reach = (element) => {
    const box = alignEcho.visible(element);
    if (box === null) return null;
    const hits = (x, y) => { const hit = document.elementFromPoint(x, y); return hit !== null && element.contains(hit); };
    const [x, y] = alignEcho.center(box);
    if (hits(x, y)) return [x, y];
    for (let top = Math.ceil(box.top) + 1; top < box.bottom - 1; top += 3) {
      for (let left = Math.ceil(box.left) + 1; left < box.right - 1; left += 3) if (hits(left, top)) return [left, top];
    }
    return null;
  };
  const click = (at) => ({act: 'click', at});
  const press = (element) => {
    const at = element && reach(element);
    if (at) return [click(at)];
    const box = element && element.getBoundingClientRect();
    if (!box || box.height === 0 || (box.bottom > 0 && box.top < innerHeight)) return null;
    const way = box.top >= innerHeight ? 'down' : 'up';
    const far = way === 'down' ? box.bottom - innerHeight : -box.top;
    return [...Array(Math.ceil(far / 100)).fill({act: 'scroll', at: [80, 130], way}), click([0, 0])];
  };
  // One plan after another; null if one of them is.
  const chain = (...plans) => plans.includes(null) ? null : plans.flat();

  const fill = (selector, text) => {
    const field = one(selector), value = field.value;
    if (value === text) return [];
    let same = 0;
    while (same < value.length && value[same] === text[same]) same++;
    const typed = {act: 'type', text: '\b'.repeat(value.length - same) + text.slice(same)};
    const ready = field === document.activeElement && field.selectionStart === value.length;
    if (ready) return [typed];
    const box = alignEcho.visible(field);
    return box && [click([Math.floor(box.right) - 4, alignEcho.center(box)[1]]), typed];
  };
  const form = (fields, button) => {
    return chain(...Object.entries(fields).map(([selector, text]) => fill(selector, text)), press(one(button)));
  };
  const boxes = (wanted) => {
    const wrong = all('#area input[type=checkbox]').filter((box) => box.checked !== wanted(tidy(box.parentElement.textContent)));
    return chain(...wrong.map(press), press(one('#subbtn')));
  };
  const listed = () => said(/^Select (?:words similar to )?(.*) and click Submit\.$/).split(', ');
  const named = () => { const names = listed(); return boxes((name) => names.includes(name)); };
  const button = (label) => press(all('#area button').find((each) => tidy(each.textContent) === label && reach(each)));

  // A link that may lie in a part of the page that is closed: then what opens it comes first.
  const link = (opener) => {
    const right = all('.alink').filter((each) => each.innerHTML === quoted());
    const open = right.find((each) => each.getClientRects().length);
    return open ? press(open) : chain(press(opener(right[0])), [click([0, 0])]);
  };
  const tabOf = (element) => one(`a[href="#${element.closest('.ui-tabs-panel').id}"]`);
  const sectionOf = (element) => element.closest('.ui-accordion-content').previousElementSibling;
  const section = () => {
    const open = one('.ui-accordion-content').getClientRects().length > 0;
    return open ? press(one('#subbtn')) : chain(press(one('.ui-accordion-header')), [click([0, 0])]);
  };

  // The month that the calendar shows once it is open: jQuery UI's own rule.
  const opening = (field) => {
    const instance = $.datepicker._getInst(field);
    return $.datepicker._restrictMinMax(instance, $.datepicker._determineDate(instance, field.value || null, new Date()));
  };
  const MONTHS = 12;
  const date = () => {
    const [month, day, year] = said(/(\d+\/\d+\/\d+)/).split('/').map(Number);
    const field = one('#datepicker'), calendar = one('#ui-datepicker-div');
    if (field.value === said(/(\d+\/\d+\/\d+)/)) return press(one('#subbtn'));
    const rest = (count) => Array(count).fill(click([0, 0]));
    const open = calendar.getClientRects().length > 0, cell = one('#ui-datepicker-div td[data-month]');
    const [shownYear, shownMonth] = open ? [Number(cell.dataset.year), Number(cell.dataset.month)] :
      [opening(field).getFullYear(), opening(field).getMonth()];
    const away = year * MONTHS + month - 1 - shownYear * MONTHS - shownMonth, turns = Math.abs(away);
    if (!open) {
      if (field === document.activeElement) return chain(press(one('#wrap')), rest(turns + 3));  // to lose the focus first
      return chain(press(field), rest(turns + 2));
    }
    if (turns) return chain(press(one(away > 0 ? '.ui-datepicker-next' : '.ui-datepicker-prev')), rest(turns + 1));
    const days = all('#ui-datepicker-div td[data-month] a').filter((each) => Number(each.textContent) === day);
    return chain(press(days[0]), rest(1));
  };
  const OPTION = 24;  // height of an option of a list that is open, below the list
  const choice = () => {
    const wanted = said(/^Select (.*) from the list/), list = one('#options');
    if (list.options[list.selectedIndex].innerHTML === wanted) return button('Submit');
    const place = [...list.options].findIndex((each) => each.innerHTML === wanted);
    if (list.matches(':open')) return chain(press(list.options[place]), [click([0, 0])]);
    const top = list.getBoundingClientRect().bottom + OPTION * place, below = top > innerHeight;
    const scrolls = below ? Math.ceil((top + OPTION - innerHeight) / 100) : 0;
    return chain(press(list), Array(scrolls + 2).fill(click([0, 0])));
  };
  const ascending = () => {
    const numbers = all('svg text');
    const right = numbers.length ? numbers.find((each) => each.textContent === '1') : one('svg rect');
    const left = numbers.length || all('svg rect').length;
    return chain(press(right), Array(left - 1).fill(click([0, 0])));
  };
  const parity = () => {
    const wrong = all('.row').flatMap((row) => {
      const even = Number(row.querySelector('.display-number').textContent) % 2 === 0;
      const right = row.querySelector(even ? '.even' : '.odd');
      return right.classList.contains('selected') ? [] : [press(right)];
    });
    return chain(...wrong, press(one('#submit')));
  };
  const algebra = () => {
    const [, first, sign, second, sum] = one('#math-problem').textContent.match(/(\S+) ([-+]) (\S+) = (\S+)/);
    const [x, y] = [first, second].map(Number), total = Number(sum);
    const answer = sign === '+' ? total - (first === 'x' ? y : x) : first === 'x' ? total + y : x - total;
    return form({'#math-answer': String(answer)}, '#subbtn');
  };
  const arithmetic = () => {
    const [, x, sign, y] = one('#math-problem').textContent.match(/(\d+) ([-+x]) (\d+)/);
    const answer = {'+': +x + +y, '-': x - y, x: x * y}[sign];
    return form({'#math-answer': String(answer)}, '#subbtn');
  };
  const table = (key) => {
    const cell = all('td').find((each, place) => place % 2 === 0 && each.textContent === key);
    return cell.nextElementSibling.textContent;
  };
  const SHAPES = {circle: 'circle', rect: 'rectangle', polygon: 'triangle'};
  const figure = () => {
    const shape = one('#area_svg > *');
    const type = SHAPES[shape.tagName] || (/\d/.test(shape.textContent) ? 'digit' : 'letter');
    return press(one(`#area-buttons [data-type=${type}]`));
  };
  const shade = () => {
    const color = said(/shades of (\w+)/);
    const wrong = all('#area span').filter((each) => (each.className === 'selected') !== (each.dataset.color === color));
    return chain(...wrong.map(press), press(one('#submit')));
  };
  const synonyms = () => {
    const groups = SYNONYMS.filter((group) => listed().some((word) => group.includes(word)));
    return boxes((name) => groups.some((group) => group.includes(name)));
  };
  const option = () => {
    const wanted = said(/^Select (.*) and click Submit\.$/);
    const right = all('#area input').find((each) => tidy(each.parentElement.textContent) === wanted);
    return chain(right.checked ? [] : press(right), press(one('#subbtn')));
  };
  const sequence = () => {
    if (buttonsPushed.length === 0) return chain(press(one('#subbtn')), [click([0, 0])]);
    return buttonsPushed[0] === 'subbtn' ? press(one('#subbtn2')) : null;
  };
  const word = () => {
    const words = one('#area p').textContent.split(/\s+/).filter(Boolean);
    const wanted = words[parseInt(said(/the (\d+)/), 10) - 1].replace(/[^a-zA-Z]/g, '');
    return form({'#answer-input': wanted}, '#subbtn');
  };
  const cased = () => {
    const text = quoted();
    return form({'#tt': /upper/.test(core.getUtterance()) ? text.toUpperCase() : text.toLowerCase()}, '#subbtn');
  };
  const enter = () => form({'#tt': quoted()}, '#subbtn');
  const widget = () => press(all(`[data-type=${quoted()}]`).find(reach));
  const key = (label) => one(label).dataset.key;

  const EXPERTS = {
    'ascending-numbers': ascending,
    'choose-date': date,
    'choose-date-easy': date,
    'choose-date-medium': date,
    'choose-date-nodelay': date,
    'choose-list': choice,
    'click-button': () => button(quoted()),
    'click-button-sequence': sequence,
    'click-checkboxes': named,
    'click-checkboxes-large': named,
    'click-checkboxes-soft': synonyms,
    'click-checkboxes-transfer': named,
    'click-collapsible': section,
    'click-collapsible-2': () => link(sectionOf),
    'click-collapsible-2-nodelay': () => link(sectionOf),
    'click-collapsible-nodelay': section,
    'click-color': () => press(one(`[data-color=${said(/the (\w+) colored/)}]`)),
    'click-dialog': () => press(one('.ui-dialog-titlebar-close')),
    'click-dialog-2': () => press(quoted() === 'x' ? one('.ui-dialog-titlebar-close') :
      all('.ui-dialog-buttonset button').find((each) => each.textContent === quoted())),
    'click-link': () => link(),
    'click-option': option,
    'click-shades': shade,
    'click-tab': () => press(one(`a[href="#tabs-${said(/#(\d)/)}"]`)),
    'click-tab-2': () => link(tabOf),
    'click-tab-2-easy': () => link(tabOf),
    'click-tab-2-hard': () => link(tabOf),
    'click-tab-2-medium': () => all('.alink').some((each) => each.innerHTML === quoted()) ? link(tabOf) :
      press(one('a[href="#tabs-2"]')),  // the page itself takes the link away, and then wants its tab
    'click-test': () => press(one('#subbtn')),
    'click-test-2': () => button('ONE'),
    'click-test-transfer': () => button(said(/(ONE|TWO)/)),
    'click-widget': widget,
    'enter-password': () => form({'#password': quoted(), '#verify': quoted()}, '#subbtn'),
    'enter-text': enter,
    'enter-text-2': cased,
    'enter-text-dynamic': enter,
    'find-word': word,
    'focus-text': () => press(one('#tt')),
    'focus-text-2': () => press(one(`#tt${said(/the (\d)/)}`)),
    'grid-coordinate': () => press(document.getElementById(said(/(\(.*\))/))),
    'identify-shape': figure,
    'login-user': () => form({'#username': said(/username "(.*?)"/), '#password': said(/password "(.*?)"/)}, '#subbtn'),
    'odd-or-even': parity,
    'read-table': () => form({'#tt': table(said(/value of (.*) into/))}, '#subbtn'),
    'read-table-2': () => form({'#tt1': table(key('#ll1')), '#tt2': table(key('#ll2'))}, '#subbtn'),
    'simple-algebra': algebra,
    'simple-arithmetic': arithmetic,
    'unicode-test': () => button(quoted()),
  };
  window.alignEcho.plan = (name) => {
    try {
      return EXPERTS[name] ? EXPERTS[name]() : null;
    } catch (error) {  // the page is in a state that the expert does not know, such as a field that was dragged away
      console.error(error);
      return null;
    }
  };
})();
