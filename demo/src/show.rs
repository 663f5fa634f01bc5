//! The display of the board: a terminal shows the whole board again and again, a log gets a line
//! for each change. A table follows at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::board::{Board, Job};

/// The size that is used if the terminal does not tell its own.
const SCREEN: (usize, usize) = (120, 50);
/// The lines of the screen that are not jobs.
const FRAME_LINES: usize = 4;

/// The screen, or the log.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// The last line that was written about each job, where lines are only added.
    shown: BTreeMap<String, String>,
}

impl Screen {
    /// Shows the board. `now` is the time since the submission.
    pub(crate) fn show(&mut self, board: &Board, now: Duration) {
        let mut out = std::io::stdout();
        let text =
            if out.is_terminal() { drawn(board, now, size()) } else { self.changes(board, now) };
        // A reader that has closed the pipe wants to see no more.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn changes(&mut self, board: &Board, now: Duration) -> String {
        let mut text = String::new();
        for job in &board.jobs {
            let row = row(job);
            if self.shown.get(&job.name) != Some(&row) {
                let _ = writeln!(text, "{:>4} s  {row}", now.as_secs());
                self.shown.insert(job.name.clone(), row);
            }
        }
        text
    }
}

/// Draws the jobs that are not yet as their manifests say, as many as the screen has room for.
fn drawn(board: &Board, now: Duration, (columns, lines): (usize, usize)) -> String {
    let others: Vec<&Job> = board.jobs.iter().filter(|job| !job.differences().is_empty()).collect();
    let (all, ready) = (board.jobs.len(), board.jobs.len() - others.len());
    let mut text = format!(
        "\x1b[H\x1b[2J{} s after the submission: {ready} of {all} jobs are as their manifests say; \
         the others:\n\n",
        now.as_secs()
    );
    for job in others.into_iter().take(lines.saturating_sub(FRAME_LINES)) {
        text.extend(row(job).chars().take(columns));
        text.push('\n');
    }
    text
}

fn row(job: &Job) -> String {
    let bound = format!("{}/{}", job.pods.bound, job.pods.names.len());
    let why = job.waited_for.as_deref().filter(|_| job.phase.waits()).unwrap_or_default();
    format!("{:<20} {:<13} {bound:>5}  {why}", job.name, job.phase.as_str())
}

/// Writes the table at the end, and counts the jobs that are not as their manifests say. `events`
/// are pods, and the reporters of their events Scheduled.
pub(crate) fn verdicts(board: &Board, events: &[(String, String)]) -> (String, usize) {
    let mut text = String::new();
    let mut wrong = 0;
    let heads = ["PODS", "WAITED", "RAN", "RESULT", "EXPECTED", "FOUND", "WHY IT WAITED"];
    let _ = writeln!(text, "\n{:<20} {}", "JOB", columns(heads));
    for job in &board.jobs {
        let differences = [job.differences(), job.wrong_reporters(events)].concat();
        wrong += usize::from(!differences.is_empty());
        let end = job.end.as_deref().unwrap_or(job.phase.as_str());
        let found = std::iter::once(end)
            .chain(differences.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(", ");
        let seconds =
            |from: Duration, to: Duration| format!("{} s", to.saturating_sub(from).as_secs());
        let waited = job.started_at.map_or("-".to_owned(), |at| seconds(job.seen_at, at));
        let ran = match (job.started_at, job.ended_at) {
            (Some(from), Some(to)) => seconds(from, to),
            (Some(_), None) => "goes on".to_owned(),
            (None, _) => "-".to_owned(),
        };
        let pods = job.pods.names.len().to_string();
        let fields = [
            pods.as_str(),
            &waited,
            &ran,
            if differences.is_empty() { "ok" } else { "WRONG" },
            &job.expected.text,
            &found,
            job.waited_for.as_deref().unwrap_or_default(),
        ];
        let _ = writeln!(text, "{:<20} {}", job.name, columns(fields));
    }
    let _ = writeln!(
        text,
        "\n{} of {} jobs did what their manifests say.",
        board.jobs.len() - wrong,
        board.jobs.len()
    );
    (text, wrong)
}

fn columns([pods, waited, ran, result, expected, found, why]: [&str; 7]) -> String {
    format!("{pods:>5} {waited:>7} {ran:>8}  {result:<6} {expected:<36} {found:<36} {why}")
}

/// Returns the number of columns and lines of the terminal.
fn size() -> (usize, usize) {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
        .ok()
        .filter(|(columns, lines)| *columns > 0 && *lines > FRAME_LINES)
        .unwrap_or(SCREEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::{Look, Record, Workload};
    use fluxqueue_api::JobState;

    fn board(state: JobState) -> Board {
        let workload = |name: &str| Workload {
            name: name.to_owned(),
            expected: Some("Unsatisfiable".to_owned()),
            ..Workload::default()
        };
        let record = Record { state: Some(state), blocked_by: Some("too large".to_owned()) };
        let mut look =
            Look { workloads: vec![workload("first"), workload("second")], ..Look::default() };
        look.records.insert("first".to_owned(), record);
        let mut board = Board::default();
        board.take(&look, Duration::from_secs(1));
        board
    }

    #[test]
    fn a_line_is_written_for_each_change_and_only_then() {
        let mut screen = Screen::default();
        let now = Duration::from_secs(7);
        let first = screen.changes(&board(JobState::Pending), now);
        assert_eq!(first.lines().count(), 2);
        assert!(first.starts_with("   7 s  first"), "{first}");
        assert_eq!(screen.changes(&board(JobState::Pending), now), "");
        assert!(screen.changes(&board(JobState::Unsatisfiable), now).contains("unsatisfiable"));
    }

    #[test]
    fn the_screen_shows_unready_jobs_as_far_as_there_is_room() {
        let text = drawn(&board(JobState::Unsatisfiable), Duration::from_secs(7), (30, 50));
        assert!(text.contains("1 of 2 jobs"), "{text}");
        assert!(
            text.lines().skip(2).all(|line| line.starts_with("second") && line.len() <= 30),
            "{text}"
        );
        assert_eq!(
            drawn(&board(JobState::Pending), Duration::ZERO, (80, FRAME_LINES + 1)).lines().count(),
            3
        );
    }

    #[test]
    fn the_table_counts_wrong_jobs() {
        let (text, wrong) = verdicts(&board(JobState::Unsatisfiable), &[]);
        assert_eq!(wrong, 1);
        assert!(text.contains("1 of 2 jobs did"), "{text}");
        assert!(
            text.contains("waiting, not Unsatisfiable") && text.contains("too large"),
            "{text}"
        );
    }
}
