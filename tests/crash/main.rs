//! A program that embeds samekey and calls two providers for one command, killed and stopped between every two steps.

mod ends;
mod program;
mod provider;
mod scene;
mod stopped;
mod table;
