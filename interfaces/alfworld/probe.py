"""Interface for alfworld, learned by experiment; the .json beside it holds the evidence."""

import re

SPEC = {'combined': {'clean {0} with {1}': ['apple sinkbasin', 'butterknife sinkbasin', 'cloth sinkbasin', 'cup sinkbasin',
                                     'dishsponge sinkbasin', 'egg sinkbasin', 'fork sinkbasin', 'kettle sinkbasin',
                                     'knife sinkbasin', 'ladle sinkbasin', 'lettuce sinkbasin', 'mug sinkbasin',
                                     'pan sinkbasin', 'plate sinkbasin', 'pot sinkbasin', 'potato sinkbasin',
                                     'soapbar sinkbasin', 'spatula sinkbasin', 'spoon sinkbasin',
                                     'tomato sinkbasin'],
              'cool {0} with {1}': ['apple fridge', 'bowl fridge', 'bread fridge', 'cup fridge', 'egg fridge',
                                    'lettuce fridge', 'mug fridge', 'pan fridge', 'plate fridge', 'pot fridge',
                                    'potato fridge', 'tomato fridge', 'winebottle fridge'],
              'heat {0} with {1}': ['apple microwave', 'bread microwave', 'cup microwave', 'egg microwave',
                                    'mug microwave', 'plate microwave', 'potato microwave', 'tomato microwave'],
              'move {0} to {1}': ['alarmclock desk', 'alarmclock diningtable', 'alarmclock dresser',
                                  'alarmclock shelf', 'alarmclock sidetable', 'apple countertop',
                                  'apple diningtable', 'apple fridge', 'apple garbagecan', 'apple microwave',
                                  'apple sidetable', 'apple sinkbasin', 'baseballbat bed', 'basketball bed',
                                  'basketball desk', 'basketball dresser', 'book armchair', 'book bed',
                                  'book countertop', 'book desk', 'book diningtable', 'book shelf',
                                  'book sidetable', 'bowl cabinet', 'bowl countertop', 'bowl desk', 'bowl dresser',
                                  'bowl fridge', 'bowl microwave', 'bowl shelf', 'box armchair', 'box coffeetable',
                                  'box diningtable', 'box dresser', 'box ottoman', 'box shelf', 'box sidetable',
                                  'bread countertop', 'bread diningtable', 'bread fridge', 'bread garbagecan',
                                  'bread microwave', 'butterknife countertop', 'butterknife diningtable',
                                  'butterknife drawer', 'butterknife sidetable', 'butterknife sinkbasin',
                                  'candle cabinet', 'candle countertop', 'candle drawer', 'candle shelf',
                                  'candle toilet', 'cd desk', 'cd dresser', 'cd garbagecan', 'cd safe',
                                  'cd sidetable', 'cellphone armchair', 'cellphone bed', 'cellphone countertop',
                                  'cellphone desk', 'cellphone diningtable', 'cellphone drawer',
                                  'cellphone dresser', 'cellphone sidetable', 'cloth bathtubbasin', 'cloth cabinet',
                                  'cloth countertop', 'cloth desk', 'cloth drawer', 'cloth garbagecan',
                                  'cloth laundryhamper', 'cloth shelf', 'cloth sidetable', 'cloth sinkbasin',
                                  'cloth toilet', 'creditcard countertop', 'creditcard desk',
                                  'creditcard diningtable', 'creditcard drawer', 'creditcard dresser',
                                  'creditcard ottoman', 'creditcard safe', 'creditcard shelf',
                                  'creditcard sidetable', 'cup cabinet', 'cup countertop', 'cup diningtable',
                                  'cup fridge', 'cup microwave', 'cup sinkbasin', 'dishsponge countertop',
                                  'dishsponge diningtable', 'dishsponge drawer', 'dishsponge garbagecan',
                                  'dishsponge sidetable', 'dishsponge sinkbasin', 'egg countertop',
                                  'egg diningtable', 'egg fridge', 'egg garbagecan', 'egg microwave',
                                  'egg sidetable', 'egg sinkbasin', 'fork countertop', 'fork diningtable',
                                  'fork drawer', 'fork sidetable', 'fork sinkbasin', 'glassbottle countertop',
                                  'glassbottle fridge', 'glassbottle shelf', 'handtowel bathtubbasin',
                                  'handtowel cabinet', 'handtowel countertop', 'handtowel garbagecan',
                                  'handtowel handtowelholder', 'handtowel sinkbasin', 'handtowel toilet',
                                  'kettle cabinet', 'kettle countertop', 'kettle diningtable', 'kettle shelf',
                                  'kettle sidetable', 'kettle sinkbasin', 'kettle stoveburner', 'keychain armchair',
                                  'keychain desk', 'keychain diningtable', 'keychain drawer', 'keychain dresser',
                                  'keychain ottoman', 'keychain safe', 'keychain shelf', 'keychain sidetable',
                                  'keychain sofa', 'knife countertop', 'knife diningtable', 'knife drawer',
                                  'knife sinkbasin', 'ladle countertop', 'ladle diningtable', 'ladle sinkbasin',
                                  'laptop armchair', 'laptop bed', 'laptop coffeetable', 'laptop desk',
                                  'laptop diningtable', 'laptop dresser', 'laptop ottoman', 'laptop sidetable',
                                  'laptop sofa', 'lettuce countertop', 'lettuce diningtable', 'lettuce fridge',
                                  'lettuce garbagecan', 'lettuce sinkbasin', 'mug coffeemachine', 'mug countertop',
                                  'mug desk', 'mug diningtable', 'mug dresser', 'mug fridge', 'mug microwave',
                                  'mug shelf', 'mug sidetable', 'mug sinkbasin', 'newspaper armchair',
                                  'newspaper ottoman', 'newspaper sofa', 'pan cabinet', 'pan countertop',
                                  'pan diningtable', 'pan fridge', 'pan sinkbasin', 'pan stoveburner', 'pen desk',
                                  'pen diningtable', 'pen drawer', 'pen dresser', 'pen garbagecan', 'pen shelf',
                                  'pen sidetable', 'pencil countertop', 'pencil desk', 'pencil diningtable',
                                  'pencil drawer', 'pencil dresser', 'pencil garbagecan', 'pencil shelf',
                                  'pencil sidetable', 'peppershaker cabinet', 'peppershaker countertop',
                                  'peppershaker drawer', 'pillow armchair', 'pillow bed', 'pillow sofa',
                                  'plate cabinet', 'plate countertop', 'plate diningtable', 'plate fridge',
                                  'plate microwave', 'plate sidetable', 'plate sinkbasin', 'plunger cabinet',
                                  'pot cabinet', 'pot countertop', 'pot fridge', 'pot sinkbasin', 'pot stoveburner',
                                  'potato countertop', 'potato diningtable', 'potato fridge', 'potato garbagecan',
                                  'potato microwave', 'potato sinkbasin', 'remotecontrol armchair',
                                  'remotecontrol desk', 'remotecontrol drawer', 'remotecontrol shelf',
                                  'remotecontrol sidetable', 'remotecontrol sofa', 'saltshaker cabinet',
                                  'saltshaker countertop', 'saltshaker diningtable', 'saltshaker drawer',
                                  'saltshaker sidetable', 'soapbar cabinet', 'soapbar drawer', 'soapbar garbagecan',
                                  'soapbar sinkbasin', 'soapbar toilet', 'soapbottle cabinet',
                                  'soapbottle countertop', 'soapbottle diningtable', 'soapbottle drawer',
                                  'soapbottle garbagecan', 'soapbottle toilet', 'spatula countertop',
                                  'spatula diningtable', 'spatula drawer', 'spatula sinkbasin', 'spoon countertop',
                                  'spoon drawer', 'spoon sinkbasin', 'spraybottle cabinet',
                                  'spraybottle countertop', 'spraybottle diningtable', 'spraybottle drawer',
                                  'spraybottle garbagecan', 'spraybottle shelf', 'spraybottle sidetable',
                                  'spraybottle toilet', 'statue countertop', 'statue dresser', 'statue safe',
                                  'statue shelf', 'statue sidetable', 'tennisracket bed', 'tennisracket desk',
                                  'tennisracket sidetable', 'tissuebox coffeetable', 'tissuebox diningtable',
                                  'tissuebox drawer', 'tissuebox dresser', 'tissuebox garbagecan',
                                  'tissuebox shelf', 'tissuebox sidetable', 'tissuebox toilet',
                                  'toiletpaper countertop', 'toiletpaper drawer', 'toiletpaper dresser',
                                  'toiletpaper garbagecan', 'toiletpaper toilet', 'toiletpaper toiletpaperhanger',
                                  'tomato countertop', 'tomato diningtable', 'tomato fridge', 'tomato garbagecan',
                                  'tomato microwave', 'tomato sinkbasin', 'towel towelholder', 'vase countertop',
                                  'vase desk', 'vase diningtable', 'vase safe', 'vase sidetable',
                                  'wateringcan coffeetable', 'wateringcan desk', 'wateringcan diningtable',
                                  'winebottle cabinet', 'winebottle countertop', 'winebottle diningtable',
                                  'winebottle fridge', 'winebottle garbagecan'],
              'slice {0} with {1}': ['apple butterknife', 'apple knife', 'bread butterknife', 'bread knife',
                                     'egg butterknife', 'egg knife', 'lettuce butterknife', 'lettuce knife',
                                     'potato butterknife', 'potato knife', 'tomato butterknife', 'tomato knife'],
              'take {0} from {1}': ['alarmclock desk', 'alarmclock diningtable', 'alarmclock dresser',
                                    'alarmclock shelf', 'alarmclock sidetable', 'apple countertop',
                                    'apple diningtable', 'apple fridge', 'apple garbagecan', 'apple microwave',
                                    'apple sidetable', 'apple sinkbasin', 'baseballbat bed', 'basketball bed',
                                    'basketball desk', 'basketball dresser', 'book armchair', 'book bed',
                                    'book countertop', 'book desk', 'book diningtable', 'book dresser',
                                    'book shelf', 'book sidetable', 'bowl cabinet', 'bowl countertop', 'bowl desk',
                                    'bowl diningtable', 'bowl dresser', 'bowl fridge', 'bowl microwave',
                                    'bowl shelf', 'bowl sidetable', 'bowl sinkbasin', 'box armchair',
                                    'box coffeetable', 'box desk', 'box diningtable', 'box dresser', 'box ottoman',
                                    'box shelf', 'box sidetable', 'bread countertop', 'bread diningtable',
                                    'bread fridge', 'bread garbagecan', 'bread microwave', 'butterknife countertop',
                                    'butterknife diningtable', 'butterknife drawer', 'butterknife sidetable',
                                    'butterknife sinkbasin', 'candle cabinet', 'candle countertop', 'candle drawer',
                                    'candle shelf', 'candle toilet', 'cd desk', 'cd dresser', 'cd garbagecan',
                                    'cd safe', 'cd sidetable', 'cellphone armchair', 'cellphone bed',
                                    'cellphone countertop', 'cellphone desk', 'cellphone diningtable',
                                    'cellphone drawer', 'cellphone dresser', 'cellphone safe',
                                    'cellphone sidetable', 'cloth bathtubbasin', 'cloth cabinet',
                                    'cloth countertop', 'cloth desk', 'cloth drawer', 'cloth garbagecan',
                                    'cloth laundryhamper', 'cloth shelf', 'cloth sidetable', 'cloth sinkbasin',
                                    'cloth toilet', 'creditcard armchair', 'creditcard countertop',
                                    'creditcard desk', 'creditcard diningtable', 'creditcard drawer',
                                    'creditcard dresser', 'creditcard ottoman', 'creditcard safe',
                                    'creditcard shelf', 'creditcard sidetable', 'cup cabinet', 'cup countertop',
                                    'cup diningtable', 'cup fridge', 'cup microwave', 'cup sidetable',
                                    'cup sinkbasin', 'dishsponge cabinet', 'dishsponge countertop',
                                    'dishsponge diningtable', 'dishsponge drawer', 'dishsponge garbagecan',
                                    'dishsponge shelf', 'dishsponge sidetable', 'dishsponge sinkbasin',
                                    'egg countertop', 'egg diningtable', 'egg fridge', 'egg garbagecan',
                                    'egg microwave', 'egg sidetable', 'egg sinkbasin', 'fork countertop',
                                    'fork diningtable', 'fork drawer', 'fork sidetable', 'fork sinkbasin',
                                    'glassbottle countertop', 'glassbottle fridge', 'glassbottle shelf',
                                    'glassbottle sinkbasin', 'handtowel bathtubbasin', 'handtowel cabinet',
                                    'handtowel countertop', 'handtowel garbagecan', 'handtowel handtowelholder',
                                    'handtowel sinkbasin', 'handtowel toilet', 'kettle cabinet',
                                    'kettle countertop', 'kettle diningtable', 'kettle shelf', 'kettle sidetable',
                                    'kettle sinkbasin', 'kettle stoveburner', 'keychain armchair', 'keychain desk',
                                    'keychain diningtable', 'keychain drawer', 'keychain dresser',
                                    'keychain ottoman', 'keychain safe', 'keychain shelf', 'keychain sidetable',
                                    'keychain sofa', 'knife countertop', 'knife diningtable', 'knife drawer',
                                    'knife sidetable', 'knife sinkbasin', 'ladle countertop', 'ladle diningtable',
                                    'ladle sinkbasin', 'laptop armchair', 'laptop bed', 'laptop coffeetable',
                                    'laptop desk', 'laptop diningtable', 'laptop dresser', 'laptop ottoman',
                                    'laptop sidetable', 'laptop sofa', 'lettuce countertop', 'lettuce diningtable',
                                    'lettuce fridge', 'lettuce garbagecan', 'lettuce sidetable',
                                    'lettuce sinkbasin', 'mug coffeemachine', 'mug countertop', 'mug desk',
                                    'mug diningtable', 'mug dresser', 'mug fridge', 'mug microwave', 'mug shelf',
                                    'mug sidetable', 'mug sinkbasin', 'newspaper armchair', 'newspaper diningtable',
                                    'newspaper ottoman', 'newspaper sofa', 'pan cabinet', 'pan countertop',
                                    'pan diningtable', 'pan fridge', 'pan sidetable', 'pan sinkbasin',
                                    'pan stoveburner', 'pen desk', 'pen diningtable', 'pen drawer', 'pen dresser',
                                    'pen garbagecan', 'pen shelf', 'pen sidetable', 'pencil countertop',
                                    'pencil desk', 'pencil diningtable', 'pencil drawer', 'pencil dresser',
                                    'pencil garbagecan', 'pencil shelf', 'pencil sidetable', 'peppershaker cabinet',
                                    'peppershaker countertop', 'peppershaker diningtable', 'peppershaker drawer',
                                    'pillow armchair', 'pillow bed', 'pillow sofa', 'plate cabinet',
                                    'plate countertop', 'plate diningtable', 'plate fridge', 'plate microwave',
                                    'plate sidetable', 'plate sinkbasin', 'plunger cabinet', 'pot cabinet',
                                    'pot countertop', 'pot diningtable', 'pot fridge', 'pot sidetable',
                                    'pot sinkbasin', 'pot stoveburner', 'potato countertop', 'potato diningtable',
                                    'potato fridge', 'potato garbagecan', 'potato microwave', 'potato sidetable',
                                    'potato sinkbasin', 'remotecontrol armchair', 'remotecontrol desk',
                                    'remotecontrol drawer', 'remotecontrol shelf', 'remotecontrol sidetable',
                                    'remotecontrol sofa', 'saltshaker cabinet', 'saltshaker countertop',
                                    'saltshaker diningtable', 'saltshaker drawer', 'saltshaker sidetable',
                                    'soapbar cabinet', 'soapbar countertop', 'soapbar drawer', 'soapbar garbagecan',
                                    'soapbar sinkbasin', 'soapbar toilet', 'soapbottle cabinet',
                                    'soapbottle countertop', 'soapbottle diningtable', 'soapbottle drawer',
                                    'soapbottle garbagecan', 'soapbottle sidetable', 'soapbottle toilet',
                                    'spatula countertop', 'spatula diningtable', 'spatula drawer',
                                    'spatula sinkbasin', 'spoon countertop', 'spoon diningtable', 'spoon drawer',
                                    'spoon sidetable', 'spoon sinkbasin', 'spraybottle cabinet',
                                    'spraybottle countertop', 'spraybottle diningtable', 'spraybottle drawer',
                                    'spraybottle garbagecan', 'spraybottle shelf', 'spraybottle sidetable',
                                    'spraybottle toilet', 'statue countertop', 'statue diningtable',
                                    'statue dresser', 'statue safe', 'statue shelf', 'statue sidetable',
                                    'tennisracket bed', 'tennisracket desk', 'tennisracket dresser',
                                    'tennisracket sidetable', 'tissuebox coffeetable', 'tissuebox diningtable',
                                    'tissuebox drawer', 'tissuebox dresser', 'tissuebox garbagecan',
                                    'tissuebox shelf', 'tissuebox sidetable', 'tissuebox toilet',
                                    'toiletpaper cabinet', 'toiletpaper countertop', 'toiletpaper drawer',
                                    'toiletpaper dresser', 'toiletpaper garbagecan', 'toiletpaper toilet',
                                    'toiletpaper toiletpaperhanger', 'tomato countertop', 'tomato diningtable',
                                    'tomato fridge', 'tomato garbagecan', 'tomato microwave', 'tomato sidetable',
                                    'tomato sinkbasin', 'towel towelholder', 'vase coffeetable', 'vase countertop',
                                    'vase desk', 'vase diningtable', 'vase safe', 'vase shelf', 'vase sidetable',
                                    'watch desk', 'watch shelf', 'wateringcan coffeetable', 'wateringcan desk',
                                    'wateringcan diningtable', 'wateringcan sidetable', 'winebottle cabinet',
                                    'winebottle countertop', 'winebottle diningtable', 'winebottle fridge',
                                    'winebottle garbagecan', 'winebottle sidetable']},
 'forms': {'put {0} in/on {1}': 'move {0} to {1}'},
 'kinds': {'clean {0} with {1}': [['apple', 'butterknife', 'cloth', 'cup', 'dishsponge', 'egg', 'fork', 'kettle',
                                   'knife', 'ladle', 'lettuce', 'mug', 'pan', 'plate', 'pot', 'potato', 'soapbar',
                                   'spatula', 'spoon', 'tomato'],
                                  ['sinkbasin']],
           'close {0}': [['cabinet', 'drawer', 'fridge', 'microwave', 'safe']],
           'cool {0} with {1}': [['apple', 'bowl', 'bread', 'cup', 'egg', 'lettuce', 'mug', 'pan', 'plate', 'pot',
                                  'potato', 'tomato', 'winebottle'],
                                 ['fridge']],
           'examine {0}': [['alarmclock', 'apple', 'armchair', 'baseballbat', 'basketball', 'bathtubbasin', 'bed',
                            'book', 'bowl', 'box', 'bread', 'butterknife', 'cabinet', 'candle', 'cart', 'cd',
                            'cellphone', 'cloth', 'coffeemachine', 'coffeetable', 'countertop', 'creditcard', 'cup',
                            'desk', 'diningtable', 'dishsponge', 'drawer', 'dresser', 'egg', 'fork', 'fridge',
                            'garbagecan', 'glassbottle', 'handtowel', 'handtowelholder', 'kettle', 'keychain',
                            'knife', 'ladle', 'laptop', 'laundryhamper', 'lettuce', 'microwave', 'mug', 'newspaper',
                            'ottoman', 'pan', 'pen', 'pencil', 'peppershaker', 'pillow', 'plate', 'plunger', 'pot',
                            'potato', 'remotecontrol', 'safe', 'saltshaker', 'shelf', 'sidetable', 'sinkbasin',
                            'soapbar', 'soapbottle', 'sofa', 'spatula', 'spoon', 'spraybottle', 'statue',
                            'stoveburner', 'tennisracket', 'tissuebox', 'toaster', 'toilet', 'toiletpaper',
                            'toiletpaperhanger', 'tomato', 'towel', 'towelholder', 'tvstand', 'vase', 'wateringcan',
                            'winebottle']],
           'go to {0}': [['armchair', 'bathtubbasin', 'bed', 'cabinet', 'cart', 'coffeemachine', 'coffeetable',
                          'countertop', 'desk', 'diningtable', 'drawer', 'dresser', 'fridge', 'garbagecan',
                          'handtowelholder', 'laundryhamper', 'microwave', 'ottoman', 'safe', 'shelf', 'sidetable',
                          'sinkbasin', 'sofa', 'stoveburner', 'toaster', 'toilet', 'toiletpaperhanger',
                          'towelholder', 'tvstand']],
           'heat {0} with {1}': [['apple', 'bread', 'cup', 'egg', 'mug', 'plate', 'potato', 'tomato'],
                                 ['microwave']],
           'move {0} to {1}': [['alarmclock', 'apple', 'baseballbat', 'basketball', 'book', 'bowl', 'box', 'bread',
                                'butterknife', 'candle', 'cd', 'cellphone', 'cloth', 'creditcard', 'cup',
                                'dishsponge', 'egg', 'fork', 'glassbottle', 'handtowel', 'kettle', 'keychain',
                                'knife', 'ladle', 'laptop', 'lettuce', 'mug', 'newspaper', 'pan', 'pen', 'pencil',
                                'peppershaker', 'pillow', 'plate', 'plunger', 'pot', 'potato', 'remotecontrol',
                                'saltshaker', 'soapbar', 'soapbottle', 'spatula', 'spoon', 'spraybottle', 'statue',
                                'tennisracket', 'tissuebox', 'toiletpaper', 'tomato', 'towel', 'vase',
                                'wateringcan', 'winebottle'],
                               ['armchair', 'bathtubbasin', 'bed', 'cabinet', 'coffeemachine', 'coffeetable',
                                'countertop', 'desk', 'diningtable', 'drawer', 'dresser', 'fridge', 'garbagecan',
                                'handtowelholder', 'laundryhamper', 'microwave', 'ottoman', 'safe', 'shelf',
                                'sidetable', 'sinkbasin', 'sofa', 'stoveburner', 'toilet', 'toiletpaperhanger',
                                'towelholder']],
           'open {0}': [['cabinet', 'drawer', 'fridge', 'microwave', 'safe']],
           'slice {0} with {1}': [['apple', 'bread', 'egg', 'lettuce', 'potato', 'tomato'],
                                  ['butterknife', 'knife']],
           'take {0} from {1}': [['alarmclock', 'apple', 'baseballbat', 'basketball', 'book', 'bowl', 'box',
                                  'bread', 'butterknife', 'candle', 'cd', 'cellphone', 'cloth', 'creditcard', 'cup',
                                  'dishsponge', 'egg', 'fork', 'glassbottle', 'handtowel', 'kettle', 'keychain',
                                  'knife', 'ladle', 'laptop', 'lettuce', 'mug', 'newspaper', 'pan', 'pen', 'pencil',
                                  'peppershaker', 'pillow', 'plate', 'plunger', 'pot', 'potato', 'remotecontrol',
                                  'saltshaker', 'soapbar', 'soapbottle', 'spatula', 'spoon', 'spraybottle',
                                  'statue', 'tennisracket', 'tissuebox', 'toiletpaper', 'tomato', 'towel', 'vase',
                                  'watch', 'wateringcan', 'winebottle'],
                                 ['armchair', 'bathtubbasin', 'bed', 'cabinet', 'coffeemachine', 'coffeetable',
                                  'countertop', 'desk', 'diningtable', 'drawer', 'dresser', 'fridge', 'garbagecan',
                                  'handtowelholder', 'laundryhamper', 'microwave', 'ottoman', 'safe', 'shelf',
                                  'sidetable', 'sinkbasin', 'sofa', 'stoveburner', 'toilet', 'toiletpaperhanger',
                                  'towelholder']],
           'use {0}': [['desklamp']]},
 'movers': ['go to {0}'],
 'name': '\\b[a-z]+ \\d+\\b',
 'now': {'clean {0} with {1}': [{'if': [['shows', 'inventory', 0], ['shows', 'look', 1]],
                                 'sure': True,
                                 'then': 'now'}],
         'close {0}': [{'if': [['told', 'examine {}', 0, 'The X is open']], 'sure': True, 'then': 'now'}],
         'cool {0} with {1}': [{'if': [['shows', 'inventory', 0], ['shows', 'look', 1]],
                                'sure': True,
                                'then': 'now'}],
         'examine {0}': [{'if': [['shows', 'look', 0], ['kind', 0, 'go to {0}', 0]], 'sure': True, 'then': 'now'},
                         {'if': [['shows', 'inventory', 0]], 'sure': True, 'then': 'now'}],
         'go to {0}': [{'if': [['not', ['shows', 'look', 0]]], 'sure': True, 'then': 'now'}],
         'heat {0} with {1}': [{'if': [['shows', 'inventory', 0], ['shows', 'look', 1]],
                                'sure': False,
                                'then': 'now'}],
         'help': [],
         'inventory': [],
         'look': [],
         'move {0} to {1}': [{'if': [['shows', 'inventory', 0], ['combined', 'take {0} from {1}'],
                                     ['told', 'examine {}', 1, 'On the X , you']],
                              'sure': True,
                              'then': 'now'},
                             {'if': [['shows', 'inventory', 0], ['combined', 'move {0} to {1}'],
                                     ['told', 'examine {}', 1, 'The X is open']],
                              'sure': True,
                              'then': 'now'}],
         'open {0}': [{'if': [['told', 'examine {}', 0, 'The X is closed']], 'sure': True, 'then': 'now'}],
         'slice {0} with {1}': [{'if': [['shows', 'inventory', 1], ['here', 0, 'go to {0}']],
                                 'sure': False,
                                 'then': 'now'}],
         'take {0} from {1}': [{'if': [['holds', 'examine {}', 1, 0], ['blank', 'inventory']],
                                'sure': True,
                                'then': 'now'}],
         'use {0}': [{'if': [['shows', 'look', 1]], 'sure': False, 'then': 'now'}]},
 'pairs': [['open {0}', 'close {0}'], ['take {0} from {1}', 'move {0} to {1}']],
 'spelling': {'case': True, 'number': True},
 'templates': {'clean {0} with {1}': [{'if': [['shows', 'inventory', 0]],
                                       'sure': True,
                                       'then': ['go to {0}', [['name', 1]], False]},
                                      {'if': [['holds', 'examine {}', 2, 0], ['blank', 'inventory']],
                                       'sure': True,
                                       'then': ['take {0} from {1}', [['name', 0], ['near', 0]], False]},
                                      {'if': [['at', 0, 'go to {0}', 1]],
                                       'sure': True,
                                       'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]],
                                                True]},
                                      {'if': [['blank', 'inventory'], ['not', ['shows', 'look', 2]]],
                                       'sure': True,
                                       'then': ['go to {0}', [['at', 0, 'go to {0}']], False]},
                                      {'if': [['blank', 'inventory'], ['told', 'examine {}', 2, 'The X is closed']],
                                       'sure': True,
                                       'then': ['open {0}', [['near', 0]], False]},
                                      {'if': [['holds', 'examine {}', 2, 0]],
                                       'sure': True,
                                       'then': ['move {0} to {1}', [['active', 1, 0], ['near', 0]], True]},
                                      {'if': [['holds', 'examine {}', 1, 0], ['blank', 'inventory']],
                                       'sure': True,
                                       'then': ['take {0} from {1}', [['name', 0], ['name', 1]], False]},
                                      {'if': [['holds', 'examine {}', 2, 0], ['blank', 'inventory']],
                                       'sure': True,
                                       'then': ['take {0} from {1}', [['name', 0], ['at', 0, 'go to {0}']], False]},
                                      {'if': [['shows', 'look', 1], ['shape', 2, '_ from the X']],
                                       'sure': True,
                                       'then': ['go to {0}', [['at', 0, 'go to {0}']], False]},
                                      {'if': [['shape', 3, 'You clean the X using the'],
                                              ['not', ['holds', 'examine {}', 1, 0]]],
                                       'sure': True,
                                       'then': ['go to {0}', [['at', 0, 'go to {0}']], False]}],
               'close {0}': [{'if': [['shows', 'look', 0]], 'sure': True, 'then': 'already'},
                             {'if': [['active', 0, 0, 0]],
                              'sure': True,
                              'then': ['go to {0}', [['name', 0]], False]}],
               'cool {0} with {1}': [{'if': [['holds', 'examine {}', 2, 0], ['blank', 'inventory']],
                                      'sure': True,
                                      'then': ['take {0} from {1}', [['name', 0], ['with', 0]], False]},
                                     {'if': [['shows', 'inventory', 0]],
                                      'sure': True,
                                      'then': ['go to {0}', [['name', 1]], False]},
                                     {'if': [['holds', 'examine {}', 2, 0]],
                                      'sure': True,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]],
                                               True]},
                                     {'if': [['known', 0], ['not', ['shows', 'look', 2]], ['not', ['with', 1, 0]]],
                                      'sure': False,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]],
                                               True]},
                                     {'if': [['blank', 'inventory'], ['told', 'examine {}', 2, 'The X is closed']],
                                      'sure': True,
                                      'then': ['open {0}', [['last', 'go to {0}', 0]], False]},
                                     {'if': [['active', 1, 1, 1], ['blank', 'inventory']],
                                      'sure': True,
                                      'then': ['go to {0}', [['at', 0, 'go to {0}']], False]},
                                     {'if': [['blank', 'inventory'], ['not', ['shows', 'look', 2]]],
                                      'sure': True,
                                      'then': ['go to {0}', [['with', 0]], False]}],
               'examine {0}': [{'if': [], 'sure': True, 'then': ['go to {0}', [['name', 0]], False]},
                               {'if': [['holds', 'examine {}', 1, 0], ['blank', 'inventory']],
                                'sure': True,
                                'then': ['take {0} from {1}', [['name', 0], ['with', 0]], False]},
                               {'if': [['holds', 'examine {}', 1, 0]],
                                'sure': True,
                                'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]], True]},
                               {'if': [['blank', 'inventory'], ['told', 'examine {}', 1, 'The X is closed']],
                                'sure': True,
                                'then': ['open {0}', [['near', 0]], False]},
                               {'if': [['any', 1, 0], ['told', 'examine {}', 1, 'The X is closed']],
                                'sure': True,
                                'then': ['open {0}', [['at', 0, 'go to {0}']], False]},
                               {'if': [['blank', 'inventory'], ['shape', 0, 'You move the X to the'],
                                       ['not', ['shows', 'look', 1]]],
                                'sure': True,
                                'then': ['go to {0}', [['near', 0]], False]},
                               {'if': [['shape', 0, 'you see a X'], ['not', ['shows', 'look', 1]]],
                                'sure': True,
                                'then': ['go to {0}', [['at', 0, 'go to {0}']], False]},
                               {'if': [['known', 0], ['kind', 0, 'take {0} from {1}', 0]],
                                'sure': True,
                                'then': ['move {0} to {1}', [['active', 1, 0], ['last', 'go to {0}', 0]], True]}],
               'go to {0}': [{'if': [['last', 'go to {0}', 0, 0]], 'sure': True, 'then': 'already'},
                             {'if': [['told', 'examine {}', 0, 'On the X , you']], 'sure': True, 'then': 'already'},
                             {'if': [['told', 'examine {}', 0, 'The X is closed']],
                              'sure': True,
                              'then': 'already'},
                             {'if': [['told', 'examine {}', 0, 'The X is open']], 'sure': True, 'then': 'already'}],
               'heat {0} with {1}': [{'if': [['shows', 'inventory', 0]],
                                      'sure': False,
                                      'then': ['go to {0}', [['name', 1]], False]},
                                     {'if': [['holds', 'examine {}', 2, 0], ['blank', 'inventory']],
                                      'sure': False,
                                      'then': ['take {0} from {1}', [['name', 0], ['with', 0]], False]},
                                     {'if': [['not', ['shows', 'inventory', 0]], ['not', ['shows', 'look', 1]]],
                                      'sure': False,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']],
                                               True]},
                                     {'if': [['blank', 'inventory'], ['told', 'examine {}', 2, 'The X is closed']],
                                      'sure': True,
                                      'then': ['open {0}', [['with', 0]], False]}],
               'help': [],
               'inventory': [],
               'look': [],
               'move {0} to {1}': [{'if': [['shows', 'inventory', 0], ['combined', 'take {0} from {1}'],
                                           ['not', ['shows', 'look', 1]]],
                                    'sure': True,
                                    'then': ['go to {0}', [['name', 1]], False]},
                                   {'if': [['shows', 'inventory', 0], ['combined', 'move {0} to {1}'],
                                           ['told', 'examine {}', 1, 'The X is closed']],
                                    'sure': True,
                                    'then': ['open {0}', [['name', 1]], False]},
                                   {'if': [['holds', 'examine {}', 1, 0], ['blank', 'inventory']],
                                    'sure': True,
                                    'then': 'already'},
                                   {'if': [['holds', 'examine {}', 2, 0], ['combined', 'take {0} from {1}']],
                                    'sure': True,
                                    'then': ['take {0} from {1}', [['name', 0], ['near', 0]], False]},
                                   {'if': [['holds', 'examine {}', 2, 0], ['blank', 'inventory'],
                                           ['combined', 'take {0} from {1}']],
                                    'sure': True,
                                    'then': ['take {0} from {1}', [['name', 0], ['with', 0]], False]}],
               'open {0}': [{'if': [['shows', 'look', 0]], 'sure': True, 'then': 'already'},
                            {'if': [['not', ['active', 0, 0, 0]]],
                             'sure': True,
                             'then': ['go to {0}', [['name', 0]], False]}],
               'slice {0} with {1}': [{'if': [['holds', 'examine {}', 3, 1], ['known', 0], ['blank', 'inventory']],
                                       'sure': False,
                                       'then': ['take {0} from {1}', [['name', 1], ['at', 1, 'go to {0}']], False]},
                                      {'if': [['holds', 'examine {}', 3, 1]],
                                       'sure': False,
                                       'then': ['move {0} to {1}', [['active', 1, 0], ['at', 0, 'go to {0}']],
                                                False]}],
               'take {0} from {1}': [{'if': [['with', 0, 1], ['not', ['shows', 'inventory', 0]],
                                             ['not', ['shows', 'look', 2]]],
                                      'sure': True,
                                      'then': ['go to {0}', [['near', 0]], False]},
                                     {'if': [['blank', 'look']],
                                      'sure': True,
                                      'then': ['go to {0}', [['name', 1]], False]},
                                     {'if': [['holds', 'examine {}', 1, 0]],
                                      'sure': True,
                                      'then': ['move {0} to {1}', [['active', 1, 0], ['name', 1]], True]},
                                     {'if': [['holds', 'examine {}', 2, 1], ['shape', 2, 'You close the X'],
                                             ['not', ['shows', 'inventory', 0]]],
                                      'sure': True,
                                      'then': ['open {0}', [['name', 1]], False]},
                                     {'if': [['holds', 'examine {}', 2, 1], ['not', ['shows', 'inventory', 0]],
                                             ['not', ['any', 0, 0]]],
                                      'sure': True,
                                      'then': ['open {0}', [['at', 0, 'go to {0}']], False]}],
               'use {0}': []},
 'uninformative': ['Nothing happens.'],
 'views': ['look', 'inventory', 'examine {}']}

def new_history(spec, text):
    """A history that has seen only the opening text."""
    history = {'last': {}, 'active': {}, 'shape': {}, 'near': {}, 'at': {}, 'stems': {}}
    history.update({'with': {}, 'views': {}, 'meant': {}, 'text': ''})
    observe(spec, history, text)
    return history


def views_for(spec, history, action):
    """The read-only actions that tell what there is to know about an action: those without a name, then on its names,
    on what those were shown with, and on what the steps name that rules might ask for."""
    template, names = read(spec, history, action)
    wanted = about(history, names)
    for row in spec['templates'].get(template, []):
        if not isinstance(row['then'], str):
            wanted += [value(history, term, names) for term in row['then'][1]]
    plain = [view for view in spec['views'] if '{}' not in view]
    known = [name for name in dict.fromkeys(wanted) if name in history['shape']][:12]
    return plain + [view.replace('{}', name) for view in spec['views'] if '{}' in view for name in known]


def look_at(history, texts):
    """Take in what the views show now, by view; what they showed before is forgotten."""
    history['views'] = dict(texts)


def record(spec, history, action, observation):
    """Take in one action and the engine's own answer to it; actions that the engine refused leave no trace."""
    if observation.strip() in spec['uninformative']:
        return
    template, arguments, exact = parse(spec, history, action if spec['spelling']['case'] else action.lower())
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
    history['text'] += text.lower() + '\n'
    here = {template: arguments[0] for template, arguments in history['last'].items()}
    named = names_in(spec, text)
    for name in named:
        others = [other for other in named if other != name]
        history['with'][name] = others[0] if others else history['with'].get(name, '')
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
    word, _, number = name.rpartition(' ')
    return word if number.isdigit() else name


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
    """Whether one condition holds for an action about these names (`about`)."""
    kind = literal[0]
    if kind == 'not':
        return not holds(spec, history, literal[1], names)
    if kind == 'combined':
        return combined(spec, literal[1], names[:literal[1].count('{')])
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
    if kind == 'with':
        return bool(history['with'].get(names[literal[1]], '') == names[literal[2]])
    if kind == 'near':
        return bool(history['near'].get(names[literal[1]], '') == names[literal[2]])
    if kind == 'at':
        return bool(history['at'].get(names[literal[1]], {}).get(literal[2], '') == names[literal[3]])
    if kind == 'here':
        current = history['last'].get(literal[2], [''])[0]
        return bool(history['at'].get(names[literal[1]], {}).get(literal[2], '') == current != '')
    if kind == 'shows':
        return names[literal[2]] in names_in(spec, history['views'].get(literal[1], ''))
    if kind == 'blank':
        return names_in(spec, history['views'].get(literal[1], '')) == []
    if kind == 'holds':
        return names[literal[3]] in names_in(spec, view_of(history, literal[1], names[literal[2]]))
    if kind == 'told':
        return bool(told(spec, view_of(history, literal[1], names[literal[2]]), names[literal[2]]) == literal[3])
    return names[literal[1]] in history['shape']


def about(history, names):
    """The names of an action, and for each the first other name of the text that named it last."""
    return [*names, *(str(history['with'].get(name, '')) for name in names)]


def combined(spec, template, names):
    """Whether things of these kinds were seen together in a template."""
    return ' '.join((stem(name) for name in names)) in spec['combined'].get(template, [])


def view_of(history, view, name):
    """What a view of a name shows now."""
    return str(history['views'].get(view.replace('{}', name), ''))


def names_in(spec, text):
    """The names in a text."""
    return [str(name) for name in re.findall(spec['name'], text)]


def told(spec, text, name):
    """How the first sentence of a text that has a name speaks of it; "" if there is none."""
    for sentence in text.replace('\n', '. ').split('. '):
        if name in names_in(spec, sentence):
            return shape(spec, sentence, name)
    return ''


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
    if kind == 'with':
        return str(history['with'].get(names[term[1]], ''))
    if kind == 'near':
        return str(history['near'].get(names[term[1]], ''))
    return str(history['at'].get(names[term[1]], {}).get(term[2], ''))


def decide(spec, history, template, names, sure=False):
    """(row number, missing step, "already" or "now") of the first rule that applies to an action; None if none does.

    Without `sure` the action was refused in just these words. With it, it was not tried: then the rules that call an
    action allowed ("now", numbered from -1 downwards) come first, and of the others only those count that apply to no
    allowed action. A step counts only if a rule calls it allowed now, where there are such rules for its form.
    """
    if not fitting(spec, template, names):
        return None
    everything = about(history, names)
    if sure:
        for number, row in enumerate(spec['now'].get(template, [])):
            if all((holds(spec, history, literal, everything) for literal in row['if'])):
                return (-1 - number, 'now')
    for number, row in enumerate(spec['templates'].get(template, [])):
        if sure and (not row.get('sure', False)):
            continue
        if all((holds(spec, history, literal, everything) for literal in row['if'])):
            step = conclude(spec, history, row['then'], names)
            if step and step != write(template, names) and (not doubtful(spec, history, step)):
                return (number, step)
    return None


def doubtful(spec, history, step):
    """Whether a step is of a form that has rules for when it is allowed, and none of them applies now."""
    template, names, _ = parse(spec, history, step)
    rows = spec['now'].get(template, [])
    everything = about(history, names)
    return len(rows) > 0 and (not any((all((holds(spec, history, one, everything) for one in row['if'])) for row in rows)))


def fitting(spec, template, names):
    """Whether each name is of a kind that was seen in its place."""
    kinds = spec['kinds'].get(template)
    return kinds is None or all((stem(name) in kinds[place] for place, name in enumerate(names)))


def conclude(spec, history, then, names):
    """The step that a rule's right-hand side stands for; "" if one of its names is not known or does not fit."""
    if isinstance(then, str):
        return then
    found = [value(history, term, names) for term in then[1]]
    if not all(found) or not fitting(spec, then[0], found) or (then[2] and (not combined(spec, then[0], found))):
        return ''
    return write(then[0], found)


def read(spec, history, action):
    """(template, names) that an action stands for; ("", []) if it is of no form that is known.

    Tried in turn: as it stands, in lower case, and by the words of a form around names of any shape. What a name
    without its number stood for when an action was said first, it stands for when the action is said again.
    """
    said = ' '.join(action.split())
    if said in history['meant']:
        meant = history['meant'][said]
        return meant
    template, names = read_afresh(spec, history, said)
    if template and all((name in history['shape'] for name in names)):
        history['meant'][said] = (template, names)
    return (template, names)


def read_afresh(spec, history, said):
    """The same for words said for the first time."""
    for text in [said, said.lower()]:
        skeleton, names, _ = parse(spec, history, text)
        if skeleton in spec['templates']:
            return (skeleton, names)
        if skeleton in spec['forms']:
            return (spec['forms'][skeleton], names)
    for form in [*spec['templates'], *spec['forms']]:
        pattern = '(.+?)'.join((re.escape(part) for part in re.split('\\{\\d\\}', form)))
        match = re.fullmatch(pattern, said.lower())
        if match is not None and '{' in form:
            return (spec['forms'].get(form, form), [named(spec, history, text.strip()) for text in match.groups()])
    return ('', [])


def named(spec, history, text):
    """The one name in a text, also where its number is left out; the text itself if there is none or more."""
    found = [name for name in names_in(spec, text) if name in history['shape']]
    if not found:
        found = [history['stems'][word] for word in text.split() if word in history['stems']]
    return str(found[0]) if len(found) == 1 else text


def advise(spec, history, action):
    """What to tell an agent whose action was refused; "" where nothing was learned or nothing is certain."""
    plain = [history['views'].get(view, '') for view in spec['views'] if '{}' not in view]
    if any((text.strip() in spec['uninformative'] for text in plain)):
        return ''
    template, names = read(spec, history, action)
    if not template:
        return 'The environment knows only these forms: ' + ', '.join((f'`{form}`' for form in forms(spec))) + '.'
    for name in names:
        if name not in history['shape']:
            return unseen(history, name)
    wanted = write(template, names)
    rewritten = wanted != action.strip()
    if rewritten and (not spec['spelling']['case']) and (wanted == ' '.join(action.lower().split())):
        rewritten = False
    decision = decide(spec, history, template, names, rewritten)
    if decision is None:
        shown = [name for text in plain for name in names_in(spec, text)]
        return last_seen(spec, history, [name for name in names if name not in shown])
    if decision[1] == 'already':
        return f'`{wanted}` would change nothing: that is already so.'
    if decision[1] == 'now':
        return f'`{action}` is not understood; write `{wanted}` instead.'
    needed = f'`{wanted}` does not work yet: you need to `{decision[1]}` first.'
    return needed + (f' Then write `{wanted}`: `{action}` is not understood.' if rewritten else '')


def unseen(history, name):
    """That a name was not seen so far, and which like it were; "" if its words were read somewhere."""
    if re.search(f'(?<!\\w){re.escape(name.lower())}(?!\\w)', history['text']) is not None:
        return ''
    like = sorted((other for other in history['shape'] if stem(other) == stem(name)))
    return f'Nothing called `{name}` was seen so far' + (f", only {', '.join(like)}." if like else '.')


def last_seen(spec, history, names):
    """Where the first name that is not here was seen last, if the way there is certain; "" otherwise."""
    for name in names:
        for mover, place in history['at'].get(name, {}).items():
            away = place != history['last'].get(mover, [''])[0] and place != name
            decision = decide(spec, history, mover, [place], True) if away and place else None
            if decision is not None and decision[1] == 'now':
                return f'`{name}` was last seen after `{write(mover, [place])}`.'
    return ''


def forms(spec):
    """The action forms, with letters for the places."""
    return [write(template, ['X', 'Y', 'Z']) for template in spec['templates']]

def InferRules(init_obs, task):
    return 'Learned by experiment in this environment:\n- Only these forms are understood: `clean X with Y`, `close X`, `cool X with Y`, `examine X`, `go to X`, `heat X with Y`, `help`, `inventory`, `look`, `move X to Y`, `open X`, `slice X with Y`, `take X from Y`, `use X`\n- Names are written in full, with their number\n- "Nothing happens." means that the action was refused; it does not say why\n- Write `move X to Y` instead of `put X in/on Y`\n- Before `clean X with Y` you may need to `go to Y` or repeat the `go to _` after which you last read of X or `take X from Y`\n- Before `close X` you may need to `go to X`\n- `close X` may also be refused because it is already so\n- Before `cool X with Y` you may need to `take X from P` (P is what X was last shown with) or `go to Y` or repeat the `go to _` after which you last read of X or `go to P` (P is what X was last shown with)\n- Before `examine X` you may need to `go to X` or `take X from P` (P is what X was last shown with) or repeat the `go to _` after which you last read of X\n- `go to X` may also be refused because it is already so\n- Before `heat X with Y` you may need to `go to Y` or `take X from P` (P is what X was last shown with) or `open P` (P is what X was last shown with)\n- Before `move X to Y` you may need to `go to Y` or `open Y` or `take X from P` (P is what X was last shown with)\n- `move X to Y` may also be refused because it is already so\n- Before `open X` you may need to `go to X`\n- `open X` may also be refused because it is already so\n- Before `take X from Y` you may need to `go to Y` or `move P to Y` (P is what you did `take _ from _` with last and did not undo) or `open Y`'


def WrapStep(env, init_obs, task, agent_action, logger):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, init_obs + '\n' + task)
    obs, reward, done, info = env.step([agent_action])
    seen, *rest = obs[0], info['won'][0], done[0]
    if seen.strip() not in SPEC['uninformative']:
        record(SPEC, env.history, agent_action, seen)
        return seen, *rest
    look_at(env.history, {view: env.step([view])[0][0] for view in views_for(SPEC, env.history, agent_action)})
    return (seen + ' ' + advise(SPEC, env.history, agent_action)).strip(), *rest
