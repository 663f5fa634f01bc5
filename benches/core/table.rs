//! The output of the bench, as a table.

use std::time::Duration;

use crate::rows::{Row, Samples};

const MEMORY_MAX: u64 = 1 << 30;

/// Prints one line per row, for the plain scene and for the others: each with its name, and the
/// factor by which a row may take longer there.
pub(crate) fn print(plain: &Samples, unusual: &[(&str, f64, Samples)]) {
    print!("| event | must be under | median, or at most | rounds | met |");
    for (name, ..) in unusual {
        print!(" {name} | rounds | change | met |");
    }
    println!("\n|---|---|---|---|---|{}", "---|---|---|---|".repeat(unusual.len()));
    for row in Row::ALL {
        let limit = row.limit();
        let figure = figure(plain, row);
        let met = limit.map(|limit| {
            figure.is_some_and(|figure| figure < limit) && !plain.restless.contains(&row)
        });
        print!(
            "| {} | {} | {} | {} | {} |",
            row.name(),
            time(limit),
            shown(plain, row),
            rounds(plain, row),
            yes_no(met)
        );
        for (_, change_max, samples) in unusual {
            let change = self::figure(samples, row)
                .zip(figure)
                .map(|(it, plain)| it.as_secs_f64() / plain.as_secs_f64());
            let met = change.filter(|_| limit.is_some()).map(|change| change < *change_max);
            let change = change.map_or_else(String::new, |change| format!("{change:.2}"));
            print!(
                " {} | {} | {change} | {} |",
                shown(samples, row),
                rounds(samples, row),
                yes_no(met)
            );
        }
        println!();
    }
    print!(
        "| reservations that stand, with {} ends that are known | | {} | | |",
        plain.known_ends, plain.reservations
    );
    for (.., samples) in unusual {
        print!(" {} | | | |", samples.reservations);
    }
    println!();
    // The memory of later scenes contains memory that the allocator kept from the first.
    let met = yes_no(Some(plain.memory < MEMORY_MAX));
    let memory = plain.memory >> 20;
    print!(
        "| memory at rest (RSS), the bench's server included | 1 GiB | {memory} MiB | 1 | {met} |"
    );
    println!("{}", " | | | |".repeat(unusual.len()));
}

/// Returns the figure of the row: the median, or the longest round where the limit applies to each
/// wait.
fn figure(samples: &Samples, row: Row) -> Option<Duration> {
    let mut times = samples.times.get(&row)?.clone();
    times.sort_unstable();
    if row.is_at_most() {
        return times.last().copied();
    }
    times.get(times.len() / 2).copied()
}

fn rounds(samples: &Samples, row: Row) -> usize {
    samples.times.get(&row).map_or(0, Vec::len)
}

fn shown(samples: &Samples, row: Row) -> String {
    let figure = time(figure(samples, row));
    if samples.restless.contains(&row) { format!("{figure} no rest") } else { figure }
}

fn time(time: Option<Duration>) -> String {
    let Some(time) = time else { return String::new() };
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        _ if millis < 1.0 => format!("{millis:.3} ms"),
        _ if millis < 100.0 => format!("{millis:.1} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

fn yes_no(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    }
}
