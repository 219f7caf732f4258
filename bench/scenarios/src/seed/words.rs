//! The word lists of the catalog, as `bench/ttl/CATALOG.md` gives them. Their order is part of
//! the definition.

/// Categories; the position also picks the list of [`NOUNS`].
pub const CATEGORIES: [&str; 8] = [
    "electronics",
    "home",
    "garden",
    "sports",
    "toys",
    "books",
    "beauty",
    "automotive",
];

/// Brands.
pub const BRANDS: [&str; 16] = [
    "Alderway",
    "Brightmoor",
    "Calder",
    "Dunmere",
    "Eastvale",
    "Fernhill",
    "Greywick",
    "Harrowgate",
    "Inverley",
    "Juniper",
    "Kestrel",
    "Lindholm",
    "Marlow",
    "Northam",
    "Orchard",
    "Pemberton",
];

/// Adjectives.
pub const ADJECTIVES: [&str; 16] = [
    "Compact",
    "Classic",
    "Modern",
    "Rugged",
    "Quiet",
    "Portable",
    "Foldable",
    "Premium",
    "Everyday",
    "Slim",
    "Heavy-Duty",
    "Wireless",
    "Natural",
    "Handmade",
    "Lightweight",
    "Deluxe",
];

/// Nouns, one list for each of [`CATEGORIES`].
pub const NOUNS: [[&str; 8]; 8] = [
    [
        "Headphones",
        "Speaker",
        "Keyboard",
        "Monitor",
        "Router",
        "Webcam",
        "Charger",
        "Tablet",
    ],
    [
        "Lamp",
        "Kettle",
        "Blanket",
        "Bookshelf",
        "Mirror",
        "Clock",
        "Pillow",
        "Toaster",
    ],
    [
        "Trowel", "Planter", "Hose", "Lantern", "Rake", "Bench", "Pruner", "Barrow",
    ],
    [
        "Racket",
        "Helmet",
        "Dumbbell",
        "Jersey",
        "Paddle",
        "Skipping Rope",
        "Mat",
        "Bottle",
    ],
    [
        "Puzzle",
        "Kite",
        "Train Set",
        "Robot",
        "Board Game",
        "Yo-yo",
        "Doll House",
        "Drum",
    ],
    [
        "Atlas",
        "Cookbook",
        "Novel",
        "Field Guide",
        "Notebook",
        "Biography",
        "Dictionary",
        "Anthology",
    ],
    [
        "Soap", "Brush", "Lotion", "Comb", "Perfume", "Balm", "Scrub", "Razor",
    ],
    [
        "Wiper",
        "Floor Mat",
        "Jump Starter",
        "Tyre Gauge",
        "Roof Box",
        "Seat Cover",
        "Wax",
        "Dashcam",
    ],
];

/// Local parts of e-mail addresses.
pub const MAILBOXES: [&str; 8] = [
    "sales", "support", "orders", "hello", "service", "returns", "press", "trade",
];

/// Tags.
pub const TAGS: [&str; 16] = [
    "new",
    "sale",
    "bestseller",
    "eco",
    "gift",
    "limited",
    "imported",
    "local",
    "refurbished",
    "bundle",
    "clearance",
    "seasonal",
    "award",
    "bulk",
    "vegan",
    "warranty",
];

/// How a sentence begins.
pub const OPENINGS: [&str; 8] = [
    "Built for daily use, it",
    "After two years of trials, this model",
    "With fewer moving parts, it",
    "In small rooms and large ones, it",
    "Made in short runs, it",
    "Out of the box, it",
    "Compared with last year's model, it",
    "Even after long storage, it",
];

/// What a sentence says.
pub const CLAIMS: [&str; 8] = [
    "keeps its shape and colour",
    "needs no tools to set up",
    "weighs less than it looks",
    "works as well outdoors as at home",
    "can be taken apart and repaired",
    "holds up to rain, dust and heat",
    "takes little room on the shelf",
    "comes with every part it needs",
];

/// How a sentence ends.
pub const ENDINGS: [&str; 8] = [
    "for years at a time",
    "without a second thought",
    "and is covered for three years",
    "whatever the season",
    "in the hands of beginners and experts",
    "at a price that is easy to justify",
    "and spare parts stay in stock",
    "from the first day on",
];
