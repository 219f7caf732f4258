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

/// Where functions find the API (wire protocol, isolation).
pub const API_PORT: u16 = 8280;
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
/// full, connections wait in the jail.
pub async fn accept_all(
    listener: TcpListener,
    deployment: Arc<str>,
    connections: mpsc::Sender<ApiConnection>,
) {
    loop {
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
