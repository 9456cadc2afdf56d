"""Interface for textworldexpress, learned by experiment; the .json beside it holds the evidence."""

import re

SPEC = {'combined': {'cook {0} in {1}': ['chicken wing oven', 'chicken wing stove', 'green hot pepper oven',
                                  'green hot pepper stove', 'orange bell pepper barbeque',
                                  'orange bell pepper oven', 'orange bell pepper stove', 'pork chop oven',
                                  'pork chop stove', 'purple potato oven', 'purple potato stove', 'red apple oven',
                                  'red apple stove', 'red hot pepper oven', 'red hot pepper stove',
                                  'red onion barbeque', 'red onion oven', 'red onion stove', 'red potato oven',
                                  'red potato stove', 'tomato oven', 'tomato stove', 'white onion oven',
                                  'white onion stove', 'yellow apple oven', 'yellow apple stove',
                                  'yellow potato oven', 'yellow potato stove'],
              'put 1 {0} in {1}': ['papaya box', 'papaya folding chair', 'papaya shelf', 'tangerine box',
                                   'tangerine clothes line', 'tangerine garden', 'tangerine patio chair',
                                   'tangerine patio table', 'tangerine workbench'],
              'put plaid {0} sheet in {1}': ['bed box'],
              'put {0} in {1}': ['10 papayas box', '10 papayas folding chair', '10 papayas shelf',
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
                                 '160 strawberries folding chair', '160 strawberries shelf', '170 peaches box',
                                 '17m of brick box', '17m of brick counter', '17m of brick dining chair',
                                 '17m of brick dining table', '18g of marble bath tub', '18g of marble box',
                                 '18g of marble dressing table', '18g of marble shower', '18g of marble sink',
                                 '18g of marble toilet roll holder', '18g of marble towel rack',
                                 '18g of marble wall hook', '192 strawberries bath tub', '192 strawberries box',
                                 '192 strawberries dressing table', '192 strawberries shower',
                                 '192 strawberries sink', '192 strawberries toilet roll holder',
                                 '192 strawberries towel rack', '192 strawberries wall hook',
                                 '19cm of brick bath tub', '19cm of brick box', '19cm of brick dressing table',
                                 '19cm of brick shower', '19cm of brick sink', '19cm of brick toilet roll holder',
                                 '19cm of brick towel rack', '19cm of brick wall hook', '19m of cedar box',
                                 '19m of cedar counter', '19m of cedar dining chair', '19m of cedar dining table',
                                 '19m of marble box', '19m of marble clothes line', '19m of marble garden',
                                 '19m of marble patio chair', '19m of marble patio table',
                                 '19m of marble workbench', '2 bananas bath tub', '2 bananas box',
                                 '2 bananas dressing table', '2 bananas shower', '2 bananas sink',
                                 '2 bananas toilet roll holder', '2 bananas towel rack', '2 bananas wall hook',
                                 '22 papayas bench', '22 papayas box', '22 papayas laundry basket',
                                 '22 papayas work table', '22m of cedar bath tub', '22m of cedar box',
                                 '22m of cedar dressing table', '22m of cedar shower', '22m of cedar sink',
                                 '22m of cedar toilet roll holder', '22m of cedar towel rack',
                                 '22m of cedar wall hook', '23 pineapples box', '25 peaches bench',
                                 '25 peaches box', '25 peaches laundry basket', '25 peaches work table',
                                 '25ml of oak box', '26cm of wood box', '26cm of wood clothes line',
                                 '26cm of wood garden', '26cm of wood patio chair', '26cm of wood patio table',
                                 '26cm of wood workbench', '27g of marble bath tub', '27g of marble box',
                                 '27g of marble dressing table', '27g of marble shower', '27g of marble sink',
                                 '27g of marble toilet roll holder', '27g of marble towel rack',
                                 '27g of marble wall hook', '27g of oak bath tub', '27g of oak box',
                                 '27g of oak dressing table', '27g of oak shower', '27g of oak sink',
                                 '27g of oak toilet roll holder', '27g of oak towel rack', '27g of oak wall hook',
                                 '29 grapefruits TV stand', '29 grapefruits arm chair', '29 grapefruits book case',
                                 '29 grapefruits box', '29 grapefruits coffee table', '29 grapefruits end table',
                                 '29 grapefruits side table', '29 grapefruits sofa', '2cm of wood box',
                                 '2cm of wood clothes line', '2cm of wood garden', '2cm of wood patio chair',
                                 '2cm of wood patio table', '2cm of wood workbench', '2m of cedar TV stand',
                                 '2m of cedar arm chair', '2m of cedar book case', '2m of cedar box',
                                 '2m of cedar coffee table', '2m of cedar end table', '2m of cedar showcase',
                                 '2m of cedar side table', '2m of cedar sofa', '2mm of brick box',
                                 '2mm of brick showcase', '2mm of marble box', '2mm of marble counter',
                                 '2mm of marble dining chair', '2mm of marble dining table', '3 pineapples box',
                                 '30g of brick bath tub', '30g of brick box', '30g of brick dressing table',
                                 '30g of brick shower', '30g of brick sink', '30g of brick toilet roll holder',
                                 '30g of brick towel rack', '30g of brick wall hook', '30m of wood box',
                                 '30m of wood clothes line', '30m of wood garden', '30m of wood patio chair',
                                 '30m of wood patio table', '30m of wood workbench', '30mm of marble box',
                                 '30mm of marble showcase', '31 apples bath tub', '31 apples box',
                                 '31 apples dressing table', '31 apples shower', '31 apples sink',
                                 '31 apples toilet roll holder', '31 apples towel rack', '31 apples wall hook',
                                 '32 bananas bath tub', '32 bananas box', '32 bananas dressing table',
                                 '32 bananas shower', '32 bananas sink', '32 bananas toilet roll holder',
                                 '32 bananas towel rack', '32 bananas wall hook', '33l of wood box',
                                 '34 oranges box', '34mm of brick box', '34mm of brick showcase',
                                 '35cm of marble TV stand', '35cm of marble arm chair', '35cm of marble book case',
                                 '35cm of marble box', '35cm of marble coffee table', '35cm of marble end table',
                                 '35cm of marble showcase', '35cm of marble side table', '35cm of marble sofa',
                                 '36 bananas box', '36 bananas folding chair', '36 bananas shelf',
                                 '36m of oak TV stand', '36m of oak arm chair', '36m of oak book case',
                                 '36m of oak box', '36m of oak coffee table', '36m of oak end table',
                                 '36m of oak showcase', '36m of oak side table', '36m of oak sofa',
                                 '378 grapes bath tub', '378 grapes box', '378 grapes dressing table',
                                 '378 grapes shower', '378 grapes sink', '378 grapes toilet roll holder',
                                 '378 grapes towel rack', '378 grapes wall hook', '39 apples bath tub',
                                 '39 apples box', '39 apples dressing table', '39 apples shower', '39 apples sink',
                                 '39 apples toilet roll holder', '39 apples towel rack', '39 apples wall hook',
                                 '39 grapefruits box', '39m of cedar box', '39m of cedar counter',
                                 '39m of cedar dining chair', '39m of cedar dining table', '3cm of brick box',
                                 '3cm of brick showcase', '3m of brick box', '3m of oak box',
                                 '3m of oak clothes line', '3m of oak garden', '3m of oak patio chair',
                                 '3m of oak patio table', '3m of oak workbench', '4 oranges box',
                                 '4 oranges folding chair', '4 oranges shelf', '4 pineapples box',
                                 '4 pineapples folding chair', '4 pineapples shelf', '40 strawberries bench',
                                 '40 strawberries box', '40 strawberries laundry basket',
                                 '40 strawberries work table', '41ml of cedar TV stand', '41ml of cedar arm chair',
                                 '41ml of cedar book case', '41ml of cedar box', '41ml of cedar coffee table',
                                 '41ml of cedar end table', '41ml of cedar side table', '41ml of cedar sofa',
                                 '42cm of oak box', '42cm of oak clothes line', '42cm of oak garden',
                                 '42cm of oak patio chair', '42cm of oak patio table', '42cm of oak workbench',
                                 '42mm of cedar box', '43 strawberries box', '43 strawberries folding chair',
                                 '43 strawberries shelf', '44 tangerines bath tub', '44 tangerines box',
                                 '44 tangerines dressing table', '44 tangerines shower', '44 tangerines sink',
                                 '44 tangerines toilet roll holder', '44 tangerines towel rack',
                                 '44 tangerines wall hook', '44mm of brick box', '44mm of brick clothes line',
                                 '44mm of brick garden', '44mm of brick patio chair', '44mm of brick patio table',
                                 '44mm of brick workbench', '46 apples box', '46 apples folding chair',
                                 '46 apples shelf', '4mm of wood bath tub', '4mm of wood box',
                                 '4mm of wood dressing table', '4mm of wood shower', '4mm of wood sink',
                                 '4mm of wood toilet roll holder', '4mm of wood towel rack',
                                 '4mm of wood wall hook', '5 tangerines box', '5 tangerines folding chair',
                                 '5 tangerines shelf', '52 papayas bath tub', '52 papayas box',
                                 '52 papayas dressing table', '52 papayas shower', '52 papayas sink',
                                 '52 papayas toilet roll holder', '52 papayas towel rack', '52 papayas wall hook',
                                 '5mm of wood box', '5mm of wood clothes line', '5mm of wood garden',
                                 '5mm of wood patio chair', '5mm of wood patio table', '5mm of wood workbench',
                                 '61 pineapples box', '61 pineapples clothes line', '61 pineapples garden',
                                 '61 pineapples patio chair', '61 pineapples patio table',
                                 '61 pineapples workbench', '7 bananas box', '7 bananas folding chair',
                                 '7 bananas shelf', '7 strawberries box', '75 grapes TV stand',
                                 '75 grapes arm chair', '75 grapes book case', '75 grapes box',
                                 '75 grapes coffee table', '75 grapes end table', '75 grapes side table',
                                 '75 grapes sofa', '7l of cedar box', '7mg of brick bath tub', '7mg of brick box',
                                 '7mg of brick dressing table', '7mg of brick shower', '7mg of brick sink',
                                 '7mg of brick toilet roll holder', '7mg of brick towel rack',
                                 '7mg of brick wall hook', '8kg of oak bath tub', '8kg of oak box',
                                 '8kg of oak dressing table', '8kg of oak shower', '8kg of oak sink',
                                 '8kg of oak toilet roll holder', '8kg of oak towel rack', '8kg of oak wall hook',
                                 '9 grapes box', '990 peaches box', '9g of brick bath tub', '9g of brick box',
                                 '9g of brick dressing table', '9g of brick shower', '9g of brick sink',
                                 '9g of brick toilet roll holder', '9g of brick towel rack',
                                 '9g of brick wall hook', 'alarm clock box', 'banana counter',
                                 'banana dining chair', 'beret TV stand', 'beret arm chair', 'beret book case',
                                 'beret coat hanger', 'beret coffee table', 'beret end table', 'beret hat rack',
                                 'beret key holder', 'beret shoe cabinet', 'beret side table', 'beret sofa',
                                 'beret umbrella stand', 'black belt bed', 'black belt bench',
                                 'black belt chest of drawers', 'black belt clothes drier',
                                 'black belt coat hanger', 'black belt desk', 'black belt desk chair',
                                 'black belt dressing table', 'black belt hat rack', 'black belt key holder',
                                 'black belt laundry basket', 'black belt night stand', 'black belt umbrella stand',
                                 'black belt wardrobe', 'black belt washing machine', 'black belt work table',
                                 'black blanket bed', 'black blanket bench', 'black blanket box',
                                 'black blanket chest of drawers', 'black blanket coat hanger',
                                 'black blanket desk', 'black blanket desk chair', 'black blanket dressing table',
                                 'black blanket hat rack', 'black blanket key holder',
                                 'black blanket laundry basket', 'black blanket night stand',
                                 'black blanket shoe cabinet', 'black blanket umbrella stand',
                                 'black blanket wardrobe', 'black blanket washing machine',
                                 'black blanket work table', 'black business shoes TV stand',
                                 'black business shoes arm chair', 'black business shoes bed',
                                 'black business shoes book case', 'black business shoes box',
                                 'black business shoes coat hanger', 'black business shoes coffee table',
                                 'black business shoes desk', 'black business shoes desk chair',
                                 'black business shoes dressing table', 'black business shoes end table',
                                 'black business shoes hat rack', 'black business shoes key holder',
                                 'black business shoes night stand', 'black business shoes shoe cabinet',
                                 'black business shoes side table', 'black business shoes sofa',
                                 'black business shoes umbrella stand', 'black business shoes wardrobe',
                                 'black business shoes wastepaper basket', 'black duvet bench',
                                 'black duvet coat hanger', 'black duvet hat rack', 'black duvet key holder',
                                 'black duvet laundry basket', 'black duvet shoe cabinet',
                                 'black duvet umbrella stand', 'black duvet washing machine',
                                 'black duvet work table', 'black moccasins bath tub',
                                 'black moccasins bathroom cabinet', 'black moccasins coat hanger',
                                 'black moccasins counter', 'black moccasins dining chair',
                                 'black moccasins dressing table', 'black moccasins fridge',
                                 'black moccasins hat rack', 'black moccasins key holder',
                                 'black moccasins kitchen cupboard', 'black moccasins shoe cabinet',
                                 'black moccasins shower', 'black moccasins sink',
                                 'black moccasins toilet roll holder', 'black moccasins towel rack',
                                 'black moccasins trash can', 'black moccasins umbrella stand',
                                 'black moccasins wall hook', 'black pepper box', 'black pepper counter',
                                 'black pepper cutlery drawer', 'black pepper dining chair',
                                 'black pepper dishwasher', 'black pepper folding chair', 'black pepper fridge',
                                 'black pepper kitchen cupboard', 'black pepper shelf', 'black pepper trash can',
                                 'bottle of cold water coat hanger', 'bottle of cold water counter',
                                 'bottle of cold water cutlery drawer', 'bottle of cold water dining chair',
                                 'bottle of cold water folding chair', 'bottle of cold water hat rack',
                                 'bottle of cold water key holder', 'bottle of cold water kitchen cupboard',
                                 'bottle of cold water shelf', 'bottle of cold water shoe cabinet',
                                 'bottle of cold water umbrella stand', 'bread basket box',
                                 'brown coat coat hanger', 'brown coat counter', 'brown coat dining chair',
                                 'brown coat dishwasher', 'brown coat folding chair', 'brown coat fridge',
                                 'brown coat hat rack', 'brown coat key holder', 'brown coat shelf',
                                 'brown coat shoe cabinet', 'brown coat trash can', 'brown coat umbrella stand',
                                 'brown suit box', 'checkered suit box', 'chicken wing counter',
                                 'chicken wing dining chair', 'chicken wing fridge', 'clean black jumper box',
                                 'clean blue pullover box', 'clean brown shirt box', 'clean cake slicer box',
                                 'clean checkered T-shirt box', 'clean colander coat hanger',
                                 'clean colander counter', 'clean colander dining chair', 'clean colander hat rack',
                                 'clean colander key holder', 'clean colander shoe cabinet',
                                 'clean colander umbrella stand', 'clean green T-shirt box',
                                 'clean green skirt box', 'clean gym clothes box', 'clean pan box',
                                 'clean sleeveless shirt box', 'clean striped jumper bed',
                                 'clean striped jumper chest of drawers', 'clean striped jumper desk',
                                 'clean striped jumper desk chair', 'clean striped jumper dressing table',
                                 'clean striped jumper night stand', 'clean teal dress box', 'climbing shoes box',
                                 'coin box', 'comb box', 'cookbook TV stand', 'cookbook arm chair',
                                 'cookbook book case', 'cookbook coat hanger', 'cookbook coffee table',
                                 'cookbook counter', 'cookbook cutlery drawer', 'cookbook dining chair',
                                 'cookbook dishwasher', 'cookbook end table', 'cookbook fridge',
                                 'cookbook hat rack', 'cookbook key holder', 'cookbook kitchen cupboard',
                                 'cookbook side table', 'cookbook sofa', 'cookbook trash can',
                                 'cookbook umbrella stand', 'cookbook wastepaper basket', 'copybook coat hanger',
                                 'copybook hat rack', 'copybook key holder', 'copybook shoe cabinet',
                                 'copybook umbrella stand', 'cushion TV stand', 'cushion arm chair',
                                 'cushion bath tub', 'cushion book case', 'cushion coffee table', 'cushion counter',
                                 'cushion cutlery drawer', 'cushion dining chair', 'cushion dressing table',
                                 'cushion end table', 'cushion fridge', 'cushion kitchen cupboard',
                                 'cushion shower', 'cushion side table', 'cushion sink', 'cushion sofa',
                                 'cushion toilet roll holder', 'cushion towel rack', 'cushion trash can',
                                 'cushion wall hook', 'cushion wastepaper basket', 'dirty brown dress bench',
                                 'dirty brown dress clothes drier', 'dirty brown dress coat hanger',
                                 'dirty brown dress hat rack', 'dirty brown dress key holder',
                                 'dirty brown dress laundry basket', 'dirty brown dress umbrella stand',
                                 'dirty brown dress washing machine', 'dirty brown dress work table',
                                 'dirty brown pullover bench', 'dirty brown pullover clothes drier',
                                 'dirty brown pullover coat hanger', 'dirty brown pullover hat rack',
                                 'dirty brown pullover key holder', 'dirty brown pullover laundry basket',
                                 'dirty brown pullover shoe cabinet', 'dirty brown pullover umbrella stand',
                                 'dirty brown pullover washing machine', 'dirty brown pullover work table',
                                 'dirty cup box', 'dirty sleeveless shirt box', 'dirty spatula bath tub',
                                 'dirty spatula coat hanger', 'dirty spatula counter',
                                 'dirty spatula cutlery drawer', 'dirty spatula dining chair',
                                 'dirty spatula dishwasher', 'dirty spatula dressing table',
                                 'dirty spatula folding chair', 'dirty spatula fridge', 'dirty spatula hat rack',
                                 'dirty spatula key holder', 'dirty spatula kitchen cupboard',
                                 'dirty spatula shelf', 'dirty spatula shower', 'dirty spatula sink',
                                 'dirty spatula toilet roll holder', 'dirty spatula towel rack',
                                 'dirty spatula trash can', 'dirty spatula umbrella stand',
                                 'dirty spatula wall hook', 'dirty white T-shirt box', 'dirty white polo shirt box',
                                 'eyeliner TV stand', 'eyeliner arm chair', 'eyeliner bed', 'eyeliner book case',
                                 'eyeliner chest of drawers', 'eyeliner coffee table', 'eyeliner desk',
                                 'eyeliner desk chair', 'eyeliner dressing table', 'eyeliner end table',
                                 'eyeliner night stand', 'eyeliner side table', 'eyeliner sofa',
                                 'eyeliner wastepaper basket', 'flour bath tub', 'flour bathroom cabinet',
                                 'flour box', 'flour coat hanger', 'flour counter', 'flour dining chair',
                                 'flour dishwasher', 'flour dressing table', 'flour folding chair', 'flour fridge',
                                 'flour hat rack', 'flour key holder', 'flour kitchen cupboard', 'flour shelf',
                                 'flour shower', 'flour sink', 'flour toilet roll holder', 'flour towel rack',
                                 'flour trash can', 'flour umbrella stand', 'flour wall hook', 'gray bed sheet box',
                                 'gray blanket bench', 'gray blanket clothes drier', 'gray blanket coat hanger',
                                 'gray blanket hat rack', 'gray blanket key holder', 'gray blanket laundry basket',
                                 'gray blanket umbrella stand', 'gray blanket washing machine',
                                 'gray blanket work table', 'gray duvet box', 'gray sneakers bath tub',
                                 'gray sneakers bathroom cabinet', 'gray sneakers bench',
                                 'gray sneakers clothes drier', 'gray sneakers coat hanger',
                                 'gray sneakers dressing table', 'gray sneakers hat rack',
                                 'gray sneakers key holder', 'gray sneakers laundry basket',
                                 'gray sneakers shoe cabinet', 'gray sneakers shower', 'gray sneakers sink',
                                 'gray sneakers toilet roll holder', 'gray sneakers towel rack',
                                 'gray sneakers trash can', 'gray sneakers umbrella stand',
                                 'gray sneakers wall hook', 'gray sneakers washing machine',
                                 'gray sneakers work table', 'green hot pepper counter',
                                 'green hot pepper dining chair', 'green hot pepper fridge', 'kettle TV stand',
                                 'kettle arm chair', 'kettle bath tub', 'kettle book case', 'kettle box',
                                 'kettle coffee table', 'kettle dressing table', 'kettle end table',
                                 'kettle shower', 'kettle side table', 'kettle sink', 'kettle sofa',
                                 'kettle toilet roll holder', 'kettle towel rack', 'kettle wall hook',
                                 'kettle wastepaper basket', 'knee high boots box', 'knife TV stand',
                                 'knife arm chair', 'knife book case', 'knife coat hanger', 'knife coffee table',
                                 'knife counter', 'knife cutlery drawer', 'knife dining chair', 'knife dishwasher',
                                 'knife end table', 'knife fridge', 'knife hat rack', 'knife key holder',
                                 'knife kitchen cupboard', 'knife shoe cabinet', 'knife side table', 'knife sofa',
                                 'knife trash can', 'knife umbrella stand', 'lip liner TV stand',
                                 'lip liner arm chair', 'lip liner bed', 'lip liner bench', 'lip liner book case',
                                 'lip liner box', 'lip liner chest of drawers', 'lip liner clothes drier',
                                 'lip liner coat hanger', 'lip liner coffee table', 'lip liner desk',
                                 'lip liner desk chair', 'lip liner dressing table', 'lip liner end table',
                                 'lip liner hat rack', 'lip liner key holder', 'lip liner laundry basket',
                                 'lip liner night stand', 'lip liner shoe cabinet', 'lip liner side table',
                                 'lip liner sofa', 'lip liner umbrella stand', 'lip liner wardrobe',
                                 'lip liner washing machine', 'lip liner work table', 'makeup kit TV stand',
                                 'makeup kit arm chair', 'makeup kit bath tub', 'makeup kit bathroom cabinet',
                                 'makeup kit book case', 'makeup kit coffee table', 'makeup kit dressing table',
                                 'makeup kit end table', 'makeup kit shower', 'makeup kit side table',
                                 'makeup kit sink', 'makeup kit sofa', 'makeup kit toilet roll holder',
                                 'makeup kit towel rack', 'makeup kit trash can', 'makeup kit wall hook',
                                 'makeup kit wastepaper basket', 'map box', 'math problem bath tub',
                                 'math problem bench', 'math problem box', 'math problem clothes line',
                                 'math problem dressing table', 'math problem folding chair', 'math problem garden',
                                 'math problem laundry basket', 'math problem patio chair',
                                 'math problem patio table', 'math problem shelf', 'math problem shower',
                                 'math problem sink', 'math problem toilet roll holder', 'math problem towel rack',
                                 'math problem wall hook', 'math problem work table', 'math problem workbench',
                                 'milk counter', 'milk cutlery drawer', 'milk dining chair', 'milk dishwasher',
                                 'milk fridge', 'milk kitchen cupboard', 'milk trash can',
                                 'orange bell pepper clothes line', 'orange bell pepper counter',
                                 'orange bell pepper dining chair', 'orange bell pepper fridge',
                                 'orange bell pepper garden', 'orange bell pepper patio chair',
                                 'orange bell pepper patio table', 'orange bell pepper workbench',
                                 'orange coat hanger', 'orange hat rack', 'orange key holder',
                                 'orange umbrella stand', 'oven glove coat hanger', 'oven glove hat rack',
                                 'oven glove key holder', 'oven glove shoe cabinet', 'oven glove umbrella stand',
                                 'papaya folding chair', 'papaya shelf', 'peach folding chair', 'peach shelf',
                                 'picture bench', 'picture box', 'picture clothes drier', 'picture coat hanger',
                                 'picture hat rack', 'picture key holder', 'picture laundry basket',
                                 'picture shoe cabinet', 'picture umbrella stand', 'picture work table',
                                 'pineapple counter', 'pineapple dining chair', 'pineapple dining table',
                                 'plaid blanket bench', 'plaid blanket box', 'plaid blanket clothes drier',
                                 'plaid blanket coat hanger', 'plaid blanket hat rack', 'plaid blanket key holder',
                                 'plaid blanket laundry basket', 'plaid blanket shoe cabinet',
                                 'plaid blanket umbrella stand', 'plaid blanket washing machine',
                                 'plaid blanket work table', 'plaid duvet bath tub', 'plaid duvet bathroom cabinet',
                                 'plaid duvet bed', 'plaid duvet bench', 'plaid duvet chest of drawers',
                                 'plaid duvet clothes drier', 'plaid duvet coat hanger', 'plaid duvet desk',
                                 'plaid duvet desk chair', 'plaid duvet dressing table', 'plaid duvet hat rack',
                                 'plaid duvet key holder', 'plaid duvet laundry basket', 'plaid duvet night stand',
                                 'plaid duvet shoe cabinet', 'plaid duvet shower', 'plaid duvet sink',
                                 'plaid duvet toilet roll holder', 'plaid duvet towel rack',
                                 'plaid duvet umbrella stand', 'plaid duvet wall hook', 'plaid duvet wardrobe',
                                 'plaid duvet work table', 'pork chop TV stand', 'pork chop arm chair',
                                 'pork chop book case', 'pork chop coffee table', 'pork chop counter',
                                 'pork chop cutlery drawer', 'pork chop dining chair', 'pork chop end table',
                                 'pork chop fridge', 'pork chop side table', 'pork chop sofa',
                                 'pork chop trash can', 'pork chop wastepaper basket', 'potato peeler box',
                                 'purple potato counter', 'purple potato dining chair', 'purple potato trash can',
                                 'red apple box', 'red apple counter', 'red apple dining chair',
                                 'red apple dishwasher', 'red hot pepper counter', 'red hot pepper cutlery drawer',
                                 'red hot pepper dining chair', 'red hot pepper kitchen cupboard',
                                 'red hot pepper trash can', 'red onion clothes line', 'red onion counter',
                                 'red onion dining chair', 'red onion fridge', 'red onion garden',
                                 'red onion patio chair', 'red onion patio table', 'red onion workbench',
                                 'red potato counter', 'red potato cutlery drawer', 'red potato dining chair',
                                 'red potato dishwasher', 'red potato kitchen cupboard', 'rotten banana box',
                                 'rotten banana coat hanger', 'rotten banana counter', 'rotten banana dining chair',
                                 'rotten banana hat rack', 'rotten banana key holder',
                                 'rotten banana kitchen cupboard', 'rotten banana shoe cabinet',
                                 'rotten banana umbrella stand', 'rotten red tuna bath tub',
                                 'rotten red tuna counter', 'rotten red tuna cutlery drawer',
                                 'rotten red tuna dining chair', 'rotten red tuna dishwasher',
                                 'rotten red tuna dressing table', 'rotten red tuna kitchen cupboard',
                                 'rotten red tuna shower', 'rotten red tuna sink',
                                 'rotten red tuna toilet roll holder', 'rotten red tuna towel rack',
                                 'rotten red tuna wall hook', 'rotten yellow potato bath tub',
                                 'rotten yellow potato bathroom cabinet', 'rotten yellow potato dressing table',
                                 'rotten yellow potato shower', 'rotten yellow potato sink',
                                 'rotten yellow potato toilet roll holder', 'rotten yellow potato towel rack',
                                 'rotten yellow potato wall hook', 'slippers box', 'straw hat TV stand',
                                 'straw hat arm chair', 'straw hat book case', 'straw hat box',
                                 'straw hat coat hanger', 'straw hat coffee table', 'straw hat counter',
                                 'straw hat cutlery drawer', 'straw hat dining chair', 'straw hat dishwasher',
                                 'straw hat end table', 'straw hat folding chair', 'straw hat fridge',
                                 'straw hat hat rack', 'straw hat key holder', 'straw hat kitchen cupboard',
                                 'straw hat shelf', 'straw hat shoe cabinet', 'straw hat side table',
                                 'straw hat sofa', 'straw hat umbrella stand', 'straw hat wastepaper basket',
                                 'table lamp TV stand', 'table lamp arm chair', 'table lamp bed',
                                 'table lamp book case', 'table lamp coffee table', 'table lamp desk',
                                 'table lamp desk chair', 'table lamp dressing table', 'table lamp end table',
                                 'table lamp night stand', 'table lamp side table', 'table lamp sofa',
                                 'table lamp wardrobe', 'table lamp wastepaper basket', 'toilet paper bed',
                                 'toilet paper box', 'toilet paper chest of drawers', 'toilet paper desk',
                                 'toilet paper desk chair', 'toilet paper dressing table',
                                 'toilet paper night stand', 'toilet paper wardrobe', 'tomato counter',
                                 'tomato cutlery drawer', 'tomato dining chair', 'tomato fridge',
                                 'tomato kitchen cupboard', 'trench coat bed', 'trench coat bench',
                                 'trench coat box', 'trench coat chest of drawers', 'trench coat coat hanger',
                                 'trench coat desk', 'trench coat desk chair', 'trench coat dressing table',
                                 'trench coat hat rack', 'trench coat key holder', 'trench coat laundry basket',
                                 'trench coat night stand', 'trench coat shoe cabinet',
                                 'trench coat umbrella stand', 'trench coat wardrobe',
                                 'trench coat washing machine', 'trench coat work table', 'used tissue TV stand',
                                 'used tissue arm chair', 'used tissue book case', 'used tissue box',
                                 'used tissue coffee table', 'used tissue counter', 'used tissue dining chair',
                                 'used tissue dishwasher', 'used tissue end table', 'used tissue side table',
                                 'used tissue sofa', 'used tissue wastepaper basket', 'vegetable oil box',
                                 'wastepaper bath tub', 'wastepaper bathroom cabinet', 'wastepaper box',
                                 'wastepaper dressing table', 'wastepaper shower', 'wastepaper sink',
                                 'wastepaper toilet roll holder', 'wastepaper towel rack', 'wastepaper wall hook',
                                 'wet hawaiian shirt bed', 'wet hawaiian shirt bench',
                                 'wet hawaiian shirt clothes drier', 'wet hawaiian shirt coat hanger',
                                 'wet hawaiian shirt desk', 'wet hawaiian shirt desk chair',
                                 'wet hawaiian shirt dressing table', 'wet hawaiian shirt hat rack',
                                 'wet hawaiian shirt key holder', 'wet hawaiian shirt laundry basket',
                                 'wet hawaiian shirt night stand', 'wet hawaiian shirt shoe cabinet',
                                 'wet hawaiian shirt umbrella stand', 'wet hawaiian shirt washing machine',
                                 'wet hawaiian shirt work table', 'wet maroon dress box', 'wet plaid jumper box',
                                 'wet white skirt bed', 'wet white skirt bench', 'wet white skirt chest of drawers',
                                 'wet white skirt coat hanger', 'wet white skirt desk',
                                 'wet white skirt desk chair', 'wet white skirt dressing table',
                                 'wet white skirt hat rack', 'wet white skirt key holder',
                                 'wet white skirt laundry basket', 'wet white skirt night stand',
                                 'wet white skirt shoe cabinet', 'wet white skirt umbrella stand',
                                 'wet white skirt wardrobe', 'wet white skirt work table', 'white coat coat hanger',
                                 'white coat counter', 'white coat cutlery drawer', 'white coat dining chair',
                                 'white coat dishwasher', 'white coat fridge', 'white coat hat rack',
                                 'white coat key holder', 'white coat kitchen cupboard', 'white coat trash can',
                                 'white coat umbrella stand', 'white moccasins box', 'white onion box',
                                 'white onion counter', 'white onion dining chair', 'white onion dishwasher',
                                 'white onion fridge', 'white suit bed', 'white suit chest of drawers',
                                 'white suit coat hanger', 'white suit desk', 'white suit desk chair',
                                 'white suit dressing table', 'white suit hat rack', 'white suit key holder',
                                 'white suit night stand', 'white suit shoe cabinet', 'white suit umbrella stand',
                                 'yellow apple coat hanger', 'yellow apple counter', 'yellow apple dining chair',
                                 'yellow apple dishwasher', 'yellow apple hat rack', 'yellow apple key holder',
                                 'yellow apple trash can', 'yellow apple umbrella stand', 'yellow onion box',
                                 'yellow potato TV stand', 'yellow potato arm chair', 'yellow potato book case',
                                 'yellow potato coat hanger', 'yellow potato coffee table', 'yellow potato counter',
                                 'yellow potato cutlery drawer', 'yellow potato dining chair',
                                 'yellow potato dishwasher', 'yellow potato end table', 'yellow potato hat rack',
                                 'yellow potato key holder', 'yellow potato shoe cabinet',
                                 'yellow potato side table', 'yellow potato sofa', 'yellow potato umbrella stand',
                                 'yellow potato wastepaper basket']},
 'forms': {'get {0}': 'take {0}',
           'go to the {0}': 'move {0}',
           'go {0}': 'move {0}',
           'look at the {0}': 'take {0}',
           'pick up the {0}': 'take {0}',
           'put {0} on {1}': 'put {0} in {1}'},
 'kinds': {'close {0}': [['bathroom cabinet', 'chest of drawers', 'clothes drier', 'cutlery drawer', 'dishwasher',
                          'door to east', 'door to north', 'door to south', 'door to west', 'fridge',
                          'kitchen cupboard', 'shoe cabinet', 'trash can', 'wardrobe', 'washing machine',
                          'wastepaper basket']],
           'cook {0} in {1}': [['chicken wing', 'green hot pepper', 'orange bell pepper', 'pork chop',
                                'purple potato', 'red apple', 'red hot pepper', 'red onion', 'red potato', 'tomato',
                                'white onion', 'yellow apple', 'yellow potato'],
                               ['barbeque', 'oven', 'stove']],
           'eat {0}': [['apple', 'banana', 'grape', 'grapefruit', 'green hot pepper', 'orange',
                        'orange bell pepper', 'papaya', 'pineapple', 'red apple', 'red hot pepper', 'red onion',
                        'tomato', 'white onion', 'yellow apple']],
           'examine {0}': [['TV stand', 'arm chair', 'banana', 'barbeque', 'bath mat', 'bath tub',
                            'bathroom cabinet', 'bed', 'bench', 'book case', 'chest of drawers', 'chicken wing',
                            'clothes drier', 'clothes line', 'coat hanger', 'coffee table', 'cookbook', 'counter',
                            'cutlery drawer', 'desk', 'desk chair', 'dining chair', 'dishwasher', 'dressing table',
                            'end table', 'fridge', 'garden', 'grape', 'grapefruit', 'green hot pepper', 'hat rack',
                            'key holder', 'kitchen cupboard', 'knife', 'laundry basket', 'milk', 'night stand',
                            'orange', 'orange bell pepper', 'oven', 'patio chair', 'patio table', 'peach',
                            'pineapple', 'pork chop', 'purple potato', 'red apple', 'red hot pepper', 'red onion',
                            'red potato', 'shoe cabinet', 'shower', 'side table', 'sink', 'sofa', 'stove',
                            'strawberry', 'tangerine', 'toilet', 'toilet roll holder', 'tomato', 'towel rack',
                            'trash can', 'umbrella stand', 'wall hook', 'wardrobe', 'washing machine',
                            'wastepaper basket', 'white onion', 'work table', 'workbench', 'yellow apple',
                            'yellow onion', 'yellow potato']],
           'move {0}': [['east', 'north', 'south', 'west']],
           'open {0}': [['bathroom cabinet', 'chest of drawers', 'clothes drier', 'cutlery drawer', 'dishwasher',
                         'door to east', 'door to north', 'door to south', 'door to west', 'fridge',
                         'kitchen cupboard', 'shoe cabinet', 'trash can', 'wardrobe', 'washing machine',
                         'wastepaper basket']],
           'put 1 {0} in {1}': [['papaya', 'tangerine'],
                                ['box', 'clothes line', 'folding chair', 'garden', 'patio chair', 'patio table',
                                 'shelf', 'workbench']],
           'put plaid {0} sheet in {1}': [['bed'], ['box']],
           'put {0} in {1}': [['10 papayas', '102 oranges', '104 pineapples', '11 tangerines', '12 grapes',
                               '12l of wood', '1400 tangerines', '15 peaches', '15m of brick', '15m of wood',
                               '160 strawberries', '170 peaches', '17m of brick', '18g of marble',
                               '192 strawberries', '19cm of brick', '19m of cedar', '19m of marble', '2 bananas',
                               '22 papayas', '22m of cedar', '23 pineapples', '25 peaches', '25ml of oak',
                               '26cm of wood', '27g of marble', '27g of oak', '29 grapefruits', '2cm of wood',
                               '2m of cedar', '2mm of brick', '2mm of marble', '3 pineapples', '30g of brick',
                               '30m of wood', '30mm of marble', '31 apples', '32 bananas', '33l of wood',
                               '34 oranges', '34mm of brick', '35cm of marble', '36 bananas', '36m of oak',
                               '378 grapes', '39 apples', '39 grapefruits', '39m of cedar', '3cm of brick',
                               '3m of brick', '3m of oak', '4 oranges', '4 pineapples', '40 strawberries',
                               '41ml of cedar', '42cm of oak', '42mm of cedar', '43 strawberries', '44 tangerines',
                               '44mm of brick', '46 apples', '4mm of wood', '5 tangerines', '52 papayas',
                               '5mm of wood', '61 pineapples', '7 bananas', '7 strawberries', '75 grapes',
                               '7l of cedar', '7mg of brick', '8kg of oak', '9 grapes', '990 peaches',
                               '9g of brick', 'alarm clock', 'banana', 'beret', 'black belt', 'black blanket',
                               'black business shoes', 'black duvet', 'black moccasins', 'black pepper',
                               'bottle of cold water', 'bread basket', 'brown coat', 'brown suit', 'checkered suit',
                               'chicken wing', 'clean black jumper', 'clean blue pullover', 'clean brown shirt',
                               'clean cake slicer', 'clean checkered T-shirt', 'clean colander',
                               'clean green T-shirt', 'clean green skirt', 'clean gym clothes', 'clean pan',
                               'clean sleeveless shirt', 'clean striped jumper', 'clean teal dress',
                               'climbing shoes', 'coin', 'comb', 'cookbook', 'copybook', 'cushion',
                               'dirty brown dress', 'dirty brown pullover', 'dirty cup', 'dirty sleeveless shirt',
                               'dirty spatula', 'dirty white T-shirt', 'dirty white polo shirt', 'eyeliner',
                               'flour', 'gray bed sheet', 'gray blanket', 'gray duvet', 'gray sneakers',
                               'green hot pepper', 'kettle', 'knee high boots', 'knife', 'lip liner', 'makeup kit',
                               'map', 'math problem', 'milk', 'orange', 'orange bell pepper', 'oven glove',
                               'papaya', 'peach', 'picture', 'pineapple', 'plaid blanket', 'plaid duvet',
                               'pork chop', 'potato peeler', 'purple potato', 'red apple', 'red hot pepper',
                               'red onion', 'red potato', 'rotten banana', 'rotten red tuna',
                               'rotten yellow potato', 'slippers', 'straw hat', 'table lamp', 'toilet paper',
                               'tomato', 'trench coat', 'used tissue', 'vegetable oil', 'wastepaper',
                               'wet hawaiian shirt', 'wet maroon dress', 'wet plaid jumper', 'wet white skirt',
                               'white coat', 'white moccasins', 'white onion', 'white suit', 'yellow apple',
                               'yellow onion', 'yellow potato'],
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
                         '16 bananas', '160 strawberries', '170 peaches', '17m of brick', '18g of marble',
                         '192 strawberries', '19cm of brick', '19m of cedar', '19m of marble', '2 bananas',
                         '2 papayas', '22 papayas', '22m of cedar', '22ml of marble', '23 papayas', '23 pineapples',
                         '25 peaches', '25ml of oak', '26 grapes', '26 pineapples', '26cm of wood', '26mm of oak',
                         '27g of marble', '27g of oak', '29 bananas', '29 grapefruits', '2cm of wood',
                         '2m of cedar', '2mm of brick', '2mm of marble', '3 pineapples', '30 tangerines',
                         '30g of brick', '30m of wood', '30mm of marble', '31 apples', '32 bananas', '33 peaches',
                         '33l of wood', '34 grapefruits', '34 oranges', '34mm of brick', '35cm of marble',
                         '36 apples', '36 bananas', '36m of oak', '37 bananas', '378 grapes', '38 apples',
                         '39 apples', '39 grapefruits', '39m of cedar', '3cm of brick', '3m of brick', '3m of oak',
                         '4 grapefruits', '4 oranges', '4 pineapples', '40 strawberries', '41ml of cedar',
                         '42cm of oak', '42mm of cedar', '43 strawberries', '44 pineapples', '44 tangerines',
                         '44mm of brick', '46 apples', '4cm of cedar', '4mm of wood', '5 pineapples',
                         '5 tangerines', '51 oranges', '52 papayas', '5mm of wood', '6 apples', '6 grapes',
                         '61 pineapples', '67 tangerines', '7 bananas', '7 strawberries', '75 grapes',
                         '7l of cedar', '7mg of brick', '874 grapes', '8kg of oak', '9 grapes', '990 peaches',
                         '9g of brick', 'alarm clock', 'apple', 'banana', 'beret', 'black belt', 'black blanket',
                         'black business shoes', 'black duvet', 'black moccasins', 'black pepper',
                         'bottle of cold water', 'bread basket', 'brown coat', 'brown suit', 'checkered suit',
                         'chicken wing', 'clean black jumper', 'clean blue pullover', 'clean brown shirt',
                         'clean cake slicer', 'clean checkered T-shirt', 'clean colander', 'clean green T-shirt',
                         'clean green skirt', 'clean gym clothes', 'clean pan', 'clean plate',
                         'clean sleeveless shirt', 'clean striped jumper', 'clean teal dress', 'climbing shoes',
                         'coin', 'comb', 'cookbook', 'copybook', 'cushion', 'dirty brown dress',
                         'dirty brown pullover', 'dirty cup', 'dirty sleeveless shirt', 'dirty spatula',
                         'dirty white T-shirt', 'dirty white polo shirt', 'eyeliner', 'flour', 'grape',
                         'grapefruit', 'gray bed sheet', 'gray blanket', 'gray duvet', 'gray sneakers',
                         'green hot pepper', 'kettle', 'knee high boots', 'knife', 'lip liner', 'makeup kit', 'map',
                         'math problem', 'milk', 'orange', 'orange bell pepper', 'oven glove', 'papaya', 'peach',
                         'picture', 'pineapple', 'plaid blanket', 'plaid duvet', 'pork chop', 'potato peeler',
                         'purple potato', 'red apple', 'red bell pepper', 'red hot pepper', 'red onion',
                         'red potato', 'rotten banana', 'rotten red tuna', 'rotten yellow potato', 'slippers',
                         'straw hat', 'strawberry', 'table lamp', 'tangerine', 'toilet paper', 'tomato',
                         'trench coat', 'used tissue', 'vegetable oil', 'wastepaper', 'wet hawaiian shirt',
                         'wet maroon dress', 'wet plaid jumper', 'wet white skirt', 'white coat', 'white moccasins',
                         'white onion', 'white suit', 'yellow apple', 'yellow onion', 'yellow potato']],
           'touch {0}': [['apple', 'banana', 'grape', 'grapefruit', 'orange', 'papaya', 'strawberry',
                          'tangerine']]},
 'movers': ['cook {0} in {1}', 'eat {0}', 'move {0}', 'put 1 {0} in {1}', 'put plaid {0} sheet in {1}',
            'put {0} in {1}', 'take 1 {0}', 'take plaid {0} sheet', 'take {0}'],
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
 'now': {'close {0}': [],
         'cook {0} in {1}': [],
         'eat {0}': [],
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
                                    ['not', ['kind', 1, 'open {0}', 0]]],
                             'sure': True,
                             'then': 'now'},
                            {'if': [['shows', 'inventory', 0], ['shows', 'look around', 1], ['active', 0, 0, 1]],
                             'sure': True,
                             'then': 'now'}],
         'read {0}': [{'if': [['shows', 'inventory', 0]], 'sure': True, 'then': 'now'}],
         'sit down': [],
         'slice {0}': [],
         'smell {0}': [],
         'take 1 {0}': [],
         'take plaid {0} sheet': [],
         'take {0}': [{'if': [['shows', 'look around', 0]], 'sure': True, 'then': 'now'}],
         'task': [],
         'touch {0}': []},
 'pairs': [['open {0}', 'close {0}']],
 'spelling': {'case': True, 'number': False},
 'templates': {'close {0}': [{'if': [['shows', 'look around', 0], ['here', 0, 'move {0}'], ['here', 0, 'take {0}'],
                                     ['not', ['active', 0, 0, 0]]],
                              'sure': False,
                              'then': 'already'}],
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
               'move {0}': [{'if': [['last', 'move {0}', 0, 0]], 'sure': False, 'then': 'already'}],
               'open {0}': [{'if': [['shows', 'look around', 0], ['active', 0, 0, 0]],
                             'sure': False,
                             'then': 'already'}],
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
    return 'Learned by experiment in this environment:\n- Only these forms are understood: `close X`, `cook X in Y`, `eat X`, `examine X`, `hop on your right foot`, `inventory`, `jump up and down`, `look around`, `meow like a cat`, `move X`, `open X`, `put 1 X in Y`, `put plaid X sheet in Y`, `put X in Y`, `read X`, `sit down`, `slice X`, `smell X`, `take 1 X`, `take plaid X sheet`, `take X`, `task`, `touch X`\n- "Unknown action: I\'m not sure what you mean." means that the action was refused; it does not say why\n- Write `take X` instead of `get X`\n- Write `move X` instead of `go to the X`\n- Write `move X` instead of `go X`\n- Write `take X` instead of `look at the X`\n- Write `take X` instead of `pick up the X`\n- Write `put X in Y` instead of `put X on Y`\n- `close X` may also be refused because it is already so\n- Before `eat X` you may need to `take X`\n- `move X` may also be refused because it is already so\n- `open X` may also be refused because it is already so\n- Before `read X` you may need to `take X`'


def WrapStep(env, init_obs, task, agent_action, logger):
    if not hasattr(env, 'history'):
        env.history = new_history(SPEC, init_obs + '\n' + task)
    obs, reward, done, info = env.step(agent_action)
    seen, *rest = obs, reward, done
    if seen.strip() not in SPEC['uninformative']:
        record(SPEC, env.history, agent_action, seen)
        return seen, *rest
    look_at(env.history, {view: env.step(view)[0] for view in views_for(SPEC, env.history, agent_action)})
    return (seen + ' ' + advise(SPEC, env.history, agent_action)).strip(), *rest
