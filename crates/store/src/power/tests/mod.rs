//! That the disk is a disk while the power is on, and that a store on it loses nothing it acknowledged when it goes off.

mod cache;
mod cuts;
