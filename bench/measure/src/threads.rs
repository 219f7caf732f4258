//! Clients that work at the same time.

use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow};

/// What a client came to.
///
/// # Errors
/// When it has panicked.
pub fn joined<T>(client: ScopedJoinHandle<'_, T>) -> Result<T> {
    client.join().map_err(|_| anyhow!("a client has panicked"))
}

/// What all of them came to, each on a thread of its own.
///
/// # Errors
/// Those of the clients, and when one has panicked.
pub fn together<T: Send, C>(clients: impl IntoIterator<Item = C>) -> Result<Vec<T>>
where
    C: FnOnce() -> Result<T> + Send,
{
    thread::scope(|scope| {
        let clients = clients.into_iter().map(|client| scope.spawn(client));
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| joined(client)?).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn clients_run_at_once_and_their_results_keep_their_order() {
        let all_run = Barrier::new(3);
        let client = |number: usize| {
            let all_run = &all_run;
            move || {
                all_run.wait();
                Ok(number)
            }
        };
        assert_eq!(together((0..3).map(client)).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn client_that_fails_or_panics_is_an_error() {
        let client = |number: usize| move || -> Result<()> { Err(anyhow!("client {number}")) };
        let error = together([client(1)]).unwrap_err().to_string();
        assert_eq!(error, "client 1");
        let panics = || -> Result<()> { panic!("on purpose") };
        let error = together([panics]).unwrap_err().to_string();
        assert_eq!(error, "a client has panicked");
    }
}
