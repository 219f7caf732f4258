//! Connects the sockets of a jail, each after a look at where it leads.
//!
//! The kernel hands each `connect` of a jail over and lets its thread wait. All that is looked at
//! is copied first, so that another thread of the jail cannot change it afterwards, and no call
//! goes on by itself. A socket that has connected to a public address is of the host's network. It
//! takes the place of the jail's own, and the other fences keep it from being anything else than
//! connected: no listening, no fast open, and connecting it again comes here.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::address_law::{ConnectDestination, is_listed, judge};
use super::{OutsideNetwork, Pace};
use crate::jail::notification::{self, HandedCall};

/// Calls of one jail that wait for their answers. It has fewer threads.
const CALLS_MAX: usize = 128;
/// Calls of one jail in a second; above that they wait.
const CALLS_A_SECOND: u32 = 500;
/// A connection that is not made by then has failed.
const CONNECT_MAX: Duration = Duration::from_mins(1);
/// The longest address that is looked at, of IPv6.
const ADDRESS_BYTES: usize = 28;
/// What the kernel takes as an address (`struct sockaddr_storage`).
const ADDRESS_BYTES_MAX: u64 = 128;

/// What connects the sockets of one jail.
pub struct Broker {
    listener: AsyncFd<OwnedFd>,
    /// The network of the jail.
    home: u64,
    network: Arc<OutsideNetwork>,
    /// Addresses that were refused.
    refused: mpsc::Sender<SocketAddr>,
}

impl Broker {
    /// `listener` is what hands calls over, `at_home` a socket of the jail's network.
    pub fn new(
        (listener, at_home): (OwnedFd, impl AsFd),
        network: Arc<OutsideNetwork>,
        refused: mpsc::Sender<SocketAddr>,
    ) -> io::Result<Broker> {
        let home = notification::network_of(at_home.as_fd()).map_err(|error| {
            let needed = "the kernel does not say which network a socket is of (SO_NETNS_COOKIE, \
                          Linux 5.14)";
            io::Error::new(error.kind(), format!("{needed}: {error}"))
        })?;
        Ok(Broker {
            listener: notification::watch(listener, Interest::READABLE)?,
            home,
            network,
            refused,
        })
    }

    /// Answers until no process of the jail is left. The caller drops this with the process.
    pub async fn serve(self) -> io::Result<()> {
        let broker = Arc::new(self);
        let mut calls = JoinSet::new();
        let mut pace = Pace::new(CALLS_A_SECOND);
        loop {
            let mut ready = broker.listener.readable().await?;
            let Some(call) = broker.next()? else {
                ready.clear_ready();
                continue;
            };
            drop(ready);
            pace.step().await;
            while calls.try_join_next().is_some() {}
            if calls.len() >= CALLS_MAX {
                calls.join_next().await;
            }
            let broker = broker.clone();
            calls.spawn(async move {
                let answer = broker.decide(&call).await;
                let error = answer.err().map_or(0, Errno::raw_os_error);
                // A thread that was interrupted has gone away.
                let _ = notification::answer(broker.listener.as_fd(), &call, error);
            });
        }
    }

    /// The next call, if one waits now.
    fn next(&self) -> io::Result<Option<HandedCall>> {
        let listener = self.listener.as_fd();
        let mut looked = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut looked, Some(&Timespec::default()))?;
        let found = looked[0].revents();
        if found.contains(PollFlags::IN) {
            // A thread may have ended just now.
            return match notification::receive(listener) {
                Err(error) if is_over(&error) => Ok(None),
                received => received.map(Some),
            };
        }
        if found.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(None)
    }

    async fn decide(&self, call: &HandedCall) -> Result<(), Errno> {
        let request = ConnectRequest::look(call)?;
        let listener = self.listener.as_fd();
        if !notification::stands(listener, call) {
            return Err(Errno::INTR);
        }
        let socket = &request.socket;
        let family = sockopt::socket_domain(socket)?;
        if family != AddressFamily::INET && family != AddressFamily::INET6 {
            return Err(Errno::ACCESS);
        }
        let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
        let is_at_home = notification::network_of(socket.as_fd()).is_ok_and(|of| of == self.home);
        let Some(address) = request.address else {
            // Dissolves what a datagram socket is connected to, as resolvers do.
            let dissolve = || rustix::net::connect_unspec(socket);
            return if is_at_home {
                dissolve()
            } else {
                Err(Errno::ACCESS)
            };
        };
        let destination = match judge(address.ip(), &self.network.allow) {
            ConnectDestination::Outside if is_stream && self.is_own(address.ip()) => {
                ConnectDestination::Refused
            }
            judged => judged,
        };
        match destination {
            // Datagrams have nowhere else to go.
            _ if is_at_home && !is_stream => rustix::net::connect(socket, &address),
            ConnectDestination::Jail if is_at_home => connect(socket, address).await,
            ConnectDestination::Outside if is_stream => {
                if !is_at_home {
                    need_free(socket)?;
                }
                self.connect_outside(call, &request, (family, address))
                    .await
            }
            _ => {
                let _ = self.refused.send(address).await;
                Err(Errno::ACCESS)
            }
        }
    }

    /// Whether the address is one of this host, at which it may have services of its own. Nothing
    /// is sent: the kernel says by which address it would.
    fn is_own(&self, address: IpAddr) -> bool {
        if is_listed(address, &self.network.allow) {
            return false;
        }
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = || {
            let socket = UdpSocket::bind((any, 0))?;
            // Any port: nothing is sent.
            socket.connect((address, 9))?;
            socket.local_addr()
        };
        // Without a way there no connection comes about either.
        from().is_ok_and(|from| from.ip().to_canonical() == address.to_canonical())
    }

    async fn connect_outside(
        &self,
        call: &HandedCall,
        request: &ConnectRequest,
        (family, address): (AddressFamily, SocketAddr),
    ) -> Result<(), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socket_with(family, SocketType::STREAM, flags, None)?;
        request.copy_options(&made)?;
        let begun = rustix::net::connect(&made, &address);
        let put = |made: &OwnedFd| {
            let place = (request.number, request.closes_on_exec);
            let put = notification::replace(self.listener.as_fd(), call, place, made.as_fd());
            put.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::BADF))
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) if request.waits_not => {
                put(&made)?;
                begun
            }
            Ok(()) | Err(Errno::INPROGRESS) => {
                connected(&made).await?;
                fcntl_setfl(&made, fcntl_getfl(&made)? - OFlags::NONBLOCK)?;
                put(&made)
            }
            Err(error) => Err(error),
        }
    }
}

fn is_over(error: &io::Error) -> bool {
    let over = [Errno::NOENT, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| over.contains(&error))
}

/// Connects a socket of the jail within its network. Whether it is one that waits stays as it was.
async fn connect(socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    let flags = fcntl_getfl(socket)?;
    fcntl_setfl(socket, flags | OFlags::NONBLOCK)?;
    let begun = rustix::net::connect(socket, &address);
    fcntl_setfl(socket, flags)?;
    match begun {
        Err(Errno::INPROGRESS) if !flags.contains(OFlags::NONBLOCK) => connected(socket).await,
        begun => begun,
    }
}

/// Waits until a connection is made.
async fn connected(socket: &OwnedFd) -> Result<(), Errno> {
    let wait = async {
        let watched = notification::watch(socket.try_clone()?, Interest::WRITABLE)?;
        watched.writable().await.map(|_| ())
    };
    let waited = tokio::time::timeout(CONNECT_MAX, wait).await;
    let waited = waited.map_err(|_| Errno::TIMEDOUT)?;
    waited.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    sockopt::socket_error(socket)?
}

/// A socket that was put into the jail before may be connected again only when it is not.
fn need_free(socket: &OwnedFd) -> Result<(), Errno> {
    if rustix::net::getpeername(socket).is_ok() {
        return Err(Errno::ISCONN);
    }
    let mut looked = [PollFd::new(socket, PollFlags::OUT)];
    poll(&mut looked, Some(&Timespec::default()))?;
    if looked[0].revents().is_empty() {
        return Err(Errno::ALREADY);
    }
    sockopt::socket_error(socket)?
}

/// What a call of `connect` asks for.
struct ConnectRequest {
    /// The caller's own, shared with it.
    socket: OwnedFd,
    number: u32,
    closes_on_exec: bool,
    /// Whether it does not wait for its connections.
    waits_not: bool,
    /// `None` for none: `AF_UNSPEC`.
    address: Option<SocketAddr>,
}

impl ConnectRequest {
    /// The thread is of a group, which has the descriptors.
    fn look(call: &HandedCall) -> Result<ConnectRequest, Errno> {
        let [number, at, length, ..] = call.arguments;
        // The kernel takes it as 32 bits.
        let number = number as u32;
        let place = format!("/proc/{}", call.thread);
        let status = std::fs::read_to_string(format!("{place}/status")).unwrap_or_default();
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let group = group.and_then(|group| group.trim().parse().ok());
        let group = group.and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let group = pidfd_open(group, PidfdFlags::empty())?;
        let socket = pidfd_getfd(&group, number.cast_signed(), PidfdGetfdFlags::empty())?;
        let about = format!("{place}/fdinfo/{number}");
        let flags = std::fs::read_to_string(about).unwrap_or_default();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        let flags = OFlags::from_bits_retain(flags.unwrap_or_default());
        if !(2..=ADDRESS_BYTES_MAX).contains(&length) {
            return Err(Errno::INVAL);
        }
        let mut bytes = [0; ADDRESS_BYTES];
        let read = &mut bytes[..ADDRESS_BYTES.min(length as usize)];
        let memory = File::open(format!("{place}/mem")).map_err(|_| Errno::ACCESS)?;
        memory.read_exact_at(read, at).map_err(|_| Errno::FAULT)?;
        Ok(ConnectRequest {
            address: parse(read)?,
            waits_not: fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK),
            closes_on_exec: flags.contains(OFlags::CLOEXEC),
            socket,
            number,
        })
    }

    /// What callers set before they connect.
    fn copy_options(&self, made: &OwnedFd) -> Result<(), Errno> {
        use sockopt::Timeout;
        sockopt::set_tcp_nodelay(made, sockopt::tcp_nodelay(&self.socket)?)?;
        sockopt::set_socket_keepalive(made, sockopt::socket_keepalive(&self.socket)?)?;
        for which in [Timeout::Recv, Timeout::Send] {
            let timeout = sockopt::socket_timeout(&self.socket, which)?;
            sockopt::set_socket_timeout(made, which, timeout)?;
        }
        Ok(())
    }
}

/// An address as ip(7) and ipv6(7) lay it out.
fn parse(bytes: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    let family = bytes.first_chunk::<2>().ok_or(Errno::INVAL)?;
    let family = AddressFamily::from_raw(u16::from_ne_bytes(*family));
    let port = || {
        let port = bytes.get(2..4).and_then(<[u8]>::first_chunk::<2>);
        port.map(|port| u16::from_be_bytes(*port))
            .ok_or(Errno::INVAL)
    };
    let address: IpAddr = match family {
        AddressFamily::UNSPEC => return Ok(None),
        AddressFamily::INET if bytes.len() >= 16 => {
            let address = bytes.get(4..8).and_then(<[u8]>::first_chunk::<4>);
            (*address.ok_or(Errno::INVAL)?).into()
        }
        AddressFamily::INET6 if bytes.len() >= 24 => {
            let address = bytes.get(8..24).and_then(<[u8]>::first_chunk::<16>);
            (*address.ok_or(Errno::INVAL)?).into()
        }
        AddressFamily::INET | AddressFamily::INET6 => return Err(Errno::INVAL),
        // A path is another one here than in the jail.
        _ => return Err(Errno::ACCESS),
    };
    Ok(Some(SocketAddr::new(address, port()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_sockets_are_read_within_their_bytes() {
        let mut four = [0_u8; 16];
        four[..2].copy_from_slice(&2_u16.to_ne_bytes());
        four[2..8].copy_from_slice(&[1, 187, 10, 0, 0, 1]);
        let parsed = parse(&four).unwrap().unwrap();
        assert_eq!(parsed, "10.0.0.1:443".parse().unwrap());
        let mut six = [0_u8; ADDRESS_BYTES];
        six[..2].copy_from_slice(&10_u16.to_ne_bytes());
        six[23] = 1;
        let parsed = parse(&six).unwrap().unwrap();
        assert_eq!(parsed, "[::1]:0".parse().unwrap());
        assert_eq!(parse(&[0, 0]).unwrap(), None);
        for (bytes, error) in [
            (&four[..15], Errno::INVAL),
            (&six[..23], Errno::INVAL),
            (&four[..1], Errno::INVAL),
            (&[1, 0, b'/', b'x'][..], Errno::ACCESS),
        ] {
            assert_eq!(parse(bytes), Err(error), "{bytes:?}");
        }
    }
}
