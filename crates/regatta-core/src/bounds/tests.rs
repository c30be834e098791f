use super::*;
use crate::config::AgentKind;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| Rule::parse(text).unwrap()).collect()
}

fn denying(texts: &[&str]) -> Bounds {
    Bounds { permissions: Permissions { allow: None, deny: rules(texts) }, ..Bounds::default() }
}

fn allowing(texts: &[&str]) -> Bounds {
    Bounds { permissions: Permissions { allow: Some(rules(texts)), deny: Vec::new() }, ..Bounds::default() }
}

#[test]
fn a_rule_reads_back_as_it_was_written() {
    for text in
        ["Edit", "Bash(git push:*)", "Read(./secrets/**)", "WebFetch(domain:x.org)", "mcp__docs__search"]
    {
        assert_eq!(Rule::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Rule::parse("Bash(git push:*)").unwrap().command_prefix(), Some("git push"));
    for text in ["Bash", "Bash(git push)", "Bash(:*)", "Read(a:*)", "Bash(git * x:*)"] {
        assert_eq!(Rule::parse(text).unwrap().command_prefix(), None, "{text}");
    }
}

#[test]
fn what_could_be_taken_for_more_than_one_rule_or_an_option_is_none() {
    for text in [
        "",
        "-x",
        "--yolo",
        "Bash(",
        "Bash)",
        "Bash()",
        "Bash( x)",
        "Bash(a,b)",
        "Bash(a)(b)",
        "Bash(a),Edit",
        "a b",
        "Bash(a\nb)",
        "*",
    ] {
        assert!(Rule::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn denials_and_servers_add_up_and_the_nearer_list_of_what_is_allowed_wins() {
    let server = |command: &str| McpServer::Program {
        command: command.into(),
        args: Vec::new(),
        env: BTreeMap::new(),
    };
    let mut far = denying(&["Edit", "Bash(rm:*)"]);
    far.permissions.allow = Some(rules(&["Read"]));
    far.sandbox = Some(Sandbox::Workspace);
    far.mcp = [("a".to_owned(), server("far")), ("b".to_owned(), server("far"))].into();
    let mut near = denying(&["Bash(rm:*)", "WebFetch"]);
    near.mcp = [("a".to_owned(), server("near"))].into();
    let both = near.on_top_of(&far);
    assert_eq!(both.permissions.deny, rules(&["Edit", "Bash(rm:*)", "WebFetch"]));
    assert_eq!(both.permissions.allow, Some(rules(&["Read"])));
    assert_eq!(both.sandbox, Some(Sandbox::Workspace));
    assert_eq!((&both.mcp["a"], &both.mcp["b"]), (&server("near"), &server("far")));
    assert_eq!(allowing(&["Bash"]).on_top_of(&far).permissions.allow, Some(rules(&["Bash"])));
    assert_eq!(allowing(&[]).on_top_of(&far).permissions.allow, Some(Vec::new()), "nothing at all");
}

#[test]
fn an_agent_that_cannot_keep_a_bound_is_refused_with_what_to_do() {
    let check = |kind, bounds: &Bounds, read_only, expected: Option<&str>| {
        let refused = refusals(kind, bounds, read_only);
        match expected {
            None => assert_eq!(refused, [], "{kind:?} {bounds:?}"),
            Some(text) => assert!(
                refused.len() == 1 && refused[0].why.contains(text) && refused[0].why.contains(';'),
                "{kind:?}: {refused:?}"
            ),
        }
    };
    use AgentKind::{Claude, Codex, Command, Gemini, Opencode, Sim};
    let push = denying(&["Bash(git push:*)"]);
    for kind in [Claude, Gemini, Opencode] {
        check(kind, &push, false, None);
        check(kind, &push, true, None);
        check(kind, &allowing(&["Bash(cargo:*)", "Edit", "Write", "Read"]), false, None);
        check(kind, &allowing(&["Read"]), true, Some("read-only task"));
    }
    check(Codex, &push, false, Some("codex cannot enforce rules"));
    check(Command, &push, false, Some("kind command"));
    check(Sim, &allowing(&[]), false, Some("kind sim"));
    let secrets = denying(&["Read(./secrets/**)"]);
    check(Claude, &secrets, false, None);
    check(Gemini, &secrets, false, Some("gemini cannot enforce `Read(./secrets/**)`"));
    check(Opencode, &denying(&["Bash(git push)"]), false, Some("exactly"));
    check(Opencode, &denying(&["Bash($X:*)"]), false, Some("exactly"));
    check(Opencode, &denying(&["Edit"]), false, Some("does not distinguish Edit from Write"));
    check(Opencode, &denying(&["Edit", "Write"]), false, None);
    check(Gemini, &denying(&["Edit"]), false, None);
    check(Gemini, &denying(&["NotebookEdit"]), false, Some("has no tool for `NotebookEdit`"));

    let sandbox = |sandbox| Bounds { sandbox: Some(sandbox), ..Bounds::default() };
    for kind in AgentKind::ALL {
        check(kind, &Bounds::default(), true, None);
        // Regatta itself confines every kind.
        for one in [Sandbox::Off, Sandbox::Workspace, Sandbox::ReadOnly] {
            check(kind, &sandbox(one), false, None);
        }
    }
    let server = McpServer::Remote { url: "http://127.0.0.1:1/".into(), headers: BTreeMap::new() };
    let mcp = Bounds { mcp: [("docs".to_owned(), server)].into(), ..Bounds::default() };
    for kind in AgentKind::ALL {
        let expected = match kind {
            Gemini => Some("gemini reads MCP servers only from its own settings"),
            Command | Sim => Some("do not support MCP servers"),
            _ => None,
        };
        check(kind, &mcp, false, expected);
    }
}
