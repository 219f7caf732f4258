//! What a seed decides about a run before it begins.

use std::path::Path;

use engine::{Config, Durability, Engine, LongReads};
use model::{Past, TableOptions};
use query::Limits;

use super::chance::Chance;
use super::fixture;

/// Questions that are repeated.
const POOL: usize = 18;
/// The same where lists are evicted: more than are kept.
const POOL_OF_SMALL: usize = 110;
/// Keeps a few dozen lists of a few rows.
const SMALL_BYTES: u64 = 128 << 10;
/// Keeps a few lists, the heaviest of which takes a quarter of it.
const CRAMPED_BYTES: u64 = 8 << 10;
const CRAMPED_SHARE: u64 = 4;
/// Groups and watches beyond which lists are not watched one by one, in some runs.
const NARROW: usize = 2;

/// What happens in a step, and how often.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Arrive,
    Read,
    Write,
    Advance,
    Clock,
}

const PACE: [(usize, Move); 5] = [
    (36, Move::Arrive),
    (16, Move::Read),
    (10, Move::Write),
    (36, Move::Advance),
    (2, Move::Clock),
];
/// Where lists are evicted, little else may take them away.
const PACE_OF_SMALL: [(usize, Move); 5] = [
    (66, Move::Arrive),
    (16, Move::Read),
    (4, Move::Write),
    (13, Move::Advance),
    (1, Move::Clock),
];
/// Rows of a page that names no limit: fewer than tables have.
const PAGE_ROWS: u32 = 5;

pub const LIMITS: Limits = Limits {
    page_rows_default: PAGE_ROWS,
    page_rows_max: 5_000,
};

/// What a seed decides about a run before it begins.
pub struct Plan {
    pub total_cap: u64,
    pub kind: RunKind,
}

/// What is particular about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    Plain,
    /// Many rows are written at once.
    Large,
    /// So few lists are kept that most are evicted, and many are asked for.
    Small,
    /// So few lists are kept that each new one evicts others, also between two looks.
    Cramped,
    /// So few lists are watched that most stand beyond the bounds.
    Narrow,
    /// Tables are related.
    Related,
}

impl Plan {
    pub fn of(seed: u64, chance: &mut Chance) -> Plan {
        Plan {
            total_cap: chance.weighed(&[(2, 3), (2, 6), (1, 0), (2, 5_000)]),
            kind: RunKind::of(seed),
        }
    }

    pub fn config(&self, directory: &Path) -> Config {
        Config {
            durability: Durability::Normal,
            // Guests ask of other times, too.
            new_tables: TableOptions {
                past: Past::Now,
                ..TableOptions::default()
            },
            page_rows_default: LIMITS.page_rows_default,
            page_rows_max: LIMITS.page_rows_max,
            total_cap: self.total_cap,
            list_cache_bytes: match self.kind {
                RunKind::Small => SMALL_BYTES,
                RunKind::Cramped => CRAMPED_BYTES,
                _ => 8 << 20,
            },
            accept_clock: true,
            downtime_max_us: 90 * 24 * 3_600 * 1_000_000,
            // Every read stays on the thread that asks.
            long_reads: LongReads {
                after_us: 3_600_000_000,
                threads: 1,
                waiting_max: 1,
            },
            ..fixture::config(directory)
        }
    }
}

impl RunKind {
    fn of(seed: u64) -> RunKind {
        match seed % 25 {
            3 => RunKind::Large,
            1 | 6 | 11 | 16 | 21 => RunKind::Small,
            2 | 7 | 12 | 17 => RunKind::Narrow,
            4 | 14 | 24 => RunKind::Related,
            20 => RunKind::Cramped,
            _ => RunKind::Plain,
        }
    }

    /// How many questions are repeated.
    pub fn pool(self) -> usize {
        match self {
            RunKind::Small => POOL_OF_SMALL,
            _ => POOL,
        }
    }

    pub fn pace(self) -> [(usize, Move); 5] {
        match self {
            RunKind::Small => PACE_OF_SMALL,
            _ => PACE,
        }
    }

    /// Moves the bounds that some kinds have elsewhere.
    pub fn bound(self, engine: &Engine) {
        match self {
            RunKind::Narrow => engine.list_rules().limit_watches(NARROW),
            RunKind::Cramped => engine.list_rules().limit_entry_share(CRAMPED_SHARE),
            _ => {}
        }
    }
}

/// Whether lists are evicted in the runs of this seed.
pub fn evicts(seed: u64) -> bool {
    matches!(RunKind::of(seed), RunKind::Small | RunKind::Cramped)
}
