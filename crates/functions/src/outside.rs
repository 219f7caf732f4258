//! The network `outside` of a jail: public addresses over TCP, and names.
//!
//! The jail has a network of its own with nothing in it but a loopback. What leaves it is connected
//! here, after a look at its address.

pub mod address_law;
mod broker;
mod names;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::handed_descriptors::{HandedKind, hand_over, take_over};
use crate::jail::notification;
use address_law::{AddressRange, JAIL_ADDRESS};
use broker::Broker;
use names::JailNames;

/// Where hosts say which nameservers they ask (resolv.conf(5)).
const NAMESERVERS: &str = "/etc/resolv.conf";
const NAMES_PORT: u16 = 53;

/// What functions with a network may reach beside public addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutsideNetwork {
    /// Addresses that are not public, or the host's own.
    pub allow: Vec<AddressRange>,
    /// Who is asked for names; where there are none, those that the host asks.
    pub nameservers: Vec<SocketAddr>,
}

impl OutsideNetwork {
    fn nameservers(&self) -> Vec<SocketAddr> {
        if !self.nameservers.is_empty() {
            return self.nameservers.clone();
        }
        // It changes as hosts move from net to net.
        listed(&fs::read_to_string(NAMESERVERS).unwrap_or_default())
    }
}

fn listed(text: &str) -> Vec<SocketAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next());
        address.flatten()?.parse::<IpAddr>().ok()
    });
    lines
        .map(|address| SocketAddr::new(address, NAMES_PORT))
        .collect()
}

/// Makes the ways out of a jail's network, before any of its code runs. Call it in that network.
pub fn hand_over_ways(socket: BorrowedFd<'_>) -> io::Result<()> {
    notification::add_loopback_address(JAIL_ADDRESS)?;
    names::hand_over_names(socket)
}

/// Hands over the connects of this process and its children from now on.
pub fn hand_over_connects(socket: BorrowedFd<'_>) -> io::Result<()> {
    let connects = notification::hand_over_connects()?;
    hand_over(socket, HandedKind::Connects, &[connects.as_fd()])
}

/// The ways out of one jail.
pub struct WaysOut {
    broker: Broker,
    names: JailNames,
}

impl WaysOut {
    /// Takes over what the launcher hands over; `None` when it has ended before. Addresses that
    /// are refused go to `refused`.
    pub async fn take_over(
        socket: &UnixStream,
        network: Arc<OutsideNetwork>,
        refused: mpsc::Sender<SocketAddr>,
    ) -> io::Result<Option<WaysOut>> {
        let Some(names) = take_over::<2>(socket, HandedKind::Names).await? else {
            return Ok(None);
        };
        let Some([connects]) = take_over::<1>(socket, HandedKind::Connects).await? else {
            return Ok(None);
        };
        let broker = Broker::new((connects, &names[0]), network.clone(), refused)?;
        let names = JailNames::new(names, network)?;
        Ok(Some(WaysOut { broker, names }))
    }

    /// Serves for as long as the jail lives: the caller drops this with it. Where one way fails the
    /// other stays.
    pub async fn serve(self) {
        let (connects, names) = tokio::join!(self.broker.serve(), self.names.serve());
        // Both are of a jail that has ended, or of a host without descriptors.
        drop((connects, names));
    }
}

/// Lets so many steps be taken in a second.
pub(crate) struct Pace {
    a_second: u32,
    begun: Instant,
    taken: u32,
}

impl Pace {
    pub(crate) fn new(a_second: u32) -> Pace {
        Pace {
            a_second,
            begun: Instant::now(),
            taken: 0,
        }
    }

    pub(crate) async fn step(&mut self) {
        let second = Duration::from_secs(1);
        if self.taken >= self.a_second {
            tokio::time::sleep_until((self.begun + second).into()).await;
        }
        if self.begun.elapsed() >= second {
            (self.begun, self.taken) = (Instant::now(), 0);
        }
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameservers_are_those_that_the_host_lists() {
        let text = "# a comment\nsearch x\nnameserver 10.0.0.1\nnameserver fd00::1 # two\n\
                    nameserver\nnameserver fe80::1%eth0\nnameservers 1.1.1.1\n";
        let found: Vec<String> = listed(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:53", "[fd00::1]:53"]);
    }
}
