"""Interface for webshop, learned by experiment; the .json beside it holds the evidence."""

RULES = {
    'pages': {
        'breaks': [' [SEP] '], 'frame': ['< prev', 'back to search', 'buy now', 'description', 'features', 'next >', 'reviews'],
        'free': {
            'search[{0}]': ['', '< prev | back to search', '< prev | back to search | buy now | description | features | reviews',
             '< prev | back to search | next >'],
        },
        'closed': {
            'click[{0}]': {
                'sure': ['< prev', 'back to search', 'buy now', 'description', 'features', 'next >', 'reviews'], 'never': ['search'],
                'regions': {' ||  || ': {}, '< prev | back to search | buy now | description | features | reviews ||  || back to search': {},
                 '< prev | back to search | buy now | description | features | reviews || < prev || description': {'open': 'all', 'but': ['after < prev', 'before description', 'before price:', 'before rating:', 'begins size', 'begins style']},
                 '< prev | back to search ||  || back to search': {}, '< prev | back to search || < prev || ': {},
                 'back to search | next > ||  || back to search': {}, 'back to search | next > || back to search || next >': {},
                 'back to search | next > || next > || ': {'shapes': ['A9 1 10']}},
            },
        },
        'any_case': True,
    },
    'rules': [
        {'kind': 'named_beside', 'form': 'click[{0}]', 'shift': -1, 'regions': ['back to search | next > || next > || '],
         'text': 'What `click[X]` does not take is named by the part before it, where it takes that'},
        {'kind': 'needs_page', 'form': 'click[{0}]', 'page': '< prev | back to search', 'name': 'Buy Now', 'step': '< Prev',
         'text': '`click[Buy Now]` needs `click[< Prev]` first where of the usual parts only < prev, back to search are shown'},
        {'kind': 'needs_page', 'form': 'click[{0}]', 'page': '< prev | back to search | buy now | description | features | reviews',
         'name': 'Next >', 'step': '< Prev',
         'text': '`click[Next >]` needs `click[< Prev]` first where of the usual parts only < prev, back to search, buy now, description, features, reviews are shown'},
    ],
}


def InferRules(init_obs, task):
    return ''


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done = env.step(agent_action)
    seen, *rest = obs, reward, done
    return env.explain(RULES, agent_action, seen), *rest
