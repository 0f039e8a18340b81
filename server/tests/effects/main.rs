//! The effects journal from outside: what the holder of a claim may do, and what becomes of the record.

mod calls;
mod ends;
mod handlers;
mod late;
mod says;
mod settling;
mod support;
mod trouble;
mod waiting;
