use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use regatta_testkit::api::{Api, Refusal, Said, Script, Turn, tag};
use serde_json::{Value, json};

/// Says something to the API over a connection of its own, and hears everything that comes back.
fn exchange(api: &Api, request: &str) -> String {
    let mut stream = TcpStream::connect(api.url().trim_start_matches("http://")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn post(api: &Api, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    exchange(api, &format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"))
}

fn bash() -> Value {
    json!([{"name": "Bash", "input_schema": {"properties": {"command": {}, "description": {}}}}])
}

#[test]
fn each_request_of_a_conversation_takes_the_next_turn_in_its_own_dialect() {
    let api = Api::start();
    for name in ["a", "b", "c"] {
        let turns = [Turn::run("make"), Turn::Refuse(Refusal::Traffic(7)), Turn::say("over")];
        api.script(name, Script::of(turns));
    }
    let messages = json!({"model": "m", "stream": true, "tools": bash(), "messages": [{"role": "user", "content": tag("a")}]});
    let responses = json!({
        "model": "m", "stream": true,
        "tools": [{"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}}],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": tag("b")}]}],
    });
    let gemini = json!({
        "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": {"properties": {}}}]}],
        "contents": [{"role": "user", "parts": [{"text": tag("c")}]}],
    });
    let all = [
        ("/v1/messages?beta=true", messages, r#"{\"command\":\"make\""#, "retry-after: 7"),
        ("/v1/responses", responses, r#"{\"cmd\":\"make\"}"#, "retry-after: 7"),
        (
            "/v1beta/models/g:streamGenerateContent?alt=sse",
            gemini,
            r#""args":{"command":"make"}"#,
            r#""retryDelay":"7s""#,
        ),
    ];
    for (path, body, call, wait) in all {
        let first = post(&api, path, &body);
        assert!(first.contains(call) && first.ends_with("0\r\n\r\n"), "{first}");
        let second = post(&api, path, &body);
        assert!(second.starts_with("HTTP/1.1 429") && second.contains(wait), "{second}");
        let third = post(&api, path, &body);
        assert!(third.contains("over"), "{third}");
        assert!(post(&api, path, &body).contains("no more turns"));
    }
    assert_eq!((api.answered("a"), api.asked("a").len()), (4, 4));
    assert_eq!(api.asked("b")[0].said, [Said::User(tag("b"))]);
}

#[test]
fn a_body_may_come_in_chunks_and_an_answer_whole() {
    let api = Api::start();
    api.script("a", Script::always(Turn::say("as ever")));
    let body = json!({"tools": bash(), "messages": [{"role": "user", "content": [{"type": "text", "text": tag("a")}]}]});
    let body = body.to_string();
    let (one, two) = body.split_at(10);
    let answer = exchange(
        &api,
        &format!(
            "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
            one.len(),
            two.len()
        ),
    );
    let (_, message) = answer.split_once("\r\n\r\n").unwrap();
    let message: Value = serde_json::from_str(message).unwrap();
    assert_eq!(message["content"][0]["text"], "as ever");
}

#[test]
fn an_answer_that_breaks_off_has_a_beginning_and_no_end() {
    let api = Api::start();
    api.script("a", Script::always(Turn::Break));
    let body = json!({"stream": true, "tools": bash(), "messages": [{"role": "user", "content": tag("a")}]});
    let answer = post(&api, "/v1/messages", &body);
    assert!(answer.contains("message_start") && !answer.contains("message_stop"), "{answer}");
}

#[test]
fn whoever_wants_another_host_is_refused_and_written_down() {
    let api = Api::start();
    assert!(exchange(&api, "CONNECT example.org:443 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
    assert!(exchange(&api, "GET http://example.org/x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
    assert!(exchange(&api, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(
        exchange(&api, "GET /v1/responses HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
            .starts_with("HTTP/1.1 426")
    );
    assert_eq!(api.strangers(), ["example.org:443", "http://example.org/x"]);
    assert_eq!(api.unknown(), ["GET /metrics"]);
}
