//! `regatta config`: the settings in effect, and where each came from.

use regatta_core::config::{self, Setting};
use regatta_core::diagnostic::{has_errors, nearest};
use regatta_ops::secrets::masked;
use serde_json::Value;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::render::shown::clean_line;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show settings and where each one came from: flag, environment, file or default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Show every setting with its origin (the default). Secrets are masked.
    Show,
    /// Print one setting by its dotted path, such as land.strategy or agents.claude.model.
    Get {
        /// The dotted path of the setting.
        key: String,
    },
    /// Print the JSON schema of regatta.yaml, for editors.
    Schema,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if matches!(args.what, Some(What::Schema)) {
        ui.document(&config::schema());
        return Ok(Exit::Ok);
    }
    let mut project = Project::open(&global.options())?;
    if let Some(store) = &global.store {
        let diagnostics = project.config.apply_flag("--store", "store", store);
        if has_errors(&diagnostics) {
            return Err(Refusal::diagnosed(diagnostics));
        }
    }
    for warning in &project.warnings {
        ui.note(warning.to_string());
    }
    match args.what {
        Some(What::Get { key }) => get(&project, &key, ui),
        _ => {
            show(&project, ui);
            Ok(Exit::Ok)
        }
    }
}

fn get(project: &Project, key: &str, ui: &Ui) -> Result<Exit, Refusal> {
    let Some(value) = project.config.get(key) else {
        let settings = project.config.settings();
        let near = nearest(key, settings.iter().map(|setting| setting.key.as_str()));
        return Err(Refusal::not_found(format!("there is no setting {key:?}")).hinted(match near {
            Some(near) => format!("did you mean {near}? `regatta config` lists them all"),
            None => "`regatta config` lists them all".to_owned(),
        }));
    };
    let name = key.rsplit('.').next().unwrap_or(key);
    let value = masked(name, key.split('.').any(|part| matches!(part, "env" | "headers")), value);
    match (ui.json, &value) {
        (true, value) => ui.document(value),
        // For scripts: strings without quotes, and an empty line for a setting without a value.
        (false, Value::String(text)) => ui.line(clean_line(text)),
        (false, Value::Null) => ui.line(""),
        (false, value) => ui.object(value),
    }
    Ok(Exit::Ok)
}

fn show(project: &Project, ui: &Ui) {
    let settings: Vec<Setting> = project
        .config
        .settings()
        .into_iter()
        .map(|setting| {
            let name = setting.key.rsplit('.').next().unwrap_or_default().to_owned();
            Setting { value: masked(&name, name == "env", setting.value), ..setting }
        })
        .collect();
    if ui.json {
        ui.document(&settings);
        return;
    }
    match &project.config_file {
        Some(file) => ui.line(ui.paint(Style::Dim, &format!("# {}", shown(file)))),
        None => ui.line(ui.paint(Style::Dim, "# no regatta.yaml; `regatta init` writes one")),
    }
    let width = settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in settings {
        let origin = setting.origin.to_string();
        let style = if origin == "default" { Style::Dim } else { Style::Busy };
        let value = clean_line(&setting.value.to_string());
        ui.line(format!("{:<width$}  {}  {value}", setting.key, ui.paint(style, &format!("{origin:<7}"))));
    }
}
