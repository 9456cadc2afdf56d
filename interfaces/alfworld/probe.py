"""Interface for alfworld, learned by experiment; the .json beside it holds the evidence."""

import re

SPEC = {'forms': {'put {0} in/on {1}': 'move {0} to {1}'},
 'kinds': {'go to {0}': [['armchair', 'bathtubbasin', 'bed', 'cabinet', 'coffeemachine', 'coffeetable',
                          'countertop', 'desk', 'diningtable', 'drawer', 'dresser', 'fridge', 'garbagecan',
                          'handtowelholder', 'laundryhamper', 'microwave', 'safe', 'shelf', 'sidetable',
                          'sinkbasin', 'sofa', 'stoveburner', 'toaster', 'toilet', 'toiletpaperhanger',
                          'towelholder']],
           'open {0}': [['cabinet', 'drawer', 'fridge', 'microwave']],
           'take {0} from {1}': [['alarmclock', 'apple', 'basketball', 'book', 'bowl', 'box', 'bread',
                                  'butterknife', 'candle', 'cd', 'cellphone', 'cloth', 'creditcard', 'cup',
                                  'dishsponge', 'egg', 'fork', 'glassbottle', 'handtowel', 'kettle', 'keychain',
                                  'knife', 'ladle', 'laptop', 'lettuce', 'mug', 'pan', 'pen', 'pencil',
                                  'peppershaker', 'pillow', 'plate', 'plunger', 'pot', 'potato', 'remotecontrol',
                                  'saltshaker', 'soapbar', 'soapbottle', 'spatula', 'spoon', 'spraybottle',
                                  'statue', 'tennisracket', 'tissuebox', 'toiletpaper', 'tomato', 'vase',
                                  'wateringcan', 'winebottle'],
                                 ['armchair', 'bed', 'cabinet', 'coffeetable', 'countertop', 'desk', 'diningtable',
                                  'drawer', 'dresser', 'fridge', 'garbagecan', 'microwave', 'shelf', 'sidetable',
                                  'sinkbasin', 'sofa', 'stoveburner', 'toilet']]},
 'movers': ['go to {0}'],
 'name': '\\b[a-z]+ \\d+\\b',
 'pairs': [['open {0}', 'close {0}'], ['take {0} from {1}', 'move {0} to {1}']],
 'templates': {'clean {0} with {1}': [{'if': [['active', 1, 0, 0]],
                                       'sure': False,
                                       'then': ['go to {0}', [['name', 1]]]},
                                      {'if': [['here', 0, 'go to {0}'], ['near', 0, 1], ['not', ['any', 1, 0]]],
                                       'sure': True,
                                       'then': ['take {0} from {1}', [['name', 0], ['near', 0]]]},
                                      {'if': [['here', 0, 'go to {0}'], ['not', ['active', 1, 0, 0]]],
                                       'sure': True,
                                       'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']]]},
                                      {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['any', 1, 0]]],
                                       'sure': True,
                                       'then': ['go to {0}', [['at', 0, 'go to {0}']]]},
                                      {'if': [['shape', 1, 'you see a X'], ['not', ['here', 0, 'go to {0}']],
                                              ['not', ['any', 1, 1]]],
                                       'sure': True,
                                       'then': ['go to {0}', [['name', 1]]]}],
               'close {0}': [{'if': [['here', 0, 'go to {0}']], 'sure': False, 'then': 'already'},
                             {'if': [['not', ['here', 0, 'go to {0}']]],
                              'sure': True,
                              'then': ['go to {0}', [['name', 0]]]}],
               'cool {0} with {1}': [{'if': [['here', 0, 'go to {0}'], ['not', ['any', 1, 0]]],
                                      'sure': True,
                                      'then': ['take {0} from {1}', [['name', 0], ['active', 0, 0]]]},
                                     {'if': [['active', 1, 0, 0]],
                                      'sure': False,
                                      'then': ['go to {0}', [['name', 1]]]},
                                     {'if': [['here', 0, 'go to {0}'], ['last', 'go to {0}', 0, 1],
                                             ['shape', 1, 'You close the X']],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]]]},
                                     {'if': [['here', 0, 'go to {0}'], ['not', ['active', 1, 0, 0]],
                                             ['not', ['last', 'go to {0}', 0, 1]]],
                                      'sure': True,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']]]},
                                     {'if': [['active', 0, 0, 1]],
                                      'sure': False,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']]]},
                                     {'if': [['last', 'go to {0}', 0, 1], ['shape', 1, 'The X is closed']],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]]]},
                                     {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['any', 1, 0]]],
                                      'sure': True,
                                      'then': ['go to {0}', [['at', 0, 'go to {0}']]]}],
               'examine {0}': [{'if': [['kind', 0, 'go to {0}', 0]],
                                'sure': False,
                                'then': ['go to {0}', [['name', 0]]]},
                               {'if': [['here', 0, 'go to {0}'], ['shape', 0, 'you see a X'],
                                       ['not', ['any', 1, 0]]],
                                'sure': True,
                                'then': ['take {0} from {1}', [['name', 0], ['at', 0, 'go to {0}']]]},
                               {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['any', 1, 0]]],
                                'sure': True,
                                'then': ['go to {0}', [['at', 0, 'go to {0}']]]},
                               {'if': [['here', 0, 'go to {0}'], ['shape', 0, 'You move the X to the'],
                                       ['not', ['any', 1, 0]]],
                                'sure': True,
                                'then': ['take {0} from {1}', [['name', 0], ['active', 0, 0]]]},
                               {'if': [['here', 0, 'go to {0}']],
                                'sure': False,
                                'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']]]}],
               'go to {0}': [{'if': [], 'sure': False, 'then': 'already'}],
               'heat {0} with {1}': [{'if': [['active', 1, 0, 0]],
                                      'sure': False,
                                      'then': ['go to {0}', [['name', 1]]]},
                                     {'if': [['here', 0, 'go to {0}'], ['not', ['any', 1, 0]]],
                                      'sure': True,
                                      'then': ['take {0} from {1}', [['name', 0], ['active', 0, 0]]]},
                                     {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['any', 1, 0]]],
                                      'sure': True,
                                      'then': ['go to {0}', [['at', 0, 'go to {0}']]]}],
               'help': [],
               'inventory': [],
               'look': [],
               'move {0} to {1}': [{'if': [['here', 1, 'go to {0}'], ['near', 1, 0], ['not', ['any', 1, 0]]],
                                    'sure': True,
                                    'then': ['take {0} from {1}', [['near', 1], ['near', 0]]]},
                                   {'if': [['active', 1, 0, 0], ['not', ['here', 1, 'go to {0}']]],
                                    'sure': True,
                                    'then': ['go to {0}', [['name', 1]]]},
                                   {'if': [['here', 0, 'go to {0}'], ['active', 0, 0, 1], ['not', ['any', 1, 0]]],
                                    'sure': True,
                                    'then': 'already'},
                                   {'if': [['here', 0, 'go to {0}'], ['shape', 1, 'On the X , you'],
                                           ['not', ['any', 1, 0]]],
                                    'sure': True,
                                    'then': ['take {0} from {1}', [['name', 0], ['near', 0]]]},
                                   {'if': [['here', 0, 'go to {0}'], ['active', 1, 1, 1],
                                           ['not', ['active', 1, 0, 0]]],
                                    'sure': True,
                                    'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]]]},
                                   {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['kind', 1, 'open {0}', 0]],
                                           ['not', ['any', 1, 0]]],
                                    'sure': True,
                                    'then': ['go to {0}', [['near', 0]]]},
                                   {'if': [['shape', 1, 'you see a X'], ['not', ['here', 0, 'go to {0}']],
                                           ['not', ['any', 1, 0]]],
                                    'sure': True,
                                    'then': ['go to {0}', [['name', 1]]]},
                                   {'if': [['last', 'go to {0}', 0, 1], ['shape', 1, 'You close the X']],
                                    'sure': True,
                                    'then': ['open {0}', [['name', 1]]]},
                                   {'if': [['last', 'go to {0}', 0, 1], ['shape', 1, '_ to the X']],
                                    'sure': True,
                                    'then': 'already'},
                                   {'if': [['active', 1, 0, 0], ['last', 'go to {0}', 0, 1]],
                                    'sure': False,
                                    'then': ['open {0}', [['name', 1]]]},
                                   {'if': [['not', ['active', 1, 0, 0]], ['not', ['kind', 1, 'open {0}', 0]]],
                                    'sure': True,
                                    'then': ['move {0} to {1}', [['active', 1, 0], ['active', 0, 0]]]}],
               'open {0}': [{'if': [['here', 0, 'go to {0}']], 'sure': False, 'then': 'already'},
                            {'if': [['not', ['here', 0, 'go to {0}']]],
                             'sure': False,
                             'then': ['go to {0}', [['name', 0]]]}],
               'slice {0} with {1}': [{'if': [['active', 1, 0, 1]],
                                       'sure': False,
                                       'then': ['go to {0}', [['at', 0, 'go to {0}']]]},
                                      {'if': [['here', 1, 'go to {0}'], ['not', ['active', 1, 0, 1]]],
                                       'sure': True,
                                       'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]]]},
                                      {'if': [['not', ['here', 1, 'go to {0}']], ['not', ['active', 1, 0, 1]]],
                                       'sure': True,
                                       'then': ['go to {0}', [['near', 1]]]},
                                      {'if': [['here', 1, 'go to {0}'], ['not', ['any', 1, 0]]],
                                       'sure': True,
                                       'then': ['take {0} from {1}', [['name', 1], ['at', 1, 'go to {0}']]]}],
               'take {0} from {1}': [{'if': [['here', 0, 'go to {0}'], ['here', 1, 'go to {0}'],
                                             ['active', 1, 1, 1]],
                                      'sure': True,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['name', 1]]]},
                                     {'if': [['here', 0, 'go to {0}'], ['here', 1, 'go to {0}'],
                                             ['shape', 1, 'You close the X']],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]]]},
                                     {'if': [['last', 'go to {0}', 0, 1], ['shape', 1, 'The X is closed']],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]]]},
                                     {'if': [['here', 1, 'go to {0}'], ['kind', 1, 'open {0}', 0],
                                             ['shape', 1, 'are facing the X']],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]]]},
                                     {'if': [['not', ['here', 0, 'go to {0}']], ['not', ['here', 1, 'go to {0}']],
                                             ['not', ['any', 1, 0]]],
                                      'sure': True,
                                      'then': ['go to {0}', [['name', 1]]]},
                                     {'if': [['active', 1, 0, 0], ['not', ['here', 1, 'go to {0}']]],
                                      'sure': True,
                                      'then': ['go to {0}', [['name', 1]]]},
                                     {'if': [['near', 0, 1], ['shape', 1, '_ to the X']],
                                      'sure': True,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]]]}],
               'use {0}': [{'if': [], 'sure': False, 'then': ['go to {0}', [['at', 0, 'go to {0}']]]}]},
 'uninformative': ['Nothing happens.']}

def new_history(spec, text):
    """A history that has seen only the opening text."""
    history = {'last': {}, 'active': {}, 'shape': {}, 'near': {}, 'at': {}, 'stems': {}}
    observe(spec, history, text)
    return history


def record(spec, history, action, observation):
    """Take in one action and the engine's own answer to it; actions that the engine refused leave no trace."""
    if observation.strip() in spec['uninformative']:
        return
    template, arguments, exact = parse(spec, history, action)
    if exact and template in spec['templates']:
        if template in spec['movers']:
            history['last'][template] = arguments
        for number, pair in enumerate(spec['pairs']):
            if template in pair:
                for position, name in enumerate(arguments):
                    place = f'{number}/{position}'
                    others = [other for other in history['active'].get(place, []) if other != name]
                    history['active'][place] = [*others, name] if template == pair[0] else others
    observe(spec, history, observation)


def observe(spec, history, text):
    """Remember for every name in a text how it was last spoken of, next to what, and what had been done last."""
    here = {template: arguments[0] for template, arguments in history['last'].items()}
    for sentence in text.replace('\n', '. ').split('. '):
        names = re.findall(spec['name'], sentence)
        for name in names:
            others = [other for other in names if other != name]
            history['shape'][name] = shape(spec, sentence, name)
            history['near'][name] = others[0] if others else ''
            history['at'][name] = here
            history['stems'][stem(name)] = name


def shape(spec, sentence, name):
    """How a sentence speaks of a name: three words before it and two after, other names blank, lists as one name."""
    marked = re.sub(spec['name'], lambda found: 'X' if found.group(0) == name else '_', sentence)
    single = re.sub('[X_](?:,? (?:and )?(?:an? )?[X_])+', lambda found: 'X' if 'X' in found.group(0) else '_', marked)
    before, _, after = single.partition('X')
    return ' '.join([*before.split()[-3:], 'X', *after.strip(' .').split()[:2]])


def stem(name):
    """A name without its number."""
    return re.sub(' \\d+$', '', name)


def parse(spec, history, action):
    """(skeleton, names, exact): names become {0}, {1} ...; a known name without its number is completed, not exact."""
    skeleton = ''
    names = []
    exact = True
    rest = action
    while rest:
        found = re.match(spec['name'], rest)
        word = re.match('\\w+', rest)
        if found is not None:
            name = found.group(0)
            size = len(name)
        elif word is not None and word.group(0) in history['stems']:
            name = history['stems'][word.group(0)]
            size = len(word.group(0))
            exact = False
        else:
            size = len(word.group(0)) if word is not None else 1
            skeleton += rest[:size]
            rest = rest[size:]
            continue
        skeleton += '{' + str(len(names)) + '}'
        names.append(name)
        rest = rest[size:]
    return (skeleton, names, exact)


def write(template, names):
    """A template with its places filled."""
    text = template
    for number, name in enumerate(names):
        text = text.replace('{' + str(number) + '}', name)
    return text


def holds(spec, history, literal, names):
    """Whether one condition holds for an action with these names."""
    kind = literal[0]
    if kind == 'not':
        return not holds(spec, history, literal[1], names)
    if kind == 'last':
        arguments = history['last'].get(literal[1], [])
        return bool(literal[2] < len(arguments) and arguments[literal[2]] == names[literal[3]])
    if kind == 'active':
        return names[literal[3]] in history['active'].get(f'{literal[1]}/{literal[2]}', [])
    if kind == 'any':
        return len(history['active'].get(f'{literal[1]}/{literal[2]}', [])) > 0
    if kind == 'shape':
        return bool(history['shape'].get(names[literal[1]], '') == literal[2])
    if kind == 'kind':
        return stem(names[literal[1]]) in spec['kinds'][literal[2]][literal[3]]
    if kind == 'near':
        return bool(history['near'].get(names[literal[1]], '') == names[literal[2]])
    if kind == 'here':
        current = history['last'].get(literal[2], [''])[0]
        return bool(history['at'].get(names[literal[1]], {}).get(literal[2], '') == current != '')
    return names[literal[1]] in history['shape']


def value(history, term, names):
    """The name that a term stands for; "" if there is none."""
    kind = term[0]
    if kind == 'name':
        return str(names[term[1]])
    if kind == 'active':
        active = history['active'].get(f'{term[1]}/{term[2]}', [])
        return str(active[-1]) if active else ''
    if kind == 'last':
        arguments = history['last'].get(term[1], [])
        return str(arguments[term[2]]) if term[2] < len(arguments) else ''
    if kind == 'near':
        return str(history['near'].get(names[term[1]], ''))
    return str(history['at'].get(names[term[1]], {}).get(term[2], ''))


def decide(spec, history, template, names, sure=False):
    """(row number, missing step or "already") of the first rule that applies to a refused action; None if none does.

    `sure`: only rules that do not apply to actions that would have worked, for an action that was not tried.
    """
    for number, row in enumerate(spec['templates'].get(template, [])):
        if sure and (not row.get('sure', False)):
            continue
        if all((holds(spec, history, literal, names) for literal in row['if'])):
            step = conclude(history, row['then'], names)
            if step and step != write(template, names):
                return (number, step)
    return None


def conclude(history, then, names):
    """The step that a rule's right-hand side stands for; "" if one of its names is not known."""
    if then == 'already':
        return 'already'
    found = [value(history, term, names) for term in then[1]]
    return write(then[0], found) if all(found) else ''


def advise(spec, history, action):
    """What to tell an agent whose action was refused; "" where nothing was learned."""
    skeleton, names, exact = parse(spec, history, action)
    skeleton = ' '.join(skeleton.split())
    known = skeleton if skeleton in spec['templates'] else spec['forms'].get(skeleton, '')
    if not known and skeleton.lower() in spec['templates']:
        known = skeleton.lower()
    if not known:
        return 'The environment knows only these forms: ' + ', '.join((f'`{form}`' for form in forms(spec))) + '.'
    wanted = write(known, names)
    rewritten = wanted != action or not exact
    decision = decide(spec, history, known, names, rewritten)
    if decision is not None and decision[1] == 'already':
        return f'`{wanted}` would change nothing: that is already so.'
    rewrite = f'`{action}` is not understood; write `{wanted}` instead.' if rewritten else ''
    if decision is None:
        return rewrite
    needed = f'`{wanted}` does not work yet: you need to `{decision[1]}` first.'
    return f'{needed} {rewrite}'.strip()


def forms(spec):
    """The action forms, with letters for the places."""
    return [write(template, ['X', 'Y', 'Z']) for template in spec['templates']]

def InferRules(init_obs, task):
    return 'Learned by experiment in this environment:\n- Only these forms are understood: `clean X with Y`, `close X`, `cool X with Y`, `examine X`, `go to X`, `heat X with Y`, `help`, `inventory`, `look`, `move X to Y`, `open X`, `slice X with Y`, `take X from Y`, `use X`\n- Names are written in full, with their number\n- "Nothing happens." means that the action was refused; it does not say why\n- Write `move X to Y` instead of `put X in/on Y`\n- Before `clean X with Y` you may need to `go to Y` or `go to (the one before X was seen)`\n- Before `close X` you may need to `go to X`\n- `close X` is also refused when it is already so\n- Before `cool X with Y` you may need to `go to Y` or `open Y` or `go to (the one before X was seen)`\n- Before `examine X` you may need to `go to X` or `go to (the one before X was seen)`\n- `go to X` is also refused when it is already so\n- Before `heat X with Y` you may need to `go to Y` or `go to (the one before X was seen)`\n- Before `move X to Y` you may need to `go to Y` or `open Y`\n- `move X to Y` is also refused when it is already so\n- Before `open X` you may need to `go to X`\n- `open X` is also refused when it is already so\n- Before `slice X with Y` you may need to `go to (the one before X was seen)`\n- Before `take X from Y` you may need to `move (the thing of your `take _ from _`) to Y` or `open Y` or `go to Y`\n- Before `use X` you may need to `go to (the one before X was seen)`'


def WrapStep(env, init_obs, task, agent_action, logger):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, init_obs)
    obs, reward, done, info = env.step([agent_action])
    seen, *rest = obs[0], info['won'][0], done[0]
    advice = advise(SPEC, env.history, agent_action) if seen.strip() in SPEC['uninformative'] else ''
    record(SPEC, env.history, agent_action, seen)
    return (seen + ' ' + advice if advice else seen), *rest
