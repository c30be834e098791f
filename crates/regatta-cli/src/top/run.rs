//! The loop: keys, changes of the store, the followed log, finished jobs, signals, and a clock that ticks once a second
//! while something on screen counts seconds. Draws when something changed, at most every [`FRAME`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use regatta_core::config::{AgentKind, Config};
use regatta_core::id::TaskId;
use regatta_engine::clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::act;
use super::feed::Feed;
use super::follow::{Follow, Glances};
use super::keys::{action, presses};
use super::screen::{PageKind, Screen, Wish};
use super::terminal::Borrowed;
use super::view::draw;
use crate::crew::As;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::{Style, Ui};
use regatta_ops::{Refusal, RefusalKind, StoreChanges};

/// Minimum time between two frames, unless a key was pressed.
const FRAME: Duration = Duration::from_millis(100);
/// Changes of the store are read this long after the first of them, because many come at once.
const GATHER: Duration = Duration::from_millis(150);
/// The transcript follows a moved selection after this pause.
const SETTLED: Duration = Duration::from_millis(60);
/// A page about a live agent's work is read again after this time.
const REREAD: Duration = Duration::from_secs(2);
/// How many attempts are read in one go, so that keys are handled in between.
const ATTEMPTS_AT_ONCE: usize = 50;

/// The result of a job that ran beside the loop.
enum Finished {
    Read(PageKind, TaskId, Result<Vec<(Style, String)>, Refusal>),
    Changed(Result<String, Refusal>),
    /// The job panicked, and the terminal was restored for the panic message.
    Broken,
}

/// The state of the loop.
struct Top<'a> {
    project: Arc<Project>,
    feed: Feed,
    screen: Screen,
    glances: Glances,
    ui: &'a Ui,
    /// The sender of messages.
    who: As,
    finished: UnboundedSender<Finished>,
    /// When the page on the screen is read again; `None` while it is being read, or without a page.
    reread_at: Option<Instant>,
}

/// Renders one frame as text.
pub(crate) async fn once(
    project: &Project,
    mut feed: Feed,
    (width, height): (u16, u16),
    read_only: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    feed.read_all_attempts().await?;
    let mut screen = Screen::new(read_only);
    screen.settle(&feed.model);
    glance_at_all(&mut feed, &mut Glances::default(), &screen.list, &project.config);
    let plain = Ui { color: false, ..ui.clone() };
    let redactor = crate::render::shown::redactor(&project.config);
    let (mut follow, lines) = follow(&mut feed, &screen, &project.config, (&plain, &redactor)).await?;
    if let Some(follow) = &mut follow {
        screen.reel.begin(Some((follow.task.clone(), follow.attempt)));
    }
    screen.reel.push(lines);
    let text = picture(&feed, &mut screen, width, height);
    ui.out(&text);
    Ok(Exit::Ok)
}

/// One frame as lines of text, without control characters.
fn picture(feed: &Feed, screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer cannot fail");
    let now = clock::now();
    terminal.draw(|frame| draw(frame, &feed.model, screen, false, now)).expect("a buffer cannot fail");
    text_of(terminal.backend().buffer())
}

/// A buffer as lines.
pub(super) fn text_of(buffer: &ratatui::buffer::Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut text = String::new();
    for line in buffer.content.chunks(width) {
        let mut shown = String::new();
        let mut skip = 0;
        for cell in line {
            if skip == 0 {
                shown.push_str(cell.symbol());
            }
            let wide = unicode_width::UnicodeWidthStr::width(cell.symbol());
            skip = wide.max(skip).saturating_sub(1);
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// What keys may do, and as which member.
pub(crate) struct How {
    /// Whether keys that change something are disabled.
    pub(crate) read_only: bool,
    /// The sender of messages.
    pub(crate) who: As,
}

/// Runs the screen until the user quits.
pub(crate) async fn run(project: Project, feed: Feed, how: How, ui: &Ui) -> Result<Exit, Refusal> {
    let (finished, jobs) = unbounded_channel();
    let plain = Ui { color: false, ..ui.clone() };
    let redactor = crate::render::shown::redactor(&project.config);
    let mut top = Top {
        project: Arc::new(project),
        feed,
        screen: Screen::new(how.read_only),
        glances: Glances::default(),
        ui: &plain,
        who: how.who,
        finished,
        reread_at: None,
    };
    let signals = Signals::new().map_err(|error| lost(&error))?;
    let mut terminal = Borrowed::take(ui.color).map_err(|error| lost(&error))?;
    top.watch(&mut terminal, jobs, signals, &redactor).await
}

fn lost(error: &io::Error) -> Refusal {
    Refusal::new(RefusalKind::CannotWork, format!("the terminal cannot be used: {error}"))
        .hinted("`regatta list -w` shows the same without one, `regatta top --once` prints one screen")
}

/// The signals that end or suspend us.
struct Signals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
    stop: Signal,
    go_on: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }
}

/// Keys and resizes, read on a separate thread that sleeps until there are some.
fn keyboard() -> UnboundedReceiver<io::Result<Event>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        loop {
            let read = event::read();
            let ended = read.is_err();
            if sender.send(read).is_err() || ended {
                return;
            }
        }
    });
    receiver
}

impl Top<'_> {
    async fn watch(
        &mut self,
        terminal: &mut Borrowed,
        mut jobs: UnboundedReceiver<Finished>,
        mut signals: Signals,
        redactor: &regatta_engine::redact::Redactor,
    ) -> Result<Exit, Refusal> {
        let store = Arc::clone(&self.feed.store);
        let mut changes = StoreChanges::of(store.as_ref()).await?;
        // Reads what happened between the first reading and the subscription.
        self.feed.keep_up(&[]).await?;
        self.screen.settle(&self.feed.model);
        let mut keys = keyboard();
        let mut clock = interval(Duration::from_secs(1));
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut followed: Option<Follow<'_>> = None;
        let far = || Instant::now() + Duration::from_secs(3600);
        let (mut refresh_at, mut draw_at, mut follow_at) = (None, Some(Instant::now()), Some(Instant::now()));
        let mut unread = self.feed.unread_attempts();
        loop {
            let due = |at: &Option<Instant>| at.unwrap_or_else(far);
            tokio::select! {
                biased;
                _ = signals.terminate.recv() => return Ok(Exit::Interrupted),
                _ = signals.hang_up.recv() => return Ok(Exit::Interrupted),
                _ = signals.interrupt.recv() => return Ok(Exit::Interrupted),
                _ = signals.stop.recv() => {
                    terminal.suspend().map_err(|error| lost(&error))?;
                    draw_at = Some(Instant::now());
                }
                // The process was stopped without notice: the screen may contain anything by now.
                _ = signals.go_on.recv() => {
                    terminal.take_again().map_err(|error| lost(&error))?;
                    draw_at = Some(Instant::now());
                }
                pressed = keys.recv() => {
                    let Some(pressed) = pressed else { return Ok(Exit::Ok) };
                    match pressed.map_err(|error| lost(&error))? {
                        Event::Key(key) if key.kind != KeyEventKind::Release => {
                            for key in presses(key) {
                                let Some(action) = action(&self.screen.mode, key, self.screen.read_only) else { continue };
                                match self.screen.act(action, &self.feed.model) {
                                    Some(Wish::Quit) => return Ok(Exit::Ok),
                                    Some(Wish::Suspend) => terminal.suspend().map_err(|error| lost(&error))?,
                                    Some(Wish::Redraw) => terminal.draw_anew().map_err(|error| lost(&error))?,
                                    Some(wish) => self.begin(wish),
                                    None => {}
                                }
                            }
                            // What has come onto the screen is read without delay.
                            clock.reset_immediately();
                            if follow_at.is_none() && self.is_elsewhere(followed.as_ref()) {
                                follow_at = Some(Instant::now() + SETTLED);
                            }
                        }
                        Event::Paste(text) => self.screen.paste(&text, &self.feed.model),
                        Event::Resize(..) => {}
                        _ => continue,
                    }
                    draw_at = Some(Instant::now());
                }
                job = jobs.recv() => {
                    if matches!(job, Some(Finished::Broken)) {
                        terminal.take_again().map_err(|error| lost(&error))?;
                    }
                    self.finish(job);
                    draw_at = Some(Instant::now());
                }
                () = sleep_until(due(&draw_at)), if draw_at.is_some() => {
                    let now = clock::now();
                    let (feed, screen, color) = (&self.feed, &mut self.screen, terminal.color);
                    let drawn = terminal.drawing.draw(|frame| draw(frame, &feed.model, screen, color, now));
                    drawn.map_err(|error| lost(&error))?;
                    draw_at = None;
                    failing("top-drawn");
                }
                () = sleep_until(due(&follow_at)), if follow_at.is_some() => {
                    follow_at = None;
                    let (next, lines) = follow(&mut self.feed, &self.screen, &self.project.config, (self.ui, redactor)).await?;
                    let of = next.as_ref().map(|follow| (follow.task.clone(), follow.attempt));
                    let of = of.or_else(|| self.screen.wants_transcript().map(|task| (task.clone(), 0)));
                    self.screen.reel.begin(of);
                    self.screen.reel.push(lines);
                    followed = next;
                    draw_at.get_or_insert_with(Instant::now);
                }
                told = changes.next() => {
                    told?;
                    refresh_at.get_or_insert_with(|| Instant::now() + GATHER);
                }
                () = sleep_until(due(&refresh_at)), if refresh_at.is_some() => {
                    refresh_at = None;
                    changes.skip();
                    let visible = self.visible();
                    if self.keep_up(&visible).await {
                        unread = self.feed.unread_attempts();
                        draw_at.get_or_insert_with(|| Instant::now() + FRAME);
                        if follow_at.is_none() && self.is_elsewhere(followed.as_ref()) {
                            follow_at = Some(Instant::now() + SETTLED);
                        }
                    }
                }
                _ = clock.tick() => {
                    self.read_page_again();
                    let visible = self.visible();
                    let mut changed = self.feed.tick().await.unwrap_or(false);
                    changed |= glance_at_all(&mut self.feed, &mut self.glances, &visible, &self.project.config);
                    if changed || self.feed.model.counts_seconds() {
                        draw_at.get_or_insert_with(Instant::now);
                    }
                }
                lines = more(followed.as_mut()) => {
                    match lines {
                        Ok(lines) => {
                            self.screen.reel.push(lines);
                            self.screen.reel.skipped = followed.as_ref().map_or(0, |follow| follow.skipped);
                        }
                        Err(error) => {
                            self.screen.say(Style::Bad, format!("the log cannot be read: {error}"));
                            followed = None;
                        }
                    }
                    draw_at.get_or_insert_with(|| Instant::now() + FRAME);
                }
                () = std::future::ready(()), if !unread.is_empty() => {
                    let rest = unread.split_off(unread.len().min(ATTEMPTS_AT_ONCE));
                    for task in std::mem::replace(&mut unread, rest) {
                        // A task that cannot be read now is read with its next event.
                        let _ = self.feed.read_attempts(&task).await;
                    }
                    draw_at.get_or_insert_with(|| Instant::now() + FRAME);
                }
            }
        }
    }

    /// Reads the changes. If the store is unavailable for a moment, that is shown, and it is read with the next change.
    async fn keep_up(&mut self, visible: &[TaskId]) -> bool {
        match self.feed.keep_up(visible).await {
            Ok(changed) => {
                if changed {
                    self.screen.settle(&self.feed.model);
                }
                changed
            }
            Err(error) => {
                self.screen.say(Style::Bad, error.message);
                true
            }
        }
    }

    /// Approximately the tasks on the screen.
    fn visible(&self) -> Vec<TaskId> {
        let from = self.screen.top.min(self.screen.list.len());
        self.screen.list[from..].iter().take(100).cloned().collect()
    }

    /// Whether a different transcript is wanted than the followed one.
    fn is_elsewhere(&self, followed: Option<&Follow<'_>>) -> bool {
        let wanted = self.screen.wants_transcript().and_then(|task| self.feed.model.rows.get(task));
        match (wanted, followed) {
            (None, None) => false,
            (Some(row), Some(follow)) => {
                row.id != follow.task || row.attempts != follow.attempt || row.has_agent() == follow.over
            }
            (Some(row), None) => {
                row.attempts > 0 || self.screen.reel.of.as_ref().is_none_or(|(task, _)| *task != row.id)
            }
            (None, Some(_)) => true,
        }
    }

    /// Reads the page on the screen again while its task's agent runs.
    fn read_page_again(&mut self) {
        let Some((kind, task)) = self.screen.page.as_ref().map(|page| (page.kind, page.task.clone())) else {
            return;
        };
        let live = self.feed.model.rows.get(&task).is_some_and(|row| row.has_agent());
        if live && kind != PageKind::Logs && self.reread_at.is_some_and(|at| at <= Instant::now()) {
            self.begin(Wish::Read(kind, task));
        }
    }

    /// Starts a job beside the loop.
    fn begin(&mut self, wish: Wish) {
        let (project, store) = (Arc::clone(&self.project), Arc::clone(&self.feed.store));
        if !matches!(wish, Wish::Read(..)) {
            self.screen.say(Style::Dim, "…");
        }
        match wish {
            Wish::Read(kind, task) => {
                self.reread_at = None;
                let ui = self.ui.clone();
                self.spawn(async move {
                    let read = act::read(&project, store, kind, &task, &ui).await;
                    Finished::Read(kind, task, read)
                });
            }
            Wish::Change(change, task) => self.spawn(async move {
                failing("top-change");
                Finished::Changed(act::change(&project, store, change, &task).await)
            }),
            Wish::Send(task, text) => {
                self.spawn(async move { Finished::Changed(act::send(&project, store, &task, &text).await) });
            }
            Wish::Message(name, text) => {
                let who = self.who.clone();
                self.spawn(async move {
                    Finished::Changed(act::message(&project, store, &who, &name, &text).await)
                });
            }
            Wish::Quit | Wish::Suspend | Wish::Redraw => {}
        }
    }

    fn finish(&mut self, job: Option<Finished>) {
        if matches!(job, Some(Finished::Read(..) | Finished::Broken)) {
            self.reread_at = Some(Instant::now() + REREAD);
        }
        match job {
            Some(Finished::Read(kind, task, Ok(lines))) => self.screen.fill(kind, &task, lines),
            Some(Finished::Read(kind, task, Err(error))) => {
                let lines = vec![
                    (Style::Bad, error.message.clone()),
                    (Style::Dim, format!("hint: {}", error.hint())),
                ];
                self.screen.fill(kind, &task, lines);
            }
            Some(Finished::Changed(Ok(text))) => self.screen.say(Style::Good, text),
            Some(Finished::Changed(Err(error))) => {
                self.screen.say(Style::Bad, format!("{}; {}", error.message, error.hint()));
            }
            Some(Finished::Broken) => {
                self.screen
                    .say(Style::Bad, "that did not work: a bug in `regatta top`; the command may work");
            }
            None => {}
        }
    }

    /// Runs a job beside the loop, and makes sure that it reports back even if it panics.
    fn spawn(&self, job: impl Future<Output = Finished> + Send + 'static) {
        let finished = self.finished.clone();
        let job = tokio::spawn(job);
        tokio::spawn(async move {
            let _ = finished.send(job.await.unwrap_or(Finished::Broken));
        });
    }
}

/// Lines of the followed log; waits forever if none is followed or no more will come.
async fn more(followed: Option<&mut Follow<'_>>) -> io::Result<Vec<(Style, String)>> {
    match followed {
        Some(follow) if !follow.over => follow.more().await,
        _ => std::future::pending().await,
    }
}

/// Panics here if a test asked for it; debug builds only.
fn failing(place: &str) {
    if cfg!(debug_assertions)
        && std::env::var("REGATTA_FAILPOINT").is_ok_and(|wanted| wanted == format!("panic@{place}"))
    {
        panic!("a test wanted this defect");
    }
}

/// The output of an agent that is no longer configured is read as plain text.
fn kind_of(config: &Config, name: &str) -> AgentKind {
    config.agents.get(name).map_or(AgentKind::Command, |agent| agent.kind)
}

/// Reads what the live agents among these tasks are doing.
fn glance_at_all(feed: &mut Feed, glances: &mut Glances, tasks: &[TaskId], config: &Config) -> bool {
    let mut changed = false;
    for task in tasks {
        let Some(row) = feed.model.rows.get_mut(task).filter(|row| row.has_agent()) else { continue };
        let kind = kind_of(config, &row.agent);
        changed |= glances.glance(row, kind, &feed.redactor);
    }
    let rows = &feed.model.rows;
    glances.keep(|path| rows.values().any(|row| row.has_agent() && row.log.as_deref() == Some(path)));
    changed
}

/// Opens the wanted log with its existing lines; without a log, a line that says so.
async fn follow<'a>(
    feed: &mut Feed,
    screen: &Screen,
    config: &Config,
    shown: (&'a Ui, &'a regatta_engine::redact::Redactor),
) -> Result<(Option<Follow<'a>>, Vec<(Style, String)>), Refusal> {
    let say = |text: String| Ok((None, vec![(Style::Dim, text)]));
    let Some(task) = screen.wants_transcript().cloned() else { return Ok((None, Vec::new())) };
    feed.read_attempts(&task).await?;
    let Some(row) = feed.model.rows.get(&task) else { return Ok((None, Vec::new())) };
    if row.attempts == 0 {
        return say(match row.why.as_str() {
            "" => "not started yet".to_owned(),
            why => format!("not started yet: {why}"),
        });
    }
    if row.has_agent()
        && let Some(seat) = feed.model.crew.holder(&task)
    {
        return say(format!("{} is working on it by hand; there is no transcript", seat.name));
    }
    let Some(log) = row.log.clone() else { return say("its lane is being prepared".to_owned()) };
    let opened = Follow::open((&task, row.attempts), &log, kind_of(config, &row.agent), shown);
    let mut follow = match opened {
        Ok(follow) => follow,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return say(
                "there is no log: the agent may never have started, or the run used --no-log".to_owned()
            );
        }
        Err(error) => return say(format!("the log cannot be read: {error}")),
    };
    follow.over = !row.has_agent();
    let mut lines = follow.catch_up().unwrap_or_default();
    if follow.over {
        lines.extend(follow.finish(&log));
    }
    Ok((Some(follow), lines))
}
