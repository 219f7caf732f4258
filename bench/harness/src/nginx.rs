//! nginx as a child, serving one body as a file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use measure::connection::Connection;
use measure::costs::Costs;
use measure::live::free_address;
use measure::process::ChildProgram;

use crate::aim::Aim;

/// Where it lies, and where Debian puts it, which is not on everybody's path.
const PLACES: [&str; 2] = ["nginx", "/usr/sbin/nginx"];
/// It starts in a few milliseconds; a loaded machine may take long.
const READY_MAX: Duration = Duration::from_secs(10);

/// A running nginx; killed when dropped.
pub struct Nginx {
    running: ChildProgram,
    /// The same request to it.
    pub aim: Aim,
}

/// nginx, found on this machine.
pub struct Found {
    program: PathBuf,
    /// As it names itself.
    pub version: String,
}

/// # Errors
/// When it is not installed.
pub fn find() -> Result<Found> {
    for place in PLACES {
        let output = Command::new(place).arg("-v").stdin(Stdio::null()).output();
        if let Ok(output) = output {
            // `nginx version: nginx/1.22.1`
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let version = text.trim().rsplit(' ').next().unwrap_or_default();
            return Ok(Found {
                program: place.into(),
                version: version.to_owned(),
            });
        }
    }
    bail!("nginx is not installed; on Debian: apt-get install -y nginx-light")
}

impl Found {
    /// Starts it in the new folder `folder`, with as many workers as the machine has cores. It
    /// answers the request of `subject` with the body that `subject` gets, from a file.
    ///
    /// # Errors
    /// When it does not start, or answers with another body.
    pub fn serve(&self, folder: &Path, subject: &Aim) -> Result<Nginx> {
        let mut connection = Connection::open(subject.address)?;
        let body = connection.accepted(&subject.request())?.body.to_vec();
        let cannot = || folder.display().to_string();
        fs::create_dir_all(folder).with_context(cannot)?;
        let folder = folder.canonicalize().with_context(cannot)?;
        fs::write(folder.join("body.json"), &body).with_context(cannot)?;
        let address = free_address()?;
        let configuration = folder.join("nginx.conf");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let text = configuration_text(&folder, address, &subject.path, cores, is_root());
        fs::write(&configuration, text).with_context(cannot)?;
        let mut command = Command::new(&self.program);
        command.arg("-p").arg(&folder).arg("-c").arg(&configuration);
        // Until it has read its configuration it would complain to a file elsewhere.
        command.arg("-e").arg(folder.join("error.log"));
        let mut nginx = Nginx {
            running: ChildProgram::spawn(command.stdin(Stdio::null()), None)?,
            aim: subject.of(address, Costs::of(Vec::new())),
        };
        // Its first process answers nothing itself.
        nginx.wait(&folder, 1 + cores)?;
        let mut own = Connection::open(address)?;
        let answer = own.accepted(&nginx.aim.request())?;
        ensure!(answer.body == body, "nginx has another body");
        Ok(nginx)
    }
}

impl Nginx {
    /// Until it listens and so many processes of it run.
    fn wait(&mut self, folder: &Path, processes: usize) -> Result<()> {
        let log = || fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        let start = Instant::now();
        while start.elapsed() < READY_MAX {
            let running = self.running.process().tree()?;
            let all_run = running.len() == processes;
            self.aim.costs = Costs::of(running);
            if all_run && Connection::open(self.aim.address).is_ok() {
                return Ok(());
            }
            self.running.fail_if_ended(log)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("nginx does not listen after {READY_MAX:?}:\n{}", log())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM to the first process ends its workers; SIGKILL would leave them behind.
        if self.running.terminate().is_ok() {
            drop(self.running.0.wait());
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// One worker per core, connections kept open, the file sent by `sendfile`, and nothing written
/// for a request. Files that it would need for other things stand in its own folder.
fn configuration_text(
    folder: &Path,
    address: SocketAddr,
    path: &str,
    workers: usize,
    is_root: bool,
) -> String {
    let folder = folder.display();
    let (location, _) = path.split_once('?').unwrap_or((path, ""));
    // Its workers would become a user who may not look into our folders.
    let user = if is_root { "user root;\n" } else { "" };
    let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {folder}/{name};\n"))
        .concat();
    format!(
        "{user}daemon off;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
{places}  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=16;
  default_type application/json;
  server {{
    listen {address} reuseport;
    location = {location} {{ alias {folder}/body.json; }}
  }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_stands_at_the_path_of_the_request() {
        let folder = Path::new("/folder");
        let address = ([127, 0, 0, 1], 81).into();
        let text = configuration_text(folder, address, "/v1/a/rows?queries%5B0%5D=x", 2, false);
        let wanted = "location = /v1/a/rows { alias /folder/body.json; }";
        assert!(text.contains(wanted), "{text}");
        assert!(text.starts_with("daemon off;"));
        assert!(configuration_text(folder, address, "/", 2, true).starts_with("user root;\n"));
    }
}
