//! The running agent: started under a shim, followed, and ended when a time limit is exceeded or on request.

use regatta_core::config::AgentKind;
use regatta_core::exit::{Exit, Limit};
use regatta_core::sandbox::settings::Network;
use regatta_core::verdict::VerdictAdapter;
use regatta_store::{Reported, Step};
use std::path::Path;

use super::clocks::{Ending, LastWord, Silence};
use super::{Site, Stop, Worker, WorkerError};
use crate::agents::{self, AgentEvent, Brief, SessionPlan};
use crate::context::run_id;
use crate::notice::{Live, Notice};
use crate::persist::until_answered;
use crate::process::tail::{Line, Tail};
use crate::process::{Launch, Shim, Stdin, StopRequest};
use crate::sandbox::private_dir;
use crate::shim::proxy::refused_hosts_file;
use crate::{clock, failpoint, judge, radar};

impl Worker {
    /// Starts the agent. Afterwards its process is on record.
    pub(crate) async fn launch(&mut self, site: &Site, token: &str) -> Result<Shim, WorkerError> {
        let ctx = self.ctx.clone();
        let spec = self.claim.spec.clone();
        self.learn_secrets(Some(token));
        let workdir = super::prepare::start_dir(&site.lane.path, &spec);
        let account = self.take_account(&workdir).await?;
        let profile = &account.agent;
        let (session, resume) = (account.session.clone(), account.resume);
        let guidance = match (self.guidance().await, account.guidance) {
            (Some(failure), Some(cut_short)) => Some(format!("{cut_short}\n{failure}")),
            (failure, cut_short) => failure.or(cut_short),
        };
        let mail = self.mail(profile.kind).await;
        let guidance = match (guidance, &mail.text) {
            (Some(guidance), Some(news)) => Some(format!("{guidance}\n\n{news}")),
            (guidance, news) => guidance.or_else(|| news.clone()),
        };
        let mut environment = ctx.settings.environment.clone();
        environment.drop_store_credentials();
        let withholds = ctx.withholds_logins(&spec);
        if withholds {
            environment.drop_forge_logins(&ctx.no_logins());
        }
        let inside = self.enter(profile, site)?;
        if let Some(inside) = &inside {
            ctx.go_inside(&mut environment, &inside.boxed, inside.level);
            // Its file beside the directory would be in the copied home, and lost.
            if let (AgentKind::Claude, [dir, ..]) =
                (profile.kind, &ctx.state_of(profile, &spec.env).write[..])
            {
                environment.set("CLAUDE_CONFIG_DIR", dir.as_os_str());
            }
        }
        let files_dir = inside.as_ref().map_or_else(|| site.run_dir.clone(), |inside| inside.boxed.files());
        let order = self.order(site).await?;
        let tier = self.tier(self.rounds().await?);
        let brief = Brief {
            task: &spec.id,
            attempt: self.claim.attempt,
            prompt: &order,
            guidance: guidance.as_deref(),
            follow_up: self.claim.prompt.as_ref().map(|prompt| prompt.text.as_str()),
            model: tier.model.as_deref(),
            max_usd: self.meter.allowance.as_ref().map(|allowance| allowance.usd),
            persona: spec.persona.as_deref(),
            read_only: spec.read_only,
            bounds: &spec.bounds,
            run_dir: &files_dir,
            session: if resume { SessionPlan::Resume(&session) } else { SessionPlan::New(&session) },
            reports: matches!(spec.verdict_adapter, VerdictAdapter::Chain | VerdictAdapter::Db),
            attach: ctx.settings.config.mcp.attach
                && matches!(profile.kind, AgentKind::Claude | AgentKind::Codex),
            answers: matches!(spec.verdict_adapter, VerdictAdapter::Chain | VerdictAdapter::JsonResult),
            door: inside.is_some(),
            limited_network: inside.is_some() && ctx.sandbox_settings().network != Network::Open,
            pull_request: !spec.land && spec.id.is_prd(),
            is_root: rustix::process::geteuid().is_root(),
            exe: (profile.kind == AgentKind::Claude)
                .then_some(ctx.settings.options.claude_exe.as_deref())
                .flatten(),
            regatta: &ctx.services.regatta_exe,
        };
        let invocation = agents::invocation(profile, &brief, &|name| environment.has(name))
            .map_err(|refusal| WorkerError::Impossible(refusal.to_string()))?;
        for name in &invocation.env_remove {
            environment.remove(name);
        }
        for (name, value) in &invocation.env_set {
            environment.set(name, value);
        }
        for (name, value) in &spec.env {
            environment.set(name, value);
        }
        for (name, value) in self.git(site, |ctx, lane| ctx.repository.lanes.agent_git_env(lane)).await? {
            environment.set(name, value);
        }
        for (name, value) in ctx.sibling_variables(&site.lane.path) {
            environment.set(&name, value);
        }
        let door = match &inside {
            Some(inside) => {
                let (lane, dir) = (site.lane.path.as_path(), inside.boxed.door());
                ctx.services.door_variables(&mut environment, &self.claim, lane, &dir);
                Some(ctx.services.door(&self.claim, lane, token, &dir, ctx.project_checkout()))
            }
            None => {
                ctx.services.worker_variables(&mut environment, &self.claim, &site.lane.path, token);
                None
            }
        };

        if withholds {
            environment.without_git_logins();
        }
        let prompt = site.run_dir.join("prompt.md");
        write_private(&prompt, &invocation.stdin)?;
        if !invocation.files.is_empty() {
            private_dir(&files_dir).map_err(|source| WorkerError::Io {
                doing: "making",
                path: files_dir.clone(),
                source,
            })?;
        }
        for (file, text) in &invocation.files {
            write_private(file, text)?;
        }
        let (stdout, stderr) = self.log_files();
        // A crash between claim and start may have left the beginning of a log.
        for file in [&stdout, &stderr] {
            let _ = std::fs::remove_file(file);
        }
        let launch = Launch {
            run_dir: site.run_dir.clone(),
            argv: invocation.argv,
            cwd: workdir,
            env: environment.into_vars(),
            secrets: ctx.secrets_in_lane(&self.claim.task),
            stdin: Stdin::File(prompt),
            stdout,
            stderr,
            run_id: run_id(&self.claim),
            limit: spec.limits.total,
            grace: ctx.settings.options.grace,
            log_limit: Some(ctx.settings.config.limits.log_bytes()),
            hold: Some(ctx.repository.hold_of(&self.claim.task)),
            confine: inside.as_ref().map(|inside| inside.confinement.clone()),
            door,
            proxy: inside.as_ref().and_then(|inside| inside.proxy.clone()),
        };
        self.note_stashes(site).await?;
        let shim = ctx.services.supervisor.launch(&launch).await?;
        failpoint::reach("shim-started");
        if let Some(confined) = shim.confined() {
            ctx.tell_limits(confined);
        }
        // Other agents print the id of a new conversation themselves.
        if resume || profile.kind == AgentKind::Claude {
            self.record.session = Some(session);
        }
        (self.record.model_asked, self.record.tier) = (tier.model, tier.why);
        self.record.started_at = Some(clock::now());
        self.started(&shim).await?;
        failpoint::reach("started");
        self.mail_told(&mail).await;
        Ok(shim)
    }

    /// What to know besides the task itself: how the last attempt failed, whose work conflicts, and what
    /// beside it is behind its remote.
    async fn guidance(&self) -> Option<String> {
        let failure = match (&self.arrived, super::gather::guidance(&self.history)) {
            (Some(arrived), Some(failure)) => Some(format!("{arrived}\n{failure}")),
            (arrived, failure) => failure.or_else(|| arrived.clone()),
        };
        let counsel = if self.ctx.settings.config.radar.tell {
            radar::counsel(&self.ctx, &self.claim.task).await
        } else {
            None
        };
        let parts: Vec<String> = [failure, counsel, self.behind_in_words()].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    pub(crate) async fn started(&self, shim: &Shim) -> Result<(), WorkerError> {
        self.advance(Step::Started {
            attempt: self.record.clone(),
            pid: shim.agent_pid().unwrap_or_default(),
        })
        .await
    }

    /// Follows the output until the process tree has ended.
    pub(crate) async fn supervise(
        &mut self,
        site: &Site,
        shim: &Shim,
        adopted: bool,
    ) -> Result<Exit, WorkerError> {
        let kind = self.ctx.settings.agent(&self.claim.spec.agent)?.kind;
        let (stdout, stderr) = self.log_files();
        let mut decoder = agents::decoder_in(kind, Some(&site.lane.path));
        let mut watching = self.watch(kind, adopted.then_some(stdout.as_path())).await;
        let mut stderr_tail = Tail::open(&stderr, 0).ok();
        let mut refused_tail = Tail::open(refused_hosts_file(&site.run_dir), 0).ok();
        let mut tail = Tail::open(&stdout, 0).map_err(|source| WorkerError::Io {
            doing: "following",
            path: stdout.clone(),
            source,
        })?;
        let mut silence = Silence::new(&self.claim.spec.limits, [&stdout, &stderr]);
        // Its tools are reported when they have ended: only its processes show whether one is running.
        silence.tree = shim.agent_pid().filter(|_| kind == AgentKind::Opencode);
        let mut obeyed: Option<Stop> = None;
        let mut listening = true;
        let mut hopeless = false;
        let mut halt = self.meter.watch();
        let mut halted = false;
        let mut last_word = LastWord::new(kind);
        let mut notebook = None;
        if let Some(zone) = self.zone() {
            decoder.lives_in(&zone);
        }
        // For an adopted one the whole limit again: how much of it the shim has counted is unknown here, and this is
        // only for a shim that no longer counts.
        let mut ending = Ending::new(self.ctx.settings.options.grace, self.claim.spec.limits.total);
        loop {
            let over_budget = halt.borrow_and_update().clone().filter(|_| !halted && !last_word.is_said());
            if let Some(halt) = over_budget {
                // An agent that has reported only has its last message left to send.
                let reported = last_word.spared.is_none() && judge::has_finished(&self.reported().await?);
                halted = !reported && !last_word.is_spared();
                if reported {
                    last_word.spare();
                } else if halted {
                    ending.ask(shim, StopRequest::Asked(halt.detail), false);
                }
            }
            let asked = self.stop.borrow_and_update().clone();
            if let Some(stop) = asked.filter(|stop| obeyed.as_ref() != Some(stop)) {
                ask_to_stop(shim, &stop, &mut ending);
                obeyed = Some(stop);
            }
            if decoder.retries_in_vain() && !hopeless {
                hopeless = true;
                ending.ask(shim, StopRequest::Limit(Limit::Retries), false);
            }
            tokio::select! {
                () = ending.due() => match ending.take() {
                    // The shim enforces this limit, unless it is stopped.
                    None => ending.ask(shim, StopRequest::Limit(Limit::Total), false),
                    Some(request) => {
                        shim.kill_tree().await;
                        watching.end().await;
                        return Ok(request.into());
                    }
                },
                exit = shim.wait() => {
                    for line in tail.drain().unwrap_or_default() {
                        let events = decoder.line(&line.bytes);
                        watching.heard(line.end, &events);
                        self.heard(events);
                    }
                    self.look_up(kind, &mut notebook);
                    self.hosts_refused(site, &mut watching).await;
                    watching.end().await;
                    return Ok(exit);
                }
                lines = tail.next_lines(), if listening => match lines {
                    Ok(lines) => {
                        silence.broken();
                        let mut news = Vec::new();
                        for line in lines {
                            let events = decoder.line(&line.bytes);
                            news.extend(watching.heard(line.end, &events));
                            last_word.heard(&events);
                            self.heard(events);
                        }
                        self.look_up(kind, &mut notebook);
                        self.suspect(site, &mut watching, news).await;
                    }
                    // The log is judged from its file in the end; only the live view is lost.
                    Err(_) => listening = false,
                },
                lines = next_lines(stderr_tail.as_mut()) => match lines {
                    Ok(lines) => for line in lines {
                        let news = watching.stderr(&line.bytes);
                        let events = decoder.stderr(&line.bytes);
                        self.heard(events);
                        self.suspect(site, &mut watching, news).await;
                    },
                    Err(_) => stderr_tail = None,
                },
                lines = next_lines(refused_tail.as_mut()) => match lines {
                    Ok(_) => self.hosts_refused(site, &mut watching).await,
                    Err(_) => refused_tail = None,
                },
                () = watching.due(decoder.open_tools() > 0) => {
                    let unfinished = [tail.unfinished(), stderr_tail.as_ref().map_or(&[][..], Tail::unfinished)];
                    let news = watching.look(decoder.open_tools() > 0, unfinished);
                    self.suspect(site, &mut watching, news).await;
                }
                limit = silence.run_out(decoder.open_tools() > 0) => {
                    ending.ask(shim, StopRequest::Limit(limit), false);
                }
                () = last_word.due() => {
                    let reported = self.reported().await? != Reported::default();
                    if last_word.is_the_end(reported, decoder.waits_for_background()) {
                        ending.ask(shim, StopRequest::Limit(Limit::Lingering), true);
                    }
                }
                () = last_word.no_longer_spared(), if !halted => {}
                _ = halt.changed(), if !halted => {}
                _ = self.stop.changed(), if obeyed.is_none() || !matches!(obeyed, Some(Stop::Interrupt { now: true, .. })) => {}
            }
        }
    }

    /// What the agent has reported with `regatta done` and `regatta stuck` by now.
    async fn reported(&self) -> Result<Reported, WorkerError> {
        let (task, attempt) = (&self.claim.task, self.claim.attempt);
        Ok(until_answered(|| self.ctx.services.store.reported(task, attempt)).await?)
    }

    fn heard(&mut self, events: Vec<AgentEvent>) {
        for event in events {
            self.count(&event);
            let live = match event {
                AgentEvent::ToolStarted { name, summary, sub, .. } => {
                    let by = if sub { "sub-agent: " } else { "" };
                    Live::Tool { name, summary: format!("{by}{}", self.redact(&summary)) }
                }
                AgentEvent::Text { text } => Live::Text(self.redact(&text)),
                AgentEvent::Usage { cost_usd, tokens_in, tokens_out, .. } => {
                    Live::Usage { cost_usd, tokens_in, tokens_out }
                }
                AgentEvent::Result { cost_usd, tokens_in, tokens_out, .. } => {
                    Live::Usage { cost_usd, tokens_in, tokens_out }
                }
                AgentEvent::Limit { status, resets_at: Some(until), kind } if status == "allowed_warning" => {
                    self.strained(kind, until);
                    continue;
                }
                AgentEvent::Retrying { kind, attempt, max, .. } => {
                    let of = if max > 0 { format!("/{max}") } else { String::new() };
                    Live::Retrying(format!("{kind}, retry {attempt}{of}"))
                }
                _ => continue,
            };
            self.ctx.services.tell(Notice::Live { task: self.claim.task.clone(), live });
        }
    }
}

/// More lines of a log; never resolves without one.
async fn next_lines(tail: Option<&mut Tail>) -> std::io::Result<Vec<Line>> {
    match tail {
        Some(tail) => tail.next_lines().await,
        None => std::future::pending().await,
    }
}

fn ask_to_stop(shim: &Shim, stop: &Stop, ending: &mut Ending) {
    let (why, now) = match stop {
        Stop::Cancel { by } => (format!("cancelled by {by}"), false),
        Stop::Interrupt { why, now } => (why.clone(), *now),
    };
    ending.ask(shim, StopRequest::Asked(why), now);
}

fn write_private(path: &Path, text: &str) -> Result<(), WorkerError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let opened = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|source| WorkerError::Io {
        doing: "writing",
        path: path.to_owned(),
        source,
    })
}
