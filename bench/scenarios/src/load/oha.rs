//! oha, the external load generator, of which every sample is read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use measure::cores::Cores;
use measure::costs::Backends;
use measure::early_end::EarlyEnd;
use measure::process::{ChildProgram, Meter, ProcessNumber};
use measure::responder::Responder;

use super::figure::Share;
use crate::run::Sample;

/// Answers that take longer count as broken; a peer without an index needs seconds.
const TIMEOUT: &str = "30s";
/// Where every connection is always busy, this share of the time is a request under way, between
/// the last connection's beginning and the last request's. Less means that connections stood idle:
/// broken ones that were not made again, perhaps.
const BUSY_MIN: f64 = 0.5;

/// One kind of request, and where it goes.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The address; a regular expression of addresses where `is_pattern`.
    pub url: String,
    /// Whether each request draws its own address from the pattern.
    pub is_pattern: bool,
    /// Headers, as lines.
    pub headers: Vec<String>,
    /// A file of bodies, one a line, of which each request draws one; without, it is a `GET`.
    pub bodies: Option<PathBuf>,
    /// Who does the work, where it is known.
    pub process: Option<ProcessNumber>,
    /// The database that works for it, where it is counted.
    pub backends: Option<Backends>,
}

impl Aim {
    /// The same requests to a program that answers every path alike.
    #[must_use]
    pub fn of(&self, other: &Responder) -> Aim {
        let path = self.url.split_once("/v1").map_or("", |(_, path)| path);
        Aim {
            url: format!("http://{}/v1{path}", other.address),
            process: Some(other.process()),
            backends: None,
            ..self.clone()
        }
    }
}

/// How hard a server is asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections.
    pub connections: u32,
    /// How long.
    pub lasting: Duration,
    /// Requests a second of all connections; then a latency begins when its request was due,
    /// not when a connection was free to send it.
    pub per_s: Option<f64>,
}

/// oha, found on this machine.
pub struct Oha {
    program: PathBuf,
    /// As it names itself.
    pub version: String,
    output: PathBuf,
    cores: Cores,
}

impl Oha {
    /// Looks for it.
    ///
    /// # Errors
    /// When it is not installed, or the program is another one; the text says how to get it.
    pub fn find(program: &Path, cores: Cores) -> Result<Oha> {
        let said = Command::new(program).arg("--version").output();
        let Ok(said) = said else {
            bail!(
                "oha, the load generator, is not installed (looked for `{}`): \
                 cargo install oha --locked, or name its file by --oha",
                program.display()
            );
        };
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        ensure!(
            version.starts_with("oha "),
            "`{}` is not oha: asked for its version it says `{}`",
            program.display(),
            version.lines().next().unwrap_or_default()
        );
        Ok(Oha {
            program: program.to_owned(),
            version,
            output: PathBuf::from("oha.csv"),
            cores,
        })
    }

    /// The same, writing its list below `folder`.
    #[must_use]
    pub fn below(self, folder: &Path) -> Oha {
        Oha {
            output: folder.join("oha.csv"),
            ..self
        }
    }

    /// The cores it runs on.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// The same on other cores.
    #[must_use]
    pub fn on(&self, cores: Cores) -> Oha {
        Oha {
            program: self.program.clone(),
            version: self.version.clone(),
            output: self.output.clone(),
            cores,
        }
    }

    /// Asks, and reads every answer's time.
    ///
    /// # Errors
    /// When oha fails, nothing was answered, connections stood idle, the server is gone, or an end
    /// was asked for.
    pub fn ask(&self, aim: &Aim, load: &Load, stop: &EarlyEnd) -> Result<Share> {
        stop.check()?;
        // What an earlier one has written must not be taken for this one's.
        drop(fs::remove_file(&self.output));
        let meter = aim.process.map(Meter::begin).transpose()?;
        let backends_us = || aim.backends.map(Backends::used_us).transpose();
        let before_us = backends_us()?;
        let mut command = self.command(aim, load);
        // A file, as complaints may be more than a pipe holds.
        let complaints = self.output.with_extension("log");
        command.stderr(File::create(&complaints).context("no file for what oha says")?);
        let mut running = ChildProgram::spawn(&mut command, Some(&self.cores))?;
        let status = stop.wait_for(&mut running).context("oha")?;
        let cost = meter.map(|meter| meter.cost()).transpose()?;
        let backends_us = backends_us()?.zip(before_us);
        let complaint = fs::read_to_string(&complaints).unwrap_or_default();
        ensure!(status.success(), "oha on {}: {complaint}", aim.url);
        let text = fs::read_to_string(&self.output).context("oha wrote nothing")?;
        let listed = Listed::read(&text, load.connections);
        let listed = listed.with_context(|| format!("oha on {}", aim.url))?;
        if load.per_s.is_none() {
            listed.check_busy(load.connections)?;
        }
        Ok(Share {
            cpu_us: cost.map(|cost| cost.cpu_us),
            backends_us: backends_us.map(|(now, before)| now - before),
            memory_mib: cost.map(|cost| cost.memory_mib),
            ..listed.share
        })
    }

    fn command(&self, aim: &Aim, load: &Load) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--no-tui", "--no-color", "-w", "-t", TIMEOUT]);
        command.args(["--worker-threads", &self.cores.count().to_string()]);
        command.args(["-c", &load.connections.to_string()]);
        command.args(["-z", &format!("{}ms", load.lasting.as_millis())]);
        if let Some(per_s) = load.per_s {
            command.args([
                "-q",
                &format!("{:.0}", per_s.max(1.0)),
                "--latency-correction",
            ]);
        }
        for header in &aim.headers {
            command.args(["-H", header]);
        }
        if let Some(bodies) = &aim.bodies {
            command.args(["-m", "POST", "-T", "application/json", "-Z"]);
            command.arg(bodies);
        }
        if aim.is_pattern {
            command.arg("--rand-regex-url");
        }
        command
            .args(["--output-format", "csv", "-o"])
            .arg(&self.output);
        command.arg(&aim.url).stdin(Stdio::null());
        command.stdout(Stdio::null());
        command
    }
}

/// oha's list of answers.
#[derive(Debug)]
struct Listed {
    share: Share,
    /// From the first request to when every connection stood.
    connected: Duration,
}

impl Listed {
    /// Reads the list: a line each, with seconds from the start, and the status. Errors are
    /// refusals, and connections that broke: the list holds no request that was not answered, but
    /// it shows that a connection had to be made again.
    fn read(text: &str, connections: u32) -> Result<Listed> {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let place = |name: &str| {
            let found = head.iter().position(|known| *known == name);
            found.with_context(|| format!("its list has no column `{name}`"))
        };
        let [start, connected, duration, status] = [
            place("request-start")?,
            place("DNS+dialup")?,
            place("request-duration")?,
            place("status")?,
        ];
        let mut share = Share::default();
        let mut first = f64::INFINITY;
        let mut stood = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |place: usize| {
                let number = fields
                    .get(place)
                    .and_then(|field| field.parse::<f64>().ok());
                number
                    .filter(|number| *number >= 0.0)
                    .with_context(|| format!("its line `{line}`"))
            };
            // The first request of a connection begins before it stands: of 256 connections in
            // half a second that would be what the 99th percentile shows.
            let connecting = number(connected)?;
            let began = number(start)? + connecting;
            if connecting > 0.0 {
                stood.push(began);
            }
            let took = (number(duration)? - connecting).max(0.0);
            if !(200.0..300.0).contains(&number(status)?) {
                share.errors += 1;
                continue;
            }
            first = first.min(began);
            share.samples.push(Sample {
                ended: Duration::from_secs_f64(began + took),
                took: Duration::from_secs_f64(took),
            });
        }
        stood.sort_by(f64::total_cmp);
        let again = stood.split_off(stood.len().min(connections as usize));
        share.errors += again.len() as u64;
        let errors = share.errors;
        ensure!(
            !share.samples.is_empty(),
            "no answer was a success; errors: {errors}"
        );
        let connected = stood.last().map_or(0.0, |last| last - first);
        let first = Duration::from_secs_f64(first);
        for sample in &mut share.samples {
            sample.ended = sample.ended.saturating_sub(first);
        }
        share.samples.sort_by_key(|sample| sample.ended);
        share.wall = share.samples[share.samples.len() - 1].ended;
        Ok(Listed {
            share,
            connected: Duration::from_secs_f64(connected.max(0.0)),
        })
    }

    fn check_busy(&self, connections: u32) -> Result<()> {
        let samples = &self.share.samples;
        let began = |sample: &Sample| sample.ended.saturating_sub(sample.took);
        let end = samples.iter().map(began).max().unwrap_or_default();
        let within = |sample: &Sample| {
            let from = began(sample).max(self.connected);
            sample.ended.min(end).saturating_sub(from)
        };
        let busy: Duration = samples.iter().map(within).sum();
        let whole = end.saturating_sub(self.connected) * connections;
        if whole.is_zero() {
            return Ok(());
        }
        let share = busy.as_secs_f64() / whole.as_secs_f64();
        ensure!(
            share >= BUSY_MIN || self.share.errors > 0,
            "connections had a request under way {:.0} % of the time only: did they break?",
            100.0 * share
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n";

    #[test]
    fn answers_are_read_with_their_times_and_refusals_counted() {
        let text = format!(
            "{HEAD}0.5,0.1,0.1,0.2,0.25,10,200\n0.65,0,0,0,0.05,10,201\n0.7,0,0,0,0.01,3,503\n"
        );
        let share = Listed::read(&text, 1).unwrap().share;
        let ms = |ended, took| Sample {
            ended: Duration::from_millis(ended),
            took: Duration::from_millis(took),
        };
        // The first one took 250 ms, of which its connection was made in 100.
        assert_eq!(share.samples, [ms(100, 50), ms(150, 150)]);
        assert_eq!((share.errors, share.wall), (1, Duration::from_millis(150)));
    }

    #[test]
    fn a_connection_that_is_made_again_has_broken() {
        let connected = |start: f64| format!("{start},0.1,0.1,0.2,0.25,10,200\n");
        let kept = "0.9,0,0,0,0.05,10,200\n";
        let text = format!(
            "{HEAD}{}{}{kept}{}",
            connected(0.0),
            connected(0.1),
            connected(0.5)
        );
        for (connections, errors) in [(1, 2), (2, 1), (3, 0), (32, 0)] {
            let listed = Listed::read(&text, connections).unwrap();
            assert_eq!(listed.share.errors, errors);
        }
    }

    #[test]
    fn a_program_that_is_not_oha_is_refused_by_what_it_says() {
        let cores = Cores::all().unwrap();
        let find = |program: &str| Oha::find(Path::new(program), cores.clone()).err().unwrap();
        let error = find("true").to_string();
        assert!(error.contains("is not oha"), "{error}");
        let error = find("/nowhere/oha").to_string();
        assert!(error.contains("cargo install oha"), "{error}");
    }

    /// A stand-in that says it is oha, and writes the first list it is asked for, and none again.
    #[test]
    fn a_list_of_an_earlier_ask_is_never_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("answers"), format!("{HEAD}0,0,0,0,0.1,1,200\n")).unwrap();
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo oha 1.0 && exit\n\
             cd {} && [ -e answers ] && mv answers oha.csv\nexit 0\n",
            folder.path().display()
        );
        let program = at("oha");
        // Written by another process: one that has it open for writing cannot start it.
        let write = r#"printf %s "$0" > "$1" && chmod +x "$1""#;
        let written = Command::new("sh")
            .args(["-c", write, &script])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        let oha = Oha::find(&program, Cores::all().unwrap()).unwrap();
        let oha = oha.below(folder.path());
        let aim = Aim {
            url: "http://127.0.0.1:1".to_owned(),
            is_pattern: false,
            headers: Vec::new(),
            bodies: None,
            process: None,
            backends: None,
        };
        let load = Load {
            connections: 1,
            lasting: Duration::from_millis(1),
            per_s: None,
        };
        let ask = || oha.ask(&aim, &load, &EarlyEnd::default());
        assert_eq!(ask().unwrap().samples.len(), 1);
        let error = ask().unwrap_err().to_string();
        assert_eq!(error, "oha wrote nothing");
    }

    #[test]
    fn lists_of_another_form_are_refused() {
        for (text, wanted) in [
            (String::new(), "no column `request-start`"),
            (HEAD.to_owned(), "no answer was a success; errors: 0"),
            (
                format!("{HEAD}0,0,0,0,1,1,500\n"),
                "no answer was a success; errors: 1",
            ),
            (format!("{HEAD}0,0,0\n"), "its line `0,0,0`"),
            (format!("{HEAD}0,0,0,0,-1,1,200\n"), "its line"),
        ] {
            let error = format!("{:#}", Listed::read(&text, 1).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn connections_that_stand_idle_are_noticed() {
        let line = |start: f64| format!("{start},0,0,0,0.1,1,200\n");
        let text = |starts: &[f64]| {
            let lines: Vec<String> = starts.iter().map(|start| line(*start)).collect();
            format!("{HEAD}{}", lines.concat())
        };
        let busy = Listed::read(&text(&[0.0, 0.1, 0.2]), 1).unwrap();
        busy.check_busy(1).unwrap();
        let idle = Listed::read(&text(&[0.0, 0.1, 0.9]), 1).unwrap();
        let error = idle.check_busy(1).unwrap_err().to_string();
        assert!(error.contains("22 % of the time"), "{error}");
    }

    #[test]
    fn idle_time_excludes_connecting_and_a_last_long_answer() {
        let one = "0,0.01,0.01,0,0.11,1,200\n0.11,0,0,0,0.1,1,200\n0.21,0,0,0,0.01,1,200\n";
        let other = "0,0.1,0.1,0,0.21,1,200\n0.21,0,0,0,0.9,1,200\n";
        let listed = Listed::read(&format!("{HEAD}{one}{other}"), 2).unwrap();
        assert_eq!(listed.connected, Duration::from_millis(90));
        listed.check_busy(2).unwrap();
    }
}
