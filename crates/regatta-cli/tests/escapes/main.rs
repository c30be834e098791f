//! Escapes: an agent tries to reach beyond its lane, through the real binary, at each level, as root and as an
//! ordinary user. What it changed is judged from outside.
//!
//! This program is also the one that the agent runs (`escapes try-all FACTS`), so it has its own `main`.

mod program;
mod scene;
mod sys;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use scene::{Scene, Setting, User};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let tried = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["try-all", facts] => program::try_all(Path::new(facts)),
        ["helper", what] => program::helper(what),
        _ => return libtest_mimic::run(&Arguments::from_args(), trials()).exit_code(),
    };
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            scene::say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// What gets through by design: tries of the network where it is open, and what Landlock alone cannot refuse.
const OPEN_NETWORK: &[u32] = &[40, 41];
const FILES: &[u32] = &[40, 41, 42, 43, 44, 46, 47, 52];

fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("without_a_sandbox_nearly_all_get_through", || {
        let scene = Scene::new(User::Ordinary, Setting::Off);
        let through = scene.attack();
        // The tries are able to succeed: otherwise the other tests would prove nothing.
        if through.len() >= 38 { Ok(()) } else { Err(Failed::from(format!("only {through:?} got through"))) }
    })];
    for user in User::available() {
        for (setting, allowed) in [
            (Setting::Full, OPEN_NETWORK),
            (Setting::FullWithoutNetwork, &[]),
            (Setting::Files, FILES),
        ] {
            let name = format!("{}_as_{}", setting.name(), user.name());
            trials.push(Trial::test(name, move || held(user, setting, allowed)));
        }
    }
    trials
}

/// Nothing outside changes, no secret is read, and only the allowed tries get through.
fn held(user: User, setting: Setting, allowed: &[u32]) -> Result<(), Failed> {
    let scene = Scene::new(user, setting);
    let before = scene.outside();
    let through = scene.attack();
    let after = scene.outside();
    let mut wrong: Vec<String> = scene::differences(&before, &after);
    wrong.extend(scene.secrets_seen());
    let unexpected = through.iter().filter(|(number, _)| !allowed.contains(number));
    wrong.extend(unexpected.map(|(number, line)| format!("{number} got through: {line}")));
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}
