//! `regatta completions SHELL`: prints a script that completes commands and options.

use clap_complete::Shell;

use regatta_ops::documents::CompletionsDocument;
use regatta_store::TaskQuery;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Print a completion script for bash, zsh, fish, elvish or powershell.
///
/// In bash, zsh and fish it also completes the ids of tasks.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to print it for.
    shell: Shell,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<Exit, Refusal> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::definition(), "regatta", &mut script);
    let script = with_ids(args.shell, &String::from_utf8_lossy(&script));
    if ui.json {
        ui.document(&CompletionsDocument { script, shell: args.shell.to_string() });
    } else {
        ui.bytes(script.as_bytes());
    }
    Ok(Exit::Ok)
}

/// Commands whose arguments are task ids.
const WITH_IDS: &str =
    "status logs diff cancel requeue retry park unpark reclaim send attach wait report land";

/// The script, extended to get task ids from `regatta complete-ids`.
fn with_ids(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}\n{}", BASH.replace("COMMANDS", &WITH_IDS.replace(' ', "|"))),
        Shell::Zsh => {
            let lines = script.lines().map(|line| {
                // A positional argument reads `'*::tasks -- help:_default'`.
                let name = line.trim_start_matches(['\'', '*', ':']).split(" -- ").next();
                match name {
                    Some("task" | "tasks") => line.replace(":_default'", ":_regatta_ids'"),
                    _ => line.to_owned(),
                }
            });
            let text = lines.collect::<Vec<_>>().join("\n") + "\n";
            text.replacen("_regatta() {", &format!("{ZSH}\n_regatta() {{"), 1)
        }
        Shell::Fish => format!(
            "{script}complete -c regatta -n \"__fish_seen_subcommand_from {WITH_IDS}\" -f -a \"(regatta complete-ids 2>/dev/null)\"\n"
        ),
        _ => script.to_owned(),
    }
}

const BASH: &str = r#"_regatta_with_ids() {
    _regatta "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}"
    case "${COMP_WORDS[1]}" in
        COMMANDS)
            if [[ $COMP_CWORD -gt 1 && $cur != -* ]]; then
                COMPREPLY=( $(compgen -W "$(regatta complete-ids 2>/dev/null)" -- "$cur") )
            fi ;;
    esac
}
complete -F _regatta_with_ids -o nosort -o bashdefault -o default regatta 2>/dev/null || complete -F _regatta_with_ids -o bashdefault -o default regatta
"#;

const ZSH: &str = r#"_regatta_ids() {
    local -a ids
    ids=(${(f)"$(regatta complete-ids 2>/dev/null)"})
    compadd -a ids
}
"#;

/// Print task ids, newest first, for completion scripts. Without a project it prints none.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IdsArgs {}

/// More than anyone would read through.
const MOST_IDS: usize = 500;

pub(crate) async fn ids(_: IdsArgs, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Ok(project) = Project::look(&global.options()) else { return Ok(Exit::Ok) };
    if !project.has_store() {
        return Ok(Exit::Ok);
    }
    let mut tasks = project.store().await?.tasks(&TaskQuery::default()).await?;
    tasks.sort_by_key(|task| std::cmp::Reverse(task.updated_at));
    tasks.iter().take(MOST_IDS).for_each(|task| ui.line(task.spec.id.as_str()));
    Ok(Exit::Ok)
}
