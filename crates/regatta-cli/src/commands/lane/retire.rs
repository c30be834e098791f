//! `regatta lane retire ID`: removes one lane, never the work in it.

use regatta_ops::tasks::retire::{retire_lane, whose};
use serde_json::json;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Save work that is in no commit or on no branch under refs/regatta/salvage/, then remove the lane.
    #[arg(long)]
    force_salvage: bool,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let (id, store) = whose(project, &args.task).await?;
    let salvaged = match retire_lane(project, store.as_ref(), &id, args.force_salvage).await {
        Ok(salvaged) => salvaged,
        // Already gone, as requested.
        Err(error) if error.kind == RefusalKind::NotFound => {
            match ui.json {
                true => ui.document(&json!({ "task": id, "removed": false, "salvaged": null })),
                false => ui.line(format!("{id} has no lane")),
            }
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(error),
    };
    if ui.json {
        ui.document(&json!({ "task": id, "removed": true, "salvaged": salvaged }));
        return Ok(Exit::Ok);
    }
    let saved = salvaged.map(|name| format!("; its content is saved as {name}")).unwrap_or_default();
    ui.line(format!("removed the lane of {id}{saved}"));
    Ok(Exit::Ok)
}
