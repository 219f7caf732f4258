//! Names for a jail: its questions go to the nameservers of the host. No datagram leaves the jail
//! itself.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StandardSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::{OutsideNetwork, Pace};
use crate::handed_descriptors::{HandedKind, hand_over};

/// Where a jail finds names (RFC 1035, 4.2).
const PORT: u16 = 53;
/// Questions of one jail that wait for their answers; more get none, as where the net is slow.
const QUESTIONS_MAX: usize = 64;
/// Questions of one jail in a second; above that they wait.
const QUESTIONS_A_SECOND: u32 = 200;
/// Connections of one jail for names.
const CONNECTIONS_MAX: usize = 8;
/// One question has one name of at most 255 bytes, and few bytes besides.
const QUESTION_BYTES_MAX: usize = 1_232;
/// What a datagram with an answer may have.
const ANSWER_BYTES_MAX: usize = 4_096;
/// As long as the common resolvers wait for a nameserver.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Nameservers that are asked, one after the other (resolv.conf(5), `MAXNS`).
const NAMESERVERS_MAX: usize = 3;
const HEAD_BYTES: usize = 12;
/// `AXFR` and `IXFR` (RFC 5936, RFC 1995): all names of the host's network at once.
const TRANSFERS: [u16; 2] = [252, 251];

/// Listens inside the jail, in its network, and hands the sockets to the server.
pub fn hand_over_names(socket: BorrowedFd<'_>) -> io::Result<()> {
    let datagrams = StandardSocket::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let handed = [datagrams.as_fd(), listener.as_fd()];
    hand_over(socket, HandedKind::Names, &handed)
}

/// Answers the questions of one jail.
pub struct JailNames {
    datagrams: Arc<UdpSocket>,
    listener: TcpListener,
    network: Arc<OutsideNetwork>,
}

impl JailNames {
    pub fn new(handed: [OwnedFd; 2], network: Arc<OutsideNetwork>) -> io::Result<JailNames> {
        let [datagrams, listener] = handed;
        let datagrams = StandardSocket::from(datagrams);
        datagrams.set_nonblocking(true)?;
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(JailNames {
            datagrams: Arc::new(UdpSocket::from_std(datagrams)?),
            listener: TcpListener::from_std(listener)?,
            network,
        })
    }

    /// Answers for as long as the jail lives: the caller drops this with it.
    pub async fn serve(self) -> io::Result<()> {
        tokio::try_join!(self.serve_datagrams(), self.serve_connections())?;
        Ok(())
    }

    async fn serve_datagrams(&self) -> io::Result<()> {
        let mut questions = JoinSet::new();
        let mut pace = Pace::new(QUESTIONS_A_SECOND);
        let mut buffer = vec![0; QUESTION_BYTES_MAX + 1];
        loop {
            let (count, from) = self.datagrams.recv_from(&mut buffer).await?;
            pace.step().await;
            while questions.try_join_next().is_some() {}
            let question = &buffer[..count];
            if questions.len() >= QUESTIONS_MAX || !is_question(question) {
                continue;
            }
            let (question, network) = (question.to_vec(), self.network.clone());
            let datagrams = self.datagrams.clone();
            questions.spawn(async move {
                let answer = first_answer(&network, &question, ask_by_datagram).await;
                // Who asked may have gone away.
                let _ = datagrams.send_to(&answer, from).await;
            });
        }
    }

    async fn serve_connections(&self) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let accepted = self.listener.accept().await;
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = accepted else {
                // One that was closed before, or a host without descriptors.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            if connections.len() >= CONNECTIONS_MAX {
                continue;
            }
            let network = self.network.clone();
            let served = async move { serve_connection(stream, &network).await };
            connections.spawn(tokio::time::timeout(CONNECTION_MAX, served));
        }
    }
}

async fn serve_connection(mut stream: TcpStream, network: &OutsideNetwork) -> io::Result<()> {
    let mut pace = Pace::new(QUESTIONS_A_SECOND);
    loop {
        let length = stream.read_u16().await?.into();
        if length > QUESTION_BYTES_MAX {
            return Ok(());
        }
        let mut question = vec![0; length];
        stream.read_exact(&mut question).await?;
        if !is_question(&question) {
            return Ok(());
        }
        pace.step().await;
        let answer = first_answer(network, &question, ask_by_connection).await;
        stream.write_u16(answer.len() as u16).await?;
        stream.write_all(&answer).await?;
    }
}

/// What the first nameserver says that answers; else that the names cannot be found now.
async fn first_answer<A: Future<Output = io::Result<Vec<u8>>>>(
    network: &OutsideNetwork,
    question: &[u8],
    ask: impl Fn(SocketAddr, Vec<u8>) -> A,
) -> Vec<u8> {
    for nameserver in network.nameservers().into_iter().take(NAMESERVERS_MAX) {
        let answer = tokio::time::timeout(ANSWER_MAX, ask(nameserver, question.to_vec())).await;
        if let Ok(Ok(answer)) = answer {
            return answer;
        }
    }
    failed(question)
}

async fn ask_by_datagram(nameserver: SocketAddr, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let any: IpAddr = match nameserver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A port of its own for each question, and answers of this nameserver alone.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(nameserver).await?;
    socket.send(&question).await?;
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    loop {
        let count = socket.recv(&mut answer).await?;
        if is_answer(&answer[..count], &question) {
            answer.truncate(count);
            return Ok(answer);
        }
    }
}

async fn ask_by_connection(nameserver: SocketAddr, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(nameserver).await?;
    stream.write_u16(question.len() as u16).await?;
    stream.write_all(&question).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    if !is_answer(&answer, &question) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(answer)
}

/// Whether a message asks for one name, and for nothing that changes the nameserver or lists it.
fn is_question(message: &[u8]) -> bool {
    let [_, _, flags, _, 0, 1, 0, 0, 0, 0, 0, _, rest @ ..] = message else {
        return false;
    };
    // A question, of the kind `QUERY` (RFC 1035, 4.1.1).
    if message.len() > QUESTION_BYTES_MAX || flags & 0b1111_1000 != 0 {
        return false;
    }
    let mut rest = rest;
    loop {
        match rest {
            [0, high, low, _, _, ..] => {
                return !TRANSFERS.contains(&u16::from_be_bytes([*high, *low]));
            }
            [length @ 1..=63, after @ ..] if after.len() > usize::from(*length) => {
                rest = &after[usize::from(*length)..];
            }
            _ => return false,
        }
    }
}

fn is_answer(message: &[u8], question: &[u8]) -> bool {
    message.len() >= HEAD_BYTES && message[..2] == question[..2] && message[2] & 0x80 != 0
}

/// The question as an answer that says `SERVFAIL`.
fn failed(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    if let [_, _, flags, more, ..] = answer.as_mut_slice() {
        *flags |= 0x80;
        *more = 0x82;
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: u8) -> Vec<u8> {
        let mut message = vec![
            7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 2, b'b', b'c', 0,
        ];
        message.extend([0, kind, 0, 1]);
        message
    }

    #[test]
    fn questions_for_one_name_alone_are_passed_on() {
        assert!(is_question(&question(1)));
        assert!(is_question(&question(28)));
        assert!(
            !is_question(&question(252)) && !is_question(&question(251)),
            "transfers"
        );
        let changed = |at: usize, byte: u8| {
            let mut message = question(1);
            message[at] = byte;
            message
        };
        for (at, byte) in [
            (2, 0x81),
            (2, 0x28),
            (5, 2),
            (4, 1),
            (7, 1),
            (9, 1),
            (12, 64),
        ] {
            assert!(!is_question(&changed(at, byte)), "{at} {byte}");
        }
        let whole = question(1);
        for length in 0..whole.len() {
            assert!(!is_question(&whole[..length]), "{length} bytes");
        }
        let mut long = whole.clone();
        long.resize(QUESTION_BYTES_MAX + 1, 0);
        assert!(!is_question(&long));
    }

    #[test]
    fn answers_are_those_of_their_question() {
        let original = question(1);
        assert!(!is_answer(&original, &original));
        let failed = failed(&original);
        assert!(is_answer(&failed, &original));
        assert_eq!(failed[3] & 0xf, 2);
        assert!(!is_answer(&failed[..11], &original) && !is_answer(&[], &original));
        let mut other = failed.clone();
        other[0] ^= 1;
        assert!(!is_answer(&other, &original));
    }
}
