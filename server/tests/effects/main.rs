//! The effects journal from outside: what a claim's holder may do, and what becomes of the record.

mod claims;
mod support;
