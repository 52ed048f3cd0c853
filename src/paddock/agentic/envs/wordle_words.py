"""The words of Wordle: those that may be the answer, and those that may be guessed besides. Our own choice of them."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Everyday words, none that is only another's plural or past form: an answer should be one that a player would think of.
ANSWERS: tuple[str, ...] = _words(
    """
    about above actor acute admit adopt adult after again agent agree ahead alarm album alert alike alive allow alone
    along alter among anger angle angry ankle apart apple apply apron arena argue arise armor arrow aside asset audio
    avoid awake award aware awful bacon badge baker basic basil basin beach beard beast begin being below bench berry
    birth black blade blame blank blast blaze blend bless blind block blood bloom board boast bonus boost booth bound
    brain brake brand brass brave bread break breed brick bride brief bring broad broom brown brush build bunch cabin
    cable camel canal candy canoe cargo carry carve catch cause chain chair chalk charm chase cheap check cheek cheer
    chess chest chief child chill china choir chord civic civil claim class clean clear clerk click cliff climb clock
    close cloth cloud clown coach coast color comet coral couch cough count court cover crack craft crane crash crawl
    crazy cream creek crime crisp cross crowd crown cruel crush curve cycle daily dairy dance debut decay delay dense
    depth diary digit diner dirty ditch diver dizzy donor doubt dough dozen draft drain drama dream dress drift drink
    drive eager eagle early earth easel eight elbow elder elect elite empty enemy enjoy enter entry equal error essay
    event every exact exist extra fable faint fairy faith false fancy fault favor feast fence ferry fever field fiery
    fifth fifty fight final first flame flash fleet flesh float flock flood floor flour fluid flute focus force forge
    forty found frame fresh front frost fruit funny ghost giant glass globe glory glove grace grade grain grand grant
    grape graph grasp grass gravy great green greet grief grill group guard guess guest guide habit happy harsh haste
    heart heavy hedge hello hobby honey honor horse hotel house human humor hurry ideal image index inner input issue
    ivory jelly jewel joint judge juice jumbo karma kayak knife knock label labor large laser later laugh layer learn
    lemon level light limit linen liver local logic loose lover lower loyal lucky lunar lunch magic major maker mango
    manor maple march marsh match mayor medal media melon mercy merit metal meter might minor model moist money month
    moral motor mount mouse mouth movie music naval nerve never night noble noise north novel nurse nylon ocean offer
    olive onion opera orbit order organ other otter outer owner oxide ozone paint panel panic paper party pasta patch
    pause peace peach pearl pedal penny phase phone photo piano piece pilot pinch pizza place plain plane plant plate
    plaza plead point polar porch pouch pound power press price pride prime print prize proof proud pulse punch pupil
    puppy quack queen query quest quick quiet quilt quite quota quote radar radio rainy raise ranch range rapid ratio
    raven reach react ready realm rebel relax reply rider ridge rifle rigid river roast robin robot rocky rough round
    route royal rugby ruler rural salad salty sandy sauce scale scarf scene scent score scout scrap screw sense serve
    seven shade shake shape share shark sharp sheep sheet shelf shell shift shine shirt shock shore short shout sight
    silly since sixty skate skill skirt sleep slice slide slope small smart smell smile smoke snack snake solar solid
    solve sorry sound south space spare spark speak spear speed spell spend spice spike spoon sport spray squad stack
    staff stage stair stamp stand stare start state steam steel steep stick still stone storm story stove straw study
    style sugar sunny super swamp swarm sweet swift swing sword syrup table taste teach thank theft theme thick thief
    thing think third thorn throw thumb tiger tight tired title toast today token tooth topic torch total touch tough
    tower toxic trace track trade trail train treat trend trial tribe trick truck truly trunk trust truth tulip tutor
    twice twist ultra uncle under union unity upper upset urban usage usual valid value vapor vault verse video virus
    visit vital vivid vocal voice voter wagon waist waste watch water weary wedge weigh whale wheat wheel where while
    whole width witch woman world worry worst worth wound wrist write wrong yacht yeast yield young youth zebra
    """
)

# What a player may well try, and would find odd as an answer.
ALSO_ALLOWED: tuple[str, ...] = _words(
    """
    abbey abide abyss acorn adapt adore agile aging aisle algae alien align alley aloft aloud altar amber amble amend
    ample amuse annex annoy antic anvil aorta apnea arbor ardor argon aroma arson ashen atlas atoll attic audit aunts
    avail axiom azure balmy banjo barge baron basal baton bayou began belly bible bicep bikes birch bison blimp bliss
    bloat blown bluff blunt blurb blush bogus bongo boots booze boxer brawl brine brink brisk broke brook broth brute
    buddy budge buggy bulky bully burly burnt burst buyer cache cacti cadet camps cards cared carol cedar cello champ
    chant chaos chard chart chasm cheat chili chime chips chirp chose chuck chunk churn cider cigar cinch circa clamp
    clams clang clash clasp cloak clone clove clubs cobra cocoa colon comic comma condo conic copra corgi cower crank
    crate craze creak credo creed creep crest cried croak crook crude crumb crust crypt cubic cumin curly curry curse
    dandy darts daunt deals death debit decoy deity delta demon denim depot derby deter devil dials dimly dingo disco
    ditto dodge dogma dolls doors dopey downs dowry drank drape drawl drawn dread dried drill drone drool droop drove
    drown drums dryer dusty dwarf dwell eaten ebony edges edify eerie eject elope elude email ember emits enact endow
    epoch epoxy erase erect erode erupt ethic evade evict evoke exert exile expel facet facts faded farms fatal fauna
    fetch fetus fewer fiber finch fishy fixed fizzy flair flake flank flare flask flees flick fling flint flirt floss
    flown fluff flung flush flyer foamy foggy folly foray forum foyer frail fraud freak freed fried fries frill frisk
    frock frown froze fudge fully fumes fungi fuzzy games gases gauge gavel gears geese genie genre girth given gizmo
    glade glare glaze gleam glide glint gloat gloom gloss gnome goals goose gouge grate grave graze greed grind gripe
    groan groom gross grove growl grown guild guilt gusto hairy hands hardy harem hasty hatch haunt haven havoc hazel
    heads hefty heist helix hence herbs hippo hitch hoard homer hoped horde hound hours hover humid husky hyena hyper
    icing idiom igloo imply inbox incur inept inert infer ionic irate irony itchy items jazzy jeans jerky joker jolly
    joust juicy kebab khaki kiosk kites kneel knelt knobs knots known koala lakes lance lapel lapse larva lasso latch
    latte leafy leaks lease leash least leave ledge leech legal leper lever lilac limbo lions lists lives llama loans
    lobby locks lodge lofty looks loops lotus louse lousy lumpy lunge lured lymph lyric macho macro mafia mains mambo
    mania manic mauve maxim means meats mecca melee menus meows merge merry messy micro midst miner minus mirth miser
    mixed mixer moans mocha modem moldy moody moons moose moped motel motif motto mourn mover mowed mucus muddy mural
    mushy musty naive named nanny nasal nasty necks needs newer newly niche niece nifty ninja ninth nomad notch notes
    nudge oaken oasis occur octet oddly onset optic ounce ovary overt owing oxbow pacts pagan pairs paler panda pansy
    pants parka parks parse paste pasty patio payer peaks peels perch peril perky petal petty piety piggy pills pious
    pique pitch pixel plaid plank plays plots pluck plumb plume plump plush poems poets poise poker polka ponds pools
    poppy ports posed posse potty prank prawn preen prick pried probe prone prose prowl prune psalm pudgy puffy pulls
    pumps puree purse pushy quail quake qualm quart quasi quell quirk rabbi races racks rafts rakes rally ramen rates
    razor reads rebut recap recur reeds refer rehab reign reins relay relic remit renal renew repay repel reset resin
    retro rhino rhyme riots ripen risen risky rival roads roles rooms roots ropes roses rotor rouge rowdy ruins rules
    rumor rusty saint sales salon salsa salve sassy satin sauna savor savvy scald scamp scant scare scary scoff scold
    scone scoop scope scorn scour scowl seeds seize sends setup sever shack shaft shaky shall shame shawl shear shiny
    ships shoes shops shown shows shrub shrug shuck shunt siege sieve signs silky sinew siren sites sixth sized skies
    skimp skull skunk slack slain slang slant slash slate sleek sleet slept slick slime slimy sling sloth slump slung
    smack smash smear smelt smirk snail snare sneak sneer snore snort snout snowy snuff soapy sober soggy songs sonic
    sooth sorts souls spade spank spawn spelt spent spicy spied spill spine spiny spite split spoil spoke spoof spook
    spore spout spree squat squid stain stake stale stalk stall stank stars stash stays steak steal steed steer stein
    steps stern stews stilt sting stink stint stock stoic stoke stole stomp stood stool stoop stops store stork strap
    stray strip stuck stuff stump stung stunt suave suede suite sulky surge surly sushi swear sweat sweep swell swept
    swine swirl swoop tabby taboo tacit tacky taken takes tales tally talon tamed tango tangy taper tardy tarot tasks
    tasty taunt taxes teams tears tease tempo tenor tense tenth tepid terms tests thaws their these those three threw
    throb thump tiara tidal times timid titan toads tonic tools torso trait tramp trash trawl tread tried tries tripe
    troll troop trope trout truce tuber tunic turbo turns twang tweak tweed twine twirl types udder uncut unfit units
    until upend urine usher using utter vague valet valor valve vegan venom venue verge views vigil vines vinyl viola
    viper visor vista vodka vogue vowel vying wacky wager wages walks walls wants warts wears weird wells whack wharf
    whiff whine whirl whisk white widen wider widow wield winch winds wings wiper wired wives woken women woods woody
    words works worse wrack wrath wreck wring yards yearn years yodel yummy zesty zonal
    """
)
