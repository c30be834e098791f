//! `regatta top`: the whole project on one screen.
//!
//! Invariant: a frame is a function of a [`model::Model`], which holds what the store reported, and of a
//! [`screen::Screen`], which holds what the user is looking at. Keys become [`keys::Action`]s, actions change the
//! screen or become [`screen::Wish`]es, and only [`run()`] carries out wishes. There are no separate rules here: a task
//! is changed by the code of the command of the same name.

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
