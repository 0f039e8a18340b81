//! One table on standard output, for people and for a page.

use super::figures::Figures;

pub fn print<'a>(title: &str, rows: impl Iterator<Item = (&'a str, &'a Figures)>) {
    println!();
    println!(
        "{title:<34} {:>7} {:>13} {:>9} {:>9} {:>9} {:>12}",
        "ratio", "min-max", "per s", "p50 ms", "p99 ms", "CPU us each"
    );
    for (name, figures) in rows {
        let (least, most) = figures.spread;
        println!(
            "{name:<34} {:>7.2} {:>13} {:>9.0} {:>9.2} {:>9.2} {:>12.1}",
            figures.ratio,
            format!("{least:.2}-{most:.2}"),
            figures.rate,
            figures.p50_us / 1000.0,
            figures.p99_us / 1000.0,
            figures.spent_us,
        );
    }
}
