//! For `bench/lanes`: what one lane costs here, made anew and from the pool.
//!
//! `lane-times REPOSITORY FROM TO` makes a lane at FROM, lets it go into the pool, and makes the next one at TO.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::path::Path;
use std::time::Instant;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_engine::git::{Oid, Repo, TrustSnapshot, Work};
use regatta_engine::lanes::{Lanes, PoolOptions, RetireMode};

/// Milliseconds that this process and those it waited for have computed, in steps of ten.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(4);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [repository, from, to] = &arguments[..] else { return Err("lane-times REPOSITORY FROM TO".into()) };
    let repo = Repo::discover(Path::new(repository), None)?;
    repo.exclude(&["/.regatta/"])?;
    let work = Work::new(&repo, TrustSnapshot::take(&repo)?);
    let anew = Lanes::new(&repo, &work, &Lanes::default_root(&repo))?;
    let lanes = anew.clone().with_pool(PoolOptions::new(1, &[], &[]));
    let (from, to, at) = (Oid::parse(from)?, Oid::parse(to)?, Timestamp::from_millis(0));

    let (first, second) = (TaskId::parse("first")?, TaskId::parse("second")?);
    let mut times = Vec::new();
    let (mut started, mut used) = (Instant::now(), processor_time());
    let mut timed = |what: &str| {
        let wall = started.elapsed().as_secs_f64() * 1000.0;
        times.push(format!("\"{what}\": [{wall:.3}, {}]", processor_time() - used));
        (started, used) = (Instant::now(), processor_time());
    };
    lanes.prepare(&first, &from)?;
    timed("anew");
    lanes.retire(&first, RetireMode::IfClean, at)?;
    timed("into_pool");
    if lanes.pooled().len() != 1 {
        return Err("the lane did not go into the pool".into());
    }
    lanes.prepare(&second, &to)?;
    timed("from_pool");
    if !lanes.pooled().is_empty() {
        return Err("the lane did not come from the pool".into());
    }
    anew.retire(&second, RetireMode::IfClean, at)?;
    timed("removed");
    println!("{{{}}}", times.join(", "));
    Ok(())
}
