//! A scratch repository with the engine's handles on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_engine::git::{GitEnv, Oid, Repo, TrustSnapshot, Work};
use regatta_engine::lanes::{
    CommitOutcome, CommitRequest, Committed, HookCall, HookResult, Hooks, Lane, Lanes,
};
use regatta_testkit::repo::ScratchRepo;

pub(crate) const AT: Timestamp = Timestamp::from_millis(1_763_182_800_000);

pub(crate) struct Bench {
    pub(crate) scratch: ScratchRepo,
    pub(crate) repo: Repo,
    pub(crate) work: Work,
    pub(crate) lanes: Lanes,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::over(ScratchRepo::new())
    }

    pub(crate) fn over(scratch: ScratchRepo) -> Self {
        let repo = discover(&scratch, scratch.root());
        Self::of(scratch, repo)
    }

    /// With programs of the test's own before all others.
    pub(crate) fn with_programs(scratch: ScratchRepo, bin: &Path) -> Self {
        let mut env = scratch.env();
        for (_, value) in env.iter_mut().filter(|(name, _)| name == "PATH") {
            *value = [bin.as_os_str(), value.as_os_str()].join(OsStr::new(":"));
        }
        let repo = Repo::discover_in(scratch.root(), None, GitEnv::new(env)).unwrap();
        Self::of(scratch, repo)
    }

    fn of(scratch: ScratchRepo, repo: Repo) -> Self {
        repo.exclude(&["/.regatta/"]).unwrap();
        let work = Work::new(&repo, TrustSnapshot::take(&repo).unwrap());
        let lanes = Lanes::new(&repo, &work, &Lanes::default_root(&repo)).unwrap();
        Self { scratch, repo, work, lanes }
    }

    pub(crate) fn rev(&self, name: &str) -> Oid {
        oid(&self.scratch.rev(name))
    }

    pub(crate) fn lane(&self, task: &str) -> Lane {
        self.lanes.prepare(&id(task), &self.rev("main")).unwrap()
    }

    pub(crate) fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        self.scratch.git_in(dir, args)
    }

    pub(crate) fn commit(&self, lane: &Lane, message: &str) -> CommitOutcome {
        let mut run = run_hook;
        let hooks = Hooks::Run(&mut run);
        let request = CommitRequest { message: message.into(), at: AT, exclude: Vec::new(), hooks };
        self.lanes.commit(lane, request).unwrap()
    }

    pub(crate) fn committed(&self, lane: &Lane, message: &str) -> Committed {
        match self.commit(lane, message) {
            CommitOutcome::Committed(committed) => committed,
            other => panic!("{other:?}"),
        }
    }

    /// A lane with one commit that writes these files.
    pub(crate) fn lane_with(&self, task: &str, files: &[(&str, &str)]) -> (Lane, Oid) {
        let lane = self.lane(task);
        for (name, content) in files {
            regatta_testkit::repo::write(&lane.path.join(name), content);
        }
        let committed = self.committed(&lane, &format!("work of {task}"));
        (lane, committed.oid)
    }
}

pub(crate) fn run_hook(call: HookCall) -> HookResult {
    let output = Command::new(&call.program)
        .args(&call.args)
        .current_dir(&call.cwd)
        .env_clear()
        .envs(call.env)
        .output()
        .expect("the hook can be started");
    let said = [output.stdout, output.stderr].concat();
    HookResult { ok: output.status.success(), output: String::from_utf8_lossy(&said).into_owned() }
}

pub(crate) fn discover(scratch: &ScratchRepo, start: &Path) -> Repo {
    Repo::discover_in(start, None, GitEnv::new(scratch.env())).unwrap()
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

pub(crate) fn oid(text: &str) -> Oid {
    Oid::parse(text).unwrap()
}

pub(crate) fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}
