//! The agent's server through the door of a sandbox: the same tools, the same refusals.

use serde_json::json;

use super::client::Client;
use super::names;
use crate::door::{Doorway, variables};

#[test]
fn an_agent_in_a_sandbox_has_the_same_server() {
    let door = Doorway::new();
    door.world.regatta(["ctx", "set", "style", "plain"]).exited(0);
    let variables = variables(&door.dir);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut client = Client::start(&door.world, &variables, &[]);
    let tools = client.tools();
    for tool in ["done", "progress", "stuck", "ask", "send_message", "set_context", "radar", "status"] {
        assert!(tools.contains(&tool.to_owned()), "{tool} in {tools:?}");
    }
    for tool in ["enqueue", "push_task", "claim_task", "complete_task", "register_instance", "delete_context"]
    {
        assert!(!tools.contains(&tool.to_owned()), "{tool} is not for agents");
        let refused = client.refused(tool, &json!({}));
        assert_eq!(
            refused,
            format!("{tool} is not for the agent of a task (talker) (hint: tools/list shows the tools)")
        );
    }
    client.call("progress", &json!({ "label": "half-way", "phase": "code" }));
    client.call("heartbeat", &json!({ "status": "still at it" }));
    assert_eq!(client.call("get_context", &json!({ "key": "style" }))["value"], "plain");
    assert_eq!(client.call("status", &json!({}))["id"], "talker");
    assert_eq!(names(&client.call("list_tasks", &json!({}))["tasks"], "id"), ["talker"]);
    insta::assert_snapshot!(client.refused("done", &json!({ "verdict": "great" })), @r#"`verdict` "great" is not a verdict; use pass, warn, block or unknown (hint: `unknown` if you cannot tell)"#);
    client.call("send_message", &json!({ "content": "hello" }));
    client.call("done", &json!({ "verdict": "warn", "summary": "x".repeat(10_000) }));
    assert_eq!(client.end(), 0);
    // A second one while the first has gone, and a person's server is not offered.
    let second = Client::start(&door.world, &variables, &[]);
    door.run(["mcp", "--name", "eve"]).exited(2);
    assert_eq!(second.end(), 0);
}
