//! The official inspector of the Model Context Protocol, as a client of `regatta mcp`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

/// The directory of its programs, which are installed if missing.
fn programs() -> &'static PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/inspector/install"));
        let output = Command::new(&script).output().expect("scripts/inspector/install can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    })
}

/// Its output. Its own programs come first on its path, because it may need a newer node.
#[track_caller]
fn inspect(world: &World, args: &[&str]) -> Value {
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(programs().join("mcp-inspector"));
    command.arg("--cli").args(args).current_dir(world.root());
    command.env_clear().envs(world.repo().env()).env("PATH", path).env("HOME", world.outside("home"));
    let output = command.output().expect("the inspector can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}{error}"))
}

#[test]
fn it_lists_and_calls_the_tools_over_both_transports() {
    let world = World::new(REGATTA);
    let stdio = [REGATTA, "mcp"];
    let listed = inspect(&world, &[&stdio[..], &["--method", "tools/list", "--strict"]].concat());
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(23), "{listed:#}");
    let call = ["--method", "tools/call", "--tool-name", "set_context", "--tool-arg", "key=a", "value=b"];
    let called = inspect(&world, &[&stdio[..], &call].concat());
    assert_eq!(called["structuredContent"]["version"], 1, "{called:#}");
    let read = inspect(
        &world,
        &[&stdio[..], &["--method", "resources/read", "--uri", "regatta://context/a"]].concat(),
    );
    assert!(read["contents"][0]["text"].as_str().is_some_and(|text| text.contains("\"b\"")), "{read:#}");
    let listed = inspect(&world, &[&stdio[..], &["--method", "prompts/list"]].concat());
    assert_eq!(listed["prompts"].as_array().map(Vec::len), Some(3), "{listed:#}");

    let mut served = world.begin(["mcp", "--http", "0", "--json"]);
    let told: Value = serde_json::from_str(&served.wait_line("\"url\"")).expect("an object");
    let url = told["url"].as_str().expect("a url");
    let token = std::fs::read_to_string(told["token_file"].as_str().expect("a path")).expect("it is there");
    let header = format!("Authorization: Bearer {}", token.trim());
    let http = |args: &[&str]| {
        inspect(&world, &[&[url, "--transport", "http"][..], args, &["--header", &header]].concat())
    };
    assert_eq!(http(&["--method", "tools/list"])["tools"].as_array().map(Vec::len), Some(23));
    let called = http(&["--method", "tools/call", "--tool-name", "get_context", "--tool-arg", "key=a"]);
    assert_eq!(called["structuredContent"]["value"], "b", "{called:#}");
    served.kill();
}
