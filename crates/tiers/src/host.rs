//! What a tier is given by the machine it runs on.

use std::fs;
use std::io;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// The clock, the start and the randomness of a host, and the forks of this process. Tests pass
/// others.
#[derive(Clone, Copy)]
pub struct Host {
    /// Milliseconds since the host started; the same for all its processes.
    pub now_ms: fn() -> u64,
    /// Milliseconds since 1970, for what several hosts share. A person may set this clock back.
    pub wall_ms: fn() -> u64,
    /// How many times this process or those before it were forked while the library was loaded.
    /// A child must get a larger number than its parent before it runs anything of its own.
    pub forks: fn() -> u32,
    /// Which start of the host this is.
    pub boot_id: [u8; 16],
    /// Fills bytes that cannot be guessed.
    pub random: fn(&mut [u8]),
}

impl Host {
    /// The host this runs on.
    ///
    /// # Errors
    /// When the kernel does not say which start of the host this is: without it it is unknown
    /// whether a file survived a crash of the machine.
    pub fn of_this_machine(forks: fn() -> u32) -> io::Result<Host> {
        Ok(Host {
            now_ms: boot_clock_ms,
            wall_ms,
            forks,
            boot_id: boot_id()?,
            random,
        })
    }
}

/// Forks of forks that are followed.
pub const FORKS_MAX: usize = 16;

/// One `T` for each process of a line of forks: a child shares no locks with its parent, which may
/// have been forked while another thread held one.
pub struct ByProcess<T> {
    forks: fn() -> u32,
    /// Forks before this was made.
    before: u32,
    each: Box<[T]>,
}

impl<T: Default> ByProcess<T> {
    pub fn new(host: &Host) -> ByProcess<T> {
        ByProcess {
            forks: host.forks,
            before: (host.forks)(),
            each: (0..FORKS_MAX).map(|_| T::default()).collect(),
        }
    }
}

impl<T> ByProcess<T> {
    fn level(&self) -> usize {
        (self.forks)().wrapping_sub(self.before) as usize
    }

    /// That of this process; none in a fork of more than [`FORKS_MAX`] others in a row.
    pub fn own(&self) -> Option<&T> {
        self.each.get(self.level())
    }

    /// Those of the processes it was forked from.
    pub fn inherited(&self) -> impl Iterator<Item = &T> {
        self.each.iter().take(self.level())
    }
}

/// A wall clock can be set back, which would give expired entries a second life.
fn boot_clock_ms() -> u64 {
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else {
        // Linux has had this clock since 2.6.39. At the end of time everything has expired.
        return u64::MAX - 1;
    };
    milliseconds(time)
}

fn milliseconds(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000 + time.tv_nsec() as u64 / 1_000_000
}

fn wall_ms() -> u64 {
    // Linux has always had this clock. At the end of time everything has expired.
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(u64::MAX, milliseconds)
}

fn boot_id() -> io::Result<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16);
    let number = number.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no boot id"))?;
    Ok(number.to_be_bytes())
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has a source of chance");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_is_the_same_each_time_and_the_clock_runs() {
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        let before = boot_clock_ms();
        assert!(boot_clock_ms() >= before);
    }
}
