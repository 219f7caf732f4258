// The product catalog as a pure function of the row index. CATALOG.md is the definition; the Rust
// twin in the server's `seed catalog` follows the same page, and both are held to its digests.

export const CATEGORIES = [
  'electronics',
  'home',
  'garden',
  'sports',
  'toys',
  'books',
  'beauty',
  'automotive',
];

const NOUNS = {
  electronics: [
    'Headphones', 'Speaker', 'Keyboard', 'Monitor',
    'Router', 'Webcam', 'Charger', 'Tablet',
  ],
  home: [
    'Lamp', 'Kettle', 'Blanket', 'Bookshelf',
    'Mirror', 'Clock', 'Pillow', 'Toaster',
  ],
  garden: [
    'Trowel', 'Planter', 'Hose', 'Lantern',
    'Rake', 'Bench', 'Pruner', 'Barrow',
  ],
  sports: [
    'Racket', 'Helmet', 'Dumbbell', 'Jersey',
    'Paddle', 'Skipping Rope', 'Mat', 'Bottle',
  ],
  toys: [
    'Puzzle', 'Kite', 'Train Set', 'Robot',
    'Board Game', 'Yo-yo', 'Doll House', 'Drum',
  ],
  books: [
    'Atlas', 'Cookbook', 'Novel', 'Field Guide',
    'Notebook', 'Biography', 'Dictionary', 'Anthology',
  ],
  beauty: [
    'Soap', 'Brush', 'Lotion', 'Comb',
    'Perfume', 'Balm', 'Scrub', 'Razor',
  ],
  automotive: [
    'Wiper', 'Floor Mat', 'Jump Starter', 'Tyre Gauge',
    'Roof Box', 'Seat Cover', 'Wax', 'Dashcam',
  ],
};

export const BRANDS = [
  'Alderway', 'Brightmoor', 'Calder', 'Dunmere', 'Eastvale', 'Fernhill', 'Greywick', 'Harrowgate',
  'Inverley', 'Juniper', 'Kestrel', 'Lindholm', 'Marlow', 'Northam', 'Orchard', 'Pemberton',
];

const ADJECTIVES = [
  'Compact', 'Classic', 'Modern', 'Rugged', 'Quiet', 'Portable', 'Foldable', 'Premium',
  'Everyday', 'Slim', 'Heavy-Duty', 'Wireless', 'Natural', 'Handmade', 'Lightweight', 'Deluxe',
];

const OPENINGS = [
  'Built for daily use, it',
  'After two years of trials, this model',
  'With fewer moving parts, it',
  'In small rooms and large ones, it',
  'Made in short runs, it',
  'Out of the box, it',
  'Compared with last year\'s model, it',
  'Even after long storage, it',
];

const CLAIMS = [
  'keeps its shape and colour',
  'needs no tools to set up',
  'weighs less than it looks',
  'works as well outdoors as at home',
  'can be taken apart and repaired',
  'holds up to rain, dust and heat',
  'takes little room on the shelf',
  'comes with every part it needs',
];

const ENDINGS = [
  'for years at a time',
  'without a second thought',
  'and is covered for three years',
  'whatever the season',
  'in the hands of beginners and experts',
  'at a price that is easy to justify',
  'and spare parts stay in stock',
  'from the first day on',
];

const MAILBOXES = ['sales', 'support', 'orders', 'hello', 'service', 'returns', 'press', 'trade'];

const TAGS = [
  'new', 'sale', 'bestseller', 'eco', 'gift', 'limited', 'imported', 'local',
  'refurbished', 'bundle', 'clearance', 'seasonal', 'award', 'bulk', 'vegan', 'warranty',
];

/** No product is released after this instant: 2026-01-01T00:00:00Z in milliseconds. */
export const RELEASED_BEFORE_MS = Date.UTC(2026, 0, 1);

/** Four years of 365 days, in seconds: the span `releasedAt` is drawn from. */
export const RELEASED_SPAN_S = 4 * 365 * 86_400;

/** The fifteen user columns in the order of CATALOG.md. */
export const COLUMN_KEYS = [
  'name', 'description', 'sku', 'category', 'brand', 'price', 'stock', 'rating', 'reviewCount',
  'manufacturerEmail', 'manufacturerUrl', 'releasedAt', 'warehouseIp', 'tags', 'inStock',
];

/**
 * The draws of one row: mulberry32 whose state starts at a multiple of the row number, so that
 * neighbouring rows share no visible pattern.
 */
export function draws(index) {
  let state = Math.imul(index + 1, 0x9e3779b1) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  return { next, below: (bound) => next() % bound };
}

function sentence(below) {
  const opening = OPENINGS[below(OPENINGS.length)];
  const claim = CLAIMS[below(CLAIMS.length)];
  const ending = ENDINGS[below(ENDINGS.length)];
  return `${opening} ${claim} ${ending}.`;
}

function description(below) {
  const count = 3 + below(3);
  // All five sentences are drawn even when three are kept: the draws after them stay in place.
  const sentences = Array.from({ length: 5 }, () => sentence(below));
  return sentences.slice(0, count).join(' ');
}

function tags(below) {
  const count = below(5);
  const picked = [below(TAGS.length)];
  // Three steps of at most 5 stay within 15 places, so the four tags are distinct.
  for (let step = 0; step < 3; step += 1) {
    picked.push((picked[step] + 1 + below(5)) % TAGS.length);
  }
  return picked.slice(0, count).map((tag) => TAGS[tag]);
}

/** A datetime as the wire writes it: UTC, milliseconds, explicit offset. */
function wireDatetime(ms) {
  return new Date(ms).toISOString().replace('Z', '+00:00');
}

/** The id of row `index`: `product-00000`, `product-00001`, … */
export function rowId(index) {
  return `product-${String(index).padStart(5, '0')}`;
}

/** Row `index` of the catalog: `$id` and the fifteen columns, in the order of `COLUMN_KEYS`. */
export function productRow(index) {
  const { below } = draws(index);
  const category = CATEGORIES[below(CATEGORIES.length)];
  const brand = BRANDS[below(BRANDS.length)];
  const adjective = ADJECTIVES[below(ADJECTIVES.length)];
  const noun = NOUNS[category][below(8)];
  const model = 100 + below(900);
  const paragraph = description(below);
  const lot = 1000 + below(9000);
  const priceCents = 500 + below(49_501);
  const stock = below(501);
  const ratingTenths = 20 + below(31);
  const reviewCount = below(8001);
  const mailbox = MAILBOXES[below(MAILBOXES.length)];
  const releasedMs = RELEASED_BEFORE_MS - below(RELEASED_SPAN_S) * 1000;
  const warehouseIp = `10.${below(256)}.${below(256)}.${1 + below(254)}`;
  const tagList = tags(below);

  const sku = `${category.slice(0, 3).toUpperCase()}-${lot}-${String(index).padStart(5, '0')}`;
  const host = `${brand.toLowerCase()}.example.com`;
  return {
    $id: rowId(index),
    name: `${brand} ${adjective} ${noun} ${model}`,
    description: paragraph,
    sku,
    category,
    brand,
    price: priceCents / 100,
    stock,
    rating: ratingTenths / 10,
    reviewCount,
    manufacturerEmail: `${mailbox}@${host}`,
    manufacturerUrl: `https://www.${host}/${category}/${sku.toLowerCase()}`,
    releasedAt: wireDatetime(releasedMs),
    warehouseIp,
    tags: tagList,
    inStock: stock > 0,
  };
}

/** The first `rowCount` rows, in insertion order. */
export function catalog(rowCount) {
  return Array.from({ length: rowCount }, (_, index) => productRow(index));
}
