//! What pull requests cost in calls to the forge, and whether the scheduler waits for it. `bench/forge` runs it.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use regatta_testkit::daemon::within;
use regatta_testkit::forge::{Ci, Fault, Forge};
use regatta_testkit::running::Running;
use regatta_testkit::world::{World, task};

/// Longer than any measurement takes.
const PATIENCE: Duration = Duration::from_secs(1200);
/// A look every minute, and every half minute in the ten minutes after a push.
const LOOKS_AN_HOUR: f64 = 70.0;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(exe), Some(Ok(tasks))) = (args.next(), args.next().map(|n| n.parse::<usize>())) else {
        say("forge_bench REGATTA TASKS");
        return ExitCode::from(2);
    };
    let is_good = [green(&exe, tasks), watching(&exe, tasks), latency(&exe)];
    ExitCode::from(u8::from(is_good.contains(&false)))
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn verdict(name: &str, value: f64, most: f64, unit: &str) -> bool {
    let missed = if value <= most { "" } else { "  ← missed" };
    say(&format!("{name}: {value:.2}{unit} (target at most {most}{unit}){missed}"));
    value <= most
}

/// A project whose work lands by pull request, with checks that succeed at once.
fn project(exe: &str, land: &str, every: &str) -> (Forge, World) {
    let forge = Forge::start();
    forge.ci(Ci::Passes("ci".to_owned()));
    let mut world = World::new(exe);
    world.config(&format!(
        "version: 1\nmax_workers: 4\nland: {{ via: pr, auto: true, pr: {{ {land}, max_open: 1000 }} }}\n\
         github: {{ every: {every} }}\nagents:\n  sh: {{ kind: command, argv: [sh] }}\n"
    ));
    forge.furnish(&mut world);
    (forge, world)
}

fn tasks_of(range: std::ops::Range<usize>, keys: &str) -> String {
    range.map(|n| task(&format!("t{n:03}"), keys, &format!("echo {n} >f{n}.txt"))).collect()
}

/// Waits until this many tasks are in the state.
fn reach(world: &World, state: &str, most: usize) {
    let sql = "select count(*) from task where name = ?1";
    let count = || world.database().query_row(sql, [state], |row| row.get::<_, u32>(0)).unwrap_or(0) as usize;
    let reached = within(PATIENCE, || (count() >= most).then_some(()));
    reached.unwrap_or_else(|| panic!("{} of {most} tasks became {state}", count()));
}

fn end(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait();
}

/// How often each kind of call was made.
fn show(calls: &[regatta_testkit::forge::Called]) {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for call in calls {
        let path: String = call.path.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        let kind =
            call.operation.clone().unwrap_or_else(|| format!("{} {}", call.method, path.replace("##", "#")));
        *kinds.entry(kind).or_default() += 1;
    }
    for (kind, n) in kinds {
        say(&format!("    {n:5}  {kind}"));
    }
}

/// From the prompt to the merged pull request: every call counts.
fn green(exe: &str, tasks: usize) -> bool {
    let (forge, world) = project(exe, "merge: green", "60s");
    let daemon = world.daemon();
    let begun = Instant::now();
    world.enqueue(&world.plan(&tasks_of(0..tasks, "")));
    reach(&world, "landed", tasks);
    let (took, calls) = (begun.elapsed().as_secs(), forge.calls());
    end(daemon);
    let writes = calls.iter().filter(|call| call.method != "GET" && call.path != "/graphql").count();
    say(&format!("  {tasks} tasks in {took} s: {} calls, {writes} of them writes", calls.len()));
    show(&calls);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    verdict("calls for 100 tasks on the green path", calls.len() as f64 * 100.0 / tasks as f64, 300.0, "")
}

/// Open pull requests that wait for a person: calls for each look, and so for an hour.
fn watching(exe: &str, tasks: usize) -> bool {
    let (forge, world) = project(exe, "merge: never", "10s");
    let daemon = world.daemon();
    world.enqueue(&world.plan(&tasks_of(0..tasks, "")));
    let open = || {
        forge.read(|state| {
            let pulls =
                state.repo("acme/shop").map(|repo| repo.issues.values().filter(|issue| issue.pull.is_some()));
            pulls.map_or(0, Iterator::count)
        })
    };
    within(PATIENCE, || (open() >= tasks).then_some(())).unwrap_or_else(|| panic!("{} are open", open()));
    // What follows the last one's opening is not watching.
    let looks = |calls: &[regatta_testkit::forge::Called]| {
        calls.iter().filter(|call| call.operation.as_deref() == Some("Watch")).count()
    };
    let settled = looks(&forge.calls()) + 3;
    within(PATIENCE, || (looks(&forge.calls()) >= settled).then_some(())).expect("it looks");
    let before = forge.calls();
    let wanted = looks(&before) + 12;
    within(PATIENCE, || (looks(&forge.calls()) >= wanted).then_some(())).expect("it looks");
    let after = forge.calls();
    end(daemon);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let each = (after.len() - before.len()) as f64 / (looks(&after) - looks(&before)) as f64;
    say(&format!("  {tasks} open: {each:.2} calls for each look"));
    verdict("calls in an hour for these", each * LOOKS_AN_HOUR, 80.0, "")
}

/// From the queue to the agent's start, for tasks that need no forge, with a forge that answers and one that hangs.
fn latency(exe: &str) -> bool {
    let mut medians = [0.0, 0.0];
    for (n, hangs) in [(0, false), (1, true)] {
        let (forge, world) = project(exe, "merge: never", "10s");
        let daemon = world.daemon();
        world.enqueue(&world.plan(&tasks_of(0..3, "")));
        let number = |state: &regatta_testkit::forge::State| {
            state
                .repo("acme/shop")
                .map_or(0, |repo| repo.issues.values().filter(|one| one.pull.is_some()).count())
        };
        within(PATIENCE, || (forge.read(number) == 3).then_some(())).expect("they are open");
        if hangs {
            forge.next_times("*", 1000, Fault::Hang);
        }
        let mut found = Vec::new();
        for n in 100..120 {
            let id = format!("t{n:03}");
            world.enqueue(&world.plan(&tasks_of(n..n + 1, "auto_land: false")));
            world.wait_state(&id, "done");
            let sql = "select max(case when body like '%\"started\"%' then at end) - min(at) from event e \
                       join task t on t.seq = e.task where t.id = ?1";
            let millis: f64 = world.database().query_row(sql, [&id], |row| row.get(0)).expect("its events");
            found.push(millis);
        }
        end(daemon);
        found.sort_by(f64::total_cmp);
        medians[n] = found[found.len() / 2];
    }
    say(&format!("  queued to started: {:.0} ms, while the server hangs {:.0} ms", medians[0], medians[1]));
    verdict("the start of tasks while the server hangs, against before", medians[1] / medians[0], 1.25, " ×")
}
