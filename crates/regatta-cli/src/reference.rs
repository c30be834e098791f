//! The reference pages are generated from the code and compared with it; `REGATTA_ACCEPT=1 cargo test -p regatta-cli`
//! rewrites them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use regatta_core::config::reference::{config_markdown, node_markdown, task_file_markdown};
use regatta_core::state::StateName;

use crate::cli::definition;
use crate::exit::Exit;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn check(name: &str, expected: &str) {
    let path = docs().join("reference").join(name);
    if std::env::var_os("REGATTA_ACCEPT").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/{name} is not what the code says; rewrite it with REGATTA_ACCEPT=1 cargo test -p regatta-cli"
    );
}

#[test]
fn the_exit_codes_page_lists_every_code() {
    let mut text =
        "# Exit codes\n\nThe same for every command.\n\n| code | meaning |\n|---|---|\n".to_owned();
    for (exit, meaning) in Exit::ALL {
        let _ = writeln!(text, "| {} | {meaning} |", exit.code());
    }
    text.push_str(
        "\nWith `--json` an error is one object on standard error: `{\"error\", \"hint\", \"code\", \"next\"}`.\n",
    );
    check("exit-codes.md", &text);
}

#[test]
fn the_task_file_page_lists_every_key() {
    check("task-file.md", &task_file_markdown());
}

#[test]
fn the_config_page_lists_every_key() {
    check("config.md", &config_markdown());
}

#[test]
fn the_node_page_lists_every_key() {
    check("node.md", &node_markdown());
}

#[test]
fn the_command_line_page_is_the_help_of_every_command() {
    let mut text = "# Commands\n\nWhat `regatta --help` and `regatta COMMAND --help` print. The global options work with every command; they are listed once.\n".to_owned();
    let mut command = definition();
    command.build();
    write_command(&mut text, &mut command, "regatta");
    check("cli.md", &text);
}

fn write_command(text: &mut String, command: &mut clap::Command, name: &str) {
    // The global options are the same everywhere, so only the first command lists them.
    let is_first = name == "regatta";
    let shown =
        command.clone().mut_args(|arg| if arg.is_global_set() && !is_first { arg.hide(true) } else { arg });
    let help = shown.term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim());
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for sub in names {
        if let Some(found) = command.find_subcommand_mut(&sub) {
            write_command(text, found, &format!("{name} {sub}"));
        }
    }
}

#[test]
fn the_lifecycle_page_names_every_state() {
    let page = std::fs::read_to_string(docs().join("concepts/lifecycle.md")).unwrap();
    for state in StateName::ALL {
        assert!(
            page.contains(&format!("| `{state}` |")),
            "docs/concepts/lifecycle.md does not explain {state}"
        );
    }
}

#[test]
fn the_recovery_page_names_every_failpoint() {
    let page = std::fs::read_to_string(docs().join("concepts/recovery.md")).unwrap();
    for name in regatta_engine::failpoint::ALL {
        assert!(page.contains(&format!("| `{name}` |")), "docs/concepts/recovery.md does not explain {name}");
    }
}

#[test]
fn the_examples_are_the_ones_the_page_lists() {
    let root = docs().join("../examples");
    let page = std::fs::read_to_string(root.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&root).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(page.contains(&format!("examples/{name}/")), "examples/README.md does not list {name}");
        }
    }
}
