//! Whether this machine can confine agents: by confining a program, a commit, and an attempt to read what is hidden.

use std::path::Path;

use regatta_core::sandbox::settings::Mode;
use regatta_core::sandbox::{Level, NoNamespaces, SandboxSettings, Weakness};
use regatta_engine::sandbox::{NotWorking, Tried, trial};

use super::Finding;
use crate::project::{Project, this_program};

/// Tries the sandbox that the settings lead to.
pub(super) async fn look(project: &Project) -> Finding {
    let settings = project.config.sandbox.clone();
    if settings.mode == Mode::Off {
        return Finding::warning("sandbox", "off: agents can reach everything that you can")
            .hinted("set `sandbox: { mode: auto }` in regatta.yaml");
    }
    let exe = match this_program() {
        Ok(exe) => exe,
        Err(error) => return Finding::error("sandbox", format!("this program was not found: {error}")),
    };
    let tried = {
        let (exe, settings) = (exe.clone(), settings.clone());
        tokio::task::spawn_blocking(move || trial(&exe, &settings)).await
    };
    match tried.expect("trying does not panic") {
        Ok(tried) => describe(&tried, &settings, &exe),
        Err(why) => {
            let refused = match &why {
                NotWorking::Refused(refused) => refused.namespaces(),
                NotWorking::Failed(_) => None,
            };
            Finding::error("sandbox", why.to_string()).hinted(what_to_do(refused, &exe))
        }
    }
}

fn describe(tried: &Tried, settings: &SandboxSettings, exe: &Path) -> Finding {
    let network = settings.network.as_str();
    let landlock = tried.landlock.map_or_else(String::new, |abi| format!(", Landlock ABI {abi}"));
    let home = if tried.choice.copies_home { "home copied" } else { "home read-only" };
    let weaker = tried.choice.weaker_in_words();
    match tried.choice.level {
        Level::Full if tried.choice.weaker.is_empty() => {
            Finding::ok("sandbox", format!("full: namespaces{landlock}, seccomp; {home}; network {network}"))
        }
        Level::Full => Finding::warning("sandbox", format!("full, {weaker}; network {network}")),
        Level::Files | Level::Off => {
            let text = format!("files only: {weaker}; network {network}");
            let refused = tried.choice.weaker.iter().find_map(|weakness| match weakness {
                Weakness::FilesOnly(why) => Some(why),
                _ => None,
            });
            Finding::warning("sandbox", text).hinted(what_to_do(refused, exe))
        }
    }
}

/// What to do about a machine that confines less than it should; `refused` says why it has no namespaces.
fn what_to_do(refused: Option<&NoNamespaces>, exe: &Path) -> String {
    if refused != Some(&NoNamespaces::AppArmor) {
        return "see docs/concepts/sandbox.md; `sandbox: { mode: off }` in regatta.yaml runs agents without a sandbox"
            .to_owned();
    }
    format!(
        "user namespaces are refused by AppArmor; to allow them to regatta, write /etc/apparmor.d/regatta:\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile regatta {} flags=(unconfined) {{\n  userns,\n}}\n\
         and load it: sudo apparmor_parser -r /etc/apparmor.d/regatta",
        exe.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_ubuntu_the_profile_is_printed() {
        let text = what_to_do(Some(&NoNamespaces::AppArmor), Path::new("/opt/regatta"));
        assert!(text.contains("profile regatta /opt/regatta flags=(unconfined)"), "{text}");
        assert!(!what_to_do(Some(&NoNamespaces::NotInKernel), Path::new("/x")).contains("apparmor"));
    }
}
