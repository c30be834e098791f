//! The GitHub-shaped server, driven by the real `gh` and the real `git`.

mod contract;
mod desk;
mod doors;
mod faults;
mod issues;
mod merging;
mod people;
mod pulls;
