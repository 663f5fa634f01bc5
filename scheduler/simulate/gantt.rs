//! A Gantt chart, as SVG: time to the right, nodes downwards, a box for each job on each run of its
//! nodes; below, the number of waiting jobs.
//!
//! The chart is legible with 50 jobs and with 5,000: neighbouring jobs have different colours,
//! boxes that are large enough carry the job's number, and every box shows its job under the
//! pointer. Nothing is drawn too small to be seen: nodes of a job that are closer than that are one
//! box.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers for people, far below 2^53"
)]

use std::fmt::Write as _;
use std::io::{self, Write};

use super::duration::duration;
use super::{Outcome, Ran, counted, report};

const WIDTH: f64 = 1_400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 46.0;
/// The height of the chart, unless there are few nodes.
const CHART_HEIGHT: f64 = 720.0;
const NODE_HEIGHT_MAX: f64 = 32.0;
const QUEUE_HEIGHT: f64 = 90.0;
const GAP: f64 = 44.0;
const BOTTOM: f64 = 24.0;
/// The smallest visible length, in pixels.
const PIXELS_MIN: f64 = 0.7;
/// The height of a box that has room for a number, and the width for each character of it.
const LABEL_HEIGHT: f64 = 11.0;
const CHARACTER_WIDTH: f64 = 6.6;

/// The area of the chart, and the times and nodes that it shows.
struct Frame {
    first: u64,
    span: f64,
    nodes: u32,
    height: f64,
    width: f64,
}

/// Draws an outcome.
pub(super) fn write(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let frame = Frame::of(outcome);
    let height = TOP + frame.height + GAP + QUEUE_HEIGHT + BOTTOM + 16.0;
    let size = format!(r#"width="{WIDTH}" height="{height:.0}" viewBox="0 0 {WIDTH} {height:.0}""#);
    let style = r##"font-family="sans-serif" font-size="11" fill="#333""##;
    writeln!(out, r#"<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>"#)?;
    writeln!(out, r##"<rect width="{WIDTH}" height="{height:.0}" fill="#fff"/>"##)?;
    title(outcome, out)?;
    axes(&frame, out)?;
    for (number, job) in outcome.ran.iter().enumerate() {
        draw(job, &colour(number), &frame, out)?;
    }
    queue(outcome, &frame, out)?;
    writeln!(out, "</svg>")
}

impl Frame {
    fn of(outcome: &Outcome) -> Self {
        let first = outcome.ran.iter().map(|job| job.submit).min().unwrap_or(0);
        let last = outcome.ran.iter().map(|job| job.end).max().unwrap_or(1);
        Frame {
            first,
            span: (last - first).max(1) as f64,
            nodes: outcome.nodes.max(1),
            height: (f64::from(outcome.nodes) * NODE_HEIGHT_MAX)
                .clamp(NODE_HEIGHT_MAX, CHART_HEIGHT),
            width: WIDTH - LEFT - RIGHT,
        }
    }

    fn x(&self, at: u64) -> f64 {
        LEFT + at.saturating_sub(self.first) as f64 / self.span * self.width
    }

    fn y(&self, node: u32) -> f64 {
        TOP + f64::from(node) / f64::from(self.nodes) * self.height
    }

    /// Returns top and bottom of a job's boxes.
    fn boxes(&self, job: &Ran) -> Vec<(f64, f64)> {
        let mut boxes: Vec<(f64, f64)> = Vec::new();
        for range in &job.nodes {
            let (top, bottom) = (self.y(*range.start()), self.y(*range.end() + 1));
            match boxes.last_mut() {
                Some((_, last)) if top - *last < PIXELS_MIN => *last = bottom,
                _ => boxes.push((top, bottom)),
            }
        }
        boxes
    }
}

fn title(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let report = report::Report::of(outcome);
    let nodes = counted(outcome.nodes as usize, "node");
    let title = escape(&format!("{} · {} · {nodes}", outcome.title, outcome.policy));
    writeln!(out, r#"<text x="{LEFT}" y="18" font-size="15" font-weight="bold">{title}</text>"#)?;
    let numbers = format!(
        "{} · mean wait {} · mean bounded slowdown {:.2} · utilisation {:.1} % · makespan {}",
        counted(report.jobs, "job"),
        duration(report.wait.mean.round()),
        report.bounded_slowdown.mean,
        100.0 * report.utilisation,
        duration(report.makespan as f64),
    );
    writeln!(out, r#"<text x="{LEFT}" y="36">{}</text>"#, escape(&numbers))
}

/// Draws the grid lines, and their labels.
fn axes(frame: &Frame, out: &mut impl Write) -> io::Result<()> {
    let (right, bottom) = (LEFT + frame.width, TOP + frame.height);
    let queue_bottom = bottom + GAP + QUEUE_HEIGHT;
    for seconds in ticks(frame.first as f64, frame.span, &TIME_STEPS) {
        let x = LEFT + (seconds - frame.first as f64) / frame.span * frame.width;
        writeln!(out, r##"<path d="M{x:.1} {TOP}V{queue_bottom:.1}" stroke="#ddd"/>"##)?;
        let label = duration(seconds);
        writeln!(
            out,
            r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
            bottom + 16.0
        )?;
    }
    for node in ticks(0.0, f64::from(frame.nodes), &[]) {
        let y = TOP + node / f64::from(frame.nodes) * frame.height;
        writeln!(out, r##"<path d="M{LEFT} {y:.1}H{right:.1}" stroke="#eee"/>"##)?;
        writeln!(
            out,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{node}</text>"#,
            LEFT - 6.0,
            y + 4.0
        )?;
    }
    let (middle, queue_middle) = (TOP + frame.height / 2.0, bottom + GAP + QUEUE_HEIGHT / 2.0);
    for (text, y) in [("node", middle), ("waiting", queue_middle)] {
        let upright = format!("translate(14 {y:.1}) rotate(-90)");
        writeln!(out, r#"<text transform="{upright}" text-anchor="middle">{text}</text>"#)?;
    }
    writeln!(
        out,
        r##"<rect x="{LEFT}" y="{TOP}" width="{:.1}" height="{:.1}" fill="none" stroke="#999"/>"##,
        frame.width, frame.height
    )
}

fn draw(job: &Ran, colour: &str, frame: &Frame, out: &mut impl Write) -> io::Result<()> {
    let (left, right) = (frame.x(job.start), frame.x(job.end));
    let width = (right - left).max(PIXELS_MIN);
    let boxes = frame.boxes(job);
    let mut path = String::new();
    for (top, bottom) in &boxes {
        let height = (bottom - top).max(PIXELS_MIN);
        let _ = write!(path, "M{left:.1} {top:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }
    // Around a small box, the line would hide the box.
    let highest = boxes.iter().copied().max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let height = highest.map_or(0.0, |(top, bottom)| bottom - top);
    let stroke =
        if width > 4.0 && height > 4.0 { r##" stroke="#fff" stroke-width="0.6""## } else { "" };
    let name = escape(&job.job);
    let title = format!(
        "{name}: {}, submitted {}, {} to {}",
        counted(job.node_count() as usize, "node"),
        job.submit,
        job.start,
        job.end,
    );
    writeln!(out, r#"<path d="{path}" fill="{colour}"{stroke}><title>{title}</title></path>"#)?;
    let needs = CHARACTER_WIDTH * job.job.chars().count() as f64 + 2.0;
    // A box that is smaller than its name has no label.
    let Some((top, bottom)) = highest.filter(|_| height >= LABEL_HEIGHT && width >= needs) else {
        return Ok(());
    };
    let (x, y) = (left + width / 2.0, f64::midpoint(top, bottom) + 4.0);
    writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" pointer-events="none">{name}</text>"#
    )
}

/// Draws the number of waiting jobs under the chart, on the same time axis.
fn queue(outcome: &Outcome, frame: &Frame, out: &mut impl Write) -> io::Result<()> {
    let steps = report::queue(outcome);
    let most = steps.iter().map(|(_, waiting)| *waiting).max().unwrap_or(0).max(1);
    let bottom = TOP + frame.height + GAP + QUEUE_HEIGHT;
    let y = |waiting: usize| bottom - waiting as f64 / most as f64 * QUEUE_HEIGHT;
    let mut path = format!("M{LEFT:.1} {bottom:.1}");
    let mut last = (f64::MIN, usize::MAX);
    for (at, waiting) in steps {
        let x = frame.x(at);
        // Of several steps within a pixel only the highest is drawn.
        if x - last.0 < PIXELS_MIN && waiting <= last.1 {
            continue;
        }
        let _ = write!(path, "H{x:.1}V{:.1}", y(waiting));
        last = (x, waiting);
    }
    let right = LEFT + frame.width;
    writeln!(out, r##"<path d="{path}H{right:.1}V{bottom:.1}z" fill="#9db4c8"/>"##)?;
    for waiting in [0, most] {
        let y = y(waiting) + 4.0;
        writeln!(
            out,
            r#"<text x="{:.1}" y="{y:.1}" text-anchor="end">{waiting}</text>"#,
            LEFT - 6.0
        )?;
    }
    let top = bottom - QUEUE_HEIGHT;
    let size = format!(r#"width="{:.1}" height="{QUEUE_HEIGHT}""#, frame.width);
    writeln!(out, r##"<rect x="{LEFT}" y="{top:.1}" {size} fill="none" stroke="#999"/>"##)
}

/// Returns a hue a golden angle from the last one: neighbours in the queue differ most.
fn colour(number: usize) -> String {
    let hue = (number as f64 * 137.508) % 360.0;
    let (saturation, lightness) = ([58, 46, 66][number % 3], [66, 74, 60][number / 3 % 3]);
    format!("hsl({hue:.0},{saturation}%,{lightness}%)")
}

/// The possible distances between two vertical lines, in seconds, at values that people can read.
const TIME_STEPS: [f64; 20] = [
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    604_800.0,
    1_209_600.0,
];
const TICKS: f64 = 12.0;

/// Returns round values from `first` on, over this span.
fn ticks(first: f64, span: f64, steps: &[f64]) -> Vec<f64> {
    let least = span / TICKS;
    let decade = 10_f64.powf(least.log10().floor().max(0.0));
    let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step =
        steps.iter().chain(&round).copied().find(|step| *step >= least).unwrap_or(decade * 10.0);
    let (from, to) = ((first / step).ceil() as u64, ((first + span) / step).floor() as u64);
    (from..=to).map(|at| at as f64 * step).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(job: usize, start: u64, nodes: Vec<std::ops::RangeInclusive<u32>>) -> Ran {
        Ran {
            job: job.to_string().into(),
            submit: 0,
            start,
            end: start + 60,
            nodes,
            node_seconds: 60.0,
        }
    }

    fn drawn(nodes: u32, ran: Vec<Ran>) -> String {
        let (title, policy) = ("<a> & b".to_owned(), "easy".to_owned());
        let mut out = Vec::new();
        let outcome = Outcome {
            title,
            policy,
            nodes,
            node_names: Vec::new(),
            ran,
            skipped: Vec::new(),
            remarks: Vec::new(),
        };
        write(&outcome, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_few_jobs_carry_their_numbers() {
        let svg = drawn(4, vec![ran(1, 0, vec![0..=1]), ran(2, 60, vec![0..=0, 2..=3])]);
        assert!(svg.contains("&lt;a&gt; &amp; b"));
        assert!(
            svg.contains(">2</text>")
                && svg.contains("<title>2: 3 nodes, submitted 0, 60 to 120</title>"),
            "{svg}"
        );
        // The second job has two boxes.
        let boxes = svg.lines().find(|line| line.contains("<title>2:")).unwrap();
        assert_eq!(boxes.matches('M').count(), 2);
        // The text is well-formed.
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn boxes_too_small_to_be_seen_are_joined_and_have_no_numbers() {
        let scattered = |job: usize| {
            let nodes = (0..2_000).map(|node| 2 * node..=2 * node).collect();
            ran(job, 60 * job as u64, nodes)
        };
        let svg = drawn(5_000, (0..5_000).map(scattered).collect());
        assert!(svg.len() < 5_000 * 250, "{}", svg.len());
        assert!(!svg.contains("pointer-events"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            ticks(0.0, 100.0, &[]),
            (0..=10).map(|n| f64::from(n) * 10.0).collect::<Vec<_>>()
        );
        assert_eq!(ticks(0.0, 4.0, &[]), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            ticks(87.0, 7_000.0, &TIME_STEPS),
            (1..=11).map(|n| f64::from(n) * 600.0).collect::<Vec<_>>()
        );
        assert_eq!(ticks(0.0, 1.0, &TIME_STEPS), [0.0, 1.0]);
    }
}
