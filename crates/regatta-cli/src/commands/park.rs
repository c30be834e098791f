//! `regatta park ID…`: holds tasks back until a time or until `unpark`.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use regatta_core::config::parse_duration;
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_ops::tasks::{FOREVER, ParkRequest};

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{Which, finish, operator};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Hold back tasks that have not started: until a time, or until `regatta unpark`.
///
/// Nothing is charged. Tasks that depend on a parked task wait with it. --all is every task that is pending.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// A duration (90m, 1h30m, 2d), a time of day (07:30), a date with a time (2026-05-01 07:30), or RFC 3339. Without
    /// it they wait until they are unparked.
    #[arg(long, value_name = "TIME|DURATION")]
    until: Option<String>,
    /// The reason, for people.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let until = match &args.until {
        Some(text) => moment(text, clock::now(), &TimeZone::system())?,
        None => FOREVER,
    };
    let operator = operator(global).await?;
    let request = ParkRequest { tasks: args.which.selection(), until, why: args.why };
    finish(operator.park(&request).await?, &operator, false, ui)
}

/// Parses the time that the user means.
fn moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, Refusal> {
    let wrong = |why: &str| {
        Refusal::usage(format!("--until {text:?} {why}")).hinted(
            "say how long (90m, 2d), when today or tomorrow (07:30), or on which day (2026-05-01 07:30)",
        )
    };
    let here =
        jiff::Timestamp::from_millisecond(now.millis()).map_err(|_| wrong("cannot be counted from now"))?;
    let here = here.to_zoned(zone.clone());
    let millis = |at: &Zoned| Timestamp::from_millis(at.timestamp().as_millisecond());
    let until = if let Ok(at) = text.parse::<jiff::Timestamp>() {
        Timestamp::from_millis(at.as_millisecond())
    } else if let (false, Ok(time)) = (text.contains(['-', 'T']), text.parse::<Time>()) {
        let on = |day: jiff::civil::Date| day.to_datetime(time).to_zoned(zone.clone());
        let today = on(here.date()).map_err(|_| wrong("does not exist in this time zone"))?;
        if today > here {
            millis(&today)
        } else {
            let tomorrow = here.date().checked_add(1.day()).map_err(|_| wrong("is too far away"))?;
            millis(&on(tomorrow).map_err(|_| wrong("does not exist in this time zone"))?)
        }
    } else if let Ok(at) = text.parse::<DateTime>() {
        millis(&at.to_zoned(zone.clone()).map_err(|_| wrong("does not exist in this time zone"))?)
    } else {
        match parse_duration(text) {
            Ok(Some(span)) => now.plus(span),
            Ok(None) => return Err(wrong("is not a valid time")),
            Err(_) => return Err(wrong("is neither a time nor a duration")),
        }
    };
    if until <= now { Err(wrong("is in the past")) } else { Ok(until) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_people_write_it() {
        let now: Timestamp = Timestamp::try_from("2026-05-01T06:00:00Z".to_owned()).unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let check = |text: &str, expected: &str| {
            let found = moment(text, now, &zone).map_err(|error| error.message);
            assert_eq!(found.map(|at| at.to_string()), Ok(expected.to_owned()), "{text}");
        };
        check("90m", "2026-05-01T07:30:00.000Z");
        check("30", "2026-05-01T06:00:30.000Z");
        check("2d", "2026-05-03T06:00:00.000Z");
        check("09:15", "2026-05-01T07:15:00.000Z");
        // It is eight o'clock now, so tomorrow's is meant.
        check("08:00", "2026-05-02T06:00:00.000Z");
        check("2026-05-01 10:00", "2026-05-01T08:00:00.000Z");
        check("2026-05-01T10:00", "2026-05-01T08:00:00.000Z");
        check("2026-05-01T10:00:00Z", "2026-05-01T10:00:00.000Z");
        for bad in ["", "soon", "none", "0", "2026-05-01T05:00:00Z", "2020-01-01 00:00", "25:00", "-5m"] {
            assert!(moment(bad, now, &zone).is_err(), "{bad}");
        }
    }
}
