//! Golden data: texts and checksums that others published.

mod es6_numbers;
