//! A client that speaks the protocol line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use regatta_testkit::world::World;
use serde_json::{Value, json};

/// A running server, and the other end of its streams.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

/// The start of every conversation.
pub(super) fn greeting() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

impl Client {
    pub(super) fn start(world: &World, variables: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = world.command(world.root(), ["mcp"].iter().chain(args));
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("regatta can be started");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut client = Self { child, input, output, asked: 0 };
        client.write(&greeting());
        assert_eq!(client.read()["result"]["serverInfo"]["name"], "regatta");
        client.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("the server reads");
    }

    #[track_caller]
    pub(super) fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server writes");
        // That stream carries only the protocol.
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request without waiting for the answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }));
    }

    #[track_caller]
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params);
        let answer = self.read();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    /// The names of its tools.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().expect("a list").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The result of a successful tool call.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        assert!(answer["result"]["structuredContent"].is_object(), "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// The sentence of a tool's refusal. The protocol itself continues.
    #[track_caller]
    pub(super) fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["content"][0]["text"].as_str().expect("a sentence").to_owned()
    }

    /// Disconnects, and waits for the server to end.
    pub(super) fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().expect("it can be waited for").code().unwrap_or(-1)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
