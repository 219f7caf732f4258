//! Clients that ask again and again, and keep what they saw.

use std::time::{Duration, Instant};

use measure::connection::{Access, Connection};

/// After a broken connection, before the next attempt: a server that is gone must not turn the
/// client into a loop that takes a core.
const PAUSE: Duration = Duration::from_millis(10);

/// What a client saw of one kind of request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// From the first byte sent to the last one received, in nanoseconds, of answers 2xx.
    pub samples_ns: Vec<u64>,
    /// Answers 503.
    pub refused: u64,
    /// Other answers that were no success, and connections that broke.
    pub errors: u64,
    /// The first of either, in words.
    pub first_error: Option<String>,
}

/// Makes the bytes of the request with this number.
pub type Requests<'a> = &'a mut dyn FnMut(u64) -> Vec<u8>;

/// A client with one connection, which it opens again when it breaks.
pub struct Client<'a> {
    access: &'a Access,
    patience: Duration,
    connection: Option<Connection>,
}

impl<'a> Client<'a> {
    /// A client that waits for an answer for at most `patience`.
    pub fn new(access: &'a Access, patience: Duration) -> Client<'a> {
        Client {
            access,
            patience,
            connection: None,
        }
    }

    /// Asks as long as it may, one request of each kind in turns; what it saw, by kind.
    pub fn ask_while(&mut self, may: impl Fn() -> bool, kinds: &mut [Requests<'_>]) -> Vec<Seen> {
        let mut seen = vec![Seen::default(); kinds.len()];
        let mut number = 0;
        while may() {
            for (requests, seen) in kinds.iter_mut().zip(&mut seen) {
                let request = requests(number);
                self.ask(&request, seen);
            }
            number += 1;
        }
        seen
    }

    fn ask(&mut self, request: &[u8], seen: &mut Seen) {
        let start = Instant::now();
        match self.status(request) {
            Ok((status, _)) if (200..300).contains(&status) => {
                seen.samples_ns.push(start.elapsed().as_nanos() as u64);
            }
            Ok((status, words)) => seen.refuse(status, &words),
            Err(error) => {
                self.connection = None;
                seen.fail(format!("{error:#}"));
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// The status, and the words of a refusal.
    fn status(&mut self, request: &[u8]) -> anyhow::Result<(u16, String)> {
        if self.connection.is_none() {
            let connection = Connection::open(self.access.address)?;
            connection.wait_at_most(self.patience)?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().expect("it was just opened");
        let answer = connection.ask(request)?;
        let words = match answer.status {
            200..300 => String::new(),
            _ => String::from_utf8_lossy(answer.body).into_owned(),
        };
        Ok((answer.status, words))
    }
}

impl Seen {
    fn refuse(&mut self, status: u16, words: &str) {
        if status == 503 {
            self.refused += 1;
            let first = || format!("status 503: {words}");
            self.first_error.get_or_insert_with(first);
        } else {
            self.fail(format!("status {status}: {words}"));
        }
    }

    fn fail(&mut self, words: String) {
        self.errors += 1;
        self.first_error.get_or_insert(words);
    }

    /// Everything that was no success.
    pub fn failures(&self) -> u64 {
        self.refused + self.errors
    }
}

/// A condition that holds for so long from now.
pub fn for_ms(ms: u64) -> impl Fn() -> bool {
    let until = Instant::now() + Duration::from_millis(ms);
    move || Instant::now() < until
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers each connection's requests with these statuses, then closes it.
    fn serve(connections: Vec<Vec<u16>>) -> Access {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for statuses in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for status in statuses {
                    let mut room = [0; 64];
                    assert!(stream.read(&mut room).unwrap() > 0);
                    let answer = format!("HTTP/1.1 {status} S\r\ncontent-length: 1\r\n\r\n!");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        Access::new(address, "", "")
    }

    /// Holds so many times.
    fn times(count: u32) -> impl Fn() -> bool {
        let left = Cell::new(count);
        move || {
            let now = left.get();
            left.set(now.saturating_sub(1));
            now > 0
        }
    }

    #[test]
    fn successes_refusals_and_errors_are_told_apart() {
        let access = serve(vec![vec![200, 503, 404, 201]]);
        let mut client = Client::new(&access, Duration::from_secs(5));
        let mut numbers = Vec::new();
        let mut requests = |number| {
            numbers.push(number);
            b"x".to_vec()
        };
        let seen = client.ask_while(times(4), &mut [&mut requests]);
        let seen = &seen[0];
        assert_eq!(
            (seen.samples_ns.len(), seen.refused, seen.errors),
            (2, 1, 1)
        );
        assert_eq!(seen.first_error.as_deref(), Some("status 503: !"));
        assert_eq!((seen.failures(), numbers), (2, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_broken_connection_is_an_error_and_is_opened_again() {
        let access = serve(vec![vec![200], vec![200]]);
        let mut client = Client::new(&access, Duration::from_secs(5));
        let mut requests = |_| b"x".to_vec();
        let seen = client.ask_while(times(3), &mut [&mut requests]);
        assert_eq!((seen[0].samples_ns.len(), seen[0].errors), (2, 1));
    }

    #[test]
    fn kinds_take_turns() {
        let access = serve(vec![vec![200, 503, 200, 503]]);
        let mut client = Client::new(&access, Duration::from_secs(5));
        let (mut first, mut second) = (|_| b"a".to_vec(), |_| b"b".to_vec());
        let seen = client.ask_while(times(2), &mut [&mut first, &mut second]);
        assert_eq!((seen[0].samples_ns.len(), seen[1].refused), (2, 2));
    }
}
