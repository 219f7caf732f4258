//! The API inside a jail: a socket that listens there and is accepted from here.
//!
//! The jail has a network of its own with nothing in it. Its launcher listens there before any
//! code of the user's runs, and hands the socket over the one that frames will go by. What
//! connects to it needs no relay and no address of the host.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StandardListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc;

use crate::handed_descriptors::{self, HandedKind};
use crate::outside::Pace;

/// Where functions find the API (wire protocol, isolation).
pub const API_PORT: u16 = 8280;
/// Connections of one jail in a second. They are accepted by the thread that all functions share.
const ACCEPTED_A_SECOND: u32 = 2_000;

/// A connection of a function to the API. What is said on it is hostile input.
#[derive(Debug)]
pub struct ApiConnection {
    /// The id of the deployment.
    pub deployment: Arc<str>,
    /// The connection.
    pub stream: TcpStream,
}

/// Listens inside the jail and hands the socket to the server. Call it in the jail's network.
pub fn hand_over(socket: BorrowedFd<'_>) -> io::Result<()> {
    let listener = StandardListener::bind((Ipv4Addr::LOCALHOST, API_PORT))?;
    handed_descriptors::hand_over(socket, HandedKind::Api, &[listener.as_fd()])
}

/// The socket that the launcher hands over; `None` when the process ended before.
pub async fn take_over(socket: &UnixStream) -> io::Result<Option<TcpListener>> {
    let handed = handed_descriptors::take_over::<1>(socket, HandedKind::Api).await?;
    handed.map(|[handed]| listener(handed)).transpose()
}

fn listener(handed: OwnedFd) -> io::Result<TcpListener> {
    let listener = StandardListener::from(handed);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts for as long as the process lives: the caller drops this with it. While `connections` is
/// full, and above a pace, connections wait in the jail.
pub async fn accept_all(
    listener: TcpListener,
    deployment: Arc<str>,
    connections: mpsc::Sender<ApiConnection>,
) {
    let mut pace = Pace::new(ACCEPTED_A_SECOND);
    loop {
        pace.step().await;
        let accepted = match listener.accept().await {
            Ok((stream, _)) => stream.into_std(),
            Err(error) => Err(error),
        };
        let Ok(stream) = accepted else {
            // One that was closed before it was accepted, or a host without descriptors.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let deployment = Arc::clone(&deployment);
        let connection = ApiConnection { deployment, stream };
        if connections.send(connection).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn connections_of_a_jail_are_accepted_no_faster_than_they_may_be() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (sender, mut accepted) = mpsc::channel(1);
        let begun = Instant::now();
        let count = runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(accept_all(listener, "f".into(), sender));
            for count in 0..3 * u64::from(ACCEPTED_A_SECOND) {
                let _client = TcpStream::connect(address).unwrap();
                // Until it waits for the next second.
                let next = tokio::time::timeout(Duration::from_millis(50), accepted.recv());
                if next.await.is_err() {
                    return count;
                }
            }
            u64::MAX
        });
        let seconds = begun.elapsed().as_secs() + 1;
        let is_slow = count == u64::MAX && seconds > 3;
        let most = seconds * u64::from(ACCEPTED_A_SECOND);
        assert!(is_slow || count <= most, "{count} in {seconds} s");
        assert!(count > 0);
    }
}
