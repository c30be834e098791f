//! `regatta repo list`.

use regatta_core::plain::clean_line;
use regatta_core::repos::{DependsOn, Pull};
use regatta_ops::Refusal;
use regatta_ops::documents::ProjectRepoDocument;
use regatta_ops::repos::ProjectRepos;

use crate::cli::Global;
use crate::exit::Exit;
use crate::render::text::table;
use crate::ui::Ui;

pub(super) async fn run(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Some(repos) = super::project(global)?.as_ref().and_then(ProjectRepos::of) else {
        let document = global.parallel().repositories()?;
        if let Some(why) = document.ignored {
            ui.note(format!("warning: {}: {why}", document.root.join("config.json").display()));
        }
        ui.document(&document);
        return Ok(Exit::Ok);
    };
    let document = repos.list().await?;
    if ui.json {
        ui.document(&document);
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = document.repositories.iter().map(row).collect();
    ui.out(&table(&["REPOSITORY", "TARGET", "DEPENDS ON", "PULL", "PATH"], &rows));
    for repo in &document.repositories {
        for text in [&repo.problem, &repo.warning].into_iter().flatten() {
            ui.note(format!("warning: {}: {}", repo.name, clean_line(text)));
        }
    }
    Ok(Exit::Ok)
}

fn row(repo: &ProjectRepoDocument) -> Vec<String> {
    let depends_on = match &repo.depends_on {
        DependsOn::Auto => "auto".to_owned(),
        DependsOn::These(names) if names.is_empty() => "-".to_owned(),
        DependsOn::These(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let pull = match repo.pull {
        Pull::Never => "never",
        Pull::Check => "check",
        Pull::Auto => "auto",
    };
    vec![
        repo.name.to_string(),
        repo.target.clone().unwrap_or_else(|| "-".to_owned()),
        depends_on,
        pull.to_owned(),
        super::place(&repo.path),
    ]
}
