//! `tidemark top` in a terminal: it outlives its server, hears keys while none answers, and gives
//! the terminal back.

mod process;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Stdio};

use process::{Folder, tidemark};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testing::send_signal;

/// What is sent to a terminal to take its screen, and to give it back.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// `tidemark top` in a terminal of 80 by 24.
struct Watched {
    child: Child,
    terminal: File,
    shown: String,
}

impl Watched {
    fn start(folder: &Folder) -> Watched {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.to_bytes());
        let open = || File::options().read(true).write(true).open(path).unwrap();
        let mut command = tidemark("top --interval-ms 100 --data");
        command.arg(folder.data()).env("TERM", "xterm");
        command.stdin(open()).stdout(open()).stderr(Stdio::null());
        Watched {
            child: command.spawn().unwrap(),
            terminal: terminal.into(),
            shown: String::new(),
        }
    }

    /// Reads on until this is shown.
    fn read_until(&mut self, part: &str) {
        let mut bytes = [0; 4_096];
        while !self.shown.contains(part) {
            // A terminal whose other end is closed gives an error instead of an end.
            let count = self.terminal.read(&mut bytes).unwrap_or_default();
            assert!(count > 0, "ended without `{part}`:\n{}", self.shown);
            self.shown += &String::from_utf8_lossy(&bytes[..count]);
        }
        let at = self.shown.find(part).expect("it was found") + part.len();
        self.shown.drain(..at);
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn ends_well(mut self) {
        self.read_until(GIVEN_BACK);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_starts_again_is_watched_on() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let mut top = Watched::start(&folder);
    top.read_until(TAKEN);
    top.read_until("SLOWEST QUERIES");
    server.stop().unwrap();
    top.read_until("not answering for");
    let server = process::start(&folder);
    top.read_until("q ends");
    top.press("q");
    top.ends_well();
    server.stop().unwrap();
}

#[test]
fn a_server_that_hangs_does_not_keep_keys_from_being_heard() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let mut top = Watched::start(&folder);
    top.read_until("q ends");
    server.signal("STOP").unwrap();
    // Keys held down do not keep it from looking either.
    top.press("xxxxxxxx");
    top.read_until("not answering for");
    top.press("q");
    top.ends_well();
    server.signal("CONT").unwrap();
    server.stop().unwrap();
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let mut top = Watched::start(&folder);
    top.read_until("q ends");
    send_signal(top.child.id(), "TERM").unwrap();
    top.ends_well();
    server.stop().unwrap();
}
