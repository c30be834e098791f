//! `regatta store migrate`: brings the schema to this version.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Bring the store's schema to this version, or print the SQL for an administrator of PostgreSQL.
///
/// Every command that opens the store does the same, if its role may. Refused while an older version that could no longer
/// use the store is at work; the machines are named.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the SQL instead: the roles regatta_owner, regatta_node and regatta_viewer, what is missing in the schema, and
    /// the rights of each role.
    #[arg(long)]
    print: bool,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    if args.print {
        let sql = project.migration_script().await?;
        if ui.json {
            ui.document(&serde_json::json!({ "sql": sql }));
        } else {
            ui.out(&sql);
        }
        return Ok(Exit::Ok);
    }
    let migrated = project.migrate_store().await?;
    if ui.json {
        ui.document(&migrated);
    } else if migrated.before == migrated.version {
        ui.line(format!("{} is at version {} already", migrated.store, migrated.version));
    } else {
        ui.line(format!(
            "{} is at version {}, it was at {}",
            migrated.store, migrated.version, migrated.before
        ));
    }
    Ok(Exit::Ok)
}
