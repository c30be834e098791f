//! The command line as a whole: global options, the list of commands, and how an error leaves.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, ValueEnum};
use serde_json::json;

use crate::commands::{self, Command};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::{Style, Ui};

/// Runs unattended coding agents side by side, each in its own git worktree, and lands what they made.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, disable_help_subcommand = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// Print one JSON document, or one object per line where something is followed.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Work on the repository at DIR instead of the current directory.
    #[arg(long, short = 'C', global = true, value_name = "DIR", env = "REGATTA_PROJECT")]
    pub(crate) project: Option<PathBuf>,
    /// Read this configuration file instead of regatta.yaml at the repository root.
    #[arg(long, global = true, value_name = "FILE", env = "REGATTA_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Use this store: a path, or sqlite:PATH.
    #[arg(long, alias = "db", global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Say less.
    #[arg(long, short = 'q', global = true)]
    pub(crate) quiet: bool,
    /// Say more.
    #[arg(long, short = 'v', global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Use colours.
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

/// Parses, runs, and turns what came of it into an exit code.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let ui = Ui::new(&cli.global);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let result = runtime.block_on(commands::run(cli.command, &cli.global, &ui));
    // Blocking threads may still tidy up; they must not hold the end back.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            show(&ui, &error);
            error.exit.into()
        }
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    let asked_for_help = !error.use_stderr();
    let json = std::env::args_os().any(|arg| arg == "--json");
    if json && !asked_for_help {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let hint = "`regatta --help` lists commands and options";
        let document = json!({ "error": first, "hint": hint, "code": Exit::Usage.code() });
        eprint_line(&document.to_string());
    } else {
        let _ = error.print();
    }
    if asked_for_help { Exit::Ok.into() } else { Exit::Usage.into() }
}

fn show(ui: &Ui, error: &CliError) {
    if ui.json {
        let mut document = json!({ "error": error.message, "hint": error.hint, "code": error.exit.code() });
        if !error.diagnostics.is_empty() {
            document["diagnostics"] =
                serde_json::to_value(&error.diagnostics).expect("our own values serialise");
        }
        eprint_line(&document.to_string());
        return;
    }
    for diagnostic in &error.diagnostics {
        ui.note(diagnostic.to_string());
    }
    ui.note(format!("{} {}", ui.paint(Style::Bad, "error:"), error.message));
    if let Some(hint) = &error.hint {
        ui.note(format!("{} {hint}", ui.paint(Style::Busy, "hint:")));
    }
}

fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The command line as clap sees it, for completions and the reference.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}
