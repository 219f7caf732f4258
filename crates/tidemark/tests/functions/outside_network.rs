//! The network `outside`, as an operator gives it to a function of the built server.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;

use serde_json::{Value, json};
use testing::{own_address, own_ipv6_address};

use super::fixture::{Host, NODE, PYTHON, can};

/// Answers with what each address says, or with why it says nothing.
const NODE_CODE: &str = "
module.exports = async ({ req, res }) => {
  const said = []
  for (const url of req.bodyJson) {
    said.push(await fetch(url).then((answer) => answer.text()).catch((error) => error.cause.code))
  }
  return res.json(said)
}";
const PYTHON_CODE: &str = "
import errno, urllib.error, urllib.request

def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.URLError as error:
        return errno.errorcode[error.reason.errno]

def main(context):
    return context.res.json([get(url) for url in context.req.body_json])
";

/// Answers each connection to an address of this host with `ok`.
fn serve(address: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 1024];
            if stream.read(&mut request).is_ok_and(|count| count > 0) {
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                let _ = stream.write_all(head.as_bytes());
            }
        }
    });
    address
}

#[track_caller]
fn said(host: &Host, function: &str, urls: &[String]) -> Vec<String> {
    let body = json!(urls).to_string();
    let execution = host.executed(function, &json!({ "body": body }));
    let body = execution["responseBody"].as_str().unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{execution}"))
}

fn set_network(host: &Host, function: &str, network: &str) {
    let path = format!("/v1/tidemark/functions/{function}/options");
    let set = host.ask_at("PATCH", &path, &json!({ "network": network }));
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(set.json()["network"], network);
}

#[test]
fn network_of_a_function_is_what_its_options_say() {
    let Some(own) = own_address().filter(|_| can()) else {
        return;
    };
    let mut addresses = vec![IpAddr::from(own)];
    addresses.extend(own_ipv6_address().map(IpAddr::from));
    // One of each version is listed, and the same one as IPv4 inside of IPv6.
    let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut urls: Vec<String> = addresses
        .iter()
        .map(|address| format!("http://{}/", serve(*address)))
        .collect();
    let mapped = own.to_ipv6_mapped();
    urls.push(format!("http://[{mapped}]:{}/", serve(own.into()).port()));
    let open = vec!["ok".to_owned(); urls.len()];
    // Private, and not listed.
    let closed = ["http://10.255.255.1:8080/".to_owned()];

    let host = Host::new(&["--functions-allow", &listed.join(",")]);
    for (function, runtime, file) in [
        ("js", NODE, ("main.js", NODE_CODE)),
        ("py", PYTHON, ("main.py", PYTHON_CODE)),
    ] {
        host.create(function, runtime, &Value::Null);
        host.deploy(function, &[file], "");
        let without = said(&host, function, &urls);
        assert!(without.iter().all(|said| said != "ok"), "{without:?}");
        set_network(&host, function, "outside");
        assert_eq!(said(&host, function, &urls), open, "{urls:?}");
        assert_eq!(said(&host, function, &closed), ["EACCES"]);
        set_network(&host, function, "none");
        let without = said(&host, function, &urls);
        assert!(without.iter().all(|said| said != "ok"), "{without:?}");
    }
}
