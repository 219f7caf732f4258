//! Encrypted columns: nothing of their values rests readable, and nothing is read that was not
//! sealed where it stands.

mod altered;
mod at_rest;
mod damaged_links;
mod damaged_periods;
mod damaged_row;
mod fixture;
mod key_file;
#[path = "../suite/mod.rs"]
mod suite;
