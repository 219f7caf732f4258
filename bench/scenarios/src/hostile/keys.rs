//! What is to go on undisturbed: reads of single rows and single writes by an API key, at a fixed
//! rate. Each is due at its instant and counted from there, so that one that stands still is felt
//! by all behind it. A thread that sends nothing measures how late this machine wakes a client:
//! no request can be faster than that, whatever the server does.

use std::thread;
use std::time::{Duration, Instant};

use measure::connection::{Access, Connection};
use measure::draw::Draw;
use measure::early_end::EarlyEnd;

use super::scene::{OPEN, row_id, rows_route};
use crate::run::Sample;

/// Clients of each of the two.
pub const CLIENTS: u32 = 2;
/// Requests a second of one client.
pub const READS_PER_S: f64 = 100.0;
pub const WRITES_PER_S: f64 = 25.0;
const WAKINGS_PER_S: f64 = 200.0;

/// What is done by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One row is read by its id.
    Read,
    /// One column of one row is changed.
    Write,
    /// Nothing is sent: how late a sleeping thread wakes.
    Wake,
}

/// What the clients of all acts saw in one slice.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Reads, then writes.
    pub served: [Served; 2],
    /// How late sleeping threads woke.
    pub woken: Served,
}

/// What the clients of one act saw in one slice.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Those that were answered with success.
    pub samples: Vec<Sample>,
    /// What else came, in words.
    pub refused: Vec<String>,
    /// The length of the slice.
    pub wall: Duration,
}

impl Served {
    /// Adds another slice behind this one.
    pub fn add(&mut self, other: &Served) {
        let begun = self.wall;
        let samples = other.samples.iter().map(|sample| sample.behind(begun));
        self.samples.extend(samples);
        self.refused.extend(other.refused.iter().cloned());
        self.wall += other.wall;
    }
}

/// How long the load goes on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Requests are due for so long.
    pub lasting: Duration,
    /// So long after that, and for any answer, a client waits.
    pub patience: Duration,
}

/// Reads, writes and sleeps at once.
pub fn serve(access: &Access, stop: &EarlyEnd, span: Span, (rows, seed): (u32, u64)) -> Load {
    let origin = Instant::now();
    let mut acts = thread::scope(|scope| {
        let begin = |act: Act| {
            let clients = (0..CLIENTS).map(|number| {
                let draw = Draw(seed ^ u64::from(number) << 8 ^ act as u64);
                scope.spawn(move || client((access, stop), act, (origin, span), (rows, draw)))
            });
            clients.collect::<Vec<_>>()
        };
        [Act::Read, Act::Write, Act::Wake]
            .map(begin)
            .map(|clients| {
                let mut all = Served::default();
                for client in clients {
                    // A panic is a fault of this program and goes on.
                    let one = client
                        .join()
                        .unwrap_or_else(|why| std::panic::resume_unwind(why));
                    all.samples.extend(one.samples);
                    all.refused.extend(one.refused);
                }
                all.samples.sort_by_key(|sample| sample.ended);
                all
            })
    });
    for act in &mut acts {
        act.wall = origin.elapsed();
    }
    let [reads, writes, woken] = acts;
    Load {
        served: [reads, writes],
        woken,
    }
}

fn client(
    (access, stop): (&Access, &EarlyEnd),
    act: Act,
    (origin, span): (Instant, Span),
    (rows, mut draw): (u32, Draw),
) -> Served {
    let per_s = match act {
        Act::Read => READS_PER_S,
        Act::Write => WRITES_PER_S,
        Act::Wake => WAKINGS_PER_S,
    };
    let mut served = Served::default();
    let mut connection = None;
    for nth in 0.. {
        let due = Duration::from_secs_f64(f64::from(nth) / per_s);
        if due >= span.lasting || stop.check().is_err() {
            break;
        }
        thread::sleep((origin + due).saturating_duration_since(Instant::now()));
        let request = request(access, act, rows, &mut draw);
        let answered = request.map_or(Ok(()), |request| {
            ask(&mut connection, access, span.patience, &request)
        });
        match answered {
            Ok(()) => {
                let ended = origin.elapsed();
                served.samples.push(Sample {
                    ended,
                    took: ended.saturating_sub(due),
                });
            }
            Err(error) => {
                served.refused.push(format!("{error:#}"));
                connection = None;
            }
        }
        if origin.elapsed() > span.lasting + span.patience {
            served.refused.push("the rest was given up".to_owned());
            break;
        }
    }
    served
}

fn request(access: &Access, act: Act, rows: u32, draw: &mut Draw) -> Option<Vec<u8>> {
    let row = format!(
        "{}/{}",
        rows_route(OPEN),
        row_id(draw.below(u64::from(rows)) as u32)
    );
    match act {
        Act::Read => Some(access.request("GET", &row, "")),
        Act::Write => {
            let body = format!("{{\"data\":{{\"m\":{}}}}}", draw.below(1 << 30));
            Some(access.request("PATCH", &row, &body))
        }
        Act::Wake => None,
    }
}

fn ask(
    connection: &mut Option<Connection>,
    access: &Access,
    patience: Duration,
    request: &[u8],
) -> anyhow::Result<()> {
    if connection.is_none() {
        let opened = Connection::open(access.address)?;
        opened.wait_at_most(patience)?;
        *connection = Some(opened);
    }
    if let Some(connection) = connection {
        connection.accepted(request)?;
    }
    Ok(())
}
