//! `tidemark function`: from a new folder to deployments, variables and the end of a function.

mod process;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use process::{Folder, assert_refused, json_of, text, tidemark};
use serde_json::{Value, json};
use testing::ChildServer;

/// Runs `tidemark function` with these words in the folder `hello`, on the server's directory.
fn function(folder: &Folder, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = tidemark("function");
    command.args(words).arg("--data").arg(folder.data());
    command.current_dir(folder.join("hello"));
    command
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A server, and a new function in the folder `hello`.
fn hello(folder: &Folder) -> ChildServer {
    init(folder, "hello --runtime node-20.0");
    process::start(folder)
}

#[track_caller]
fn init(folder: &Folder, words: &str) -> String {
    let mut command = tidemark(&format!("function init {words}"));
    done(&command.current_dir(folder.join(".")).output().unwrap())
}

fn alter(path: &Path, from: &str, to: &str) {
    let before = fs::read_to_string(path).unwrap();
    assert!(before.contains(from), "{before}");
    fs::write(path, before.replace(from, to)).unwrap();
}

#[test]
fn init_writes_files_and_overwrites_none() {
    let folder = Folder::new();
    let said = init(&folder, "hello --runtime python-3.11");
    assert!(
        said.contains("function.toml, main.py, .gitignore"),
        "{said}"
    );
    let refused = |words: &str, part: &str| {
        let mut command = tidemark(&format!("function init {words}"));
        let output = command.current_dir(folder.join(".")).output().unwrap();
        assert_refused(&output, 1, part);
    };
    refused(
        "hello --runtime node-22",
        "hello/function.toml is there already, and nothing was written",
    );
    assert!(!folder.join("hello/index.mjs").exists());
    refused("other --runtime ruby-3.3", "the runtimes are node-14.5,");
    refused("_other --runtime node-22", "cannot be called `_other`");
    assert!(!folder.join("other").exists());
    init(&folder, "other --folder hello/deep/er --runtime node-22");
    let written = fs::read_to_string(folder.join("hello/deep/er/function.toml")).unwrap();
    assert!(written.contains("id = \"other\"") && written.contains("\"index.mjs\""));
}

#[test]
fn deploy_makes_the_function_and_changes_what_differs() {
    let folder = Folder::new();
    let server = hello(&folder);
    let output = function(&folder, &["deploy", "--no-wait"]);
    assert!(done(&output).contains("of `hello`"));
    let errors = text(&output.stderr);
    assert!(errors.contains("Packed 4 files"), "{errors}");
    assert!(
        errors.contains("Created function `hello` for node-20.0."),
        "{errors}"
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["entrypoint"], "index.mjs");
    assert_eq!(made["timeout"], 15);

    // What the file does not name stays.
    server.call(
        "PUT",
        "/functions/hello",
        &json!({"deploymentRetention": 3, "timeout": 10}),
    );
    let file = folder.join("hello/function.toml");
    alter(&file, "execute = []", "execute = [\"users\", \"any\"]");
    let output = function(&folder, &["deploy", "--no-wait", "--no-activate"]);
    done(&output);
    let errors = text(&output.stderr);
    let changed = "Changed function `hello`:\n  ~ execute: [] -> [\"users\",\"any\"]\n  \
                   ~ timeout: 10 -> 15\n";
    assert!(errors.contains(changed), "{errors}");
    let output = function(&folder, &["deploy", "--no-wait"]);
    done(&output);
    assert!(
        !text(&output.stderr).contains("Changed"),
        "{}",
        text(&output.stderr)
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["deploymentRetention"], 3);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 3);
    let activated = deployments["deployments"].as_array().unwrap().iter();
    assert_eq!(activated.filter(|one| one["activate"] == true).count(), 2);
}

#[test]
fn deploy_of_a_folder_that_cannot_be_sent_changes_nothing() {
    let folder = Folder::new();
    let server = hello(&folder);
    let refused = |part: &str| {
        let output = function(&folder, &["deploy", "--no-wait"]);
        assert_refused(&output, 1, part);
    };
    let file = folder.join("hello/function.toml");
    alter(&file, "timeout = 15", "timeot = 15");
    refused("unknown field `timeot`");
    alter(&file, "timeot = 15", "timeout = 15");
    alter(&file, "\"index.mjs\"", "\"main.mjs\"");
    refused("`entrypoint` names `main.mjs`, and the folder has no such file");
    alter(&file, "\"main.mjs\"", "\"index.mjs\"");
    let left_out = folder.join("hello/.gitignore");
    let before = fs::read_to_string(&left_out).unwrap();
    fs::write(&left_out, "*.mjs\n").unwrap();
    refused("the entrypoint `index.mjs` is left out by .gitignore");
    fs::write(&left_out, before).unwrap();
    let link = folder.join("hello/out");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    refused("`out` is a link to /etc/passwd, which leads out of the folder");
    fs::remove_file(&link).unwrap();
    alter(&file, "runtime = \"node-20.0\"", "runtime = \"node-1\"");
    refused("creating function `hello`: the server refused:");
    let all = server.call("GET", "/functions", &Value::Null);
    assert_eq!(all["total"], 0);
    let elsewhere = function(&folder, &["deploy", "..", "--no-wait"]);
    assert_refused(
        &elsewhere,
        1,
        "`tidemark function init NAME` makes a folder",
    );
}

#[test]
fn deploy_says_when_the_server_lacks_the_runtime() {
    let folder = Folder::new();
    init(&folder, "hello --runtime node-14.5");
    let server = process::start(&folder);
    let part = "is sent and cannot be built: the server has no runtime `node-14.5`, it has";
    assert_refused(&function(&folder, &["deploy"]), 1, part);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 1);
}

#[test]
fn deploy_sends_a_large_archive_in_parts() {
    let folder = Folder::new();
    let server = hello(&folder);
    let noise: Vec<u8> = (0..12_000_000_u64 / 8)
        .flat_map(|nth| {
            nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .to_le_bytes()
        })
        .collect();
    fs::write(folder.join("hello/noise"), noise).unwrap();
    done(&function(&folder, &["deploy", "--no-wait"]));
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    let sent = &deployments["deployments"][0];
    assert!(
        sent["sourceSize"].as_u64().unwrap() > 2 * 5_242_880,
        "{sent}"
    );
    assert_eq!(sent["chunksTotal"], sent["chunksUploaded"], "{sent}");
    let noise = vec![7; 251_000_000];
    fs::write(folder.join("hello/noise"), noise).unwrap();
    let output = function(&folder, &["deploy", "--no-wait"]);
    let part = "250000000 bytes before compression); its largest files are noise (251000 KB)";
    assert_refused(&output, 1, part);
}

#[test]
fn variables_are_set_listed_and_deleted() {
    let folder = Folder::new();
    let server = hello(&folder);
    let variable = |words: &[&str]| function(&folder, &[&["variable"], words].concat());
    assert_refused(
        &variable(&["list"]),
        1,
        "the project has no function `hello`",
    );
    done(&function(&folder, &["deploy", "--no-wait"]));
    fs::write(
        folder.join("hello/.env"),
        "# secrets\nTOKEN='t0ken'\nLEVEL=1\n",
    )
    .unwrap();
    let said = done(&variable(&["set", "--from-file", ".env", "--secret"]));
    assert_eq!(said, "Created secret `TOKEN`.\nCreated secret `LEVEL`.\n");
    let said = done(&variable(&["set", "REGION=eu=1", "LEVEL=2"]));
    assert_eq!(said, "Created `REGION`.\nChanged secret `LEVEL`.\n");
    let mut child = command(&folder, &["variable", "set", "PIPED", "--secret"]);
    child.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"from a pipe\n")
        .unwrap();
    assert!(child.wait().unwrap().success());
    let listed = done(&variable(&["list"]));
    let wanted = "NAME    VALUE\nTOKEN   (secret)\nLEVEL   (secret)\nREGION  eu=1\n\
                  PIPED   (secret)\n";
    assert_eq!(listed, wanted);
    let listed = json_of(&variable(&["list", "--json"]));
    assert!(!listed.to_string().contains("t0ken"), "{listed}");

    assert_refused(&variable(&["set", "1A=2"]), 1, "`1A` cannot be the name");
    assert_refused(&variable(&["set", "A", "B"]), 1, "one variable only");
    let long = format!("A={}", "x".repeat(8_193));
    assert_refused(
        &variable(&["set", &long]),
        1,
        "has 8193 characters; the most are 8192",
    );
    assert_refused(&variable(&["set"]), 2, "NAME=VALUE");
    let refusal = "nothing was deleted; --yes deletes variable `REGION` without asking";
    assert_refused(&variable(&["delete", "REGION"]), 1, refusal);
    assert_refused(
        &variable(&["delete", "NONE", "--yes"]),
        1,
        "it has 4 variables",
    );
    done(&variable(&["delete", "REGION", "--yes"]));
    let left = server.call("GET", "/functions/hello/variables", &Value::Null);
    assert_eq!(left["total"], 3);
}

#[test]
fn function_is_listed_and_deleted_when_that_is_meant() {
    let folder = Folder::new();
    let server = hello(&folder);
    let output = function(&folder, &["list"]);
    assert_eq!(done(&output), "");
    assert!(text(&output.stderr).contains("`tidemark function init NAME`"));
    done(&function(
        &folder,
        &["deploy", "--no-wait", "--no-activate"],
    ));
    for nth in 0..101 {
        let body = json!({"functionId": format!("f{nth:03}"), "name": "F\u{1b}[2J",
            "runtime": "node-22", "enabled": false, "schedule": "0 3 * * *"});
        server.call("POST", "/functions", &body);
    }
    let listed = done(&function(&folder, &["list"]));
    assert_eq!(listed.lines().count(), 103, "{listed}");
    let line = listed
        .lines()
        .find(|line| line.starts_with("f100 "))
        .unwrap();
    assert!(line.contains("0 3 * * *  F\\u{1b}[2J (disabled)"), "{line}");
    let listed = json_of(&function(&folder, &["list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 102);

    assert_refused(
        &function(&folder, &["delete", "none", "--yes"]),
        1,
        "no function `none`",
    );
    let refusal = "nothing was deleted; --yes deletes function `hello` without asking";
    assert_refused(&function(&folder, &["delete", "hello"]), 1, refusal);
    done(&function(&folder, &["delete", "hello", "--yes"]));
    let again = function(&folder, &["run", "hello"]);
    assert_refused(&again, 1, "the project has no function `hello`");
    let elsewhere = tidemark("function logs").current_dir("/").output().unwrap();
    assert_refused(
        &elsewhere,
        1,
        "no function is named, and this folder has no function.toml",
    );
}

/// `tidemark function dev` in the folder `hello`; killed when it is dropped.
struct Dev {
    child: Child,
    port: u16,
    banner: String,
}

/// What `dev` writes to standard error, in the folder of a test.
const DEV_ERRORS: &str = "dev-errors";

impl Dev {
    fn start(folder: &Folder, words: &[&str]) -> Dev {
        let mut command = command(folder, &[&["dev", "--port", "0"], words].concat());
        // The interpreters of this machine are what is served by.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let errors = fs::File::create(folder.join(DEV_ERRORS)).unwrap();
        command.stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut banner = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut banner).unwrap();
        let port = banner
            .split("127.0.0.1:")
            .nth(1)
            .map(|rest| rest.split(',').next().unwrap());
        let port = port.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in `{banner}`"));
        Dev {
            child,
            port,
            banner,
        }
    }

    /// Status and body of an answer.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        ))
    }

    /// Asks until the answer holds this part.
    #[track_caller]
    fn get_until(&self, part: &str) {
        let began = Instant::now();
        loop {
            let answer = self.get("/").1;
            if answer.contains(part) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_mins(1),
                "`{part}` is not in {answer}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether there can be a full jail here; `TIDEMARK_JAIL=required` makes a failure of it.
fn has_jail() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_tidemark"));
    let tried = functions::jail::attempt::try_jail(program, functions::jail::JailLevel::Full);
    let is_required = std::env::var_os("TIDEMARK_JAIL").is_some_and(|word| word == "required");
    if let Err(why) = &tried {
        assert!(!is_required, "no jail `full`: {why}");
        eprintln!("skipped: no jail `full` here: {why}");
    }
    tried.is_ok()
}

/// The first runtime of this machine in a language.
fn runtime_of(language: &str) -> String {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let installed = functions::InstalledRuntimes::find(&search_path, &[]);
    let mut found = installed.found().iter();
    let found = found.find(|runtime| runtime.name == language);
    found
        .unwrap_or_else(|| panic!("{language}: {installed:?}"))
        .ids[0]
        .clone()
}

/// Processes whose command line holds a text.
fn processes_with(part: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_part = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    processes.filter(has_part).count()
}

/// Ends `dev` as Ctrl-C does, and all processes whose command line names the place with it.
fn stop(mut dev: Dev, place: &str) {
    assert!(processes_with(place) > 0);
    testing::send_signal(dev.child.id(), "INT").unwrap();
    assert!(dev.child.wait().unwrap().success());
    // The last ones are killed and not yet gone where the machine is busy.
    let began = Instant::now();
    while processes_with(place) > 0 {
        assert!(began.elapsed() < Duration::from_mins(1), "{place}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn dev_serves_the_folder_and_takes_up_each_save() {
    if !has_jail() {
        return;
    }
    for language in ["node", "python"] {
        let folder = Folder::new();
        init(
            &folder,
            &format!("hello --runtime {}", runtime_of(language)),
        );
        let dev = Dev::start(&folder, &[]);
        assert!(
            dev.banner
                .contains("no data: function.toml names no `scopes`"),
            "{}",
            dev.banner
        );
        let body = r#"{"n":1}"#;
        let (status, answer) = dev.ask(&format!(
            "POST /a?b=c HTTP/1.1\r\nhost: 127.0.0.1:1\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(status, 200, "{language}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            answer,
            json!({"hello": "world", "given": {"n": 1}}),
            "{language}"
        );

        let evil = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
        assert_eq!(dev.ask(evil).0, 403);
        let code = fs::read_dir(folder.join("hello")).unwrap().flatten();
        let code = code.map(|entry| entry.path()).find(|path| {
            path.file_stem()
                .is_some_and(|stem| stem == "index" || stem == "main")
        });
        let code = code.unwrap();
        alter(&code, "world", "moon");
        dev.get_until("moon");
        let variable = match language {
            "node" => "process.env.COLOUR",
            _ => "__import__('os').environ['COLOUR']",
        };
        let moon = if language == "node" {
            "'moon'"
        } else {
            "\"moon\""
        };
        fs::write(folder.join("hello/.env"), "COLOUR=green\n").unwrap();
        alter(&code, moon, variable);
        dev.get_until("green");
        // What the file said before stays in force; code that does not parse answers with why.
        let file = folder.join("hello/function.toml");
        alter(&file, "timeout", "timeot");
        assert!(dev.get("/").1.contains("green"));
        alter(&file, "timeot", "timeout");
        fs::write(&code, "(").unwrap();
        dev.get_until("yntax");
        assert_eq!(dev.get("/").0, 500);

        stop(dev, &folder.join("hello").display().to_string());
    }
}

#[test]
fn dev_shows_what_code_writes_when_its_run_has_ended() {
    if !has_jail() {
        return;
    }
    for (language, file, code) in [
        (
            "node",
            "index.mjs",
            "export default ({ res }) => {
               setTimeout(() => console.log('afterwards'), 300)
               return res.empty()
             }",
        ),
        (
            "python",
            "main.py",
            "import threading\n\ndef main(context):\n    \
             threading.Timer(0.3, print, ('afterwards',)).start()\n    \
             return context.res.empty()\n",
        ),
    ] {
        let folder = Folder::new();
        init(
            &folder,
            &format!("hello --runtime {}", runtime_of(language)),
        );
        fs::write(folder.join("hello").join(file), code).unwrap();
        let dev = Dev::start(&folder, &[]);
        assert_eq!(dev.get("/").0, 204, "{language}");
        let began = Instant::now();
        let shown = || fs::read_to_string(folder.join(DEV_ERRORS)).unwrap();
        while !shown().contains("Outside of any run:\n  out | afterwards\n") {
            assert!(began.elapsed() < Duration::from_mins(1), "{}", shown());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn dev_reaches_the_data_that_its_scopes_allow() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    init(&folder, &format!("hello --runtime {}", runtime_of("node")));
    let server = process::start(&folder);
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "shop", "name": "Shop"}),
    );
    let code = "export default async ({ req, res }) => {
        const call = async (method, path, body) => {
          const answer = await fetch(process.env.APPWRITE_FUNCTION_API_ENDPOINT + path, { method,
            body, headers: { 'x-appwrite-key': req.headers['x-appwrite-key'],
            'x-appwrite-project': 'other', 'content-type': 'application/json' } })
          return [answer.status, await answer.json()]
        }
        const outside = process.env.APPWRITE_FUNCTION_API_ENDPOINT.replace('/v1', '/health')
        return res.json({ read: await call('GET', '/tablesdb/shop'),
          write: await call('POST', '/tablesdb', '{\"databaseId\":\"x\",\"name\":\"X\"}'),
          outside: (await fetch(outside)).status })
      }";
    fs::write(folder.join("hello/index.mjs"), code).unwrap();
    let file = folder.join("hello/function.toml");
    alter(&file, "scopes = []", "scopes = [\"databases.read\"]");
    let dev = Dev::start(&folder, &[]);
    assert!(
        dev.banner.contains(&format!("data of {}", server.endpoint)),
        "{}",
        dev.banner
    );
    let (status, answer) = dev.get("/");
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    // The project is that of the command, whatever the function says.
    assert_eq!(answer["read"][0], 200, "{answer}");
    assert_eq!(answer["read"][1]["name"], "Shop");
    assert_eq!(answer["write"][0], 401, "{answer}");
    assert_eq!(
        answer["write"][1]["type"], "general_unauthorized_scope",
        "{answer}"
    );
    assert_eq!(answer["outside"], 404);

    let keys = || json_of(&process::on(&folder, "key list --json"));
    assert_eq!(keys().as_array().unwrap().len(), 2, "{}", keys());
    testing::send_signal(dev.child.id(), "TERM").unwrap();
    let mut dev = dev;
    assert!(dev.child.wait().unwrap().success());
    assert_eq!(keys().as_array().unwrap().len(), 1, "{}", keys());
}

#[test]
fn dev_has_the_network_that_the_file_names() {
    let Some(own) = testing::own_address().filter(|_| has_jail()) else {
        return;
    };
    let listener = TcpListener::bind((own, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 7\r\n\r\n";
            let _ = stream.write_all(format!("{head}reached").as_bytes());
        }
    });
    let folder = Folder::new();
    init(&folder, &format!("hello --runtime {}", runtime_of("node")));
    let code = "export default async ({ res }) => {
        const answer = await fetch(process.env.TARGET).then((answer) => answer.text())
          .catch((error) => error.cause.code)
        return res.text(answer)
      }";
    fs::write(folder.join("hello/index.mjs"), code).unwrap();
    fs::write(
        folder.join("hello/.env"),
        format!("TARGET=http://{address}/\n"),
    )
    .unwrap();
    let dev = Dev::start(&folder, &["--functions-allow", &own.to_string()]);
    assert!(!dev.banner.contains("outside"), "{}", dev.banner);
    assert_ne!(dev.get("/").1, "reached");
    let file = folder.join("hello/function.toml");
    alter(&file, "# network", "network");
    dev.get_until("reached");
    // What is not listed is refused: this machine is not public.
    drop(dev);
    let dev = Dev::start(&folder, &[]);
    assert!(dev.banner.contains("network `outside`"), "{}", dev.banner);
    assert_eq!(dev.get("/").1, "EACCES");
    let words = ["dev", "--port", "0", "--isolation", "reduced"];
    assert_refused(&function(&folder, &words), 1, "takes --isolation full");
    let words = ["dev", "--port", "0", "--functions-allow", "10.0.0.1/8"];
    assert_refused(&function(&folder, &words), 2, "behind its first 8");
}

/// An option that has no word on the wire.
#[test]
fn deploy_sets_the_network_that_the_file_names() {
    let folder = Folder::new();
    let server = hello(&folder);
    let network = || {
        let options = "/tidemark/functions/hello/options";
        server.call("GET", options, &Value::Null)["network"].clone()
    };
    let deploy = || text(&function(&folder, &["deploy", "--no-wait"]).stderr);
    let said = deploy();
    assert!(!said.contains("network"), "{said}");
    assert_eq!(network(), "none");
    let file = folder.join("hello/function.toml");
    alter(&file, "# network", "network");
    let said = deploy();
    assert!(
        said.contains("  ~ network: \"none\" -> \"outside\""),
        "{said}"
    );
    assert_eq!(network(), "outside");
    let said = deploy();
    assert!(!said.contains("network"), "{said}");
    alter(&file, "\"outside\"", "\"none\"");
    deploy();
    assert_eq!(network(), "none");
    alter(&file, "\"none\"", "\"all\"");
    let refused = function(&folder, &["deploy"]);
    assert_refused(&refused, 1, "expected `none` or `outside`");
}

#[test]
fn dev_says_what_it_lacks() {
    let folder = Folder::new();
    init(&folder, "hello --runtime node-14.5");
    let refused = |part: &str| {
        let mut command = command(&folder, &["dev", "--port", "0"]);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        assert_refused(&command.output().unwrap(), 1, part);
    };
    if has_jail() {
        refused("no interpreter of this machine answers to `node-14.5`; it has: node ");
    }
    let file = folder.join("hello/function.toml");
    alter(&file, "node-14.5", &runtime_of("node"));
    alter(&file, "scopes = []", "scopes = [\"rows.read\"]");
    if has_jail() {
        refused("no API key is given, and no server runs on the data directory");
    }
    fs::write(folder.join("hello/.env"), "TOKEN\n").unwrap();
    refused(".env: line 1 is not of the form NAME=VALUE");
}

/// What the guide says of functions.
const GUIDE: &str = include_str!("../../../docs/guides/functions.md");

fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// A server that finds the interpreters of this machine, and a new function for one of them.
fn running(folder: &Folder, language: &str) -> ChildServer {
    init(folder, &format!("hello --runtime {}", runtime_of(language)));
    process::start_with(folder, &[("PATH", &search_path())])
}

#[test]
fn deploy_waits_for_the_build_and_run_prints_what_came_of_it() {
    if !has_jail() {
        return;
    }
    for language in ["node", "python"] {
        let folder = Folder::new();
        let server = running(&folder, language);
        let output = function(&folder, &["deploy"]);
        let said = done(&output);
        assert!(said.contains("of `hello` is built and active"), "{said}");
        let made = server.call("GET", "/functions/hello", &Value::Null);
        assert!(
            said.contains(made["deploymentId"].as_str().unwrap()),
            "{said} {made}"
        );

        fs::write(folder.join("hello/body.json"), r#"{"n":"a b"}"#).unwrap();
        let words = [
            "run",
            "--body",
            "@body.json",
            "--path",
            "/a?b=c",
            "-v",
            "--method",
            "put",
        ];
        let output = function(&folder, &words);
        assert_eq!(done(&output), r#"{"hello":"world","given":{"n":"a b"}}"#);
        let errors = text(&output.stderr);
        for part in [
            "completed, status 200",
            "content-type: application/json",
            "log | PUT /a",
        ] {
            assert!(errors.contains(part), "`{part}` is not in {errors}");
        }
        let failed = function(&folder, &["run", "hello", "--body", "{"]);
        assert_refused(&failed, 1, "failed, status 500");
        assert!(failed.stdout.is_empty());
        assert!(
            text(&failed.stderr).contains("  error | "),
            "{}",
            text(&failed.stderr)
        );
        let refused = function(&folder, &["run", "hello", "--path", &"x".repeat(3_000)]);
        assert_refused(&refused, 1, "running `hello`: the server refused");
    }
}

#[test]
fn logs_are_followed_as_runs_end() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let _server = running(&folder, "node");
    done(&function(&folder, &["deploy"]));
    let run = |path: &str| function(&folder, &["run", "--path", path, "--body", "{}"]);
    done(&run("/before"));
    let mut follow = command(&folder, &["logs", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let (said, lines) = channel();
    let stdout = BufReader::new(follow.stdout.take().unwrap());
    let reading = thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = said.send(line);
        }
    });
    let until = |part: &str| {
        // The machine may be busy.
        let next = || lines.recv_timeout(Duration::from_mins(1)).unwrap();
        while !next().contains(part) {}
    };
    until("  log | POST /before");
    done(&run("/after"));
    until("  log | POST /after");
    testing::send_signal(follow.id(), "INT").unwrap();
    assert!(follow.wait().unwrap().success());
    reading.join().unwrap();
    assert_eq!(lines.try_iter().count(), 0, "each run is shown once");
}

#[test]
fn deploy_fails_with_the_log_of_a_build_that_fails() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let server = running(&folder, "node");
    done(&function(&folder, &["deploy"]));
    let before = server.call("GET", "/functions/hello", &Value::Null);
    let file = folder.join("hello/function.toml");
    alter(
        &file,
        "commands = \"\"",
        "commands = \"printf 'one\\\\033[2J'; exit 3\"",
    );
    let output = function(&folder, &["deploy"]);
    assert_refused(&output, 1, "failed; its log is printed above");
    let errors = text(&output.stderr);
    assert!(errors.contains("one\\u{1b}[2J"), "{errors}");
    assert!(errors.contains("exit code 3"), "{errors}");
    let after = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(after["deploymentId"], before["deploymentId"]);
    assert_ne!(after["latestDeploymentId"], before["latestDeploymentId"]);

    alter(
        &file,
        "commands = \"printf 'one\\\\033[2J'; exit 3\"",
        "commands = \"\"",
    );
    let said = done(&function(&folder, &["deploy", "--no-activate"]));
    let active = before["deploymentId"].as_str().unwrap();
    assert!(
        said.contains(&format!("is built. The active one is {active}.")),
        "{said}"
    );
}

/// What a shell does with these lines, where `tidemark` uses the data of the folder.
fn bash(folder: &Folder, script: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidemark")).parent().unwrap();
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(folder.join("."))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .env("TIDEMARK_DATA", folder.data())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a newcomer types first: a new function, served while it is changed, then sent and run.
#[test]
fn session_of_a_newcomer_ends_with_a_function_that_runs() {
    if !has_jail() {
        return;
    }
    for (language, file) in [("node", "index.mjs"), ("python", "main.py")] {
        let folder = Folder::new();
        let _server = process::start_with(&folder, &[("PATH", &search_path())]);
        let runtime = runtime_of(language);
        let made = format!("tidemark function init hello --runtime {runtime} && cd hello");
        done(&bash(&folder, &made));
        let dev = Dev::start(&folder, &[]);
        dev.get_until("world");
        alter(&folder.join("hello").join(file), "world", "moon");
        dev.get_until("moon");
        stop(dev, &folder.join("hello").display().to_string());
        let run = "cd hello
tidemark function deploy && tidemark function run hello --body '{\"n\":1}'";
        let said = done(&bash(&folder, run));
        assert!(
            said.ends_with(r#"{"hello":"moon","given":{"n":1}}"#),
            "{said}"
        );
    }
}

/// The guide's commands, as printed, but for those of `dev`, which go on until they are stopped.
#[test]
fn guide_of_functions_runs_as_printed() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let _server = process::start_with(&folder, &[("PATH", &search_path())]);
    let blocks = GUIDE.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let blocks = blocks.filter(|block| !block.contains("function dev"));
    let script: String = blocks.collect();
    let printed = script.replace("node-20.0", &runtime_of("node"));
    let output = bash(&folder, &printed);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    for part in [
        "is built and active",
        r#"{"hello":"world","given":{"n":1}}"#,
        "TOKEN   (secret)",
        "Deleted variable `REGION`",
        "Deleted function `hello`.",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}{errors}");
    }
    assert!(!said.contains("a safe place"), "{said}");
}

/// What a handler finds must be the same in `dev` as on a server.
#[test]
fn dev_gives_the_environment_and_headers_of_a_server() {
    if !has_jail() {
        return;
    }
    for language in ["node", "python"] {
        let folder = Folder::new();
        let _server = running(&folder, language);
        let (file, code) = match language {
            "node" => (
                "index.mjs",
                "export default async ({ req, res }) => res.json(\
                   { environment: process.env, headers: req.headers })",
            ),
            _ => (
                "main.py",
                "import os\n\ndef main(context):\n    return context.res.json(\
                   {'environment': dict(os.environ), 'headers': context.req.headers})\n",
            ),
        };
        fs::write(folder.join("hello").join(file), code).unwrap();
        alter(
            &folder.join("hello/function.toml"),
            "scopes = []",
            "scopes = [\"rows.read\"]",
        );
        done(&function(&folder, &["deploy"]));
        let on_server: Value = serde_json::from_str(&done(&function(&folder, &["run"]))).unwrap();
        let dev = Dev::start(&folder, &[]);
        let in_dev: Value = serde_json::from_str(&dev.get("/").1).unwrap();
        let environment = |found: &Value| {
            let mut environment = found["environment"].as_object().unwrap().clone();
            let deployment = environment.remove("APPWRITE_FUNCTION_DEPLOYMENT");
            assert!(deployment.is_some(), "{found}");
            let of_repositories = environment.keys().filter(|name| name.contains("_VCS_"));
            assert_eq!(of_repositories.count(), 12, "{found}");
            assert_eq!(environment["APPWRITE_VCS_COMMIT_HASH"], "", "{found}");
            environment
        };
        assert_eq!(environment(&in_dev), environment(&on_server), "{language}");
        let own_headers = |found: &Value| {
            let names = found["headers"].as_object().unwrap().keys().cloned();
            let own = names.filter(|name| name.starts_with("x-"));
            own.collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(own_headers(&in_dev), own_headers(&on_server), "{language}");
    }
}
