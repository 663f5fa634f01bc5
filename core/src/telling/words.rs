//! The words for obstacles: the same for the status of a FluxJob, conditions, Events and what-if
//! answers.

pub(crate) mod delay;
pub(crate) mod outside;
pub(crate) mod stalled;

use std::fmt::Write as _;

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::records::times::micro_time;
use crate::telling::obstacle::{
    Amounts, CrampedLevel, Finding, LevelObstacle, LimitNumbers, NoNodes, Obstacle, Party,
    ReachedLimit,
};
use fluxqueue_machine::cluster::summary;
use fluxqueue_workload::Time;
use fluxqueue_workload::quantity::{quantity, told};

/// Puts a obstacle in words, with its numbers for programs.
pub(crate) fn blocked_by(obstacle: &Obstacle) -> BlockedBy {
    let says = |message: String| BlockedBy::new(obstacle.reason(), message);
    match obstacle {
        Obstacle::Stated(stated) => stated.clone(),
        Obstacle::Outside(it) => outside::blocked_by(it),
        Obstacle::RecordRefused(text) => says(record_refused(text)),
        Obstacle::Behind(None) => says("waits behind an earlier job".to_owned()),
        Obstacle::Behind(Some(party)) => {
            BlockedBy { behind: party.job(), ..says(format!("waits behind {}", party.name())) }
        }
        Obstacle::KeptFor(party, from) => kept_for(party, *from),
        Obstacle::UnknownEnd { party, and_others } => {
            // Without names, one text stands for all of them.
            let others = if *and_others && !party.is_hidden() { " and others" } else { "" };
            let text = format!("No end is known for {}{others}", party.name());
            BlockedBy { behind: party.job(), ..says(text) }
        }
        Obstacle::Limit(limit) => of_limit(limit),
        Obstacle::Nodes(nodes) => of_nodes(nodes),
        Obstacle::Resource(_, amounts) => {
            let Amounts { resource, requested, free } = amounts;
            let (requested, free) = (told(resource, *requested), told(resource, *free));
            with_amounts(says(format!("{requested} {resource} asked for, {free} free")), amounts)
        }
        Obstacle::Level(level) => of_level(level),
    }
}

/// Returns the message for pods that wait because their FluxJob is refused for this reason.
pub(crate) fn record_refused(text: &str) -> String {
    format!("its FluxJob cannot be written: {text}")
}

fn kept_for(party: &Party, from: Time) -> BlockedBy {
    let from = micro_time(from);
    let text = format!(
        "nodes are kept for {} from {} on",
        party.name(),
        from.0.strftime("%Y-%m-%dT%H:%M:%SZ")
    );
    BlockedBy {
        behind: party.job(),
        reserved_from: Some(from),
        ..BlockedBy::new(BlockedReason::QueuedBehind, text)
    }
}

fn of_limit(limit: &ReachedLimit) -> BlockedBy {
    let Some(LimitNumbers { path, resource, namespace, asked, used, most, never }) = &limit.numbers
    else {
        return BlockedBy::new(BlockedReason::QueueLimit, "a limit that has changed");
    };
    let text = |amount: u128, words: fn(&str, u128) -> String| {
        resource.as_deref().map_or_else(|| amount.to_string(), |name| words(name, amount))
    };
    let of_whom =
        namespace.as_ref().map_or(String::new(), |namespace| format!(" by namespace {namespace}"));
    let most = u128::from(*most);
    let (used_text, most_text) = (text(*used, told), text(most, told));
    let use_of_limit = match resource {
        Some(name) => {
            format!("{} {name} asked for, {used_text} of {most_text} used", text(*asked, told))
        }
        None => format!("{used_text} of {most_text} running jobs used"),
    };
    let mut message = format!("{use_of_limit}{of_whom}: {path} of FluxQueue {}.", limit.queue);
    if *never {
        message += " It asks for more than the limit, so later jobs are not held back.";
    }
    BlockedBy {
        requested: resource.is_some().then(|| text(*asked, quantity)),
        available: resource.is_some().then(|| text(most.saturating_sub(*used), quantity)),
        used: Some(text(*used, quantity)),
        limit: Some(text(most, quantity)),
        queue: Some(limit.queue.clone()),
        resource: resource.as_ref().map(ToString::to_string),
        ..BlockedBy::new(BlockedReason::QueueLimit, message)
    }
}

/// Adds the amounts for programs, as Kubernetes quantities.
fn with_amounts(said: BlockedBy, Amounts { resource, requested, free }: &Amounts) -> BlockedBy {
    BlockedBy {
        requested: Some(quantity(resource, *requested)),
        available: Some(quantity(resource, *free)),
        resource: Some(resource.clone()),
        ..said
    }
}

fn of_nodes(nodes: &NoNodes) -> BlockedBy {
    let mut message = summary::unavailable(nodes.nodes, &nodes.closed);
    if let Some(pod) = &nodes.stuck {
        let _ = write!(
            message,
            " None is open to pod {pod}; other pods that start with it may use some."
        );
    }
    if let Some((amounts, asking)) = nodes.scarcest.as_ref().filter(|_| nodes.pods > 1) {
        message += &scarcest(amounts, *asking, nodes);
    }
    if let Some((used, of)) = nodes.used_by_others {
        let (ask, is) = (
            if nodes.pods == 1 { "It asks" } else { "They ask" },
            if of - used == 1 { "is" } else { "are" },
        );
        let _ = write!(
            message,
            " {ask} for nodes alone: {} of {of} {is} free of other pods.",
            of - used
        );
    }
    if let Some((needed, open)) = nodes.apart {
        let _ = write!(
            message,
            " By their own anti-affinity they need {needed} nodes, and may use {open}."
        );
    }
    if let Some((port, pods, open)) = &nodes.port {
        let _ = write!(
            message,
            " Each of {pods} pods needs a node of its own for host port {}/{}, and they may use \
             {open}.",
            port.port, port.protocol
        );
    }
    if !nodes.tied.clauses.is_empty() {
        let others = if nodes.tied.are_more { "; and others" } else { "" };
        let _ = write!(message, " {}{others}.", sentence(&nodes.tied.clauses));
    }
    message += nodes.finding.map_or("", of_finding);
    let said = BlockedBy::new(nodes.reason, message);
    match &nodes.scarcest {
        Some((amounts, _)) => with_amounts(said, amounts),
        None => said,
    }
}

fn scarcest(amounts: &Amounts, asking: u64, nodes: &NoNodes) -> String {
    let free = if nodes.is_of_idle { "in all" } else { "free" };
    let pods = nodes.pods;
    let askers = if asking < pods as u64 {
        format!("{asking} of the {pods} pods that start together")
    } else {
        format!("{pods} pods start together and")
    };
    let Amounts { resource, requested, free: available } = amounts;
    let is_enough_in_all = u128::from(*available) >= *requested;
    let parts = if is_enough_in_all && nodes.is_divided {
        ", in parts too small for all of them"
    } else {
        ""
    };
    let (requested, available) = (told(resource, *requested), told(resource, *available));
    format!(
        " {askers} ask for {requested} {resource}, {available} {free} on the nodes they may \
         use{parts}."
    )
}

fn of_finding(finding: Finding) -> &'static str {
    match finding {
        Finding::NoDomain => {
            " There is room for all of them, but in no one domain, as near to each other as they \
             ask for."
        }
        Finding::NotTogether { ask_about_pods: true } => {
            " There is room for all of them, but not where they may be together by what they ask \
             about other pods."
        }
        Finding::NotTogether { ask_about_pods: false } => {
            " There is room for all of them, but not where they may be together by their volumes."
        }
        Finding::WorkWithoutEnd => {
            " Work that has no end is in the way, so later jobs are not held back."
        }
        Finding::NotFound { ask_about_pods: true } => {
            " No placement of all of them together was found that keeps what they ask about other \
             pods, and none was proved impossible, so later jobs are not held back."
        }
        Finding::NotFound { ask_about_pods: false } => {
            " No placement of all of them together was found, and none was proved impossible, so \
             later jobs are not held back."
        }
    }
}

fn of_level(cramped: &CrampedLevel) -> BlockedBy {
    let CrampedLevel { level, part, wanted, room, is_of_idle, why } = cramped;
    let has = if *is_of_idle { "would have" } else { "has" };
    let pods = if *wanted == 1 { "1 pod".to_owned() } else { format!("{wanted} pods") };
    let named = part.as_deref().unwrap_or_default();
    let message = match why {
        LevelObstacle::TooSmall if part.is_some() => {
            format!(
                "No {level} {has} room for {pods}: the largest, {named}, {has} room for {room}."
            )
        }
        LevelObstacle::TooSmall => format!("No {level} {has} room for {pods}."),
        LevelObstacle::NoNode => format!("No node that they may use is in a {level}."),
        LevelObstacle::RestOfJob => format!(
            "The rest of its job is in {level} {named}, which {has} no room for {pods} more."
        ),
        LevelObstacle::TooFewParts { most, parts } => {
            let are = if *parts == 1 { "is" } else { "are" };
            format!(
                "At most {most} of {pods} may be in one {level}, and there {are} {parts} that \
                 they may use."
            )
        }
        LevelObstacle::Uneven { skew, least } => {
            let is = if *is_of_idle { "would be" } else { "is" };
            format!(
                "The numbers of pods in any two parts of level {level} may differ by {skew} at \
                 most: {named} {has} room for {least}, so that there {is} room for {room} of \
                 {pods}."
            )
        }
        LevelObstacle::Full { named, are_more } => {
            let others = if *are_more { " and others" } else { "" };
            let have = if named.len() == 1 && !are_more { "has" } else { "have" };
            format!(
                "Of level {level}, {}{others} {have} as many pods of its job as may be there \
                 beside the rest.",
                named.join(", ")
            )
        }
        LevelObstacle::CutSlice(pod) => format!(
            "No {level} has nodes for all {wanted} pods of the slice of {pod}: what they mount, \
             or ask of nodes, leaves them different ones."
        ),
    };
    BlockedBy {
        level: Some(level.clone()),
        part: part.clone(),
        requested: Some(wanted.to_string()),
        available: Some(room.to_string()),
        ..BlockedBy::new(BlockedReason::NoRoomInLevel, message)
    }
}

/// Joins clauses to a sentence without its full stop.
fn sentence(clauses: &[String]) -> String {
    let mut text = clauses.join("; ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
