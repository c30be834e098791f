//! The terminal while it is borrowed: it is restored in every case.

use std::io::{self, Stdout, Write};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, style};
use ratatui::layout::Rect;

/// What is drawn on.
pub(super) type Drawing = Terminal<CrosstermBackend<io::BufWriter<Stdout>>>;

/// The terminal while it is ours. Dropping it restores it.
pub(super) struct Borrowed {
    pub(super) drawing: Drawing,
    pub(super) color: bool,
}

impl Borrowed {
    /// Takes the terminal. A panic restores it before printing its message.
    pub(super) fn take(color: bool) -> io::Result<Self> {
        // Colours are decided here; a variable in the environment must not override some of them.
        style::force_color_output(color);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            hook(info);
        }));
        enter()?;
        let writer = io::BufWriter::with_capacity(64 * 1024, io::stdout());
        let drawing = Terminal::new(CrosstermBackend::new(writer)).inspect_err(|_| give_back())?;
        Ok(Self { drawing, color })
    }

    /// Restores the terminal, stops this process as Ctrl-Z does, and takes it again when continued.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // STOP and not TSTP, which is caught here and leads to this place.
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
        self.take_again()
    }

    /// Takes it again, whatever others did to it meanwhile, and redraws everything.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        disable_raw_mode()?;
        enter()?;
        self.draw_anew()
    }

    /// Redraws everything. The terminal is not queried, because its answer would arrive among the keys.
    pub(super) fn draw_anew(&mut self) -> io::Result<()> {
        let size = self.drawing.size()?;
        self.drawing.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)
}

fn give_back() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}
