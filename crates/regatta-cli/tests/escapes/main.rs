//! Escapes: an agent tries to reach beyond its lane, through the real binary, at each level, as root and as an
//! ordinary user. What got through is judged from outside.
//!
//! This program is also the one that the agent runs (`escapes try FACTS WHO`), so it has its own `main`.

mod network;
mod outside;
mod program;
mod proxied;
mod races;
mod resources;
mod scene;
mod stories;
mod sys;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};

use program::TRIES;
use scene::{Outcome, Scene, Setting, User};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let tried = match words[..] {
        ["try", facts, who, ref ids @ ..] => program::try_all(Path::new(facts), who, ids),
        ["stay"] => stories::stay(),
        ["bomb"] => stories::bomb(),
        ["eat", megabytes] => resources::eat(megabytes),
        ["proxied"] => proxied::inside_namespace(),
        ["ask"] => proxied::ask(),
        ["hoard"] => resources::hoard(),
        ["swap", secrets] => races::swap(Path::new(secrets)),
        ["deep", levels] => stories::deep(levels),
        ["helper", ref what @ ..] => program::helper(what),
        ["as", id, program, ref args @ ..] => {
            let id = id.parse().unwrap_or(u32::MAX);
            // As many open files as an ordinary user usually has.
            let limit = rustix::process::Rlimit { current: Some(1024), maximum: Some(1 << 19) };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
            Err(Command::new(program).args(args).uid(id).gid(id).exec())
        }
        _ => return tests(),
    };
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            scene::say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn tests() -> ExitCode {
    let args = Arguments::from_args();
    let levels = scene::levels();
    libtest_mimic::run(&args, trials(&levels)).exit_code()
}

/// What gets through by design where the network is the machine's.
const OPEN: &[&str] = &["40", "41"];
/// The same, and what Landlock alone cannot refuse: terminals too, because it would have to refuse new ones as well.
const FILES: &[&str] = &["40", "41", "42", "43", "44", "46", "46b", "47", "52", "74"];
/// What a machine without a way out refuses by itself.
const EITHER: &[&str] = &["67i"];
/// What succeeds on every machine without a sandbox. Otherwise the other rows would prove nothing.
const WITHOUT: &[&str] = &[
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "09b", "09c", "10", "11", "12", "13", "14", "15",
    "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "27", "28", "29b", "40", "41", "42", "43",
    "46", "46b", "46c", "47", "48", "50", "52", "64b", "65", "66b", "71", "73",
];

fn trials(levels: &[Setting]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for user in User::available() {
        for setting in levels.iter().copied() {
            let through = match setting {
                Setting::Off => WITHOUT,
                Setting::Files => FILES,
                Setting::Full => OPEN,
                Setting::FullOff | Setting::FullTrusted => &[],
            };
            if setting == Setting::Off && user == User::Root {
                continue;
            }
            rows(user, setting, through, &mut trials);
        }
        for setting in [Setting::Full, Setting::Files].into_iter().filter(|it| levels.contains(it)) {
            let full = stories::FULL_STORIES.iter().filter(|_| setting == Setting::Full);
            let once = stories::ONCE.iter().chain(resources::ONCE).chain(proxied::ONCE);
            let once = once.filter(|_| setting == Setting::Full && user == User::Ordinary);
            let ordinary = stories::ORDINARY_STORIES.iter().chain(races::STORIES);
            let ordinary = ordinary.filter(|_| user == User::Ordinary);
            let all = stories::STORIES.iter().chain(resources::STORIES);
            for (name, story) in all.chain(full).chain(ordinary).chain(once) {
                let name = format!("story::{}::{}::{name}", setting.name(), user.name());
                trials.push(Trial::test(name, move || stories::tell(*story, user, setting)));
            }
        }
    }
    trials
}

/// One row for each try; all of them are tried in one run.
fn rows(user: User, setting: Setting, through: &'static [&'static str], trials: &mut Vec<Trial>) {
    let outcome: Arc<OnceLock<Outcome>> = Arc::default();
    let place = format!("{}::{}", setting.name(), user.name());
    if setting != Setting::Off {
        let outcome = outcome.clone();
        let whole = Trial::test(format!("{place}::nothing_else_changed"), move || {
            let outcome = outcome.get_or_init(|| Scene::new(user, setting).attack());
            if outcome.differences.is_empty() {
                Ok(())
            } else {
                Err(Failed::from(outcome.differences.join("\n")))
            }
        });
        // First, so that the scenes are prepared side by side.
        trials.insert(0, whole);
    }
    for (n, attempt) in TRIES.iter().enumerate() {
        let expected = through.contains(&attempt.id);
        let open = matches!(setting, Setting::Off | Setting::Files | Setting::Full);
        if (setting == Setting::Off && !expected) || (open && EITHER.contains(&attempt.id)) {
            continue;
        }
        let name = format!("{place}::{}_{}", attempt.id, attempt.what.replace([' ', ',', '/', '\''], "_"));
        let outcome = outcome.clone();
        trials.push(Trial::test(name, move || {
            let outcome = outcome.get_or_init(|| Scene::new(user, setting).attack());
            let evidence = &outcome.rows[n];
            match (expected, &evidence.through) {
                (true, None) => Err(Failed::from(format!("did not get through; {}", evidence.line))),
                (false, Some(proof)) => Err(Failed::from(format!("{proof}; {}", evidence.line))),
                _ => Ok(()),
            }
        }));
    }
}
