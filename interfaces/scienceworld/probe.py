"""Interface for scienceworld, learned by experiment; the .json beside it holds the evidence."""

import re

SPEC = {'after': ['', 'door', 'is', 'to'],
 'always': ['activate {0}', 'close {0}', 'deactivate {0}', 'dunk {0} in {1}', 'eat {0}', 'flush {0}',
            'focus on {0}', 'go {0}', 'inventory', 'look around', 'look at {0}', 'look in {0}', 'mix {0}',
            'move {0} to {1}', 'open {0}', 'pick up {0}', 'pour {0} in {1}', 'put down {0}', 'read {0}', 'task',
            'teleport {0}', 'use {0} on {1}', 'wait', 'wait1'],
 'bare': True,
 'before': ['', 'a', 'an', 'called', 'glass', 'temperature', 'the'],
 'forms': {'go to {0}': 'teleport {0}', 'pick up {0} from {1}': 'pick up {0}', 'take {0} from {1}': 'pick up {0}'},
 'movers': ['go {0}', 'teleport {0}'],
 'names': ['adult adult beaver', 'adult apricot tree', 'agent', 'air', 'anode in battery',
           'anode in blue light bulb', 'anode in buzzer', 'anode in component', 'anode in electric motor',
           'anode in gas generator', 'anode in green light bulb', 'anode in nuclear generator',
           'anode in orange light bulb', 'anode in red light bulb', 'anode in solar panel',
           'anode in violet light bulb', 'anode in yellow light bulb', 'apple', 'apricot pollen',
           'apricot pollen in flower', 'apricot pollen on flower', 'apricot seed', 'apricot tree',
           'apricot tree in flower pot containing apricot tree and soil and water',
           'apricot tree in self watering flower pot 2', 'apricot tree in self watering flower pot 5',
           'apricot tree in self watering flower pot 7', 'apricot tree in self watering flower pot 8',
           'apricot tree in self watering flower pot 9', 'art studio', 'art studio door', 'avocado seed on cup',
           'avocado seed on cup containing avocado seed', 'axe', 'baby baby beaver', 'baby baby elephant',
           'baby baby wolf', 'banana', 'bathroom', 'bathroom door', 'bathtub', 'battery', 'battery cathode',
           'beaver', 'bed', 'bedroom', 'bedroom door', 'bee hive', 'beowulf', 'black wire', 'black wire terminal 1',
           'black wire terminal 2', 'blast furnace', 'blue box', 'blue jay', 'blue light bulb',
           'blue light bulb cathode', 'blue paint', 'blue wire', 'blue wire terminal 1', 'blue wire terminal 2',
           'book', 'book (pride and prejudice)',
           'book (pride and prejudice) called pride and prejudice on shelf containing book (pride and prejudice) '
           'and book (sherlock holmes)',
           'book (sherlock holmes)', 'book (the foundations of the origin of species)', 'book shelf', 'bowl',
           'brick', 'buzzer', 'cathode in buzzer', 'cathode in component', 'cathode in electric motor',
           'cathode in gas generator', 'cathode in green light bulb', 'cathode in nuclear generator',
           'cathode in orange light bulb', 'cathode in red light bulb', 'cathode in solar panel',
           'cathode in violet light bulb', 'cathode in yellow light bulb', 'ceramic cup', 'chair', 'cherry seed',
           'cherry seed in ceramic cup containing cherry seed', 'cherry seed in cup',
           'cherry seed in cup containing cherry seed', 'cherry seed in seed jar',
           'cherry seed in seed jar containing cherry seed', 'cherry seed in the seed stage',
           'cherry seed in the seed stage in ceramic cup',
           'cherry seed in the seed stage in ceramic cup containing cherry seed',
           'cherry seed in the seed stage in cup',
           'cherry seed in the seed stage in seed jar containing cherry seed',
           'cherry seed in the seed stage on ceramic cup containing cherry seed',
           'cherry seed in the seed stage on cup', 'cherry seed in the seed stage on cup containing cherry seed',
           'cherry seed in the seed stage on seed jar',
           'cherry seed in the seed stage on seed jar containing cherry seed', 'cherry seed on ceramic cup',
           'cherry seed on ceramic cup containing cherry seed', 'cherry seed on cup',
           'cherry seed on cup containing cherry seed', 'cherry seed on seed jar',
           'cherry seed on seed jar containing cherry seed', 'closet', 'cloth sittable', 'counter', 'crocodile',
           'crocodile egg', 'cup', 'cup containing blue paint', 'cup containing blue paint and yellow paint',
           'cup containing nothing', 'cup containing red paint', 'cup containing yellow paint', 'cupboard',
           'dead beaver', 'dead dead beaver on outside', 'desk', 'door', 'door to foundry', 'door to greenhouse',
           'door to hallway', 'door to kitchen', 'door to living room', 'door to outside', 'door to workshop',
           'dove', 'drawer', 'drawing', 'egg parrot', 'egg turtle', 'electric motor', 'elephant', 'finger painting',
           'fire pit', 'flower', 'flower in apricot tree', 'flower in apricot tree in the reproducing stage',
           'flower in living thing', 'flower in organism', 'flower in reproducing plant',
           'flower on reproducing apricot tree', 'flower on reproducing plant', 'flower pot 1', 'flower pot 2',
           'flower pot 3', 'flower pot 4', 'flower pot 7', 'flower pot 8', 'flower pot 9',
           'flower pot containing apricot seed and soil and water',
           'flower pot containing apricot tree and soil and water', 'foundry', 'fountain', 'freezer', 'fridge',
           'gas generator', 'glass jar', 'green box', 'green light bulb', 'green wire', 'green wire terminal 1',
           'green wire terminal 2', 'greenhouse', 'ground', 'hallway', 'hatchling hatchling parrot',
           'hatchling hatchling turtle', 'inclined plane', 'inclined plane with a ceramic surface',
           'inclined plane with a paper surface', 'inclined plane with a unknown material c surface',
           'inclined plane with a unknown material e surface', 'jug', 'juvenile beaver', 'juvenile juvenile wolf',
           'kitchen', 'large cupboard', 'light', 'light bulb', 'lighter', 'liquid unknown substance m',
           'living room', 'living thing', 'living thing in ceramic cup',
           'living thing in ceramic cup containing cherry seed', 'living thing in cup',
           'living thing in cup containing cherry seed', 'living thing in seed jar',
           'living thing in seed jar containing cherry seed', 'living thing on ceramic cup', 'living thing on cup',
           'living thing on seed jar', 'living thing on seed jar containing cherry seed', 'nuclear generator',
           'object', 'orange', 'orange box', 'orange light bulb', 'orange wire', 'orange wire terminal 1',
           'orange wire terminal 2', 'organism in ceramic cup', 'organism in ceramic cup containing cherry seed',
           'organism in cup', 'organism in cup containing cherry seed', 'organism in outside',
           'organism in seed jar containing cherry seed', 'organism on ceramic cup',
           'organism on ceramic cup containing cherry seed', 'organism on cup',
           'organism on cup containing cherry seed', 'organism on seed jar',
           'organism on seed jar containing cherry seed', 'outside', 'oven', 'paint', 'paint cupboard',
           'paint in cup containing red paint', 'paint in cup containing yellow paint', 'painting', 'picture',
           'pillow', 'plane', 'pollen', 'pollen in flower', 'pollen on flower', 'potato',
           'pride and prejudice book on shelf containing book (pride and prejudice) and book (sherlock holmes)',
           'red box', 'red light bulb', 'red paint', 'red wire', 'red wire terminal 1', 'red wire terminal 2',
           'room', 'round blue unknown e seed', 'seed avocado seed in seed jar containing avocado seed',
           'seed cherry seed', 'seed cherry seed in ceramic cup',
           'seed cherry seed in ceramic cup containing cherry seed', 'seed cherry seed in cup',
           'seed cherry seed in cup containing cherry seed', 'seed cherry seed in seed jar',
           'seed cherry seed in seed jar containing cherry seed', 'seed cherry seed on ceramic cup',
           'seed cherry seed on ceramic cup containing cherry seed', 'seed cherry seed on cup',
           'seed cherry seed on cup containing cherry seed', 'seed cherry seed on seed jar',
           'seed cherry seed on seed jar containing cherry seed', 'seed jar', 'seed plant',
           'seed plant in cup containing cherry seed', 'seed plant in seed jar',
           'seed plant in seed jar containing cherry seed', 'seed plant on ceramic cup',
           'seed plant on ceramic cup containing cherry seed', 'seed plant on cup',
           'seed plant on cup containing cherry seed', 'seed plant on seed jar',
           'seed plant on seed jar containing cherry seed', 'seed square blue unknown e seed',
           'self watering flower pot 2', 'self watering flower pot 5', 'self watering flower pot 7',
           'self watering flower pot 8', 'self watering flower pot 9', 'shovel', 'sink', 'soap', 'soil',
           'soil in flower pot 1', 'soil in flower pot 2', 'soil in flower pot 4', 'soil in flower pot 7',
           'soil in flower pot 8', 'soil in flower pot 9',
           'soil in flower pot containing apricot seed and soil and water',
           'soil in flower pot containing apricot tree and soil and water', 'soil in self watering flower pot 2',
           'soil in self watering flower pot 5', 'soil in self watering flower pot 7',
           'soil in self watering flower pot 8', 'soil in self watering flower pot 9', 'solar panel', 'steel table',
           'stopwatch', 'stove', 'substance', 'substance in flower pot', 'substance in flower pot 1',
           'substance in flower pot 2', 'substance in flower pot 3', 'substance in flower pot 4',
           'substance in flower pot 7', 'substance in flower pot 8', 'substance in flower pot 9',
           'substance in flower pot containing apricot seed and soil and water', 'substance in fountain',
           'substance in self watering flower pot 8', 'substance in self watering flower pot 9',
           'substance in toilet', 'switch', 'table', 'terminal 1 in yellow wire', 'terminal 2 in yellow wire',
           'the apricot tree', 'the inclined plane', 'the red light bulb', 'the thermometer',
           'the unknown substance', 'the unknown substance c', 'the wolf', 'thermometer', 'toilet', 'unknown e',
           'unknown e seed', 'unknown substance', 'unknown substance c', 'violet light bulb', 'water', 'wolf',
           'wood', 'workshop', 'yellow box', 'yellow light bulb', 'yellow paint', 'yellow wire'],
 'places': ['art studio', 'bathroom', 'bedroom', 'foundry', 'greenhouse', 'hallway', 'kitchen', 'living room',
            'outside', 'workshop'],
 'sure': ['activate {0}', 'close {0}', 'deactivate {0}', 'eat {0}', 'flush {0}', 'focus on {0}', 'look at {0}',
          'look in {0}', 'mix {0}', 'open {0}', 'pick up {0}', 'put down {0}', 'read {0}'],
 'templates': ['activate {0}', 'close {0}', 'connect {0} to {1}', 'deactivate {0}', 'disconnect {0}',
               'dunk {0} in {1}', 'eat {0}', 'flush {0}', 'focus on {0}', 'go {0}', 'inventory', 'look around',
               'look at {0}', 'look in {0}', 'mix {0}', 'move {0} to {1}', 'open {0}', 'pick up {0}',
               'pour {0} in {1}', 'put down {0}', 'read {0}', 'task', 'teleport {0}', 'use {0} on {1}', 'wait',
               'wait1'],
 'travel': 'teleport {0}',
 'uninformative': ['No known action matches that input.'],
 'views': ['look around', 'inventory']}

def new_history(text=''):
    """A history that has seen only the opening text: place -> its view, latest last; the other views; the present
    place; all that was read so far."""
    return {'place': '', 'seen': {}, 'carried': '', 'text': text.lower()}


def read_text(history, text):
    """Take in an answer of the engine, whatever it says."""
    if text.lower() not in history['text']:
        history['text'] += '\n' + text.lower()


def watch(spec, history, texts):
    """Take in the texts of the views as they are now."""
    if not texts:
        return
    history['place'] = place_in(spec, texts[0]) or history['place']
    history['seen'].pop(history['place'], None)
    history['seen'][history['place']] = texts[0].lower()
    history['carried'] = '\n'.join(texts[1:]).lower()
    for text in texts:
        read_text(history, text)


def asks(text):
    """Whether a text numbers choices, one a line: an answer is waited for, and a look might be taken for one."""
    return re.search('\\n *\\d+[:.)]\\s', '\n' + text) is not None


def place_in(spec, text):
    """The place that a view names first; "" if it names none."""
    found = ''
    first = len(text)
    for place in spec['places']:
        match = re.search(f'\\b{re.escape(place)}\\b', text.lower())
        if match is not None and (match.start() < first or (match.start() == first and len(place) > len(found))):
            found, first = (place, match.start())
    return found


def mentions(text, name):
    """Whether a lower-case text has a name in it as whole words."""
    return re.search(f'(?<!\\w){re.escape(name)}(?!\\w)', text) is not None


def surroundings(text, name):
    """The words before and after each occurrence of a name in a lower-case text; "" where none stands."""
    found = re.finditer(f'(?:(\\w+) )?(?<!\\w){re.escape(name)}(?!\\w)(?: (\\w+))?', text)
    return [(match.group(1) or '', match.group(2) or '') for match in found]


def stands(spec, text, name):
    """Whether a name stands in a lower-case text by itself, not as a part of a longer one: between words that names
    were met between."""
    around = surroundings(text, name)
    return any((before in spec['before'] and after in spec['after'] for before, after in around))


def at_hand(spec, history, name):
    """Whether a name is in the present views."""
    return stands(spec, history['seen'].get(history['place'], ''), name) or stands(spec, history['carried'], name)


def last_seen(spec, history, name):
    """The place where a name was seen last; "" if nowhere."""
    places = [place for place, text in history['seen'].items() if place and stands(spec, text, name)]
    return str(places[-1]) if places else ''


def known(spec, history, name):
    """Whether a name was seen anywhere, or is a place."""
    return name in spec['places'] or at_hand(spec, history, name) or last_seen(spec, history, name) != ''


def fill(template, names):
    """A template with its places filled."""
    text = template
    for number, name in enumerate(names):
        text = text.replace('{' + str(number) + '}', name)
    return text


def slots(template, action):
    """What stands in the places of a template in an action; None if it is not of this form."""
    pattern = '(.+?)'.join((re.escape(part) for part in re.split('\\{\\d\\}', template)))
    match = re.fullmatch(pattern, action)
    return None if match is None else [text.strip() for text in match.groups()]


def understood(spec, history, action):
    """(form or template, names) that fits an action best: fewest names never seen, then most words of its own."""
    best = None
    rank = (9, 0)
    for form in [*spec['forms'], *spec['templates']]:
        names = slots(form, action)
        if names is None:
            continue
        unseen = len([name for name in names if not known(spec, history, name)])
        here = (unseen, -len(form.split()))
        if best is None or here < rank:
            best, rank = ((form, names), here)
    return best


def bare(spec, history, text):
    """The first name within a text that the engine takes and that was seen, as long as it goes; "" if there is none."""
    words = text.split(' ')
    parts = [' '.join(words[a:b]) for a in range(len(words)) for b in range(len(words), a, -1)]
    return next((part for part in parts if part != text and part in spec['names'] and known(spec, history, part)), '')


def advise(spec, history, action):
    """What to tell an agent whose action was refused; "" where nothing was learned."""
    said = ' '.join(action.lower().split())
    found = understood(spec, history, said)
    if found is None:
        return suggest(spec, said)
    form, names = found
    if spec['bare']:
        names = [name if known(spec, history, name) else bare(spec, history, name) or name for name in names]
    advice = advise_on(spec, history, said, form, names)
    if advice or not spec['bare']:
        return advice
    shorter = [bare(spec, history, name) or name for name in names]
    return advise_on(spec, history, said, form, shorter)


def advise_on(spec, history, said, form, names):
    """What to tell of one form with these names, of which its template may use some only.

    Of a name that no text has held nothing is said but that; of one that was read and is at hand nowhere, nothing. A
    place is only somewhere to go: what else can be done with one, and where else one can go, was not learned. Of most
    templates it was not learned either which things they take: an action of the template's own form with bare names is
    promised to be understood only if the template took every name at hand. A template that some tasks lack is promised
    nowhere.
    """
    template = spec['forms'].get(form, form)
    used = [name for number, name in enumerate(names) if '{' + str(number) + '}' in template]
    for name in used:
        if not known(spec, history, name):
            return '' if mentions(history['text'], name) else f'Nothing called `{name}` was seen so far.'
    if template in spec['templates'] and template not in spec['always']:
        return some_tasks([template])
    if any(((name in spec['places']) != (template in spec['movers']) for name in used)):
        return ''
    if template in spec['movers'] and template != spec['travel'] and spec['travel']:
        return f"`{said}` is not possible from here; write `{fill(spec['travel'], used[:1])}` instead."
    wanted = fill(template, names)
    rewrite = f'`{said}` is not understood; write `{wanted}` instead.' if wanted != said else ''
    taken = template in spec['sure'] and all((at_hand(spec, history, name) for name in used))
    if wanted != said and form == template and (not taken):
        alone = ' and '.join((f'"{name}"' for name in used))
        rewrite = f'Words around a name are not understood: here {alone} must stand alone.'
    step = missing_step(spec, history, template, used)
    if step:
        return f'`{wanted}` does not work yet: you need to `{step}` first. {rewrite}'.strip()
    away = [name for name in used if template not in spec['movers'] and (not at_hand(spec, history, name))]
    if away:
        return f'`{away[0]}` is not here; it was last seen at {last_seen(spec, history, away[0])}. {rewrite}'.strip()
    return rewrite


def missing_step(spec, history, template, names):
    """The way to the first name that is not at hand; "" if there is none to take.

    What lies here is left behind on a way: all names must be carried along or have been seen there.
    """
    away = [name for name in names if not at_hand(spec, history, name)]
    if template in spec['movers'] or not spec['travel'] or (not away):
        return ''
    place = last_seen(spec, history, away[0])
    seen = history['seen'].get(place, '')
    together = all((stands(spec, history['carried'], name) or stands(spec, seen, name) for name in names))
    return fill(spec['travel'], [place]) if place and together else ''


def suggest(spec, action):
    """The forms that begin with the same word; all that every task offers if none does."""
    first = action.split(' ')[0]
    same = [form for form in spec['templates'] if form.split(' ')[0] == first]
    always = [form for form in same if form in spec['always']]
    if always == [first]:
        return f'`{action}` is not understood; write `{first}` instead.'
    if always:
        return 'Write ' + ' or '.join((f'`{letters(form)}`' for form in always)) + '.'
    return some_tasks(same) if same else 'The environment knows these forms: ' + listed(spec['always']) + '.'


def some_tasks(templates):
    """What is said of templates that some tasks offer."""
    return 'Some tasks understand ' + ' or '.join((f'`{letters(one)}`' for one in templates)) + ', not all.'


def listed(templates):
    """Templates in a row."""
    return ', '.join((f'`{letters(template)}`' for template in templates))


def letters(template):
    """A template with letters for its places."""
    return fill(template, ['X', 'Y', 'Z'])

def InferRules(init_obs, task):
    return 'Learned by experiment in this environment:\n- These forms are understood: `activate X`, `close X`, `deactivate X`, `dunk X in Y`, `eat X`, `flush X`, `focus on X`, `go X`, `inventory`, `look around`, `look at X`, `look in X`, `mix X`, `move X to Y`, `open X`, `pick up X`, `pour X in Y`, `put down X`, `read X`, `task`, `teleport X`, `use X on Y`, `wait`, `wait1`\n- Some tasks understand these too: `connect X to Y`, `disconnect X`\n- Whatever is in sight can be named in `activate X`, `close X`, `deactivate X`, `eat X`, `flush X`, `focus on X`, `look at X`, `look in X`, `mix X`, `open X`, `pick up X`, `put down X`, `read X`\n- "No known action matches that input." means that the action was refused; it does not say why\n- Write `teleport X` instead of `go to X`\n- Write `pick up X` instead of `pick up X from Y`\n- Write `pick up X` instead of `take X from Y`\n- An action is refused when a thing it names is not in sight here: `teleport the place where it was seen` first\n- Places: art studio, bathroom, bedroom, foundry, greenhouse, hallway, kitchen, living room, outside, workshop\n- A thing is named by the words that the engine has for it, without any others around them\n- What is in sight: `look around`, `inventory`'


def WrapStep(env, init_obs, task, agent_action, logger):
    if not hasattr(env, 'history'):
        env.history = new_history(init_obs + '\n' + task)
        watch(SPEC, env.history, [env.step(view)[0] for view in SPEC['views']])
    obs, _, done, info = env.step(agent_action)
    seen, *rest = obs, done, info['score']
    read_text(env.history, seen)
    if seen.strip() in SPEC['uninformative']:
        advice = advise(SPEC, env.history, agent_action)
        return (seen + ' ' + advice).strip(), *rest
    if not asks(seen):
        watch(SPEC, env.history, [env.step(view)[0] for view in SPEC['views']])
    return seen, *rest
