//! Escapes that need more than one try in one lane: what is left behind for later, what outlives the attempt, and what
//! checks, gates and settings make possible.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use regatta_testkit::daemon::{until, within};
use regatta_testkit::repo::{script, write};
use regatta_testkit::world::{task, text};
use serde_json::Value;

use crate::outside;
use crate::program::{SECRET, mark, secrets_in};
use crate::scene::{Scene, Setting, User, WAIT};

/// A story: its name, what happens.
pub(crate) type Story = (&'static str, fn(User, Setting));

/// Told at the levels full and files, as each user.
pub(crate) const STORIES: &[Story] = &[
    ("54_a_person_s_commands_from_inside", a_persons_commands),
    ("55_hooks_for_the_user_s_own_agents", hooks_for_own_agents),
    ("56_settings_of_regatta", settings_of_regatta),
    ("57_58_traps_for_git_in_the_lane", traps_for_git),
    ("57_58_traps_while_regatta_looks", traps_while_regatta_looks),
    ("61_odd_markers", odd_markers),
    ("63_processes_that_stay", processes_that_stay),
    ("68_setup_check_and_gate", setup_check_and_gate),
    ("69_a_task_that_only_reads", a_task_that_only_reads),
];

/// Told at the level full, as each user.
pub(crate) const FULL_STORIES: &[Story] =
    &[("62_a_fork_bomb", a_fork_bomb), ("63_kill_9_of_shim_and_stages", kill_9)];

/// Told at the levels full and files, as an ordinary user: as root a failure would end the machine.
pub(crate) const ORDINARY_STORIES: &[Story] =
    &[("24_kill_everybody", kill_everybody), ("62_directories_without_end", directories_without_end)];

/// Told once.
pub(crate) const ONCE: &[Story] = &[("70_settings_that_open_too_much", settings_that_open_too_much)];

/// The state of a task, and why it is in it.
fn reasons(scene: &Scene, id: &str) -> String {
    let task = scene.world.task(id);
    format!("{} {}", text(&task["state"]), task["reason"])
}

/// `regatta` from inside, as the agent has it, with the variables of its attempt removed, and by another name.
fn a_persons_commands(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let before = scene.world.report();
    let store = scene.facts.project.join(".regatta/regatta.db");
    let (home, regatta) = (scene.home.display(), scene.home.join("bin/regatta"));
    let body = format!(
        r#"printf -- '---\nregatta: 1\ntasks:\n  - {{ id: evil, agent: sh, prompt: "touch {home}/evil" }}\n---\n' >evil.md
exec >said.txt 2>&1
for way in 'env' 'env -u REGATTA_DOOR -u REGATTA_RUN_ID -u REGATTA_TASK' 'env -i PATH={path} HOME={home}'; do
  for words in 'enqueue evil.md' 'add more' 'run evil.md' 'list' 'daemon start' 'trust --yes' 'cancel other' \
      'retry other' 'land other' 'lane retire other' 'salvage list' 'logs other' 'status other' 'report' 'setup claude' \
      '--store sqlite:{store} list' '--store sqlite:{store} cancel other' 'mcp'; do
    for project in . '{project}'; do
      echo "== $way $words"
      begun=$(date +%s); timeout 10 $way '{regatta}' -C "$project" $words </dev/null; echo "took $(($(date +%s) - begun))"
    done
  done
done
exit 1"#,
        path = std::env::var("PATH").unwrap_or_default(),
        store = store.display(),
        project = scene.facts.project.display(),
        regatta = regatta.display(),
    );
    scene.run(&task("person", "", &body), 1);
    let said = fs::read_to_string(scene.facts.lanes.join("person/said.txt")).unwrap();
    assert!(said.matches("== ").count() == 3 * 18 * 2, "{said}");
    assert_eq!(secrets_in(said.as_bytes()), Vec::<String>::new(), "it read the store:\n{said}");
    let after = scene.world.report();
    let others = |report: &Value| {
        let tasks = report["tasks"].as_array().unwrap().iter().filter(|task| task["id"] != "person");
        tasks.cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&before), others(&after), "{said}");
    assert!(!scene.home.join("evil").exists() && scene.facts.other_lane.exists());
    let daemon = scene.world.regatta(["daemon", "status", "--json"]);
    assert!(!daemon.stdout.contains("alive"), "{}", daemon.stdout);
}

/// What the agent's own state directory makes the user's next session run.
fn hooks_for_own_agents(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let (claude, codex) = (scene.home.join(".claude"), scene.home.join(".codex"));
    write(&claude.join("settings.json"), "{}");
    write(&claude.join("hooks/mine.sh"), "echo mine");
    write(&codex.join("config.toml"), "model = 'x'\n");
    // Many people keep these elsewhere.
    write(&scene.home.join("dotfiles/agents/mine.md"), "mine");
    write(&scene.home.join("dotfiles/CLAUDE.md"), "mine");
    for name in ["agents", "CLAUDE.md"] {
        std::os::unix::fs::symlink(Path::new("../dotfiles").join(name), claude.join(name)).unwrap();
    }
    script(
        &scene.home.join("bin/claude"),
        r#"cd "$CLAUDE_CONFIG_DIR" || exit 3
echo planted >settings.json; echo planted >settings.local.json; echo planted >>hooks/mine.sh; echo planted >hooks/new.sh
rm -f settings.json; mkdir settings.json; echo planted >settings.json/x
mv hooks gone; ln -s /tmp hooks; mkdir -p commands/a/b; echo planted >commands/a/b/c.md; chmod 0 commands
mkfifo statusline.sh; rm CLAUDE.md; ln -s history.jsonl CLAUDE.md; rm agents; mkdir agents; echo planted >agents/x.md
echo conversation >history.jsonl"#,
    );
    script(
        &scene.home.join("bin/codex"),
        r#"cd "${CODEX_HOME:-$HOME/.codex}" || exit 3
echo 'notify = ["planted"]' >>config.toml; echo planted >AGENTS.md; mkdir -p prompts; echo planted >prompts/x.md
echo conversation >history.jsonl"#,
    );
    let path = format!("{}:{}", scene.home.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut scene = scene;
    scene.world.env("PATH", &path);
    scene.give_away();
    let before = outside::text_of(&[claude.clone(), codex.clone()]);
    scene.run(&(task("planter", "agent: claude", "x") + &task("notifier", "agent: codex", "x")), 1);
    for id in ["planter", "notifier"] {
        let reason = reasons(&scene, id);
        assert!(reason.contains("policy") && reason.contains("restored"), "{id}: {reason}");
    }
    // Under another name it is nobody's.
    let _ = fs::remove_dir_all(claude.join("gone"));
    let text = outside::text_of(&[claude.clone(), codex.clone()]);
    assert!(!text.contains("planted"), "{text}");
    assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}", "{before}");
    assert_eq!(fs::read_to_string(claude.join("hooks/mine.sh")).unwrap(), "echo mine");
    assert_eq!(fs::read_to_string(codex.join("config.toml")).unwrap(), "model = 'x'\n");
    for link in ["agents", "CLAUDE.md"] {
        let target = fs::read_link(claude.join(link)).unwrap();
        assert_eq!(target, Path::new("../dotfiles").join(link), "the user's own link");
    }
    for gone in ["commands", "statusline.sh", "settings.local.json"] {
        assert!(fs::symlink_metadata(claude.join(gone)).is_err(), "{gone} is still there");
    }
    for kept in [&claude, &codex] {
        assert!(kept.join("history.jsonl").exists(), "its own state stays");
    }
}

fn settings_of_regatta(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let git = |path: &str| fs::read_to_string(scene.facts.project.join(path)).unwrap();
    let before = git("regatta.yaml");
    let evil = format!("printf 'lane: {{ setup: touch {}/evil }}\\n' >>regatta.yaml", scene.home.display());
    scene.run(&task("settings", "", &evil), 1);
    let reason = reasons(&scene, "settings");
    assert!(reason.contains("policy"), "{reason}");
    assert_eq!(git("regatta.yaml"), before);
    scene.run(&task("next", "", "echo x >x.txt"), 0);
    assert!(!scene.home.join("evil").exists());
}

/// Whatever an agent leaves in its lane, a person who looks at it with git runs nothing of it.
fn traps_for_git(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let proof = scene.home.join("trapped");
    let trap = format!(
        "printf '#!/bin/sh\\necho trapped >>{}\\n' >trap; chmod +x trap; T=$PWD/trap",
        proof.display()
    );
    let settings = "core.fsmonitor core.pager diff.external core.sshCommand credential.helper filter.t.clean \
                    filter.t.smudge filter.t.process core.editor gpg.program alias.status";
    let own = format!(
        "{trap}\nfor key in {settings}; do git config $key \"$T\"; done\ngit config core.hooksPath $PWD\n\
         for hook in post-index-change pre-commit post-checkout pre-auto-gc reference-transaction; do cp trap $hook; \
         cp trap $(git rev-parse --git-dir)/hooks/$hook; done\n\
         mkdir -p $(git rev-parse --git-dir)/info; echo '* filter=t diff=t' >$(git rev-parse --git-dir)/info/attributes\n\
         echo x >x.txt\nexit 1"
    );
    // The lane's `.git` leads to a repository of the agent's own.
    let elsewhere = format!(
        "{trap}\ncp -r \"$(git rev-parse --git-dir)\" evil\nrm -f evil/commondir\nfor key in {settings}; do \
         git --git-dir=evil config $key \"$T\"; done\necho \"gitdir: $PWD/evil\" >.git\nexit 1"
    );
    let inside = format!(
        "{trap}\nrm .git; git init -q .\nfor key in {settings}; do git config $key \"$T\"; done\nexit 1"
    );
    let redirected = format!(
        "{trap}\nd=$(git rev-parse --git-dir); mkdir common; cp -r $d/. common/\nfor key in {settings}; do \
         git --git-dir=common config $key \"$T\"; done\necho $PWD/common >$d/commondir\n\
         printf '[include]\\n\\tpath = %s/common/config\\n' $PWD >>$d/config; printf '[core]\\n\\tfsmonitor = %s\\n' $T >$d/config.worktree\n\
         git config extensions.worktreeConfig true; echo {other}/.git/objects >>$d/objects/info/alternates\nexit 1",
        other = scene.facts.other_lane.display()
    );
    // They work, where git believes them.
    let control = scene.home.join("control");
    fs::create_dir_all(&control).unwrap();
    let set = format!("{trap}\ngit init -q .; git config core.fsmonitor \"$T\"");
    assert!(Command::new("sh").args(["-c", &set]).current_dir(&control).status().unwrap().success());
    let _ = scene.git(&control, &["status"]);
    assert!(proof.exists(), "a trap works");
    fs::remove_file(&proof).unwrap();
    let ids = ["own", "elsewhere", "inside", "redirected"];
    let tasks = [own, elsewhere, inside, redirected];
    let tasks: String = ids.iter().zip(&tasks).map(|(id, body)| task(id, "", body)).collect();
    scene.run(&tasks, 1);
    for id in ids {
        let lane = scene.facts.lanes.join(id);
        assert!(lane.join("trap").exists(), "the lane of {id} is kept: {}", reasons(&scene, id));
        for words in [&["status"][..], &["diff"], &["log", "-1"], &["add", "-n", "."]] {
            let _ = scene.git(&lane, words);
            assert!(!proof.exists(), "{id}: `git {}` ran a trap", words.join(" "));
        }
        for words in [&["diff", id][..], &["lane", "list"], &["status", id], &["lane", "retire", id, "--yes"]]
        {
            scene.world.regatta(words);
            assert!(!proof.exists(), "{id}: `regatta {}` ran a trap", words.join(" "));
        }
    }
}

/// Regatta looks at lanes while agents run, commits what they left, saves it, lands it and shows it: none of it runs
/// what a repository inside the lane, or the lane's own, asks git to run.
fn traps_while_regatta_looks(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    scene.configure(&format!("{}radar: {{ interval: 1s }}\n", setting.config(scene.facts.tcp)));
    let proof = scene.home.join("trapped");
    let trap = format!(
        "printf '#!/bin/sh\\necho trapped in %s >>{}\\n' \"$REGATTA_TASK\" >trap; chmod +x trap; T=$PWD/trap",
        proof.display()
    );
    let plant = "for key in core.fsmonitor filter.t.clean filter.t.smudge diff.external diff.t.textconv diff.t.command \
                 merge.t.driver core.pager gpg.program; do git $1 config $key \"$T\"; done";
    // A repository inside, in the index of the lane.
    let nested = format!(
        "{trap}\nplant() {{ {plant}\n}}\n\
         git init -q sub; (cd sub; git config user.name a; git config user.email a@b; echo 1 >a; git add a; git commit -qm a)\n\
         git config user.name a; git config user.email a@b; git add sub; git commit -qm sub; echo 2 >sub/a; echo b >sub/b\n\
         plant '--git-dir=sub/.git'; mkdir -p sub/.git/hooks; cp trap sub/.git/hooks/post-index-change\n\
         printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' >.gitmodules"
    );
    let attributes = format!(
        "{trap}\nplant() {{ {plant}\n}}\nplant; printf '* filter=t diff=t merge=t\\n' >.gitattributes\n\
         echo changed >README.md; echo x >attributes.txt; cp trap $(git rev-parse --git-dir)/hooks/post-index-change"
    );
    let moved = format!(
        "{trap}\nplant() {{ {plant}\n}}\nd=$(git rev-parse --git-dir); cp -r $d evil; plant --git-dir=evil; \
         echo \"gitdir: $PWD/evil\" >.git; echo x >moved.txt"
    );
    // They work, where git believes them.
    let control = scene.home.join("control");
    fs::create_dir_all(&control).unwrap();
    let prepared = format!("export REGATTA_TASK=control; git init -q .\n{nested}");
    assert!(Command::new("sh").args(["-c", &prepared]).current_dir(&control).status().unwrap().success());
    let _ = scene.git(&control, &["status"]);
    assert!(proof.exists(), "a trap works");
    fs::remove_file(&proof).unwrap();
    // Long enough for a look while they run.
    let wait = "sleep 3";
    let tasks = task("nested", "", &format!("{nested}\n{wait}"))
        + &task("nested-fails", "", &format!("{nested}\n{wait}\nexit 1"))
        + &task("attributes", "", &format!("{attributes}\n{wait}"))
        + &task("moved", "", &format!("{moved}\n{wait}"));
    scene.run(&tasks, 1);
    let trapped = || fs::read_to_string(&proof).unwrap_or_default();
    assert_eq!(trapped(), "", "during the run");
    for id in ["nested", "nested-fails", "attributes", "moved"] {
        for words in [&["diff", id][..], &["radar"], &["lane", "list"], &["status", id], &["attach", id]] {
            scene.world.regatta(words);
            assert_eq!(trapped(), "", "{id}: regatta {}", words.join(" "));
        }
    }
    scene.run(&task("after", "", "echo x >after.txt"), 0);
    for id in ["nested-fails", "moved"] {
        scene.world.regatta(["lane", "retire", id, "--yes"]);
        scene.world.regatta(["retry", id]);
    }
    assert_eq!(trapped(), "", "afterwards");
}

/// The file with which an agent says that it is done.
fn odd_markers(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let name = |id: &str| format!("REGATTA_DONE-{id}.md");
    let keys = "verdict_adapter: marker-file";
    let key = scene.home.join(".ssh/id_ed25519");
    let tasks = task("fifo", keys, &format!("mkfifo {}", name("fifo")))
        + &task("link", keys, &format!("ln -s '{}' {}", key.display(), name("link")))
        + &task("huge", keys, &format!("truncate -s 8G {0}; echo PASS >>{0}", name("huge")))
        + &task("dir", keys, &format!("mkdir {}", name("dir")))
        + &task("tty", keys, &format!("ln -s /dev/zero {}", name("tty")));
    let begun = Instant::now();
    scene.run(&tasks, 1);
    assert!(begun.elapsed() < Duration::from_secs(60), "nothing waits for a marker");
    let report = scene.world.report().to_string();
    let logs = scene.world.regatta(["events", "--json"]).stdout;
    let secret = format!("{SECRET}id_ed25519");
    assert!(!report.contains(&secret) && !logs.contains(&secret), "a marker led to a secret");
    for id in ["fifo", "link", "huge", "dir", "tty"] {
        let reason = reasons(&scene, id);
        assert!(!reason.starts_with("landed") && !reason.starts_with("done"), "{id}: {reason}");
    }
}

/// What an agent leaves is cleared away, however deep it is.
fn directories_without_end(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let deep = |dir: &str| format!("(cd {dir} && '{}' deep 2500)", scene.escape().display());
    let closed =
        "mkdir -p $TMPDIR/closed/in; echo x >$TMPDIR/closed/in/x; chmod 0 $TMPDIR/closed/in $TMPDIR/closed";
    let tasks = task("deep-tmp", "", &format!("{}\n{closed}\necho x >x.txt", deep("$TMPDIR")))
        + &task("deep-home", "", &format!("mkdir -p ~/deep && {}\necho y >y.txt", deep("~/deep")))
        + &task("deep-lane", "", &format!("mkdir deep; {}\necho z >z.txt", deep("deep")));
    let plan = scene.plan(&tasks);
    let ran = scene.world.run(&plan, &["--no-dashboard"]);
    assert!(ran.code == 0 || ran.code == 1, "{}", ran.shown());
    assert!(reasons(&scene, "deep-tmp").starts_with("landed"), "{}", ran.shown());
    let boxes = scene.facts.lanes.join(".box");
    let left: Vec<PathBuf> = ["deep-tmp/1", "deep-home/1", "deep-lane/1"]
        .map(|name| boxes.join(name))
        .into_iter()
        .filter(|dir| dir.exists())
        .collect();
    assert!(left.is_empty(), "{left:?} stay, {}", ran.shown());
    assert!(!scene.home.join("deep").exists());
    scene.run(&task("after", "", "echo x >after.txt"), 0);
}

/// A signal to every process reaches those of the attempt.
fn kill_everybody(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    // Not with the id of the person who runs the tests.
    if !scene.is_somebody_else() {
        return;
    }
    scene.run(&task("kills", "", "kill -9 -1; sleep 1; exit 1"), 1);
    assert_eq!(scene.ended(), 0, "processes outside live");
    assert!(reasons(&scene, "kills").starts_with("failed"), "{}", reasons(&scene, "kills"));
}

/// Ends only with the attempt: without a session, without a parent, without an environment, without descriptors.
fn processes_that_stay(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let escape = scene.escape();
    let body = format!(
        "for n in 1 2 3; do (setsid env -i '{0}' stay >/dev/null 2>&1 </dev/null &) & done\n\
         (trap '' TERM HUP INT; setsid setsid '{0}' stay & ) &\nsleep 0.3\necho x >x.txt",
        escape.display()
    );
    scene.run(&task("stays", "", &body), 0);
    assert_eq!(staying(&scene), Vec::<String>::new(), "they outlived the attempt");
}

/// The processes of this scene that were to stay.
pub(crate) fn staying(scene: &Scene) -> Vec<String> {
    let line = format!("{}\0stay\0", scene.escape().display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if fs::read(entry.path().join("cmdline")).is_ok_and(|it| it == line.as_bytes()) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

/// A death of any process between the engine and the agent ends everything below it.
fn kill_9(user: User, setting: Setting) {
    for who in ["shim", "stage 1", "pid 1"] {
        let scene = Scene::new(user, setting);
        let body = format!(
            "(setsid env -i '{0}' stay >/dev/null 2>&1 </dev/null &)\nexec '{0}' stay",
            scene.escape().display()
        );
        let plan = scene.plan(&task("killed", "", &body));
        let run = scene.world.start(&plan, &["--no-dashboard"]);
        let processes = until("the agent starts", || Some(staying(&scene)).filter(|all| all.len() == 2));
        let agent: u32 = processes
            .iter()
            .map(|pid| pid.parse().unwrap())
            .find(|pid| command_of(parent(*pid)).contains("confine"))
            .unwrap();
        let inside = parent(agent);
        let stage = parent(inside);
        let shim = parent(stage);
        assert!(command_of(shim).contains("shim"), "{}", command_of(shim));
        let victim = match who {
            "shim" => shim,
            "stage 1" => stage,
            _ => inside,
        };
        let _ = Command::new("kill").args(["-9", &victim.to_string()]).status();
        let ended = within(Duration::from_secs(10), || staying(&scene).is_empty().then_some(()));
        assert!(ended.is_some(), "after a kill -9 of the {who}: {:?}", staying(&scene));
        run.kill();
    }
}

fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn command_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn a_fork_bomb(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    scene.configure("sandbox: { mode: full, processes: 100 }\n");
    scene.run(
        &task("bomb", "timeout: 30s", &format!("'{}' bomb; echo x >x.txt", scene.escape().display())),
        0,
    );
    let most: usize =
        fs::read_to_string(scene.facts.project.join("forks.txt")).unwrap().trim().parse().unwrap();
    // The kernel does not limit root to fewer than some hundred.
    let limit = if user == User::Root { 400 } else { 100 };
    assert!(most <= limit, "{most} processes");
    assert_eq!(staying(&scene), Vec::<String>::new());
}

/// What an agent wrote runs in setups, checks and gates: they are kept in as it is.
fn setup_check_and_gate(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    let ids: Vec<&str> = crate::program::TRIES.iter().map(|it| it.id).filter(|id| *id <= "16").collect();
    let [setup, check, gate] = ["setup", "check", "gate"].map(|who| scene.tries(who, &ids));
    scene.configure(&format!(
        "{}lane: {{ setup: \"{setup}\" }}\nland: {{ auto: true, test_command: \"{gate}\" }}\n",
        setting.config(scene.facts.tcp)
    ));
    let before = scene.outside();
    let checks = format!("checks: [\"{check}\"]\n");
    scene.run(&task("work", &checks, "echo x >x.txt"), 0);
    let marked = outside::text_of(&scene.marked());
    for who in ["setup", "check", "gate"] {
        for id in &ids {
            assert!(!marked.contains(&mark(who, id)), "{who} got through with {id}");
        }
    }
    let after = scene.outside();
    let gone: Vec<&PathBuf> = before.keys().filter(|path| !after.contains_key(*path)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let state = scene.facts.project.join(".regatta");
    let said = outside::text_of(&[state.join("logs"), state.join("runs")]);
    assert!(said.matches("05 held").count() >= 3, "all three tried: {said}");
    let read: Vec<String> = secrets_in(said.as_bytes())
        .into_iter()
        .filter(|it| !it.ends_with("lane") && !it.ends_with("store"))
        .collect();
    assert_eq!(read, Vec::<String>::new());
}

/// Neither its lane nor anything else is changed by it, and nothing lands.
fn a_task_that_only_reads(user: User, setting: Setting) {
    let scene = Scene::new(user, setting);
    let body = format!(
        "echo lane=$PWD; d=$(git rev-parse --git-dir)\n\
         echo escaped >written; echo escaped >>README.md; echo escaped >$d/written; mkdir made; ln -s / link\n\
         rm -f README.md; mv README.md moved; git commit --allow-empty -qm x; git checkout -q -b x; git stash\n\
         ls -la . $d; cat README.md\ncd $TMPDIR; {WAIT}\nexit 1"
    );
    let head = "defaults: { agent: sh, max_attempts: 1 }";
    let before = scene.git(&scene.facts.project, &["rev-parse", "main"]).unwrap();
    let plan = scene.world.plan_with(head, &task("reader", "read_only: true", &body));
    scene.own(&plan);
    let run = scene.world.start(&plan, &["--no-dashboard"]);
    // While it is there: what the agent sees is not what decides.
    let lane = |said: &str| {
        said.lines().find_map(|line| line.split_once("lane=")).map(|(_, path)| tree(Path::new(path)))
    };
    let looked = regatta_testkit::daemon::until("it has tried", || {
        let said = scene.world.regatta(["logs", "reader"]).stdout;
        lane(&said).filter(|_| said.contains("hello")).map(|seen| (seen, said))
    });
    let (seen, said) = looked;
    crate::scene::let_go_on(&scene.facts.lanes.join(".box/reader/1/tmp"));
    let ran = run.wait();
    let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"README.md"), "{names:?}: {said}");
    for name in ["written", "made", "link", "moved"] {
        assert!(!names.contains(&name), "{name} is in the lane: {said}");
    }
    let readme = seen.iter().find(|(name, _)| name == "README.md").map(|(_, text)| text.as_str());
    assert_eq!(readme, Some("hello\n"), "{said}");
    assert_eq!(scene.git(&scene.facts.project, &["rev-parse", "main"]).unwrap(), before, "{}", ran.shown());
    let refs = scene.git(&scene.facts.project, &["for-each-ref", "--format=%(refname) %(subject)"]).unwrap();
    assert!(!refs.lines().any(|line| line.contains("reader") && line.ends_with(" x")), "{refs}");
    assert!(reasons(&scene, "reader").starts_with("failed"), "{}", reasons(&scene, "reader"));
}

/// The files of a directory, with their content.
fn tree(dir: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// Settings with which there would be no sandbox are refused with a sentence.
fn settings_that_open_too_much(user: User, setting: Setting) {
    let mut scene = Scene::new(user, setting);
    let outside = scene.home.join("shared");
    fs::create_dir_all(outside.join("secrets")).unwrap();
    std::os::unix::fs::symlink(&scene.home, scene.home.join("link")).unwrap();
    scene.give_away();
    for (keys, part) in [
        ("write: [/]", "whole disk"),
        ("write: [~]", "must be a string"),
        ("write: ['~']", "home directory"),
        ("write: ['~/..']", "home directory"),
        ("write: [.git]", "git directory"),
        ("write: [.]", "git directory"),
        ("write: [.regatta]", "Regatta's own files"),
        ("write: [../repo.lanes]", "lanes"),
        ("write: [~/link]", "link"),
        ("write: [~/shared], hide: [~/shared/secrets]", "inside"),
        ("show: [.regatta]", "belongs to Regatta"),
        ("show: [.regatta/regatta.db]", "belongs to Regatta"),
        ("show: [../repo.lanes/other]", "lanes"),
        ("hide: [/]", "whole disk"),
        ("hide: [.git]", "repository"),
        ("write: [\"a\\nb\"]", "line break"),
        ("write: [nowhere]", "does not exist"),
        ("devices: [/etc]", "not below /dev"),
    ] {
        scene.configure(&format!("sandbox: {{ {keys} }}\n"));
        let ran = scene.world.regatta(["sandbox", "show"]);
        assert!(ran.code != 0 && ran.shown().contains(part), "{keys}: {}", ran.shown());
        let plan = scene.plan(&task("any", "", "touch ran; exit 1"));
        let ran = scene.world.run(&plan, &["--no-dashboard"]);
        assert!(ran.code != 0 && !scene.facts.lanes.join("any/ran").exists(), "{keys}: it ran");
    }
}

/// Tells a story as a test.
pub(crate) fn tell(story: fn(User, Setting), user: User, setting: Setting) -> Result<(), Failed> {
    story(user, setting);
    Ok(())
}

/// Waits until it is killed.
pub(crate) fn stay() -> std::io::Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Makes directories, each in the one before.
pub(crate) fn deep(levels: &str) -> std::io::Result<()> {
    for _ in 0..levels.parse().unwrap_or(0) {
        fs::create_dir("a-directory")?;
        std::env::set_current_dir("a-directory")?;
    }
    fs::write("file", "deep")
}

/// Starts processes until no more can be started, and says how many there were.
pub(crate) fn bomb() -> std::io::Result<()> {
    let mut children = Vec::new();
    for _ in 0..2000 {
        match Command::new(std::env::current_exe()?).arg("stay").spawn() {
            Ok(child) => children.push(child),
            Err(_) => break,
        }
    }
    fs::write("forks.txt", format!("{}\n", children.len()))?;
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}
