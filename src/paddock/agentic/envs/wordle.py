"""paddock/Wordle: find a word of five letters in six guesses. A word that is not known costs no guess, but a step."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal, TypeAlias

import numpy as np

from paddock.agentic.env import ToolEnv
from paddock.agentic.rubrics import Rubric
from paddock.agentic.rubrics.rubric import GradedObservation
from paddock.agentic.tasks import Task, Tasks
from paddock.agentic.tools import tool
from paddock.errors import ToolFailed

LETTERS, GUESSES = 5, 6
_SHUFFLE_SEED = 5
_TENTHS = ("test", "validation", *("train",) * 8)  # of all answers, in a shuffled order
_IN_BRACKETS = re.compile(r"\[\s*([A-Za-z]+)\s*\]")
_PROMPT = f"""\
Wordle: find the secret word of {LETTERS} letters in {GUESSES} guesses. Guess with the tool, or say the word in square
brackets, as [crane]. Each guess is marked letter by letter: G is right and in its place, Y is in the word but
elsewhere, - is not in the word (or not once more)."""


class Solved(Rubric):
    """1 in the step that finds the word."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        return 1.0 if observation.info.get("solved") else 0.0


class Quickness(Rubric):
    """1 for the word at the first guess, less for each further guess, 0 if it is not found."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        if not observation.info.get("solved"):
            return 0.0
        return 1.0 - (int(observation.info["guesses"]) - 1) / GUESSES


class Game(Rubric):
    """Finding the word is worth 0.8, and up to 0.2 more for few guesses."""

    def __init__(self) -> None:
        super().__init__()
        self.solved, self.quickness = Solved(), Quickness()

    def forward(self, action: Any, observation: GradedObservation) -> float:
        solved, quickness = self.solved(action, observation), self.quickness(action, observation)
        assert isinstance(solved, float)
        assert isinstance(quickness, float)  # neither waits for anything
        return 0.8 * solved + 0.2 * quickness


# ── The words: the choice is our own ──


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Everyday words, without plurals and past forms: an answer should be a word that a player would think of.
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

# Words that a player may well try, but that would be odd answers.
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

_ALLOWED = frozenset((*ANSWERS, *ALSO_ALLOWED))


def answers_of(split: str) -> list[str]:
    """Return the answers of a split; no word is in two splits."""
    shuffled = np.random.default_rng(_SHUFFLE_SEED).permutation(len(ANSWERS))
    return [ANSWERS[place] for at, place in enumerate(shuffled) if _TENTHS[at % len(_TENTHS)] == split]


def _tasks(split: str) -> list[Task]:
    return [Task(prompt=_PROMPT, seed=at, hidden={"answer": word}) for at, word in enumerate(answers_of(split))]


class Wordle(ToolEnv):
    """Wordle: find a secret word of five letters in six guesses."""

    tasks = Tasks(train=_tasks("train"), validation=_tasks("validation"), test=_tasks("test"))
    rubric = Game()

    def begin(self, task: Task) -> None:
        self._answer: str = task.hidden["answer"]
        self._rows: list[str] = []

    def listen(self, text: str) -> str:
        found = _IN_BRACKETS.findall(text)
        if not found and not text.strip().isalpha():
            raise ToolFailed("No guess: say the word in square brackets, as [crane].")
        return self._guess(found[-1] if found else text)

    @tool
    def guess(self, word: str) -> str:
        """Guess the word; every guess so far comes back with its marks.

        Args:
            word: five letters, a common English word.
        """
        return self._guess(word)

    def _guess(self, word: str) -> str:
        word = word.strip().lower()
        if word not in _ALLOWED:
            raise ToolFailed(f"{word[:20]!r} is no word of {LETTERS} letters that is known here. It costs no guess.")
        self._rows.append(f"{word.upper()} {format_marks(mark_guess(word, self._answer))}")
        solved, used = word == self._answer, len(self._rows)
        self.info.update(solved=solved, guesses=used)
        if solved:
            outcome = f"Solved in {used}."
        elif used == GUESSES:
            outcome = f"The word was {self._answer.upper()}."
        else:
            outcome = f"{GUESSES - used} left."
        if solved or used == GUESSES:
            self.finish()
        return "\n".join([*self._rows, outcome])


Mark: TypeAlias = Literal["green", "yellow", "grey"]
_SIGNS: dict[Mark, str] = {"green": "G", "yellow": "Y", "grey": "-"}


def mark_guess(guess: str, answer: str) -> list[Mark]:
    """Mark each letter of the guess: green in its place, yellow elsewhere in the word, grey not in it.

    Each letter of the answer is spent once: the second E of GEESE is grey if the answer has one E that the first took.

    >>> mark_guess("geese", "crane")
    ['grey', 'grey', 'grey', 'grey', 'green']
    """
    marks: list[Mark] = ["green" if one == other else "grey" for one, other in zip(guess, answer, strict=True)]
    left = Counter(other for one, other in zip(guess, answer, strict=True) if one != other)
    for at, letter in enumerate(guess):
        if marks[at] != "green" and left[letter]:
            left[letter] -= 1
            marks[at] = "yellow"
    return marks


def format_marks(marks: list[Mark]) -> str:
    """Write marks as text, one sign per letter: ``G``, ``Y`` or ``-``."""
    return "".join(_SIGNS[one] for one in marks)
