//! The whole command line: global options, the list of commands, and how errors are printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::commands::orchestrator::OrchestratorCommand;
use crate::commands::{self, Command, worker};
use crate::exit::Exit;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;
use regatta_ops::documents::{ErrorDocument, by_name};

/// Runs coding agents side by side, each in its own git worktree, and lands their work.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command accepts.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print one JSON document, or one object per line for commands that follow something.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Work on the repository at DIR instead of the current directory.
    #[arg(long, short = 'C', global = true, value_name = "DIR", env = "REGATTA_PROJECT")]
    pub(crate) project: Option<PathBuf>,
    /// Read this configuration file instead of regatta.yaml at the repository root.
    #[arg(long, global = true, value_name = "FILE", env = "REGATTA_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Use this store: a path, sqlite:PATH, postgres://USER@HOST/DATABASE, or zookeeper://HOST/CHROOT.
    #[arg(long, alias = "db", global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Directory of the registry of repositories, as in parallel-agents.
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The ZooKeeper servers of the store, as in claude-orchestrator: the same as --store zookeeper://HOSTS.
    #[arg(long, short = 'z', global = true, hide = true, value_name = "HOSTS", conflicts_with = "store")]
    pub(crate) zookeeper: Option<String>,
    /// Trust what this repository's settings run, and record that. Meant for scripts; `regatta trust` shows it first.
    #[arg(long, global = true, env = "REGATTA_TRUST", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) trust: bool,
    /// Print less.
    #[arg(long, short = 'q', global = true)]
    pub(crate) quiet: bool,
    /// Print more.
    #[arg(long, short = 'v', global = true)]
    pub(crate) verbose: bool,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Parses the arguments, runs the command and turns its result into an exit code.
pub(crate) fn main() -> ExitCode {
    let parsed = match report() {
        Some(cli) => Ok(cli),
        None => definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)),
    };
    let mut cli = match parsed.or_else(other_tool) {
        Ok(cli) => cli,
        Err(error) => return usage(&without_hidden(error)),
    };
    // Called as `claude-orchestrator`, every command that can print JSON does, as in that tool.
    let called = std::env::args_os().next().map(PathBuf::from);
    let is_other_tool = called.as_deref().and_then(Path::file_name) == Some("claude-orchestrator".as_ref());
    cli.global.json |= is_other_tool && matches!(cli.command, Command::Status(_) | Command::Config(_));
    cli.global.store = cli.global.store.take().or_else(|| cli.global.zookeeper.as_deref().map(ensemble));
    let ui = Ui::new(&cli.global);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let result = runtime.block_on(commands::run(cli.command, &cli.global, &ui));
    // Blocking threads may still be cleaning up; they must not delay the exit.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            show(&ui, &error);
            Exit::from(error.kind).into()
        }
    }
}

/// What agents type all the time, beside their work. To build all commands takes longer than to carry out one of these.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, disable_help_subcommand = true)]
struct Reported {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: ReportCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReportCommand {
    Done(worker::DoneArgs),
    Progress(worker::ProgressArgs),
    Stuck(worker::StuckArgs),
}

/// The report on the command line. Anything else, help and mistakes included, is left to the whole definition.
fn report() -> Option<Cli> {
    let first = std::env::args_os().nth(1)?;
    if !["done", "progress", "stuck"].iter().any(|name| first == *name) {
        return None;
    }
    let Reported { global, command } = Reported::try_parse().ok()?;
    let command = match command {
        ReportCommand::Done(args) => Command::Done(args),
        ReportCommand::Progress(args) => Command::Progress(args),
        ReportCommand::Stuck(args) => Command::Stuck(args),
    };
    Some(Cli { global, command })
}

/// The store in these ZooKeeper servers, as claude-orchestrator names them.
pub(crate) fn ensemble(hosts: &str) -> String {
    let is_address = ["zookeeper://", "zk://"].iter().any(|scheme| hosts.starts_with(scheme));
    if is_address { hosts.to_owned() } else { format!("zookeeper://{hosts}") }
}

/// The commands of claude-orchestrator, by their own names. They are tried last, so that no help text and no suggestion
/// names them.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, disable_help_subcommand = true, max_term_width = 110)]
struct OtherTool {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: OrchestratorCommand,
}

fn other_tool(error: clap::Error) -> Result<Cli, clap::Error> {
    if error.kind() != clap::error::ErrorKind::InvalidSubcommand {
        return Err(error);
    }
    match OtherTool::try_parse() {
        Ok(OtherTool { global, command }) => Ok(Cli { global, command: Command::Orchestrator(command) }),
        Err(other) if other.kind() == clap::error::ErrorKind::InvalidSubcommand => Err(error),
        Err(other) => Err(other),
    }
}

/// The error without hidden commands, which clap lists when a command is missing.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(path)), Some(ContextValue::Strings(names))) =
        (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::ValidSubcommand))
    else {
        return error;
    };
    let definition = definition();
    let mut command = &definition;
    for name in path.split(' ').skip(1) {
        let Some(found) = command.find_subcommand(name) else { return error };
        command = found;
    }
    let is_shown = |name: &&String| command.find_subcommand(name).is_none_or(|found| !found.is_hide_set());
    let shown = names.iter().filter(is_shown).cloned().collect();
    error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
    error
}

fn usage(error: &clap::Error) -> ExitCode {
    let asked_for_help = !error.use_stderr();
    let json = std::env::args_os().any(|arg| arg == "--json");
    if json && !asked_for_help {
        let (message, hint) = spoken(&error.to_string());
        eprint_line(&by_name(&ErrorDocument::usage(message, hint, Exit::Usage.code())).to_string());
    } else {
        let _ = error.print();
    }
    if asked_for_help { Exit::Ok.into() } else { Exit::Usage.into() }
}

/// Clap's whole message on one line, and its tips and usage as the hint.
fn spoken(text: &str) -> (String, String) {
    let (mut message, mut hint) = (Vec::new(), Vec::new());
    for paragraph in text.split("\n\n") {
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.starts_with("Usage:") || words.starts_with("tip:") {
            hint.push(words.trim_start_matches("tip: ").to_owned());
        } else if !words.is_empty() && !words.starts_with("For more information") {
            message.push(words.trim_start_matches("error: ").to_owned());
        }
    }
    hint.push("`regatta --help` lists commands and options".to_owned());
    (message.join(" "), hint.join("; "))
}

fn show(ui: &Ui, error: &Refusal) {
    if ui.json {
        let document = ErrorDocument::of(error, Exit::from(error.kind).code());
        eprint_line(&by_name(&document).to_string());
        return;
    }
    for diagnostic in &error.diagnostics {
        ui.note(diagnostic.to_string());
    }
    ui.note(format!("{} {}", ui.paint(Style::Bad, "error:"), error.message));
    ui.note(format!("{} {}", ui.paint(Style::Busy, "hint:"), error.hint()));
}

fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", crate::ui::escaped(text));
}

/// The command line as clap defines it, for completions and the reference page.
pub(crate) fn definition() -> clap::Command {
    crate::help::arrange(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_is_told_whole() {
        let check = |args: &[&str], message: &str, hint: &str| {
            let error = Cli::try_parse_from(std::iter::once(&"regatta").chain(args)).unwrap_err();
            let (said, step) = spoken(&error.to_string());
            assert_eq!(said, message);
            assert!(step.starts_with(hint) && step.ends_with("lists commands and options"), "{step}");
        };
        check(
            &["run"],
            "the following required arguments were not provided: <PLAN>...",
            "Usage: regatta run <PLAN>...; ",
        );
        check(
            &["list", "--status", "runing"],
            "invalid value 'runing' for '--status <STATE>' [possible values: all, active, pending, claimed, running, \
             judging, landing, done, landed, failed, cancelled, skipped, parked, blocked]",
            "a similar value exists: 'running'; ",
        );
        check(
            &["lst"],
            "unrecognized subcommand 'lst'",
            "some similar subcommands exist: 'cost', 'ls', 'list'; Usage: ",
        );
    }

    #[test]
    fn a_missing_command_is_not_chosen_from_hidden_ones() {
        let error = definition().try_get_matches_from(["regatta", "--quiet"]).unwrap_err();
        assert!(error.to_string().contains("complete-ids"), "clap lists hidden commands: {error}");
        let text = without_hidden(error).to_string();
        assert!(text.contains(" run, enqueue,") && !text.contains("complete-ids"), "{text}");
    }
}
