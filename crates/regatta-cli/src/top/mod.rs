//! `regatta top`: the whole project on one screen.
//!
//! Invariant: what is drawn is a function of a [`model::Model`], which is what the store said, and of a
//! [`screen::Screen`], which is where the person is looking. Keys become [`keys::Action`]s, actions change the screen or
//! become [`screen::Wish`]es, and only [`run()`] carries wishes out. Nothing here has rules of its own: what changes a
//! task is the code of the command of the same name.

mod act;
mod addressee;
mod crew;
mod document;
mod feed;
mod follow;
mod keys;
mod model;
mod run;
mod screen;
mod spending;
mod terminal;
mod view;

pub(crate) use document::document;
pub(crate) use feed::Feed;
pub(crate) use run::{How, once, run};
