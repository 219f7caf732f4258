//! Processors and memory of builds and runs, as the protocol names them: `s-0.5vcpu-512mb`.

/// Those that are listed; others of the same form are understood, too.
pub const SPECIFICATIONS: [&str; 8] = [
    model::function::SPECIFICATION_DEFAULT,
    "s-1vcpu-512mb",
    "s-1vcpu-1gb",
    "s-2vcpu-2gb",
    "s-2vcpu-4gb",
    "s-4vcpu-4gb",
    "s-4vcpu-8gb",
    "s-8vcpu-8gb",
];
/// Least memory: below it no runtime starts.
const MEMORY_MB_MIN: u32 = 64;
const MEMORY_MB_MAX: u32 = 65_536;
const CPUS_MAX: f64 = 64.0;

/// What a specification names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Specification {
    /// Processors.
    pub cpus: f64,
    /// Memory in MiB.
    pub memory_mb: u32,
}

impl Specification {
    /// Reads a specification; `None` for another form, or what no host has.
    pub fn parse(text: &str) -> Option<Specification> {
        let (cpus, memory) = text.strip_prefix("s-")?.split_once("vcpu-")?;
        let is_number = |text: &str| {
            let is_legal = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            (1..=5).contains(&text.len()) && text.bytes().all(is_legal)
        };
        let cpus: f64 = cpus.parse().ok().filter(|_| is_number(cpus))?;
        let (number, unit_mb) = match memory.strip_suffix("mb") {
            Some(number) => (number, 1),
            None => (memory.strip_suffix("gb")?, 1_024),
        };
        let number: u32 = number.parse().ok().filter(|_| is_number(number))?;
        let memory_mb = number.checked_mul(unit_mb)?;
        let is_there =
            cpus > 0.0 && cpus <= CPUS_MAX && (MEMORY_MB_MIN..=MEMORY_MB_MAX).contains(&memory_mb);
        is_there.then_some(Specification { cpus, memory_mb })
    }

    /// What its processors are worth where the kernel weighs processes: 100 for one.
    pub fn cpu_weight(&self) -> u32 {
        // At most 6,400, which the bound of processors says.
        ((self.cpus * 100.0).round() as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_by_their_form() {
        for text in SPECIFICATIONS {
            assert!(Specification::parse(text).is_some(), "{text}");
        }
        let read = Specification::parse("s-2vcpu-4gb").unwrap();
        assert_eq!((read.cpus, read.memory_mb), (2.0, 4_096));
        let weights = ["s-64vcpu-512mb", "s-0.5vcpu-512mb", "s-.001vcpu-64mb"];
        let weights = weights.map(|text| Specification::parse(text).unwrap().cpu_weight());
        assert_eq!(weights, [6_400, 50, 1]);
        for text in [
            "",
            "s-",
            "s-1vcpu-",
            "s-vcpu-1gb",
            "s-0vcpu-1gb",
            "s-1vcpu-1tb",
            "s-1vcpu-0gb",
            "s-1vcpu-63mb",
            "s-1vcpu-99999gb",
            "s-1vcpu-4294967295gb",
            "s-1.1.1vcpu-1gb",
            "s-infvcpu-1gb",
            "s-65vcpu-1gb",
            "s-1vcpu-+1gb",
            "s-1e3vcpu-1gb",
        ] {
            assert_eq!(Specification::parse(text), None, "{text}");
        }
    }
}
