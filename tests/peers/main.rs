//! Real clients that nobody here wrote.
