//! The log in a folder: both backends fulfil the contract; no kill, power cut, full disk, damage or move loses what was
//! acknowledged.

// The whole program is a test, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod begun_anew;
mod contract;
mod copy;
mod damage;
mod damaged_snapshots;
mod full;
mod kill;
mod maintenance;
mod model;
mod moved;
mod packs;
mod power;
mod salvage;
mod under_way;
