//! Whether a jail can be made on this host, and whether it can have a network.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StandardStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::{JailLevel, JailSetup, next_user};
use crate::outside::{OutsideNetwork, WaysOut};
use crate::probe::{PROBE_MAX, print_of};

/// What the launcher is started with inside a jail, in place of a setup, for [`try_outside`].
pub const CONNECT: &str = "connect";
/// A private address, which is refused before anything is sent.
const REFUSED: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 255, 255, 1), 9));
/// A bound that does not count: the launcher's allocator reserves more than a function may have.
const NO_BOUND_MIB: u32 = 1 << 20;

fn trial(level: JailLevel, program: PathBuf, arguments: &[&str]) -> JailSetup {
    JailSetup {
        level,
        user: next_user(),
        code: "/usr".into(),
        is_writable: false,
        cache: None,
        adapter: program.clone(),
        folders: Vec::new(),
        program,
        arguments: arguments.iter().map(ToString::to_string).collect(),
        memory_mib: 64,
        has_api: false,
        reaches_outside: false,
        has_starts: false,
        group: None,
    }
}

/// Makes a jail of this level and ends it again. `launcher` is a program as
/// [`crate::FunctionIsolation::Jail`] names it.
///
/// # Errors
/// What the launcher says: the step that failed, and why.
pub fn try_jail(launcher: &Path, level: JailLevel) -> Result<(), String> {
    let shell = fs::canonicalize("/bin/sh").unwrap_or_else(|_| PathBuf::from("/bin/sh"));
    let setup = trial(level, shell, &["-c", ":"]);
    print_of(launcher, &["jail".to_owned(), setup.to_argument()]).map(|_| ())
}

/// Makes a jail with the network `outside`, and lets a program in it connect to an address that is
/// refused: all that a connection takes is tried, but for the connection. Blocks.
///
/// # Errors
/// What is missing.
pub fn try_outside(launcher: &Path) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let tried =
        runtime.block_on(async { tokio::time::timeout(PROBE_MAX, connect(launcher)).await });
    tried.map_err(|_| format!("no answer within {PROBE_MAX:?}"))?
}

async fn connect(launcher: &Path) -> Result<(), String> {
    let (refused, mut addresses) = mpsc::channel(1);
    let output = output_of_jail(launcher, refused).await;
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let said = said.trim_end().trim_end_matches('.');
        return Err(format!("{said} ({})", output.status));
    }
    // The program cannot tell by whom it was refused.
    addresses
        .try_recv()
        .map(|_| ())
        .map_err(|_| "the memory of a process in a jail cannot be read".to_owned())
}

async fn output_of_jail(launcher: &Path, refused: mpsc::Sender<SocketAddr>) -> io::Result<Output> {
    let (ours, theirs) = StandardStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    let mut setup = trial(
        JailLevel::Full,
        fs::canonicalize(launcher)?,
        &["jail", CONNECT],
    );
    (setup.memory_mib, setup.reaches_outside) = (NO_BOUND_MIB, true);
    let mut command = Command::new(launcher);
    command.arg("jail").arg(setup.to_argument());
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.kill_on_drop(true).spawn()?;
    // Else the other end of the socket stays open here.
    drop(command);
    let ways = WaysOut::take_over(&ours, Arc::<OutsideNetwork>::default(), refused).await?;
    let serve = async {
        if let Some(ways) = ways {
            ways.serve().await;
        }
        // What there is to say the launcher says at its end.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        output = child.wait_with_output() => output,
        () = serve => unreachable!("it waits for ever"),
    }
}

/// What the launcher does inside the jail of [`try_outside`]: its exit code.
pub fn connect_inside() -> u8 {
    match TcpStream::connect(REFUSED) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return 0,
        Err(error) => eprintln!("a connection from a jail is answered with: {error}"),
        Ok(_) => eprintln!("a connection to {REFUSED} was not refused"),
    }
    1
}
