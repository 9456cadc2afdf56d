"""Interface for textworldexpress, learned by experiment; the .json beside it holds the evidence."""

import re

SPEC = {'combined': {'cook {0} in {1}': ['chicken leg oven', 'chicken leg stove', 'green hot pepper oven',
                                  'green hot pepper stove', 'orange bell pepper oven', 'orange bell pepper stove',
                                  'purple potato oven', 'purple potato stove', 'red apple oven', 'red apple stove',
                                  'red hot pepper oven', 'red hot pepper stove', 'red onion oven',
                                  'red onion stove', 'red potato oven', 'red potato stove', 'white onion oven',
                                  'white onion stove', 'yellow apple oven', 'yellow apple stove',
                                  'yellow potato oven', 'yellow potato stove'],
              'put 1 {0} in {1}': ['papaya box', 'papaya folding chair', 'papaya shelf', 'tangerine box',
                                   'tangerine clothes line', 'tangerine garden', 'tangerine patio chair',
                                   'tangerine patio table', 'tangerine workbench'],
              'put plaid {0} sheet in {1}': ['bed box'],
              'put {0} in {1}': ['1 peach TV stand', '1 peach arm chair', '1 peach book case', '1 peach box',
                                 '1 peach coffee table', '1 peach end table', '1 peach side table', '1 peach sofa',
                                 '102 oranges bath tub', '102 oranges box', '102 oranges dressing table',
                                 '102 oranges shower', '102 oranges sink', '102 oranges toilet roll holder',
                                 '102 oranges towel rack', '102 oranges wall hook', '104 pineapples bench',
                                 '104 pineapples box', '104 pineapples laundry basket', '104 pineapples work table',
                                 '11 tangerines bath tub', '11 tangerines box', '11 tangerines dressing table',
                                 '11 tangerines shower', '11 tangerines sink', '11 tangerines toilet roll holder',
                                 '11 tangerines towel rack', '11 tangerines wall hook', '12 grapes bath tub',
                                 '12 grapes box', '12 grapes dressing table', '12 grapes shower', '12 grapes sink',
                                 '12 grapes toilet roll holder', '12 grapes towel rack', '12 grapes wall hook',
                                 '12l of wood TV stand', '12l of wood arm chair', '12l of wood book case',
                                 '12l of wood box', '12l of wood coffee table', '12l of wood end table',
                                 '12l of wood side table', '12l of wood sofa', '1400 tangerines TV stand',
                                 '1400 tangerines arm chair', '1400 tangerines book case', '1400 tangerines box',
                                 '1400 tangerines coffee table', '1400 tangerines end table',
                                 '1400 tangerines side table', '1400 tangerines sofa', '15 peaches box',
                                 '15 peaches clothes line', '15 peaches garden', '15 peaches patio chair',
                                 '15 peaches patio table', '15 peaches workbench', '15m of brick box',
                                 '15m of brick showcase', '15m of wood box', '15m of wood counter',
                                 '15m of wood dining chair', '15m of wood dining table', '160 strawberries box',
                                 '160 strawberries folding chair', '160 strawberries shelf', '17m of brick box',
                                 '17m of brick counter', '17m of brick dining chair', '17m of brick dining table',
                                 '18g of marble bath tub', '18g of marble box', '18g of marble dressing table',
                                 '18g of marble shower', '18g of marble sink', '18g of marble toilet roll holder',
                                 '18g of marble towel rack', '18g of marble wall hook', '192 strawberries bath tub',
                                 '192 strawberries box', '192 strawberries dressing table',
                                 '192 strawberries shower', '192 strawberries sink',
                                 '192 strawberries toilet roll holder', '192 strawberries towel rack',
                                 '192 strawberries wall hook', '19cm of brick bath tub', '19cm of brick box',
                                 '19cm of brick dressing table', '19cm of brick shower', '19cm of brick sink',
                                 '19cm of brick toilet roll holder', '19cm of brick towel rack',
                                 '19cm of brick wall hook', '19m of cedar box', '19m of cedar counter',
                                 '19m of cedar dining chair', '19m of cedar dining table', '2 bananas bath tub',
                                 '2 bananas box', '2 bananas dressing table', '2 bananas shower', '2 bananas sink',
                                 '2 bananas toilet roll holder', '2 bananas towel rack', '2 bananas wall hook',
                                 '2 papayas box', '22m of cedar bath tub', '22m of cedar box',
                                 '22m of cedar dressing table', '22m of cedar shower', '22m of cedar sink',
                                 '22m of cedar toilet roll holder', '22m of cedar towel rack',
                                 '22m of cedar wall hook', '22ml of marble TV stand', '22ml of marble arm chair',
                                 '22ml of marble book case', '22ml of marble box', '22ml of marble coffee table',
                                 '22ml of marble end table', '22ml of marble side table', '22ml of marble sofa',
                                 '23 papayas bath tub', '23 papayas box', '23 papayas dressing table',
                                 '23 papayas shower', '23 papayas sink', '23 papayas toilet roll holder',
                                 '23 papayas towel rack', '23 papayas wall hook', '25 peaches bench',
                                 '25 peaches box', '25 peaches laundry basket', '25 peaches work table',
                                 '26 grapes bath tub', '26 grapes box', '26 grapes dressing table',
                                 '26 grapes shower', '26 grapes sink', '26 grapes toilet roll holder',
                                 '26 grapes towel rack', '26 grapes wall hook', '26cm of wood box',
                                 '26cm of wood clothes line', '26cm of wood garden', '26cm of wood patio chair',
                                 '26cm of wood patio table', '26cm of wood workbench', '29 grapefruits TV stand',
                                 '29 grapefruits arm chair', '29 grapefruits book case', '29 grapefruits box',
                                 '29 grapefruits coffee table', '29 grapefruits end table',
                                 '29 grapefruits side table', '29 grapefruits sofa', '2cm of wood box',
                                 '2cm of wood clothes line', '2cm of wood garden', '2cm of wood patio chair',
                                 '2cm of wood patio table', '2cm of wood workbench', '2m of cedar TV stand',
                                 '2m of cedar arm chair', '2m of cedar book case', '2m of cedar box',
                                 '2m of cedar coffee table', '2m of cedar end table', '2m of cedar showcase',
                                 '2m of cedar side table', '2m of cedar sofa', '2mm of brick box',
                                 '2mm of brick showcase', '3 pineapples box', '30mm of marble TV stand',
                                 '30mm of marble arm chair', '30mm of marble book case', '30mm of marble box',
                                 '30mm of marble coffee table', '30mm of marble end table',
                                 '30mm of marble showcase', '30mm of marble side table', '30mm of marble sofa',
                                 '31 apples bath tub', '31 apples box', '31 apples dressing table',
                                 '31 apples shower', '31 apples sink', '31 apples toilet roll holder',
                                 '31 apples towel rack', '31 apples wall hook', '33l of wood box',
                                 '35cm of marble TV stand', '35cm of marble arm chair', '35cm of marble book case',
                                 '35cm of marble box', '35cm of marble coffee table', '35cm of marble end table',
                                 '35cm of marble showcase', '35cm of marble side table', '35cm of marble sofa',
                                 '36m of oak TV stand', '36m of oak arm chair', '36m of oak book case',
                                 '36m of oak box', '36m of oak coffee table', '36m of oak end table',
                                 '36m of oak showcase', '36m of oak side table', '36m of oak sofa',
                                 '37 bananas box', '37 bananas clothes line', '37 bananas garden',
                                 '37 bananas patio chair', '37 bananas patio table', '37 bananas workbench',
                                 '38 apples TV stand', '38 apples arm chair', '38 apples book case',
                                 '38 apples box', '38 apples coffee table', '38 apples end table',
                                 '38 apples side table', '38 apples sofa', '39 apples bath tub', '39 apples box',
                                 '39 apples dressing table', '39 apples shower', '39 apples sink',
                                 '39 apples toilet roll holder', '39 apples towel rack', '39 apples wall hook',
                                 '3cm of brick box', '3cm of brick showcase', '3m of brick box', '3m of oak box',
                                 '3m of oak clothes line', '3m of oak garden', '3m of oak patio chair',
                                 '3m of oak patio table', '3m of oak workbench', '4 oranges box',
                                 '4 oranges folding chair', '4 oranges shelf', '4 pineapples box',
                                 '4 pineapples folding chair', '4 pineapples shelf', '41ml of cedar TV stand',
                                 '41ml of cedar arm chair', '41ml of cedar book case', '41ml of cedar box',
                                 '41ml of cedar coffee table', '41ml of cedar end table',
                                 '41ml of cedar side table', '41ml of cedar sofa', '42cm of oak box',
                                 '42cm of oak clothes line', '42cm of oak garden', '42cm of oak patio chair',
                                 '42cm of oak patio table', '42cm of oak workbench', '42mm of cedar box',
                                 '44mm of brick box', '44mm of brick clothes line', '44mm of brick garden',
                                 '44mm of brick patio chair', '44mm of brick patio table',
                                 '44mm of brick workbench', '4cm of cedar box', '4cm of cedar showcase',
                                 '4mm of wood bath tub', '4mm of wood box', '4mm of wood dressing table',
                                 '4mm of wood shower', '4mm of wood sink', '4mm of wood toilet roll holder',
                                 '4mm of wood towel rack', '4mm of wood wall hook', '5 pineapples TV stand',
                                 '5 pineapples arm chair', '5 pineapples book case', '5 pineapples box',
                                 '5 pineapples coffee table', '5 pineapples end table', '5 pineapples side table',
                                 '5 pineapples sofa', '52 papayas bath tub', '52 papayas box',
                                 '52 papayas dressing table', '52 papayas shower', '52 papayas sink',
                                 '52 papayas toilet roll holder', '52 papayas towel rack', '52 papayas wall hook',
                                 '6 apples box', '6 grapes bench', '6 grapes box', '6 grapes laundry basket',
                                 '6 grapes work table', '7 bananas box', '7 bananas folding chair',
                                 '7 bananas shelf', '75 grapes TV stand', '75 grapes arm chair',
                                 '75 grapes book case', '75 grapes box', '75 grapes coffee table',
                                 '75 grapes end table', '75 grapes side table', '75 grapes sofa', '7l of cedar box',
                                 '874 grapes box', '874 grapes clothes line', '874 grapes garden',
                                 '874 grapes patio chair', '874 grapes patio table', '874 grapes workbench',
                                 '8kg of oak bath tub', '8kg of oak box', '8kg of oak dressing table',
                                 '8kg of oak shower', '8kg of oak sink', '8kg of oak toilet roll holder',
                                 '8kg of oak towel rack', '8kg of oak wall hook', '990 peaches box',
                                 '9g of brick bath tub', '9g of brick box', '9g of brick dressing table',
                                 '9g of brick shower', '9g of brick sink', '9g of brick toilet roll holder',
                                 '9g of brick towel rack', '9g of brick wall hook', 'alarm clock box',
                                 'beret TV stand', 'beret arm chair', 'beret book case', 'beret coat hanger',
                                 'beret coffee table', 'beret end table', 'beret hat rack', 'beret key holder',
                                 'beret shoe cabinet', 'beret side table', 'beret sofa', 'beret umbrella stand',
                                 'beret wastepaper basket', 'black belt bench', 'black belt clothes drier',
                                 'black belt laundry basket', 'black belt washing machine', 'black belt work table',
                                 'black blanket bed', 'black blanket box', 'black blanket chest of drawers',
                                 'black blanket coat hanger', 'black blanket desk', 'black blanket desk chair',
                                 'black blanket dressing table', 'black blanket hat rack',
                                 'black blanket key holder', 'black blanket night stand',
                                 'black blanket umbrella stand', 'black blanket wardrobe',
                                 'black business shoes TV stand', 'black business shoes arm chair',
                                 'black business shoes bed', 'black business shoes book case',
                                 'black business shoes box', 'black business shoes chest of drawers',
                                 'black business shoes coat hanger', 'black business shoes coffee table',
                                 'black business shoes desk', 'black business shoes desk chair',
                                 'black business shoes dressing table', 'black business shoes end table',
                                 'black business shoes hat rack', 'black business shoes key holder',
                                 'black business shoes night stand', 'black business shoes shoe cabinet',
                                 'black business shoes side table', 'black business shoes sofa',
                                 'black business shoes umbrella stand', 'black business shoes wastepaper basket',
                                 'black duvet bench', 'black duvet clothes drier', 'black duvet coat hanger',
                                 'black duvet hat rack', 'black duvet key holder', 'black duvet laundry basket',
                                 'black duvet shoe cabinet', 'black duvet umbrella stand', 'black duvet work table',
                                 'black moccasins bath tub', 'black moccasins bed',
                                 'black moccasins chest of drawers', 'black moccasins coat hanger',
                                 'black moccasins counter', 'black moccasins desk', 'black moccasins desk chair',
                                 'black moccasins dining chair', 'black moccasins dressing table',
                                 'black moccasins hat rack', 'black moccasins key holder',
                                 'black moccasins kitchen cupboard', 'black moccasins night stand',
                                 'black moccasins shoe cabinet', 'black moccasins shower', 'black moccasins sink',
                                 'black moccasins toilet roll holder', 'black moccasins towel rack',
                                 'black moccasins umbrella stand', 'black moccasins wall hook',
                                 'black moccasins wardrobe', 'black pepper box', 'black pepper coat hanger',
                                 'black pepper counter', 'black pepper cutlery drawer', 'black pepper dining chair',
                                 'black pepper folding chair', 'black pepper hat rack', 'black pepper key holder',
                                 'black pepper shelf', 'black pepper shoe cabinet', 'black pepper umbrella stand',
                                 'bottle of cold water coat hanger', 'bottle of cold water counter',
                                 'bottle of cold water cutlery drawer', 'bottle of cold water dining chair',
                                 'bottle of cold water folding chair', 'bottle of cold water hat rack',
                                 'bottle of cold water key holder', 'bottle of cold water kitchen cupboard',
                                 'bottle of cold water shelf', 'bottle of cold water shoe cabinet',
                                 'bottle of cold water umbrella stand', 'bread basket box', 'brown coat counter',
                                 'brown coat dining chair', 'brown coat folding chair', 'brown coat fridge',
                                 'brown coat shelf', 'brown coat trash can', 'checkered suit box',
                                 'chicken leg counter', 'chicken leg dining chair', 'chicken leg fridge',
                                 'cilantro counter', 'cilantro dining chair', 'cilantro fridge',
                                 'clean blue pullover box', 'clean cake slicer box', 'clean checkered T-shirt box',
                                 'clean colander bed', 'clean colander chest of drawers',
                                 'clean colander coat hanger', 'clean colander desk', 'clean colander desk chair',
                                 'clean colander dressing table', 'clean colander hat rack',
                                 'clean colander key holder', 'clean colander night stand',
                                 'clean colander shoe cabinet', 'clean colander umbrella stand',
                                 'clean green T-shirt box', 'clean plate box', 'clean sleeveless shirt box',
                                 'clean striped jumper TV stand', 'clean striped jumper arm chair',
                                 'clean striped jumper bed', 'clean striped jumper book case',
                                 'clean striped jumper coffee table', 'clean striped jumper desk',
                                 'clean striped jumper desk chair', 'clean striped jumper dressing table',
                                 'clean striped jumper end table', 'clean striped jumper night stand',
                                 'clean striped jumper side table', 'clean striped jumper sofa',
                                 'clean striped jumper wardrobe', 'clean striped jumper wastepaper basket',
                                 'coin box', 'cookbook TV stand', 'cookbook arm chair', 'cookbook book case',
                                 'cookbook coffee table', 'cookbook counter', 'cookbook cutlery drawer',
                                 'cookbook dining chair', 'cookbook dishwasher', 'cookbook end table',
                                 'cookbook fridge', 'cookbook kitchen cupboard', 'cookbook side table',
                                 'cookbook sofa', 'cookbook trash can', 'copybook bed', 'copybook chest of drawers',
                                 'copybook coat hanger', 'copybook desk', 'copybook desk chair',
                                 'copybook dressing table', 'copybook hat rack', 'copybook key holder',
                                 'copybook night stand', 'copybook shoe cabinet', 'copybook umbrella stand',
                                 'copybook wardrobe', 'cushion TV stand', 'cushion arm chair', 'cushion bath tub',
                                 'cushion bathroom cabinet', 'cushion book case', 'cushion coffee table',
                                 'cushion counter', 'cushion dining chair', 'cushion dressing table',
                                 'cushion end table', 'cushion fridge', 'cushion kitchen cupboard',
                                 'cushion shower', 'cushion side table', 'cushion sink', 'cushion sofa',
                                 'cushion toilet roll holder', 'cushion towel rack', 'cushion wall hook',
                                 'cushion wastepaper basket', 'dirty brown dress bed', 'dirty brown dress bench',
                                 'dirty brown dress coat hanger', 'dirty brown dress desk',
                                 'dirty brown dress desk chair', 'dirty brown dress dressing table',
                                 'dirty brown dress hat rack', 'dirty brown dress key holder',
                                 'dirty brown dress laundry basket', 'dirty brown dress night stand',
                                 'dirty brown dress shoe cabinet', 'dirty brown dress umbrella stand',
                                 'dirty brown dress washing machine', 'dirty brown dress work table',
                                 'dirty brown pullover bed', 'dirty brown pullover bench',
                                 'dirty brown pullover coat hanger', 'dirty brown pullover desk',
                                 'dirty brown pullover desk chair', 'dirty brown pullover dressing table',
                                 'dirty brown pullover hat rack', 'dirty brown pullover key holder',
                                 'dirty brown pullover laundry basket', 'dirty brown pullover night stand',
                                 'dirty brown pullover shoe cabinet', 'dirty brown pullover umbrella stand',
                                 'dirty brown pullover washing machine', 'dirty brown pullover work table',
                                 'dirty cup box', 'dirty spatula bath tub', 'dirty spatula bathroom cabinet',
                                 'dirty spatula counter', 'dirty spatula cutlery drawer',
                                 'dirty spatula dining chair', 'dirty spatula dishwasher',
                                 'dirty spatula dressing table', 'dirty spatula folding chair',
                                 'dirty spatula fridge', 'dirty spatula shelf', 'dirty spatula shower',
                                 'dirty spatula sink', 'dirty spatula toilet roll holder',
                                 'dirty spatula towel rack', 'dirty spatula trash can', 'dirty spatula wall hook',
                                 'dirty white T-shirt box', 'dirty white polo shirt box', 'eyeliner TV stand',
                                 'eyeliner arm chair', 'eyeliner bed', 'eyeliner book case',
                                 'eyeliner chest of drawers', 'eyeliner coffee table', 'eyeliner desk',
                                 'eyeliner desk chair', 'eyeliner dressing table', 'eyeliner end table',
                                 'eyeliner night stand', 'eyeliner side table', 'eyeliner sofa',
                                 'eyeliner wastepaper basket', 'flour bath tub', 'flour box', 'flour coat hanger',
                                 'flour counter', 'flour dining chair', 'flour dishwasher', 'flour dressing table',
                                 'flour folding chair', 'flour hat rack', 'flour key holder',
                                 'flour kitchen cupboard', 'flour shelf', 'flour shower', 'flour sink',
                                 'flour toilet roll holder', 'flour towel rack', 'flour trash can',
                                 'flour umbrella stand', 'flour wall hook', 'gray bed sheet box',
                                 'gray blanket bed', 'gray blanket bench', 'gray blanket clothes drier',
                                 'gray blanket coat hanger', 'gray blanket desk', 'gray blanket desk chair',
                                 'gray blanket dressing table', 'gray blanket hat rack', 'gray blanket key holder',
                                 'gray blanket laundry basket', 'gray blanket night stand',
                                 'gray blanket shoe cabinet', 'gray blanket umbrella stand',
                                 'gray blanket washing machine', 'gray blanket work table',
                                 'gray sneakers bath tub', 'gray sneakers bathroom cabinet', 'gray sneakers bed',
                                 'gray sneakers chest of drawers', 'gray sneakers coat hanger',
                                 'gray sneakers desk', 'gray sneakers desk chair', 'gray sneakers dressing table',
                                 'gray sneakers hat rack', 'gray sneakers key holder', 'gray sneakers night stand',
                                 'gray sneakers shoe cabinet', 'gray sneakers shower', 'gray sneakers sink',
                                 'gray sneakers toilet roll holder', 'gray sneakers towel rack',
                                 'gray sneakers trash can', 'gray sneakers umbrella stand',
                                 'gray sneakers wall hook', 'green hot pepper counter',
                                 'green hot pepper dining chair', 'green hot pepper trash can', 'kettle TV stand',
                                 'kettle arm chair', 'kettle bath tub', 'kettle bathroom cabinet',
                                 'kettle book case', 'kettle box', 'kettle coffee table', 'kettle dressing table',
                                 'kettle end table', 'kettle shower', 'kettle side table', 'kettle sink',
                                 'kettle sofa', 'kettle toilet roll holder', 'kettle towel rack',
                                 'kettle trash can', 'kettle wall hook', 'knee high boots box', 'knife counter',
                                 'knife cutlery drawer', 'knife dining chair', 'knife fridge',
                                 'knife kitchen cupboard', 'knife trash can', 'lip liner bed', 'lip liner bench',
                                 'lip liner box', 'lip liner chest of drawers', 'lip liner clothes drier',
                                 'lip liner coat hanger', 'lip liner desk', 'lip liner desk chair',
                                 'lip liner dressing table', 'lip liner hat rack', 'lip liner key holder',
                                 'lip liner laundry basket', 'lip liner night stand', 'lip liner umbrella stand',
                                 'lip liner wardrobe', 'lip liner work table', 'makeup kit TV stand',
                                 'makeup kit arm chair', 'makeup kit bath tub', 'makeup kit bathroom cabinet',
                                 'makeup kit book case', 'makeup kit coffee table', 'makeup kit dressing table',
                                 'makeup kit end table', 'makeup kit shower', 'makeup kit side table',
                                 'makeup kit sink', 'makeup kit sofa', 'makeup kit toilet roll holder',
                                 'makeup kit towel rack', 'makeup kit wall hook', 'makeup kit wastepaper basket',
                                 'map box', 'math problem TV stand', 'math problem arm chair',
                                 'math problem bath tub', 'math problem book case', 'math problem box',
                                 'math problem clothes line', 'math problem coffee table',
                                 'math problem dressing table', 'math problem end table',
                                 'math problem folding chair', 'math problem garden', 'math problem patio chair',
                                 'math problem patio table', 'math problem shelf', 'math problem shower',
                                 'math problem side table', 'math problem sink', 'math problem sofa',
                                 'math problem toilet roll holder', 'math problem towel rack',
                                 'math problem wall hook', 'math problem workbench', 'olive oil folding chair',
                                 'olive oil shelf', 'orange bell pepper counter', 'orange bell pepper dining chair',
                                 'orange bell pepper fridge', 'orange bench', 'orange laundry basket',
                                 'orange work table', 'oven glove coat hanger', 'oven glove counter',
                                 'oven glove cutlery drawer', 'oven glove dining chair', 'oven glove folding chair',
                                 'oven glove hat rack', 'oven glove key holder', 'oven glove shelf',
                                 'oven glove shoe cabinet', 'oven glove umbrella stand', 'picture bench',
                                 'picture box', 'picture clothes drier', 'picture coat hanger', 'picture hat rack',
                                 'picture key holder', 'picture laundry basket', 'picture shoe cabinet',
                                 'picture umbrella stand', 'picture washing machine', 'picture work table',
                                 'plaid blanket bench', 'plaid blanket clothes drier', 'plaid blanket coat hanger',
                                 'plaid blanket hat rack', 'plaid blanket key holder',
                                 'plaid blanket laundry basket', 'plaid blanket shoe cabinet',
                                 'plaid blanket umbrella stand', 'plaid blanket work table', 'plaid duvet bath tub',
                                 'plaid duvet bathroom cabinet', 'plaid duvet bed', 'plaid duvet desk',
                                 'plaid duvet desk chair', 'plaid duvet dressing table', 'plaid duvet night stand',
                                 'plaid duvet shower', 'plaid duvet sink', 'plaid duvet toilet roll holder',
                                 'plaid duvet towel rack', 'plaid duvet wall hook', 'plaid duvet wardrobe',
                                 'purple potato counter', 'purple potato dining chair',
                                 'purple potato kitchen cupboard', 'red apple box', 'red apple counter',
                                 'red apple dining chair', 'red apple dishwasher', 'red bell pepper box',
                                 'red hot pepper counter', 'red hot pepper dining chair',
                                 'red hot pepper kitchen cupboard', 'red onion counter', 'red onion dining chair',
                                 'red onion fridge', 'red potato TV stand', 'red potato arm chair',
                                 'red potato book case', 'red potato coffee table', 'red potato counter',
                                 'red potato dining chair', 'red potato end table', 'red potato kitchen cupboard',
                                 'red potato side table', 'red potato sofa', 'red potato wastepaper basket',
                                 'rotten banana box', 'rotten banana coat hanger', 'rotten banana counter',
                                 'rotten banana dining chair', 'rotten banana hat rack', 'rotten banana key holder',
                                 'rotten banana shoe cabinet', 'rotten banana umbrella stand',
                                 'rotten red tuna bath tub', 'rotten red tuna bathroom cabinet',
                                 'rotten red tuna counter', 'rotten red tuna dining chair',
                                 'rotten red tuna dressing table', 'rotten red tuna shower', 'rotten red tuna sink',
                                 'rotten red tuna toilet roll holder', 'rotten red tuna towel rack',
                                 'rotten red tuna trash can', 'rotten red tuna wall hook',
                                 'rotten yellow potato bath tub', 'rotten yellow potato bathroom cabinet',
                                 'rotten yellow potato counter', 'rotten yellow potato dining chair',
                                 'rotten yellow potato dressing table', 'rotten yellow potato shower',
                                 'rotten yellow potato sink', 'rotten yellow potato toilet roll holder',
                                 'rotten yellow potato towel rack', 'rotten yellow potato trash can',
                                 'rotten yellow potato wall hook', 'straw hat counter', 'straw hat dining chair',
                                 'straw hat folding chair', 'straw hat kitchen cupboard', 'straw hat shelf',
                                 'table lamp bed', 'table lamp chest of drawers', 'table lamp desk',
                                 'table lamp desk chair', 'table lamp dressing table', 'table lamp night stand',
                                 'toilet paper bed', 'toilet paper box', 'toilet paper chest of drawers',
                                 'toilet paper coat hanger', 'toilet paper desk', 'toilet paper desk chair',
                                 'toilet paper dressing table', 'toilet paper hat rack', 'toilet paper key holder',
                                 'toilet paper night stand', 'toilet paper shoe cabinet',
                                 'toilet paper umbrella stand', 'trench coat bed', 'trench coat bench',
                                 'trench coat box', 'trench coat chest of drawers', 'trench coat clothes drier',
                                 'trench coat coat hanger', 'trench coat desk', 'trench coat desk chair',
                                 'trench coat dressing table', 'trench coat hat rack', 'trench coat key holder',
                                 'trench coat laundry basket', 'trench coat night stand',
                                 'trench coat shoe cabinet', 'trench coat umbrella stand',
                                 'trench coat washing machine', 'trench coat work table', 'used tissue TV stand',
                                 'used tissue arm chair', 'used tissue bath tub', 'used tissue book case',
                                 'used tissue box', 'used tissue coffee table', 'used tissue counter',
                                 'used tissue dining chair', 'used tissue dressing table', 'used tissue end table',
                                 'used tissue shower', 'used tissue side table', 'used tissue sink',
                                 'used tissue sofa', 'used tissue toilet roll holder', 'used tissue towel rack',
                                 'used tissue wall hook', 'used tissue wastepaper basket', 'vegetable oil box',
                                 'vegetable oil folding chair', 'vegetable oil shelf', 'wastepaper TV stand',
                                 'wastepaper arm chair', 'wastepaper bath tub', 'wastepaper book case',
                                 'wastepaper box', 'wastepaper coffee table', 'wastepaper dressing table',
                                 'wastepaper end table', 'wastepaper shower', 'wastepaper side table',
                                 'wastepaper sink', 'wastepaper sofa', 'wastepaper toilet roll holder',
                                 'wastepaper towel rack', 'wastepaper wall hook', 'wastepaper wastepaper basket',
                                 'wet hawaiian shirt bench', 'wet hawaiian shirt clothes drier',
                                 'wet hawaiian shirt coat hanger', 'wet hawaiian shirt hat rack',
                                 'wet hawaiian shirt key holder', 'wet hawaiian shirt laundry basket',
                                 'wet hawaiian shirt shoe cabinet', 'wet hawaiian shirt umbrella stand',
                                 'wet hawaiian shirt work table', 'wet maroon dress box', 'wet plaid jumper box',
                                 'wet white skirt bed', 'wet white skirt bench', 'wet white skirt chest of drawers',
                                 'wet white skirt coat hanger', 'wet white skirt desk',
                                 'wet white skirt desk chair', 'wet white skirt dressing table',
                                 'wet white skirt hat rack', 'wet white skirt key holder',
                                 'wet white skirt laundry basket', 'wet white skirt night stand',
                                 'wet white skirt umbrella stand', 'wet white skirt wardrobe',
                                 'wet white skirt work table', 'white coat counter', 'white coat cutlery drawer',
                                 'white coat dining chair', 'white coat folding chair',
                                 'white coat kitchen cupboard', 'white coat shelf', 'white coat trash can',
                                 'white moccasins box', 'white onion box', 'white onion counter',
                                 'white onion dining chair', 'white onion fridge', 'white suit bed',
                                 'white suit coat hanger', 'white suit desk', 'white suit desk chair',
                                 'white suit dressing table', 'white suit hat rack', 'white suit key holder',
                                 'white suit night stand', 'white suit shoe cabinet', 'white suit umbrella stand',
                                 'yellow apple counter', 'yellow apple dining chair', 'yellow apple folding chair',
                                 'yellow apple shelf', 'yellow onion box', 'yellow potato counter',
                                 'yellow potato dining chair', 'yellow potato dishwasher', 'yellow potato fridge',
                                 'yellow potato kitchen cupboard']},
 'forms': {},
 'kinds': {'close {0}': [['bathroom cabinet', 'chest of drawers', 'clothes drier', 'cutlery drawer', 'dishwasher',
                          'door to east', 'door to north', 'door to south', 'door to west', 'fridge',
                          'kitchen cupboard', 'shoe cabinet', 'trash can', 'wardrobe', 'washing machine',
                          'wastepaper basket']],
           'cook {0} in {1}': [['chicken leg', 'green hot pepper', 'orange bell pepper', 'purple potato',
                                'red apple', 'red hot pepper', 'red onion', 'red potato', 'white onion',
                                'yellow apple', 'yellow potato'],
                               ['oven', 'stove']],
           'eat {0}': [['apple', 'banana', 'black pepper', 'cilantro', 'flour', 'grape', 'grapefruit',
                        'green hot pepper', 'orange', 'orange bell pepper', 'papaya', 'pineapple', 'red apple',
                        'red hot pepper', 'red onion', 'white onion', 'yellow apple']],
           'examine {0}': [['TV stand', 'arm chair', 'banana', 'barbeque', 'bath mat', 'bath tub',
                            'bathroom cabinet', 'bed', 'bench', 'black pepper', 'book case', 'chest of drawers',
                            'chicken leg', 'cilantro', 'clothes drier', 'clothes line', 'coat hanger',
                            'coffee table', 'cookbook', 'counter', 'cutlery drawer', 'desk', 'desk chair',
                            'dining chair', 'dishwasher', 'dressing table', 'end table', 'flour', 'folding chair',
                            'fridge', 'garden', 'grape', 'grapefruit', 'green hot pepper', 'hat rack', 'key holder',
                            'kitchen cupboard', 'knife', 'laundry basket', 'night stand', 'olive oil', 'orange',
                            'orange bell pepper', 'oven', 'patio chair', 'patio table', 'peach', 'pineapple',
                            'purple potato', 'red apple', 'red hot pepper', 'red onion', 'red potato', 'shelf',
                            'shoe cabinet', 'shower', 'side table', 'sink', 'sofa', 'stove', 'strawberry',
                            'tangerine', 'toilet', 'toilet roll holder', 'tomato', 'towel rack', 'trash can',
                            'umbrella stand', 'vegetable oil', 'wall hook', 'wardrobe', 'washing machine',
                            'wastepaper basket', 'white onion', 'work table', 'workbench', 'yellow apple',
                            'yellow potato']],
           'move {0}': [['east', 'north', 'south', 'west']],
           'open {0}': [['bathroom cabinet', 'chest of drawers', 'clothes drier', 'cutlery drawer', 'dishwasher',
                         'door to east', 'door to north', 'door to south', 'door to west', 'fridge',
                         'kitchen cupboard', 'shoe cabinet', 'trash can', 'wardrobe', 'washing machine',
                         'wastepaper basket']],
           'put 1 {0} in {1}': [['papaya', 'tangerine'],
                                ['box', 'clothes line', 'folding chair', 'garden', 'patio chair', 'patio table',
                                 'shelf', 'workbench']],
           'put plaid {0} sheet in {1}': [['bed'], ['box']],
           'put {0} in {1}': [['1 peach', '102 oranges', '104 pineapples', '11 tangerines', '12 grapes',
                               '12l of wood', '1400 tangerines', '15 peaches', '15m of brick', '15m of wood',
                               '160 strawberries', '17m of brick', '18g of marble', '192 strawberries',
                               '19cm of brick', '19m of cedar', '2 bananas', '2 papayas', '22m of cedar',
                               '22ml of marble', '23 papayas', '25 peaches', '26 grapes', '26cm of wood',
                               '29 grapefruits', '2cm of wood', '2m of cedar', '2mm of brick', '3 pineapples',
                               '30mm of marble', '31 apples', '33l of wood', '35cm of marble', '36m of oak',
                               '37 bananas', '38 apples', '39 apples', '3cm of brick', '3m of brick', '3m of oak',
                               '4 oranges', '4 pineapples', '41ml of cedar', '42cm of oak', '42mm of cedar',
                               '44mm of brick', '4cm of cedar', '4mm of wood', '5 pineapples', '52 papayas',
                               '6 apples', '6 grapes', '7 bananas', '75 grapes', '7l of cedar', '874 grapes',
                               '8kg of oak', '990 peaches', '9g of brick', 'alarm clock', 'beret', 'black belt',
                               'black blanket', 'black business shoes', 'black duvet', 'black moccasins',
                               'black pepper', 'bottle of cold water', 'bread basket', 'brown coat',
                               'checkered suit', 'chicken leg', 'cilantro', 'clean blue pullover',
                               'clean cake slicer', 'clean checkered T-shirt', 'clean colander',
                               'clean green T-shirt', 'clean plate', 'clean sleeveless shirt',
                               'clean striped jumper', 'coin', 'cookbook', 'copybook', 'cushion',
                               'dirty brown dress', 'dirty brown pullover', 'dirty cup', 'dirty spatula',
                               'dirty white T-shirt', 'dirty white polo shirt', 'eyeliner', 'flour',
                               'gray bed sheet', 'gray blanket', 'gray sneakers', 'green hot pepper', 'kettle',
                               'knee high boots', 'knife', 'lip liner', 'makeup kit', 'map', 'math problem',
                               'olive oil', 'orange', 'orange bell pepper', 'oven glove', 'picture',
                               'plaid blanket', 'plaid duvet', 'purple potato', 'red apple', 'red bell pepper',
                               'red hot pepper', 'red onion', 'red potato', 'rotten banana', 'rotten red tuna',
                               'rotten yellow potato', 'straw hat', 'table lamp', 'toilet paper', 'trench coat',
                               'used tissue', 'vegetable oil', 'wastepaper', 'wet hawaiian shirt',
                               'wet maroon dress', 'wet plaid jumper', 'wet white skirt', 'white coat',
                               'white moccasins', 'white onion', 'white suit', 'yellow apple', 'yellow onion',
                               'yellow potato'],
                              ['TV stand', 'arm chair', 'bath tub', 'bathroom cabinet', 'bed', 'bench', 'book case',
                               'box', 'chest of drawers', 'clothes drier', 'clothes line', 'coat hanger',
                               'coffee table', 'counter', 'cutlery drawer', 'desk', 'desk chair', 'dining chair',
                               'dining table', 'dishwasher', 'dressing table', 'end table', 'folding chair',
                               'fridge', 'garden', 'hat rack', 'key holder', 'kitchen cupboard', 'laundry basket',
                               'night stand', 'patio chair', 'patio table', 'shelf', 'shoe cabinet', 'showcase',
                               'shower', 'side table', 'sink', 'sofa', 'toilet roll holder', 'towel rack',
                               'trash can', 'umbrella stand', 'wall hook', 'wardrobe', 'washing machine',
                               'wastepaper basket', 'work table', 'workbench']],
           'read {0}': [['cookbook', 'instructions book', 'map', 'math problem']],
           'slice {0}': [['apple', 'banana', 'grapefruit', 'orange', 'peach', 'strawberry']],
           'smell {0}': [['banana', 'papaya', 'peach', 'pineapple']],
           'take 1 {0}': [['papaya', 'tangerine']],
           'take plaid {0} sheet': [['bed']],
           'take {0}': [['1 peach', '10 papayas', '102 oranges', '104 pineapples', '11 tangerines', '12 grapes',
                         '12l of wood', '1400 tangerines', '15 peaches', '15m of brick', '15m of wood',
                         '160 strawberries', '170 peaches', '17m of brick', '18g of marble', '192 strawberries',
                         '19cm of brick', '19m of cedar', '19m of marble', '2 bananas', '2 papayas', '22 papayas',
                         '22m of cedar', '22ml of marble', '23 papayas', '23 pineapples', '25 peaches',
                         '25ml of oak', '26 grapes', '26cm of wood', '26mm of oak', '27g of oak', '29 bananas',
                         '29 grapefruits', '2cm of wood', '2m of cedar', '2mm of brick', '2mm of marble',
                         '3 pineapples', '30 tangerines', '30m of wood', '30mm of marble', '31 apples',
                         '32 bananas', '33l of wood', '34 grapefruits', '34 oranges', '34mm of brick',
                         '35cm of marble', '36 apples', '36 bananas', '36m of oak', '37 bananas', '38 apples',
                         '39 apples', '39 grapefruits', '39m of cedar', '3cm of brick', '3m of brick', '3m of oak',
                         '4 oranges', '4 pineapples', '40 strawberries', '41ml of cedar', '42cm of oak',
                         '42mm of cedar', '43 strawberries', '44 pineapples', '44 tangerines', '44mm of brick',
                         '46 apples', '4cm of cedar', '4mm of wood', '5 pineapples', '5 tangerines', '52 papayas',
                         '5mm of wood', '6 apples', '6 grapes', '61 pineapples', '67 tangerines', '7 bananas',
                         '7 strawberries', '75 grapes', '7l of cedar', '7mg of brick', '874 grapes', '8kg of oak',
                         '9 grapes', '990 peaches', '9g of brick', 'alarm clock', 'apple', 'banana', 'beret',
                         'black belt', 'black blanket', 'black business shoes', 'black duvet', 'black moccasins',
                         'black pepper', 'bottle of cold water', 'bread basket', 'brown coat', 'brown suit',
                         'checkered suit', 'chicken leg', 'cilantro', 'clean blue pullover', 'clean brown shirt',
                         'clean cake slicer', 'clean checkered T-shirt', 'clean colander', 'clean green T-shirt',
                         'clean green skirt', 'clean pan', 'clean plate', 'clean sleeveless shirt',
                         'clean striped jumper', 'coin', 'cookbook', 'copybook', 'cushion', 'dirty brown dress',
                         'dirty brown pullover', 'dirty cup', 'dirty sleeveless shirt', 'dirty spatula',
                         'dirty white T-shirt', 'dirty white polo shirt', 'eyeliner', 'flour', 'grape',
                         'grapefruit', 'gray bed sheet', 'gray blanket', 'gray duvet', 'gray sneakers',
                         'green hot pepper', 'kettle', 'knee high boots', 'knife', 'lip liner', 'makeup kit', 'map',
                         'math problem', 'olive oil', 'orange', 'orange bell pepper', 'oven glove', 'papaya',
                         'peach', 'picture', 'pineapple', 'plaid blanket', 'plaid duvet', 'potato peeler',
                         'purple potato', 'red apple', 'red bell pepper', 'red hot pepper', 'red onion',
                         'red potato', 'rotten banana', 'rotten red tuna', 'rotten yellow potato', 'straw hat',
                         'strawberry', 'table lamp', 'tangerine', 'toilet paper', 'tomato', 'trench coat',
                         'used tissue', 'vegetable oil', 'wastepaper', 'wet hawaiian shirt', 'wet maroon dress',
                         'wet plaid jumper', 'wet white skirt', 'white coat', 'white moccasins', 'white onion',
                         'white suit', 'yellow apple', 'yellow onion', 'yellow potato']],
           'touch {0}': [['apple', 'banana', 'grape', 'grapefruit', 'orange', 'papaya', 'strawberry',
                          'tangerine']]},
 'movers': ['cook {0} in {1}', 'eat {0}', 'move {0}', 'take plaid {0} sheet'],
 'name': '(?<!\\w)(?:(?:TV\\ stand|\\d+(?:\\ '
         '(?:apples|bananas|grape(?:fruits|s)|oranges|p(?:apayas|each(?:es(?!\\w)|)|ineapples)|strawberries|tangerines)|cm\\ '
         'of\\ (?:brick|cedar|marble|oak|wood)|g\\ of\\ (?:brick|marble|oak)|kg\\ of\\ oak|l\\ of\\ '
         '(?:cedar|wood)|m(?:\\ of\\ (?:brick|cedar|marble|oak|wood)|g\\ of\\ brick|l\\ of\\ '
         '(?:cedar|marble|oak)|m\\ of\\ (?:brick|cedar|marble|oak|wood)))|a(?:larm\\ clock|pple|rm\\ '
         'chair)|b(?:a(?:nana|rbeque|th(?:\\ (?:mat|tub)|room\\ cabinet))|e(?:d|nch|ret)|lack\\ '
         '(?:b(?:elt|lanket|usiness\\ shoes)|duvet|moccasins|pepper)|o(?:ok\\ case|ttle\\ of\\ cold\\ water|w\\ '
         'tie|x)|r(?:ead\\ basket|own\\ (?:coat|suit)))|c(?:h(?:e(?:ckered\\ suit|st\\ of\\ drawers)|icken\\ '
         '(?:leg|wing))|ilantro|l(?:ean\\ (?:b(?:l(?:ack\\ (?:bra|jumper|pullover)|ue\\ p(?:olo\\ '
         'shirt|ullover))|rown\\ s(?:hirt|kirt))|c(?:ake\\ slicer|heckered\\ T\\-shirt|olander)|g(?:reen\\ '
         '(?:T\\-shirt|dress|skirt)|ym\\ clothes)|maroon\\ T\\-shirt|p(?:an|la(?:id\\ shirt|te))|s(?:leeveless\\ '
         'shirt|triped\\ jumper)|teal\\ dress)|imbing\\ shoes|othes\\ (?:drier|line))|o(?:at\\ hanger|ffee\\ '
         'table|in|mb|okbook|pybook|unter)|u(?:shion|tlery\\ drawer))|d(?:esk(?:\\ chair(?!\\w)|)|i(?:ning\\ '
         '(?:chair|table)|rty\\ (?:brown\\ (?:dress|pullover)|cup|fork|s(?:leeveless\\ shirt|patula)|white\\ '
         '(?:T\\-shirt|dress|polo\\ shirt))|shwasher)|oor\\ to\\ (?:east|north|south|west)|ressing\\ '
         'table)|e(?:ast|nd\\ table|yeliner)|f(?:lour|olding\\ '
         'chair|ridge)|g(?:arden|r(?:a(?:pe(?:fruit(?!\\w)|)|y\\ (?:b(?:ed\\ '
         'sheet|lanket)|duvet|pillow|sneakers))|een\\ hot\\ pepper))|hat\\ rack|instructions\\ '
         'book|k(?:e(?:ttle|y\\ holder)|itchen\\ cupboard|n(?:ee\\ high\\ boots|ife))|l(?:aundry\\ basket|ip\\ '
         'liner)|m(?:a(?:keup\\ kit|p|th\\ problem)|ilk)|n(?:ight\\ stand|orth)|o(?:live\\ oil|range(?:\\ bell\\ '
         'pepper(?!\\w)|)|ven(?:\\ glove(?!\\w)|))|p(?:a(?:paya|tio\\ '
         '(?:chair|table))|each|i(?:cture|neapple)|laid\\ (?:blanket|duvet)|o(?:rk\\ chop|tato\\ peeler)|urple\\ '
         'potato)|r(?:ed\\ (?:apple|bell\\ pepper|hot\\ pepper|onion|potato)|o(?:lling\\ pin|tten\\ '
         '(?:banana|red\\ tuna|yellow\\ potato)))|s(?:h(?:aving\\ cream|elf|o(?:e\\ '
         'cabinet|w(?:case|er)))|i(?:de\\ table|nk)|lippers|o(?:fa|uth)|t(?:ove|r(?:aw(?:\\ hat|berry)|iped\\ '
         'bed\\ sheet))|ugar)|t(?:a(?:ble\\ lamp|ngerine)|o(?:ilet(?:\\ (?:paper|roll\\ '
         'holder)(?!\\w)|)|mato|wel\\ rack)|r(?:ash\\ can|ench\\ coat))|u(?:mbrella\\ stand|sed\\ '
         'tissue)|vegetable\\ oil|w(?:a(?:ll\\ hook|rdrobe|s(?:hing\\ machine|tepaper(?:\\ '
         'basket(?!\\w)|)))|e(?:st|t\\ (?:checkered\\ socks|gray\\ underpants|hawaiian\\ shirt|maroon\\ '
         '(?:dress|skirt)|plaid\\ jumper|white\\ (?:knickers|skirt)))|hite\\ '
         '(?:coat|moccasins|onion|suit)|ork(?:\\ table|bench))|yellow\\ (?:apple|onion|potato)))(?!\\w)',
 'needs': {'close {0}': [['move {0}', [-1]]],
           'cook {0} in {1}': [],
           'eat {0}': [],
           'examine {0}': [['move {0}', [-1]], ['open {0}', [-1]]],
           'hop on your right foot': [],
           'inventory': [],
           'jump up and down': [],
           'look around': [],
           'meow like a cat': [],
           'move {0}': [['move {0}', [-1]]],
           'open {0}': [['move {0}', [-1]]],
           'put 1 {0} in {1}': [],
           'put plaid {0} sheet in {1}': [],
           'put {0} in {1}': [['open {0}', [1]], ['move {0}', [-1]]],
           'read {0}': [['move {0}', [-1]]],
           'sit down': [],
           'slice {0}': [],
           'smell {0}': [],
           'take 1 {0}': [],
           'take plaid {0} sheet': [],
           'take {0}': [['move {0}', [-1]], ['open {0}', [-1]]],
           'task': [],
           'touch {0}': []},
 'now': {'close {0}': [],
         'cook {0} in {1}': [],
         'eat {0}': [{'if': [['shows', 'inventory', 0]], 'sure': False, 'then': 'now'}],
         'examine {0}': [],
         'hop on your right foot': [],
         'inventory': [],
         'jump up and down': [],
         'look around': [],
         'meow like a cat': [],
         'move {0}': [],
         'open {0}': [],
         'put 1 {0} in {1}': [],
         'put plaid {0} sheet in {1}': [],
         'put {0} in {1}': [{'if': [['shows', 'inventory', 0], ['shows', 'look around', 1],
                                    ['not', ['shows', 'inventory', 2]], ['not', ['kind', 1, 'open {0}', 0]]],
                             'sure': True,
                             'then': 'now'},
                            {'if': [['shows', 'inventory', 0], ['shows', 'look around', 1], ['active', 0, 0, 1]],
                             'sure': True,
                             'then': 'now'}],
         'read {0}': [{'if': [['shows', 'inventory', 0]], 'sure': False, 'then': 'now'},
                      {'if': [['shows', 'look around', 1], ['shape', 1, 'you see a X']],
                       'sure': False,
                       'then': 'now'}],
         'sit down': [],
         'slice {0}': [],
         'smell {0}': [],
         'take 1 {0}': [],
         'take plaid {0} sheet': [],
         'take {0}': [{'if': [['shows', 'look around', 0]], 'sure': True, 'then': 'now'}],
         'task': [],
         'touch {0}': []},
 'pairs': [['open {0}', 'close {0}', [0]], ['take 1 {0}', 'put 1 {0} in {1}', [0]],
           ['take {0}', 'put {0} in {1}', [0]]],
 'spelling': {'case': True, 'number': False},
 'templates': {'close {0}': [],
               'cook {0} in {1}': [],
               'eat {0}': [{'if': [['shows', 'look around', 0]],
                            'sure': False,
                            'then': ['take {0}', [['name', 0]], False]}],
               'examine {0}': [],
               'hop on your right foot': [],
               'inventory': [],
               'jump up and down': [],
               'look around': [],
               'meow like a cat': [],
               'move {0}': [],
               'open {0}': [],
               'put 1 {0} in {1}': [],
               'put plaid {0} sheet in {1}': [],
               'put {0} in {1}': [],
               'read {0}': [{'if': [['shows', 'look around', 0]],
                             'sure': False,
                             'then': ['take {0}', [['name', 0]], False]}],
               'sit down': [],
               'slice {0}': [],
               'smell {0}': [],
               'take 1 {0}': [],
               'take plaid {0} sheet': [],
               'take {0}': [],
               'task': [],
               'touch {0}': []},
 'uninformative': ["Unknown action: I'm not sure what you mean."],
 'views': ['look around', 'inventory']}

def new_history(spec, text, answer=''):
    """A history that has seen only the opening text; `answer` is what of it the engine said."""
    history = {'last': {}, 'active': {}, 'shape': {}, 'near': {}, 'at': {}, 'stems': {}}
    history.update({'with': {}, 'views': {}, 'meant': {}, 'did': {}, 'text': '', 'answer': answer.strip()})
    observe(spec, history, text)
    return history


def refusal(known, before, action, answer):
    """The shape of refusal that an answer has, of those that are `known`; "" if it has none. A shape is a text, a text
    with "{action}" for the action's own words, or "{same}": the answer is the one before again."""
    text = answer.strip()
    for shape in [text, without_action(action, text)]:
        if shape in known:
            return shape
    return '{same}' if '{same}' in known and text == before.strip() else ''


def without_action(action, text):
    """A text with "{action}" where it repeats an action, in whatever letters."""
    words = action.strip()
    return re.sub(re.escape(words), '{action}', text, flags=re.IGNORECASE) if words else text


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
    """Take in one action and the engine's own answer to it. Returns the shape of a refusal, which leaves no trace else,
    and "" for an action that was taken."""
    refused = refusal(spec['uninformative'], history['answer'], action, observation)
    history['answer'] = observation.strip()
    if refused:
        return refused
    template, arguments, exact = parse(spec, history, action if spec['spelling']['case'] else action.lower())
    if exact and template in spec['templates']:
        if template in spec['movers']:
            history['last'][template] = arguments
            for position, name in enumerate(arguments):
                before = [other for other in history['did'].get(f'{template}/{position}', []) if other != name]
                history['did'][f'{template}/{position}'] = [*before, name]
        for number, (do, undo, order) in enumerate(spec['pairs']):
            if template in (do, undo):
                for position, where in enumerate(order):
                    name = arguments[position] if template == do else arguments[where] if where >= 0 else ''
                    others = [other for other in history['active'].get(f'{number}/{position}', []) if other != name]
                    history['active'][f'{number}/{position}'] = [*others, name] if template == do else others
    observe(spec, history, observation)
    return ''


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
    if kind == 'did':
        return names[literal[3]] in history['did'].get(f'{literal[1]}/{literal[2]}', [])
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


def decide(spec, history, template, names, sure=False, deep=3):
    """(row number, missing step, "already" or "now") of the first rule that applies to an action; None if none does.
    Rules of what an action always needs ("must") come last; if what it needs is itself not possible yet, what that
    needs is meant (`deep` steps back at most).

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
    for must in [False, True]:
        for number, row in enumerate(spec['templates'].get(template, [])):
            if row.get('must', False) != must or (sure and (not row.get('sure', False))):
                continue
            if all((holds(spec, history, literal, everything) for literal in row['if'])):
                step = conclude(spec, history, row['then'], names)
                if step and doubtful(spec, history, step):
                    step = needed(spec, history, step, deep) if must else ''
                if step and step != write(template, names):
                    return (number, step)
    return None


def needed(spec, history, step, deep):
    """What a step needs that is not possible yet; "" if no rule tells."""
    template, names, _ = parse(spec, history, step)
    decision = decide(spec, history, template, names, True, deep - 1) if deep else None
    return decision[1] if decision is not None and decision[1] not in ('already', 'now') else ''


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


def advise(spec, history, action, refused=''):
    """What to tell an agent whose action was refused; "" where nothing was learned or nothing is certain. Silence
    (`refused` is "{same}") may also answer an action that was taken: then only rules speak that never speak of one."""
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
    decision = decide(spec, history, template, names, rewritten or refused == '{same}')
    if decision is None and ' '.join(parse(spec, history, action)[0].split()) in spec['forms']:
        return f'`{action}` is not understood: the form is `{wanted}`.'
    if decision is None:
        shown = [name for text in plain for name in names_in(spec, text)]
        return last_seen(spec, history, [name for name in names if name not in shown])
    if decision[1] == 'already':
        return f'`{wanted}` would change nothing: that is already so.'
    if decision[1] == 'now':
        return f'`{action}` is not understood; write `{wanted}` instead.' if rewritten else ''
    before = f'`{wanted}` does not work yet: you need to `{decision[1]}` first.'
    if spec['templates'][template][decision[0]].get('must', False):
        before = f'`{wanted}` is possible only after `{decision[1]}`.'
    return before + (f' Then write `{wanted}`: `{action}` is not understood.' if rewritten else '')


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
    return 'Learned by experiment in this environment:\n- Only these forms are understood: `close X`, `cook X in Y`, `eat X`, `examine X`, `hop on your right foot`, `inventory`, `jump up and down`, `look around`, `meow like a cat`, `move X`, `open X`, `put 1 X in Y`, `put plaid X sheet in Y`, `put X in Y`, `read X`, `sit down`, `slice X`, `smell X`, `take 1 X`, `take plaid X sheet`, `take X`, `task`, `touch X`\n- "Unknown action: I\'m not sure what you mean." means that the action was refused; it does not say why\n- Before `close X` you may need to `move P`\n- Before `eat X` you may need to `take X`\n- Before `examine X` you may need to `move P` or `open P`\n- Before `move X` you may need to `move P`\n- Before `open X` you may need to `move P`\n- Before `put X in Y` you may need to `open Y` or `move P`\n- Before `read X` you may need to `take X` or `move P`\n- Before `take X` you may need to `move P` or `open P`'


def WrapStep(env, init_obs, task, agent_action, logger):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, init_obs + '\n' + task, init_obs)
    obs, reward, done, info = env.step(agent_action)
    seen, *rest = obs, reward, done
    refused = record(SPEC, env.history, agent_action, seen)
    if not refused:
        return seen, *rest
    look_at(env.history, {view: env.step(view)[0] for view in views_for(SPEC, env.history, agent_action)})
    return (seen + ' ' + advise(SPEC, env.history, agent_action, refused)).strip(), *rest
