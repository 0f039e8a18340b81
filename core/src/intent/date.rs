//! The three date forms of HTTP (RFC 9110, section 5.6.7), and `Retry-After`.

use super::record::Millis;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`, as Unix time.
pub(super) fn parse(text: &str) -> Option<Millis> {
    let mut parts = [""; 8];
    let mut count = 0;
    for part in text.split([' ', ',', '-', ':']).filter(|part| !part.is_empty()) {
        *parts.get_mut(count)? = part;
        count += 1;
    }
    let [_, a, b, c, d, e, f, zone] = parts;
    let (year, month, day, time) = match (count, zone) {
        (8, "GMT") => (c, b, a, [d, e, f]),
        (7, "") => (f, a, b, [c, d, e]),
        _ => return None,
    };
    let number = |text: &str, most: i64| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|value| digits && *value <= most)
    };
    let month = MONTHS.iter().position(|name| *name == month)? as i64;
    let year = match (year.len(), number(year, 9999)?) {
        (4, year) => year,
        // The form has two digits; nobody has sent it about the time before 1970.
        (2, year) => year + if year < 70 { 2000 } else { 1900 },
        _ => return None,
    };
    let days = days(year, month, number(day, 31).filter(|day| *day > 0)?);
    let [hours, minutes, seconds] = time;
    let seconds = (number(hours, 23)? * 60 + number(minutes, 59)?) * 60 + number(seconds, 60)?;
    Some((days * 86_400 + seconds) * 1000)
}

/// Days since 1970 in the proleptic Gregorian calendar; months count from 0. A year begins in March, so that the day
/// that comes and goes is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 306 + 5) / 10 + day - 1 - 719_468
}

/// `Retry-After` as a pause, in seconds or as a date by the server's clock.
pub(super) fn retry_after(text: &str, server_now: Millis) -> Option<Millis> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than any number has are a long time, too.
        return Some(text.parse::<Millis>().unwrap_or(Millis::MAX).saturating_mul(1000));
    }
    parse(text).map(|date| date.saturating_sub(server_now).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THEN: Millis = 784_111_777_000;

    #[test]
    fn all_three_forms_are_the_same_moment() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text), Some(THEN), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 194 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "1994-11-06T08:49:37Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (text, pause) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60_000)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999999999999999999", Some(Millis::MAX)),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, THEN), pause, "{text}");
        }
    }

    proptest! {
        // The calendar is walked day by day beside the formula.
        #[test]
        fn days_follow_each_other(year in 1970_i64..2200, month in 0_i64..12) {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month { 1 => 28 + i64::from(leap), 3 | 5 | 8 | 10 => 30, _ => 31 };
            let next = if month == 11 { days(year + 1, 0, 1) } else { days(year, month + 1, 1) };
            prop_assert_eq!(days(year, month, 1) + length, next);
            prop_assert_eq!(days(1970, 0, 1), 0);
        }
    }
}
