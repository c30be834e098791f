//! `regatta hub init URL`: makes a bare repository and pushes the target to it.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Make a bare repository that can be a hub, and push the target branch to it.
///
/// A path is made on this machine, an ssh address on the machine it names. A bare repository that exists is used, and
/// its branches stay as they are. Then name it with `hub` in regatta.yaml.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, `ssh://[USER@]HOST/PATH`, or `[USER@]HOST:PATH`.
    #[arg(value_name = "URL")]
    address: String,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let made = project.make_hub(&args.address).await?;
    if ui.json {
        ui.document(&made);
        return Ok(Exit::Ok);
    }
    let at = made.commit.short();
    if made.pushed {
        ui.line(format!("{} is at {at} in {}", made.target, made.hub));
    } else {
        ui.line(format!("{} has its own {}, at {at}; it stays as it is", made.hub, made.target));
    }
    ui.note(format!("set `hub: {}` in regatta.yaml to use it; `regatta hub check` tries it", made.hub));
    Ok(Exit::Ok)
}
