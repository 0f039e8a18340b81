//! The `samekey` binary: no logic here.

fn main() -> std::process::ExitCode {
    samekey::cli::main()
}
