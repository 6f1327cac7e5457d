"""The words of the synthetic world: genres, occupations, tags, and plausible film titles."""

import re

import numpy as np
import numpy.typing as npt

GENRES = (
    "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip

# in how many films of a thousand each is; drama and comedy lead, as in MovieLens
GENRE_SHARES = (120, 80, 45, 60, 280, 70, 40, 380, 40, 15, 90, 35, 40, 160, 75, 145, 40, 20)

OCCUPATIONS = (
    "academic", "artist", "clerk", "craftsman", "customer service", "doctor", "engineer", "executive",
    "farmer", "homemaker", "lawyer", "other", "programmer", "pupil", "retired", "sales", "scientist",
    "self-employed", "student", "unemployed", "writer",
)  # fmt: skip

TAGS = (
    "atmospheric", "based on a book", "beautiful", "black comedy", "boring", "car chase", "cheesy", "classic",
    "cliche", "clever", "coming of age", "conspiracy", "cult film", "dark", "dialogue", "disturbing",
    "dreamlike", "dry humour", "dystopia", "emotional", "ensemble cast", "epic", "family", "fast paced",
    "feel-good", "friendship", "funny", "futuristic", "gory", "great acting", "great ending",
    "great soundtrack", "heartwarming", "heist", "historical", "imaginative", "independent", "inspiring",
    "ironic", "journey", "long", "low budget", "magic", "martial arts", "melancholy", "memory", "minimalist",
    "moody", "motivation", "music", "nostalgic", "nonlinear", "oscar winner", "overrated", "parody",
    "philosophical", "plot twist", "poetic", "political", "predictable", "prison", "psychological", "quirky",
    "realistic", "rebellion", "remake", "revenge", "road trip", "robots", "satire", "scary", "sea",
    "sentimental", "sequel", "serial killer", "silly", "slapstick", "slow", "small town", "snow", "space",
    "spies", "sport", "strong heroine", "stylised", "superhero", "surreal", "survival", "suspense", "sweet",
    "teenagers", "tense", "thought-provoking", "time travel", "tragedy", "true story", "twisted",
    "underrated", "violent", "visually stunning", "weird", "whimsical", "witty", "wedding", "wilderness",
)  # fmt: skip

_ADJECTIVES = (
    "Amber", "Bitter", "Black", "Blue", "Bright", "Broken", "Burning", "Crimson", "Crooked", "Dark",
    "Distant", "Electric", "Empty", "Endless", "Fallen", "False", "Final", "Forgotten", "Frozen", "Gentle",
    "Golden", "Green", "Hidden", "Hollow", "Hungry", "Invisible", "Iron", "Last", "Little", "Lonely", "Long",
    "Lost", "Midnight", "Narrow", "Northern", "Old", "Open", "Pale", "Paper", "Perfect", "Quiet", "Restless",
    "Sacred", "Scarlet", "Second", "Secret", "Silent", "Silver", "Sleeping", "Small", "Southern", "Stolen",
    "Strange", "Sudden", "Sunken", "Sweet", "Tender", "Third", "Twisted", "Velvet", "White", "Wicked", "Wild",
    "Winter",
)  # fmt: skip

_NOUNS = (
    "Affair", "Alibi", "Angel", "Apartment", "Bargain", "Bell", "Bird", "Bride", "Bridge", "Brother",
    "Candle", "Captain", "Carnival", "Castle", "Choir", "Circus", "City", "Clock", "Coast", "Code", "Company",
    "Crown", "Dance", "Daughter", "Desert", "Detective", "Door", "Dream", "Echo", "Empire", "Engine",
    "Evening", "Fire", "Forest", "Fortune", "Garden", "Ghost", "Guest", "Harbour", "Heart", "Heir", "Highway",
    "Honeymoon", "Horizon", "Hotel", "House", "Hunter", "Island", "Journey", "Kingdom", "Kiss", "Lantern",
    "Letter", "Lighthouse", "Machine", "Mask", "Memory", "Mirror", "Monster", "Moon", "Mountain", "Night",
    "Ocean", "Orchard", "Outlaw", "Painter", "Passenger", "Pilot", "Planet", "Poet", "Prisoner", "Promise",
    "Queen", "Railway", "Rebel", "Rider", "River", "Road", "Room", "Rose", "Sailor", "Season", "Secret",
    "Sentence", "Shadow", "Signal", "Sister", "Soldier", "Song", "Station", "Stranger", "Summer", "Teacher",
    "Thief", "Tiger", "Tower", "Train", "Treasure", "Verdict", "Village", "Voyage", "Waltz", "Wedding",
    "Widow", "Window", "Witness", "Wolf",
)  # fmt: skip

_PLACES = (
    "Alderley", "Avalon", "Babylon", "Bellmore", "Brookhaven", "Cairo", "Calder", "Carthage", "Copper",
    "Creek", "Damascus", "Dover", "Eastwick", "Elsinore", "Fairview", "Galveston", "Greystone", "Havana",
    "Istanbul", "Jericho", "Kilmore", "Lisbon", "Lorne", "Marseille", "Montrose", "Naples", "Oakdale",
    "Odessa", "Persia", "Ravenna", "Rosewood", "Saigon", "Samarkand", "Santiago", "Seville", "Shiloh",
    "Tangier", "Trieste", "Utopia", "Valparaiso", "Verona", "Vienna", "Westport", "Yukon", "Zanzibar",
)  # fmt: skip

_FIRST_NAMES = (
    "Ada", "Agnes", "Albert", "Alice", "Anna", "Arthur", "Beatrice", "Ben", "Carla", "Charlie", "Clara",
    "Daniel", "Dora", "Edith", "Elena", "Emil", "Eva", "Felix", "Frank", "Frida", "George", "Grace", "Hanna",
    "Harry", "Helen", "Hugo", "Ida", "Igor", "Irene", "Jack", "Jonas", "Julia", "Karl", "Laura", "Leo",
    "Lily", "Louis", "Lucy", "Marta", "Max", "Nina", "Nora", "Oscar", "Otto", "Paula", "Peter", "Rita",
    "Robert", "Rosa", "Ruth", "Sam", "Sofia", "Stella", "Theo", "Vera", "Victor", "Walter",
)  # fmt: skip

_PATTERNS = (
    "The {adjective} {noun}",
    "The {noun}",
    "{adjective} {noun}",
    "The {noun} of {place}",
    "{name} and the {noun}",
    "{name}'s {adjective} {noun}",
    "Return to {place}",
    "A {noun} in {place}",
    "{noun} and {second}",
    "The {noun} and the {second}",
    "Goodbye, {name}",
    "Once Upon a {noun}",
    "The {noun} from {place}",
    "The {adjective} {noun} of {name} {place}",
)
_NUMERALS = ("", " II", " III", " IV", " V", " VI")
_ARTICLE = re.compile(r"\b([Aa]) (?=[AEIOU])")  # "a" before a vowel


def make_titles(years: npt.NDArray[np.int16], rng: np.random.Generator) -> tuple[str, ...]:
    """One title a film, each with its year behind it as in `The Silent Harbour (1994)`, and no two alike.

    A title that is taken becomes a sequel, and a series that is at its end is called something else.
    """
    words = (_ADJECTIVES, _NOUNS, _NOUNS, _PLACES, _FIRST_NAMES)
    made: list[str] = []
    taken: dict[str, int] = {}
    while len(made) < len(years):
        picks = [rng.integers(len(choices), size=len(years)) for choices in words]
        patterns = rng.integers(len(_PATTERNS), size=len(years))
        for pattern, *drawn in zip(patterns.tolist(), *(pick.tolist() for pick in picks), strict=True):
            adjective, noun, second, place, name = (choices[index] for choices, index in zip(words, drawn, strict=True))
            title = _PATTERNS[pattern].format(adjective=adjective, noun=noun, second=second, place=place, name=name)
            title = _ARTICLE.sub(r"\1n ", title)
            part = taken.get(title, 0)
            if part == len(_NUMERALS):
                continue
            taken[title] = part + 1
            made.append(f"{title}{_NUMERALS[part]} ({years[len(made)]})")
            if len(made) == len(years):
                break
    return tuple(made)
