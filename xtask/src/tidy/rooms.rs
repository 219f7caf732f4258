//! The table of who may import whom. A new room gets its row here, on purpose and by hand.

/// One crate of the workspace.
pub struct Room {
    pub name: &'static str,
    pub kind: Kind,
    /// Rooms of ours it may import; tests inside the crate keep to them too.
    pub ours: &'static [&'static str],
    /// Outside crates it may import.
    pub outside: Outside,
    /// How many outside crates it may name, those of its tests not counted.
    pub outside_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Opens no file, starts no thread, reads no clock, draws no random number.
    Pure,
    /// Reaches the world, or leads those that do.
    Active,
    /// Stands beside the product: builds, tests or measures it. No room may import it.
    Beside,
}

pub enum Outside {
    /// These and no others.
    Only(&'static [&'static str]),
    /// Whatever is not reserved for another room.
    Unreserved,
}

/// What the tests of several crates need. Tests of any crate may import it, and no product code.
const TESTING: [&str; 2] = ["testing", "testing-postgres"];

/// Every room there is.
pub const ROOMS: [Room; 23] = [
    Room {
        name: "model",
        kind: Kind::Pure,
        ours: &[],
        outside: Outside::Only(&[]),
        outside_max: 0,
    },
    Room {
        name: "cache",
        kind: Kind::Pure,
        ours: &[],
        // Hashing, eviction, and an index whose caller compares.
        outside: Outside::Only(&["hashbrown", "quick_cache", "twox-hash"]),
        outside_max: 3,
    },
    Room {
        name: "tiers",
        kind: Kind::Active,
        ours: &[],
        // Random seeds, compression, checksums, locks that belong to an open file, and Redis.
        outside: Outside::Only(&[
            "getrandom",
            "lz4_flex",
            "nix",
            "redis",
            // Connections by TLS, and the authorities that the system believes.
            "rustls",
            "rustls-native-certs",
            "twox-hash",
        ]),
        outside_max: 7,
    },
    Room {
        name: "php-codec",
        kind: Kind::Pure,
        ours: &[],
        outside: Outside::Only(&[]),
        outside_max: 0,
    },
    Room {
        name: "tidemark-cache",
        kind: Kind::Active,
        ours: &["cache", "tiers"],
        // The binding to CPython and what tells its builds apart, two calls of the C library, and
        // the digest of a call in tiers, in the crate that their TLS brings.
        outside: Outside::Only(&["libc", "pyo3", "pyo3-build-config", "ring"]),
        outside_max: 4,
    },
    Room {
        name: "tidemark-php",
        kind: Kind::Active,
        ours: &["php-codec", "tiers"],
        // Forks are counted by the C library, and a part in C uses the macros of PHP.
        outside: Outside::Only(&["libc", "cc"]),
        outside_max: 2,
    },
    Room {
        name: "query",
        kind: Kind::Pure,
        ours: &["model"],
        // Query texts are JSON, and may hold regular expressions.
        outside: Outside::Only(&[
            "regex-automata",
            "regex-syntax",
            "serde",
            "serde_json",
            "sonic-rs",
        ]),
        outside_max: 4,
    },
    Room {
        name: "list-cache",
        kind: Kind::Pure,
        ours: &["model", "query", "cache"],
        outside: Outside::Only(&[]),
        outside_max: 0,
    },
    Room {
        name: "store",
        kind: Kind::Active,
        ours: &["model", "query"],
        outside: Outside::Only(&[
            // The two drivers, and what the second one needs: sockets, TLS, and authorities.
            "rusqlite",
            "tokio-postgres",
            "tokio",
            "tokio-rustls",
            "rustls-native-certs",
            // Answers of the threads for long reads.
            "futures-channel",
            // Rows of the second database as they arrive, so that a large answer ends early.
            "futures-util",
            // Encrypted columns.
            "ring",
            // What a thread has used of the processor, and its priority.
            "rustix",
            // Lists and the catalogue are stored as JSON.
            "serde_json",
            // A row that is due and does not fit: nobody asked, so only a log can say it.
            "tracing",
        ]),
        outside_max: 11,
    },
    Room {
        name: "engine",
        kind: Kind::Active,
        ours: &["model", "query", "list-cache", "store"],
        outside: Outside::Only(&[
            // Schedules of functions.
            "croner",
            "futures-channel",
            "futures-executor",
            "thiserror",
        ]),
        outside_max: 4,
    },
    Room {
        name: "functions",
        kind: Kind::Active,
        ours: &[],
        outside: Outside::Only(&[
            // Bodies, shared with the caller.
            "bytes",
            // Processes, mounts, limits; and what only the second has: a fork, numbers of calls.
            "rustix",
            "libc",
            // Archives of deployments.
            "flate2",
            "tar",
            // Which files of a folder git leaves out.
            "ignore",
            // What shuts processes in.
            "landlock",
            "seccompiler",
            // Heads of requests and responses, and the manifests of runtimes.
            "serde_json",
            "toml",
            // Sockets, pipes and children of many processes on one thread.
            "tokio",
        ]),
        outside_max: 11,
    },
    Room {
        name: "client",
        kind: Kind::Active,
        ours: &[],
        outside: Outside::Unreserved,
        // HTTP, TLS, and whom the system believes.
        outside_max: 9,
    },
    Room {
        name: "server",
        kind: Kind::Active,
        ours: &["client", "engine", "functions", "model"],
        outside: Outside::Unreserved,
        // HTTP and TLS; watching took the rest: metrics, traces (three crates of OpenTelemetry,
        // and prost), and logs; comparing secrets one, the handshake of a WebSocket one, and
        // forms with files one.
        // The date of answers that are written below the HTTP library is one of these.
        outside_max: 25,
    },
    Room {
        name: "transfer",
        kind: Kind::Active,
        ours: &["client", "engine", "model", "server"],
        outside: Outside::Unreserved,
        // Exports are JSON and CSV; the rest asks a server, or a store as one would.
        outside_max: 12,
    },
    Room {
        name: "measure",
        kind: Kind::Active,
        ours: &["model"],
        outside: Outside::Only(&[
            "anyhow",
            // Where the socket of a database is, from its URL.
            "percent-encoding",
            // What tells one binary from another.
            "ring",
            // Cores, and signals to children.
            "rustix",
            "serde_json",
            "tempfile",
        ]),
        outside_max: 6,
    },
    Room {
        name: "scenarios",
        kind: Kind::Active,
        ours: &["client", "engine", "measure", "model", "server"],
        outside: Outside::Unreserved,
        // Reports and progress; a responder to measure beside.
        outside_max: 12,
    },
    Room {
        name: "tidemark",
        kind: Kind::Active,
        ours: &[
            "client",
            "engine",
            "functions",
            "measure",
            "model",
            "scenarios",
            "server",
            "transfer",
        ],
        outside: Outside::Unreserved,
        // The rims of the command line: the configuration file (TOML), a terminal, a log that
        // holds up nobody, HTTP for the admin socket, and a folder for as long as a command runs.
        outside_max: 20,
    },
    Room {
        name: "testing-postgres",
        kind: Kind::Beside,
        ours: &[],
        outside: Outside::Only(&["anyhow", "tempfile"]),
        outside_max: 2,
    },
    Room {
        name: "testing",
        kind: Kind::Beside,
        ours: &["model", "query", "store", "engine"],
        // Random histories, and the answers of a server.
        outside: Outside::Only(&["anyhow", "proptest", "serde_json"]),
        outside_max: 3,
    },
    Room {
        name: "harness",
        kind: Kind::Beside,
        ours: &[
            "client",
            "measure",
            "model",
            "query",
            "cache",
            "list-cache",
            "store",
            "engine",
            "scenarios",
            "server",
            "tidemark",
            "transfer",
        ],
        outside: Outside::Unreserved,
        outside_max: 8,
    },
    Room {
        name: "fuzz",
        kind: Kind::Beside,
        ours: &[
            "model",
            "query",
            "engine",
            "functions",
            "php-codec",
            "server",
            "tidemark",
            "tiers",
        ],
        outside: Outside::Unreserved,
        outside_max: 9,
    },
    Room {
        name: "tests",
        kind: Kind::Beside,
        ours: &[
            "client",
            "model",
            "query",
            "cache",
            "list-cache",
            "store",
            "engine",
            "scenarios",
            "server",
            "tidemark",
            "transfer",
        ],
        outside: Outside::Unreserved,
        outside_max: 20,
    },
    Room {
        name: "xtask",
        kind: Kind::Beside,
        ours: &[
            "client",
            "model",
            "query",
            "cache",
            "list-cache",
            "store",
            "engine",
            "scenarios",
            "server",
            "tidemark",
            "transfer",
        ],
        outside: Outside::Unreserved,
        outside_max: 6,
    },
];

/// The rooms that speak HTTP.
const HTTP: [&str; 5] = ["client", "scenarios", "server", "tidemark", "transfer"];

/// The rooms that speak TLS.
const TLS: [&str; 7] = [
    "client",
    "scenarios",
    "server",
    "store",
    "tidemark",
    "tiers",
    "transfer",
];

/// The rooms that wait for sockets, pipes and children.
const ASYNC: [&str; 7] = [
    "client",
    "functions",
    "scenarios",
    "server",
    "store",
    "tidemark",
    "transfer",
];

/// What those beside the product may import, too.
const BESIDE_TOO: [&[&str]; 3] = [&HTTP, &TLS, &ASYNC];

/// Outside crates that only these rooms may import, in their tests too. (Those beside the product
/// may speak HTTP, because they stand where a client does.)
const RESERVED: [(&[&str], &[&str]); 4] = [
    (
        // The tiers' own list lets their tests alone compare themselves with it.
        &["store", "tiers"],
        &["rusqlite", "libsqlite3-sys", "tokio-postgres"],
    ),
    (&HTTP, &["hyper", "hyper-util", "http-body-util"]),
    (&TLS, &["rustls", "tokio-rustls"]),
    (&ASYNC, &["tokio"]),
];

/// The room of this crate name.
pub fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// The rooms that alone may import this outside crate, where it is reserved.
pub fn reserved_for(dependency: &str) -> Option<&'static [&'static str]> {
    let found = RESERVED
        .iter()
        .find(|(_, dependencies)| dependencies.contains(&dependency));
    found.map(|(rooms, _)| *rooms)
}

/// The room that a file belongs to, by its path.
pub fn room_of(path: &str) -> Option<&'static Room> {
    let is_in = |room: &&Room| path.starts_with(&room.folder());
    ROOMS.iter().find(is_in)
}

impl Room {
    /// Where it stands, with a `/` at its end. What measures stands together in `bench/`, some of
    /// it in other languages.
    pub fn folder(&self) -> String {
        match self.name {
            "fuzz" | "tests" | "xtask" => format!("{}/", self.name),
            "harness" | "measure" | "scenarios" => format!("bench/{}/", self.name),
            name => format!("crates/{name}/"),
        }
    }

    /// Whether it is the server or stands above it: there the clock is read and values take the
    /// shapes of the wire, of files and of reports.
    pub fn is_rim(&self) -> bool {
        self.name == "server" || self.ours.contains(&"server")
    }

    /// Whether it may import `wanted` because that serves tests.
    pub fn may_test(&self, wanted: &str, in_tests: bool) -> bool {
        TESTING.contains(&wanted) && (in_tests || self.kind == Kind::Beside)
    }

    /// Why it may not import this outside crate; `None` when it may.
    pub fn refusal(&self, dependency: &str, in_tests: bool) -> Option<String> {
        match reserved_for(dependency) {
            Some(rooms) if self.kind == Kind::Beside && BESIDE_TOO.contains(&rooms) => {}
            Some(rooms) if !rooms.contains(&self.name) => {
                let rooms = rooms.join("`, `");
                return Some(format!("`{dependency}` is for `{rooms}` alone"));
            }
            _ => {}
        }
        match self.outside {
            Outside::Only(allowed) if !in_tests && !allowed.contains(&dependency) => {
                let shown = if allowed.is_empty() {
                    "nothing".into()
                } else {
                    allowed.join(", ")
                };
                Some(format!(
                    "`{}` may import {shown} from outside, not `{dependency}`",
                    self.name
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_never_turn_back() {
        for room in &ROOMS {
            for ours in room.ours {
                let below = super::room(ours).expect("a room imports rooms of the table only");
                assert!(!below.ours.contains(&room.name), "{} and {ours}", room.name);
                assert!(below.kind != Kind::Beside, "{} imports {ours}", room.name);
                assert!(
                    room.kind != Kind::Pure || below.kind == Kind::Pure,
                    "{}",
                    room.name
                );
            }
        }
    }

    #[test]
    fn a_file_belongs_to_the_room_of_its_folder() {
        let name = |path| room_of(path).map(|room| room.name);
        assert_eq!(name("crates/list-cache/src/key.rs"), Some("list-cache"));
        assert_eq!(name("tests/src/lib.rs"), Some("tests"));
        assert_eq!(name("bench/harness/src/wrk.rs"), Some("harness"));
        assert_eq!(name("bench/measure/build.rs"), Some("measure"));
        assert_eq!(name("bench/ttl/setup.js"), None);
        assert_eq!(name("crates/store/tests/conformance.rs"), Some("store"));
        assert_eq!(name("model/src/lib.rs"), None);
        assert_eq!(name("README.md"), None);
    }
}
