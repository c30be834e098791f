//! `regatta worker`, hidden: answers one request of an agent in a sandbox, outside of it. The shim of the agent's
//! attempt starts it with the two FIFOs of the client as standard input and output (`regatta_engine::shim::door`).
//!
//! Everything the client sends is data: it selects one of the acts in `regatta_ops::door`, or the MCP server with the
//! authority of the attempt, and can neither name another attempt nor a file.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_engine::shim::door::Visit;
use regatta_ops::door::{self, Call};
use regatta_ops::project::{Project, ProjectOptions};
use regatta_ops::worker::{Worker, act_for};
use regatta_ops::{Crew, Refusal, RefusalKind};
use regatta_server::mcp::{Authority, Desk, Server, stdio};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::Value;

use crate::exit::Exit;

/// Serves the visit that the shim handed over.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    // It ends with the shim's door, even if that is killed.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let words: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
    let visit = match words.as_slice() {
        [flag, fd] if flag == "--visit" => fd.parse().ok().and_then(|fd| Visit::receive(fd).ok()),
        _ => None,
    };
    let Some(visit) = visit else {
        let _ = writeln!(std::io::stderr(), "regatta worker is started by Regatta itself");
        return Exit::Usage.into();
    };
    let begun = begin(&visit);
    // One act needs no second thread, and most visits are one act.
    let mut runtime = match &begun {
        Ok((Call::Mcp, ..)) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime can be made");
    let code = runtime.block_on(serve(begun, visit));
    runtime.shutdown_background();
    code.into()
}

async fn serve(begun: Result<(Call, ProjectOptions, Worker), Refusal>, visit: Visit) -> Exit {
    let result = match begun {
        Ok((Call::Mcp, options, worker)) => match mcp(worker, &options, visit.rest).await {
            Ok(()) => return Exit::Ok,
            // Said as an answer: a client that expects the protocol shows it too.
            Err(refusal) => Err(refusal),
        },
        Ok((Call::Tool(tool), options, _)) => tokio::select! {
            result = door::carry_out(tool, &options) => result,
            // Nobody is left to whom it matters: a wait must not outlast the one who waits.
            () = client_gone(), if visit.request.contains("wait_for_") => return Exit::Interrupted,
        },
        Err(refusal) => Err(refusal),
    };
    say(&result)
}

fn begin(visit: &Visit) -> Result<(Call, ProjectOptions, Worker), Refusal> {
    let spec = &visit.spec;
    let task = TaskId::parse(&spec.task).map_err(|error| Refusal::usage(format!("the task {error}")))?;
    let worker = Worker::new(task, spec.attempt, &spec.token, spec.store.clone());
    act_for(worker.clone(), spec.lane.clone());
    let options = ProjectOptions {
        project: Some(spec.project.clone()),
        config: spec.config.clone(),
        store: Some(spec.store.clone()),
        otherwise: None,
        trust: false,
    };
    Ok((Call::parse(&visit.request)?, options, worker))
}

async fn mcp(worker: Worker, options: &ProjectOptions, read: Vec<u8>) -> Result<(), Refusal> {
    let crew = Crew::open(&Project::look(options)?).await?;
    let token_hash = worker.token_hash().to_owned();
    let authority = Authority::Worker { task: worker.task, attempt: worker.attempt, token_hash };
    let desk = Arc::new(Desk { crew, lease: None });
    let served = stdio::serve_after(Server::new(desk, authority, None), read).await;
    served.map_err(|why| Refusal::new(RefusalKind::CannotWork, why))
}

/// Resolves when the client has closed its end.
async fn client_gone() {
    let gone = tokio::task::spawn_blocking(|| {
        let stdin = std::io::stdin();
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        // Only the end is awaited; a client that sends more is not heard.
        while poll(&mut watched, None).is_err() {}
    });
    let _ = gone.await;
}

fn say(result: &Result<Value, Refusal>) -> Exit {
    let mut output = std::io::stdout().lock();
    // The client may have gone; what it asked for was done all the same.
    let said = output.write_all(door::answer(result).as_bytes()).and_then(|()| output.flush());
    match (result, said) {
        (Ok(_), Ok(())) => Exit::Ok,
        (Ok(_), Err(_)) => Exit::Interrupted,
        (Err(refusal), _) => Exit::from(refusal.kind),
    }
}
