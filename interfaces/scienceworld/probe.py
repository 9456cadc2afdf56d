"""Interface for scienceworld, learned by experiment; the .json beside it holds the evidence."""

RULES = {
    'places': {
        'refusals': ['No known action matches that input.'],
        'always': ['activate {0}', 'close {0}', 'deactivate {0}', 'dunk {0} in {1}', 'eat {0}', 'flush {0}', 'focus on {0}', 'go {0}', 'inventory',
         'look around', 'look at {0}', 'look in {0}', 'mix {0}', 'move {0} to {1}', 'open {0}', 'pick up {0}', 'pour {0} in {1}', 'put down {0}',
         'read {0}', 'task', 'teleport {0}', 'use {0} on {1}', 'wait', 'wait1'],
        'sometimes': ['connect {0} to {1}', 'disconnect {0}'], 'views': ['look around', 'inventory'], 'opening': True,
        'places': ['art studio', 'bathroom', 'bedroom', 'foundry', 'greenhouse', 'hallway', 'kitchen', 'living room', 'outside', 'workshop'],
        'movers': ['go {0}', 'teleport {0}'], 'before': ['', 'a', 'an', 'called', 'glass', 'temperature', 'the'], 'after': ['', 'door', 'is', 'to'],
        'names': ['adult adult beaver', 'adult apricot tree', 'agent', 'air', 'anode in battery', 'anode in blue light bulb', 'anode in buzzer',
         'anode in component', 'anode in electric motor', 'anode in gas generator', 'anode in green light bulb', 'anode in nuclear generator',
         'anode in orange light bulb', 'anode in red light bulb', 'anode in solar panel', 'anode in violet light bulb',
         'anode in yellow light bulb', 'apple', 'apricot pollen', 'apricot pollen in flower', 'apricot pollen on flower', 'apricot seed',
         'apricot tree', 'apricot tree in flower pot containing apricot tree and soil and water', 'apricot tree in self watering flower pot 2',
         'apricot tree in self watering flower pot 5', 'apricot tree in self watering flower pot 7', 'apricot tree in self watering flower pot 8',
         'apricot tree in self watering flower pot 9', 'art studio', 'art studio door', 'avocado seed on cup',
         'avocado seed on cup containing avocado seed', 'axe', 'baby baby beaver', 'baby baby elephant', 'baby baby wolf', 'banana', 'bathroom',
         'bathroom door', 'bathtub', 'battery', 'battery cathode', 'beaver', 'bed', 'bedroom', 'bedroom door', 'bee hive', 'beowulf',
         'black wire', 'black wire terminal 1', 'black wire terminal 2', 'blast furnace', 'blue box', 'blue jay', 'blue light bulb',
         'blue light bulb cathode', 'blue paint', 'blue wire', 'blue wire terminal 1', 'blue wire terminal 2', 'book',
         'book (pride and prejudice)',
         'book (pride and prejudice) called pride and prejudice on shelf containing book (pride and prejudice) and book (sherlock holmes)',
         'book (sherlock holmes)', 'book (the foundations of the origin of species)', 'book shelf', 'bowl', 'brick', 'buzzer',
         'cathode in buzzer', 'cathode in component', 'cathode in electric motor', 'cathode in gas generator', 'cathode in green light bulb',
         'cathode in nuclear generator', 'cathode in orange light bulb', 'cathode in red light bulb', 'cathode in solar panel',
         'cathode in violet light bulb', 'cathode in yellow light bulb', 'ceramic cup', 'chair', 'cherry seed',
         'cherry seed in ceramic cup containing cherry seed', 'cherry seed in cup', 'cherry seed in cup containing cherry seed',
         'cherry seed in seed jar', 'cherry seed in seed jar containing cherry seed', 'cherry seed in the seed stage',
         'cherry seed in the seed stage in ceramic cup', 'cherry seed in the seed stage in ceramic cup containing cherry seed',
         'cherry seed in the seed stage in cup', 'cherry seed in the seed stage in seed jar containing cherry seed',
         'cherry seed in the seed stage on ceramic cup containing cherry seed', 'cherry seed in the seed stage on cup',
         'cherry seed in the seed stage on cup containing cherry seed', 'cherry seed in the seed stage on seed jar',
         'cherry seed in the seed stage on seed jar containing cherry seed', 'cherry seed on ceramic cup',
         'cherry seed on ceramic cup containing cherry seed', 'cherry seed on cup', 'cherry seed on cup containing cherry seed',
         'cherry seed on seed jar', 'cherry seed on seed jar containing cherry seed', 'closet', 'cloth sittable', 'counter', 'crocodile',
         'crocodile egg', 'cup', 'cup containing blue paint', 'cup containing blue paint and yellow paint', 'cup containing nothing',
         'cup containing red paint', 'cup containing yellow paint', 'cupboard', 'dead beaver', 'dead dead beaver on outside', 'desk', 'door',
         'door to foundry', 'door to greenhouse', 'door to hallway', 'door to kitchen', 'door to living room', 'door to outside',
         'door to workshop', 'dove', 'drawer', 'drawing', 'egg parrot', 'egg turtle', 'electric motor', 'elephant', 'finger painting', 'fire pit',
         'flower', 'flower in apricot tree', 'flower in apricot tree in the reproducing stage', 'flower in living thing', 'flower in organism',
         'flower in reproducing plant', 'flower on reproducing apricot tree', 'flower on reproducing plant', 'flower pot 1', 'flower pot 2',
         'flower pot 3', 'flower pot 4', 'flower pot 7', 'flower pot 8', 'flower pot 9', 'flower pot containing apricot seed and soil and water',
         'flower pot containing apricot tree and soil and water', 'foundry', 'fountain', 'freezer', 'fridge', 'gas generator', 'glass jar',
         'green box', 'green light bulb', 'green wire', 'green wire terminal 1', 'green wire terminal 2', 'greenhouse', 'ground', 'hallway',
         'hatchling hatchling parrot', 'hatchling hatchling turtle', 'inclined plane', 'inclined plane with a ceramic surface',
         'inclined plane with a paper surface', 'inclined plane with a unknown material c surface',
         'inclined plane with a unknown material e surface', 'jug', 'juvenile beaver', 'juvenile juvenile wolf', 'kitchen', 'large cupboard',
         'light', 'light bulb', 'lighter', 'liquid unknown substance m', 'living room', 'living thing', 'living thing in ceramic cup',
         'living thing in ceramic cup containing cherry seed', 'living thing in cup', 'living thing in cup containing cherry seed',
         'living thing in seed jar', 'living thing in seed jar containing cherry seed', 'living thing on ceramic cup', 'living thing on cup',
         'living thing on seed jar', 'living thing on seed jar containing cherry seed', 'nuclear generator', 'object', 'orange', 'orange box',
         'orange light bulb', 'orange wire', 'orange wire terminal 1', 'orange wire terminal 2', 'organism in ceramic cup',
         'organism in ceramic cup containing cherry seed', 'organism in cup', 'organism in cup containing cherry seed', 'organism in outside',
         'organism in seed jar containing cherry seed', 'organism on ceramic cup', 'organism on ceramic cup containing cherry seed',
         'organism on cup', 'organism on cup containing cherry seed', 'organism on seed jar', 'organism on seed jar containing cherry seed',
         'outside', 'oven', 'paint', 'paint cupboard', 'paint in cup containing red paint', 'paint in cup containing yellow paint', 'painting',
         'picture', 'pillow', 'plane', 'pollen', 'pollen in flower', 'pollen on flower', 'potato',
         'pride and prejudice book on shelf containing book (pride and prejudice) and book (sherlock holmes)', 'red box', 'red light bulb',
         'red paint', 'red wire', 'red wire terminal 1', 'red wire terminal 2', 'room', 'round blue unknown e seed',
         'seed avocado seed in seed jar containing avocado seed', 'seed cherry seed', 'seed cherry seed in ceramic cup',
         'seed cherry seed in ceramic cup containing cherry seed', 'seed cherry seed in cup', 'seed cherry seed in cup containing cherry seed',
         'seed cherry seed in seed jar', 'seed cherry seed in seed jar containing cherry seed', 'seed cherry seed on ceramic cup',
         'seed cherry seed on ceramic cup containing cherry seed', 'seed cherry seed on cup', 'seed cherry seed on cup containing cherry seed',
         'seed cherry seed on seed jar', 'seed cherry seed on seed jar containing cherry seed', 'seed jar', 'seed plant',
         'seed plant in cup containing cherry seed', 'seed plant in seed jar', 'seed plant in seed jar containing cherry seed',
         'seed plant on ceramic cup', 'seed plant on ceramic cup containing cherry seed', 'seed plant on cup',
         'seed plant on cup containing cherry seed', 'seed plant on seed jar', 'seed plant on seed jar containing cherry seed',
         'seed square blue unknown e seed', 'self watering flower pot 2', 'self watering flower pot 5', 'self watering flower pot 7',
         'self watering flower pot 8', 'self watering flower pot 9', 'shovel', 'sink', 'soap', 'soil', 'soil in flower pot 1',
         'soil in flower pot 2', 'soil in flower pot 4', 'soil in flower pot 7', 'soil in flower pot 8', 'soil in flower pot 9',
         'soil in flower pot containing apricot seed and soil and water', 'soil in flower pot containing apricot tree and soil and water',
         'soil in self watering flower pot 2', 'soil in self watering flower pot 5', 'soil in self watering flower pot 7',
         'soil in self watering flower pot 8', 'soil in self watering flower pot 9', 'solar panel', 'steel table', 'stopwatch', 'stove',
         'substance', 'substance in flower pot', 'substance in flower pot 1', 'substance in flower pot 2', 'substance in flower pot 3',
         'substance in flower pot 4', 'substance in flower pot 7', 'substance in flower pot 8', 'substance in flower pot 9',
         'substance in flower pot containing apricot seed and soil and water', 'substance in fountain', 'substance in self watering flower pot 8',
         'substance in self watering flower pot 9', 'substance in toilet', 'switch', 'table', 'terminal 1 in yellow wire',
         'terminal 2 in yellow wire', 'the apricot tree', 'the inclined plane', 'the red light bulb', 'the thermometer', 'the unknown substance',
         'the unknown substance c', 'the wolf', 'thermometer', 'toilet', 'unknown e', 'unknown e seed', 'unknown substance',
         'unknown substance c', 'violet light bulb', 'water', 'wolf', 'wood', 'workshop', 'yellow box', 'yellow light bulb', 'yellow paint',
         'yellow wire'],
    },
    'rules': [
        {
            'kind': 'in_sight',
            'forms': ['activate {0}', 'close {0}', 'deactivate {0}', 'eat {0}', 'flush {0}', 'focus on {0}', 'look at {0}', 'look in {0}', 'mix {0}',
             'open {0}', 'pick up {0}', 'put down {0}', 'read {0}'],
            'text': 'Whatever is in sight can be named in `activate X`, `close X`, `deactivate X`, `eat X`, `flush X`, `focus on X`, `look at X`, `look in X`, `mix X`, `open X`, `pick up X`, `put down X`, `read X`',
        },
        {'kind': 'say_instead', 'form': 'go to {0}', 'answers': [], 'edit': {'kind': 'form', 'detail': 'teleport {0}', 'terms': [{'slot': 0}]},
         'text': 'Write `teleport X` instead of `go to X`', 'say': '`{action}` is not understood; write `{step}` instead.'},
        {'kind': 'say_instead', 'form': 'pick up {0} from {1}', 'answers': [],
         'edit': {'kind': 'form', 'detail': 'pick up {0}', 'terms': [{'slot': 0}]}, 'text': 'Write `pick up X` instead of `pick up X from Y`',
         'say': '`{action}` is not understood; write `{step}` instead.'},
        {'kind': 'say_instead', 'form': 'take {0} from {1}', 'answers': [],
         'edit': {'kind': 'form', 'detail': 'pick up {0}', 'terms': [{'slot': 0}]}, 'text': 'Write `pick up X` instead of `take X from Y`',
         'say': '`{action}` is not understood; write `{step}` instead.'},
        {'kind': 'elsewhere', 'form': 'teleport {0}',
         'text': 'An action is refused when a thing it names is not in sight here: `teleport the place where it was seen` first'},
        {'kind': 'bare_names', 'text': 'A thing is named by the words that the engine has for it, without any others around them'},
    ],
}


def InferRules(init_obs, task):
    return (
        'Learned by experiment in this environment:\n'
        '- These forms are understood: `activate X`, `close X`, `deactivate X`, `dunk X in Y`, `eat X`, `flush X`, `focus on X`, `go X`, `inventory`, `look around`, `look at X`, `look in X`, `mix X`, `move X to Y`, `open X`, `pick up X`, `pour X in Y`, `put down X`, `read X`, `task`, `teleport X`, `use X on Y`, `wait`, `wait1`\n'
        '- Some tasks understand these too: `connect X to Y`, `disconnect X`\n'
        '- Whatever is in sight can be named in `activate X`, `close X`, `deactivate X`, `eat X`, `flush X`, `focus on X`, `look at X`, `look in X`, `mix X`, `open X`, `pick up X`, `put down X`, `read X`\n'
        '- "No known action matches that input." means that the action was refused; it does not say why\n'
        '- Write `teleport X` instead of `go to X`\n'
        '- Write `pick up X` instead of `pick up X from Y`\n'
        '- Write `pick up X` instead of `take X from Y`\n'
        '- An action is refused when a thing it names is not in sight here: `teleport the place where it was seen` first\n'
        '- Places: art studio, bathroom, bedroom, foundry, greenhouse, hallway, kitchen, living room, outside, workshop\n'
        '- A thing is named by the words that the engine has for it, without any others around them\n'
        '- What is in sight: `look around`, `inventory`'
    )


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, _, done, info = env.step(agent_action)
    seen, *rest = obs, done, info['score']
    return env.explain(RULES, agent_action, seen), *rest
