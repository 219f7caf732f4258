//! The first steps of the guide "On PostgreSQL", as they stand there, on a cluster of the test's
//! own: no package is installed, and the user that `sudo` would be has it already.

mod process;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use process::{text, tidemark};
use serde_json::Value;
use testing::{ChildServer, ServerLog};
use testing_postgres::{Cluster, ClusterSettings, PACKAGE, Programs};

const GUIDE: &str = include_str!("../../../docs/guides/postgresql.md");
const HEADING: &str = "## From nothing to the first row\n";
/// The guide's user, who owns each cluster of a test already.
const USER: &str = "tidemark";
/// The user in its place.
const NEWCOMER: &str = "newcomer";

/// The blocks of commands below the heading.
fn blocks() -> Vec<&'static str> {
    let (_, section) = GUIDE.split_once(HEADING).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

struct Place {
    cluster: Cluster,
    port: u16,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = ClusterSettings {
            syncs: true,
            port: Some(port),
            ..ClusterSettings::default()
        };
        let cluster = Cluster::start(&settings).unwrap();
        // As Debian's package has it, but for the owner of the cluster.
        let rules = "local all tidemark trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(cluster.socket_folder().join("data/pg_hba.conf"), rules).unwrap();
        let reload = "SELECT pg_reload_conf()";
        cluster.run_sql("postgres", &[reload]).unwrap();
        Place {
            cluster,
            port,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs a line as the owner of the cluster, who types the guide's password where it is wanted.
    fn as_postgres(&self, line: &str) {
        let program = Programs::find().unwrap().path("createuser");
        let folder = Path::new(&program).parent().unwrap();
        let line = format!("PATH={}:$PATH; {line}", folder.display());
        let mut shell = Command::new("setsid");
        shell.args(["--wait", "sh", "-ec", &line]);
        shell.env("PGHOST", self.cluster.socket_folder());
        shell.env("PGPORT", self.port.to_string());
        shell.env("PGUSER", USER);
        let typed = self.folder.path().join("typed");
        fs::write(&typed, "PASSWORD\nPASSWORD\n").unwrap();
        shell.stdin(fs::File::open(typed).unwrap());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }

    fn tidemark(&self, words: &str, url: &str) -> Command {
        let mut command = tidemark(words);
        command.current_dir(self.folder.path());
        command.env("TIDEMARK_DATABASE", url);
        command
    }
}

#[test]
fn the_first_steps_lead_to_the_first_row() {
    let place = Place::new();
    let blocks = blocks();
    let [set_up, calls] = &blocks[..] else {
        panic!("{blocks:#?}");
    };
    let (mut url, mut server) = (String::new(), None);
    for line in set_up.lines() {
        let line = line.split(" #").next().unwrap().trim_end();
        if let Some(packages) = line.strip_prefix("sudo apt-get install ") {
            assert!(
                PACKAGE.starts_with(packages),
                "{PACKAGE} is not of {packages}"
            );
        } else if let Some(line) = line.strip_prefix("sudo -u postgres ") {
            place.as_postgres(&line.replace(USER, NEWCOMER));
        } else if let Some(value) = line.strip_prefix("export TIDEMARK_DATABASE=") {
            let at = format!("@localhost:{}/", place.port);
            let value = value.trim_matches('\'').replace("@localhost/", &at);
            url = value.replace(&format!("//{USER}:"), &format!("//{NEWCOMER}:"));
        } else if line == "tidemark doctor" {
            let examined = place.tidemark("doctor", &url).output().unwrap();
            let said = text(&examined.stdout);
            assert!(examined.status.success(), "{said}");
        } else {
            assert_eq!(line, "tidemark serve");
            let serve = place.tidemark("serve --listen 127.0.0.1:0", &url);
            server = Some(ChildServer::start(serve, ServerLog::Discarded).unwrap());
        }
    }
    let server = server.unwrap();
    let address = format!("http://127.0.0.1:{}", server.port());
    let calls = calls.replace("http://127.0.0.1:8280", &address);
    let called = Command::new("sh")
        .args(["-ec", &calls])
        .env("KEY", server.key.as_deref().unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(called.status.success(), "{}", text(&called.stderr));
    let answers = text(&called.stdout);
    let last: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
    assert_eq!(last["$id"], "first", "{answers}");
    assert_eq!(last["n"], 1, "{answers}");
    server.stop().unwrap();
}
