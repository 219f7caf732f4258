//! The network `outside`: what a function reaches by it, and each way around its broker.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;

use functions::jail::JailLevel;
use functions::jail::attempt::try_outside;
use functions::outside::OutsideNetwork;
use functions::{Executor, FunctionOutcome, InstalledRuntimes, RunRefusal};
use serde_json::{Value, json};
use testing::own_address;
use tokio::sync::mpsc;

use super::{BINARY, Host, LANGUAGES, api, can, run};

/// A nameserver that knows three names. `own.test` is `own`.
fn nameserver(own: Ipv4Addr) -> SocketAddr {
    // The port of the one may be taken for the other.
    let both = || {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind(datagrams.local_addr().unwrap()).ok()?;
        Some((datagrams, listener))
    };
    let (datagrams, listener) = std::iter::repeat_with(both).flatten().next().unwrap();
    let address = datagrams.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((count, from)) = datagrams.recv_from(&mut buffer) {
            let _ = datagrams.send_to(&answer(&buffer[..count], own), from);
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer_connection(stream, own);
        }
    });
    address
}

fn answer_connection(mut stream: TcpStream, own: Ipv4Addr) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut question)?;
    let answer = answer(&question, own);
    stream.write_all(&(answer.len() as u16).to_be_bytes())?;
    stream.write_all(&answer)
}

/// RFC 1035, 4.1: one address for a question of the type A, else none.
fn answer(question: &[u8], own: Ipv4Addr) -> Vec<u8> {
    let names = [
        (&b"\x03own\x04test\0"[..], own),
        (b"\x07private\x04test\0", Ipv4Addr::new(10, 0, 0, 1)),
        (b"\x04loop\x04test\0", Ipv4Addr::LOCALHOST),
    ];
    let name = &question[12..];
    let known = names.iter().find(|(known, _)| name.starts_with(known));
    let end = 12 + name.iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_address = question[end - 4..end - 2] == [0, 1];
    let found = known.filter(|_| is_address);
    let mut answer = question[..2].to_vec();
    let code = if known.is_some() { 0x80 } else { 0x83 };
    answer.extend([0x81, code, 0, 1, 0, u8::from(found.is_some()), 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    if let Some((_, address)) = found {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}

/// Answers each connection with `ok`.
fn serve(listener: TcpListener) {
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 1024];
            if stream.read(&mut request).is_ok_and(|count| count > 0) {
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                let _ = stream.write_all(head.as_bytes());
            }
        }
    });
}

struct ReachingHost {
    host: Host,
    own: Ipv4Addr,
    open: u16,
    datagrams: UdpSocket,
}

impl ReachingHost {
    fn new() -> Option<ReachingHost> {
        let own = own_address().or_else(|| {
            eprintln!("skipped: this host has no address besides its loopback");
            None
        })?;
        let listener = TcpListener::bind((own, 0)).unwrap();
        let open = listener.local_addr().unwrap().port();
        serve(listener);
        let datagrams = UdpSocket::bind((own, 0)).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let host = Host::new();
        host.listener.set_nonblocking(true).unwrap();
        Some(ReachingHost {
            host,
            own,
            open,
            datagrams,
        })
    }

    fn executor(&self, level: JailLevel, allow: &[String]) -> Executor {
        let (sender, connections) = mpsc::channel(1);
        thread::spawn(move || api::answer_all(connections));
        let mut settings = self.host.settings(level);
        settings.outside = OutsideNetwork {
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            nameservers: vec![nameserver(self.own)],
        };
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let runtimes = InstalledRuntimes::find(&search_path, &[]);
        Executor::with_api(settings, runtimes, Some(sender)).unwrap()
    }

    fn work(&self, executor: &Executor, language: &str, path: &str) -> functions::FunctionWork {
        let ending = LANGUAGES
            .iter()
            .find(|(name, _)| *name == language)
            .unwrap()
            .1;
        let mut work = self
            .host
            .work(executor, language, &format!("outside.{ending}"), path);
        let mut targets: Value = serde_json::from_slice(&work.body).unwrap();
        targets["own"] = json!(self.own.to_string());
        targets["open"] = json!(self.open);
        targets["datagrams"] = json!(self.datagrams.local_addr().unwrap().port());
        work.body = targets.to_string().into();
        let mut deployment = (*work.deployment).clone();
        deployment.reaches_outside = true;
        work.deployment = deployment.into();
        work
    }

    fn found(outcome: &FunctionOutcome) -> Value {
        assert_eq!(outcome.response.status, 200, "{}", outcome.errors);
        serde_json::from_slice(&outcome.response.body).unwrap()
    }

    /// Nothing of the host that is not public has heard anything.
    fn is_unheard(&self) {
        let silent = self.host.listener.accept().map(|_| ()).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::WouldBlock);
        let silent = self.datagrams.recv(&mut [0]).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::WouldBlock);
    }
}

/// What comes of each way, whatever is listed.
fn check_refused(language: &str, found: &Value) {
    for (ways, result) in [
        (
            &[
                "private",
                "private by name",
                "mapped",
                "6to4",
                "NAT64",
                "unique local",
                "link local",
                "metadata",
                "path socket",
                "abstract socket",
            ][..],
            "EACCES",
        ),
        (
            &[
                "host loopback",
                "host loopback by IPv6",
                "host loopback, mapped",
                "host loopback by name",
            ],
            "ECONNREFUSED",
        ),
        (&["private by UDP", "sendmsg"], "ENETUNREACH"),
    ] {
        for way in ways {
            assert_eq!(found[way], result, "{language}: {way}: {found}");
        }
    }
}

#[test]
fn outside_reaches_names_and_what_is_listed() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let Some(outside) = ReachingHost::new() else {
        return;
    };
    let executor = outside.executor(JailLevel::Full, &[outside.own.to_string()]);
    for (language, ending) in LANGUAGES {
        let outcome = run(&executor, outside.work(&executor, language, "/listed"));
        let found = ReachingHost::found(&outcome);
        assert_eq!(found["api"], format!("outside.{ending}"), "{found}");
        assert_eq!(found["by name"], "ok", "{language}: {found}");
        assert_eq!(found["by address"], "ok", "{language}: {found}");
        assert_eq!(found["own"], "done", "{language}: {found}");
        check_refused(language, &found);
        if language == "python" {
            assert_eq!(found["awaited"], "ok", "{found}");
            assert_eq!(found["name by connection"], outside.own.to_string());
            let wanted = json!({
                "dissolved": "EACCES", "connected again": "EISCONN",
                "connected to the host": "EACCES", "fast open": "EPERM", "listening": "EPERM",
                "interfaces": "EPERM", "failed": "ECONNREFUSED", "failed, to the host": "ECONNREFUSED",
                "failed, fast open": "EPERM", "failed, listening": "EPERM",
            });
            assert_eq!(found["led away"], wanted);
        }
        outside.is_unheard();
    }
    let counts = executor.counts().read();
    let refused = counts.values().map(|counts| counts.refused_connections);
    assert!(refused.clone().all(|refused| refused >= 7), "{counts:?}");
    for report in executor.report() {
        let output = executor.output(&report.id);
        assert!(output.contains("may not make"), "{output}");
    }
}

#[test]
fn outside_does_not_reach_the_host_itself() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let Some(outside) = ReachingHost::new() else {
        return;
    };
    let executor = outside.executor(JailLevel::Full, &[]);
    for (language, _) in LANGUAGES {
        let outcome = run(&executor, outside.work(&executor, language, "/"));
        let found = ReachingHost::found(&outcome);
        for way in ["own", "by name", "by address"] {
            let result = found[way].as_str().unwrap();
            let is_refused = result == "EACCES" || result.contains("Permission denied");
            assert!(is_refused, "{language}: {way}: {found}");
        }
        check_refused(language, &found);
        outside.is_unheard();
    }
}

#[test]
fn outside_is_no_way_around_the_other_fences() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let Some(outside) = ReachingHost::new() else {
        return;
    };
    let executor = outside.executor(JailLevel::Full, &[]);
    for (language, ending) in LANGUAGES {
        let mut work = outside.work(&executor, language, "/full");
        let mut deployment = (*work.deployment).clone();
        deployment.id = format!("escape.{ending}");
        deployment.entrypoint = deployment.id.clone();
        work.deployment = deployment.into();
        let mut found = ReachingHost::found(&run(&executor, work));
        // These have another end, which stands above; and there is one filter more.
        let others = [
            "host loopback",
            "host loopback by IPv6",
            "path socket",
            "abstract socket",
            "outside",
            "filter",
        ];
        for way in others {
            found.as_object_mut().unwrap().remove(way);
        }
        super::check_common(language, &found);
    }
}

#[test]
fn outside_is_refused_where_jails_have_no_network() {
    let Some(outside) = ReachingHost::new() else {
        return;
    };
    let executor = outside.executor(JailLevel::Reduced, &[]);
    let work = outside.work(&executor, "python", "/");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let refused = runtime.block_on(executor.run(work)).unwrap_err();
    assert_eq!(refused, RunRefusal::NetworkMissing);
    executor.shut_down(Duration::ZERO);
}

#[test]
fn network_of_a_jail_is_tried_as_the_doctor_does() {
    if can(JailLevel::Full, None) {
        try_outside(Path::new(BINARY)).unwrap();
    }
    let why = try_outside(Path::new("/bin/false")).unwrap_err();
    assert!(!why.contains("no answer"), "{why}");
}
