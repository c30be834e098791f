use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use regatta_testkit::world::{Running, World};
use serde_json::{Value, json};

use super::client::greeting;
use crate::REGATTA;

/// A server on some port, and its token.
struct Served {
    port: u16,
    token: String,
    _running: Running,
}

fn serve(world: &World) -> Served {
    let mut running = world.begin(["mcp", "--http", "0", "--json"]);
    let told: Value =
        serde_json::from_str(&running.next_line().expect("it tells where it is")).expect("an object");
    let url = told["url"].as_str().expect("a url");
    let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/mcp"));
    let port = port.expect("on the loopback").parse().expect("a port");
    let file = std::path::Path::new(told["token_file"].as_str().expect("a path"));
    let mode = file.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(file).expect("it can be read").trim().to_owned();
    Served { port, token, _running: running }
}

impl Served {
    /// Status, headers and body of the answer.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let body = body.to_string();
        let mut head =
            format!("POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n");
        head.push_str("Accept: application/json, text/event-stream\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: 127.0.0.1:{}\r\n", self.port));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, answer)
    }
}

#[test]
fn nobody_is_let_in_without_the_token_nor_from_another_site() {
    let world = World::new(REGATTA);
    let served = serve(&world);
    let bearer = format!("Bearer {}", served.token);
    let short = format!("Bearer {}", &served.token[1..]);
    for wrong in [&[][..], &[("Authorization", short.as_str())], &[("Authorization", served.token.as_str())]]
    {
        let (status, answer) = served.post("/mcp", wrong, &greeting());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        assert_eq!(status, 401);
        assert_eq!(
            body,
            Some(
                "this server needs its token: send `Authorization: Bearer TOKEN`; the server printed the path of the token file when it started\n"
            )
        );
    }
    let known = ("Authorization", bearer.as_str());
    for foreign in [("Origin", "http://evil.example"), ("Host", "evil.example"), ("Origin", "null")] {
        assert_eq!(served.post("/mcp", &[known, foreign], &greeting()).0, 403, "{foreign:?}");
    }
    assert_eq!(served.post("/", &[known], &greeting()).0, 404);
    let (status, answer) = served.post("/mcp", &[known, ("Origin", "http://localhost:3000")], &greeting());
    assert!(status == 200 && answer.contains("\"serverInfo\""), "{answer}");
}

#[test]
fn a_session_over_http_remembers_who_registered() {
    let world = World::new(REGATTA);
    let served = serve(&world);
    let bearer = format!("Bearer {}", served.token);
    let known = ("Authorization", bearer.as_str());
    let (_, answer) = served.post("/mcp", &[known], &greeting());
    let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let session = session.trim().to_owned();
    let headers = [known, ("Mcp-Session-Id", session.as_str())];
    served.post("/mcp", &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let (_, answer) = served.post("/mcp", &headers, &body);
        let events = answer.lines().filter_map(|line| line.strip_prefix("data: {"));
        let mut answers =
            events.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).expect("an object"));
        answers.next_back().expect("an answer")["result"]["structuredContent"].clone()
    };
    assert_eq!(call("register_instance", json!({ "name": "ann" }))["name"], "ann");
    assert_eq!(call("set_context", json!({ "key": "k", "value": "v" }))["by"], "ann");
    let crew = world.regatta(["crew", "list", "--json"]).exited(0).json();
    assert_eq!((&crew[0]["name"], &crew[0]["by"]), (&json!("ann"), &json!("heartbeats")));
}

#[test]
fn a_door_that_would_stand_open_is_not_opened() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["mcp", "--http", "0.0.0.0:0"]).shown(), @"
    --- stderr
    error: other machines can reach 0.0.0.0:0, and the connection is not encrypted
    hint: listen on 127.0.0.1, or set --host NAME to the name by which they reach this machine
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["mcp", "--http", "example.org:80"]).shown(), @"
    --- stderr
    error: invalid value 'example.org:80' for '--http <ADDR>': is neither a port nor an address with a port, such as 127.0.0.1:7420

    For more information, try '--help'.
    --- exit 2
    ");
    let file = world.outside("token");
    std::fs::write(&file, "0123456789abcdef0123").expect("it can be written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("it is ours");
    let file = file.to_str().expect("a path");
    insta::assert_snapshot!(world.regatta(["mcp", "--http", "0", "--token-file", file, "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"other users can read the token in DIR/token","hint":"chmod 600 DIR/token","next":[{"text":"chmod 600 DIR/token"}]}
    --- exit 6
    "#);
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).expect("it is ours");
    std::fs::write(file, "short\n").expect("it can be written");
    insta::assert_snapshot!(world.regatta(["mcp", "--http", "0", "--token-file", file]).shown(), @"
    --- stderr
    error: DIR/token contains no token: one word of at least 16 letters and digits
    hint: remove the file: a new one is created
    --- exit 2
    ");
}
