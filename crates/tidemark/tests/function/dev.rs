//! `function dev`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::{self, Folder, assert_refused, json_of};
use super::{alter, command, done, function, has_jail, init, running, runtime_of};

/// `tidemark function dev` in the folder `hello`; killed when it is dropped.
pub struct Dev {
    child: Child,
    port: u16,
    banner: String,
}

/// What `dev` writes to standard error, in the folder of a test.
const DEV_ERRORS: &str = "dev-errors";

impl Dev {
    pub fn start(folder: &Folder, words: &[&str]) -> Dev {
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
    pub fn get_until(&self, part: &str) {
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
pub fn stop(mut dev: Dev, place: &str) {
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
