//! Which level of the machine has no part with room for the pods that are to be in one: in words, and with numbers.

use fluxqueue_api::{BlockedBy, BlockedReason};

use super::cluster::readable;
use super::plan::Group;
use crate::fluxion::{LevelSupply, ShapeReport, Supply, Within};

/// A level whose parts are too small, or too full, for all pods of a shape that are under one rule.
pub(super) struct Cramped {
    level: String,
    /// The part that has most room, or the only one that will do.
    part: Option<String>,
    wanted: u64,
    room: u64,
    message: String,
}

impl Cramped {
    /// The first such level, by what there is, or would be on the idle machine.
    pub(super) fn of(group: &Group, shape: &ShapeReport, supply: &Supply, if_idle: bool) -> Option<Self> {
        let wants = group.levels.iter().flat_map(|levels| levels.iter());
        wants.zip(&supply.levels).find_map(|(want, supply)| Self::under(&want.within, shape.wanted, supply, if_idle))
    }

    /// What is wrong under one rule.
    fn under(rule: &Within, wanted: u64, supply: &LevelSupply, if_idle: bool) -> Option<Self> {
        let LevelSupply { level, parts, largest, part } = supply;
        let has = if if_idle { "would have" } else { "has" };
        let pods = if wanted == 1 { "1 pod".to_owned() } else { format!("{wanted} pods") };
        let is_too_small = *largest < wanted;
        let (part, room, message) = match (rule, part) {
            (Within::One, Some(part)) if is_too_small => {
                let part = readable(part);
                let text = format!("No {level} {has} room for {pods}: the largest, {part}, {has} room for {largest}.");
                (Some(part), *largest, text)
            }
            (Within::One, None) if *parts == 0 => (None, 0, format!("No node that they may use is in a {level}.")),
            (Within::One, None) if is_too_small => (None, 0, format!("No {level} {has} room for {pods}.")),
            (Within::Part(of_job), _) if is_too_small => {
                let of_job = readable(of_job);
                let text = format!("The rest of its job is in {level} {of_job}, which {has} no room for {pods} more.");
                (Some(of_job), *largest, text)
            }
            (Within::AtMost(most), _) if parts.saturating_mul(u64::from(*most)) < wanted => {
                let are = if *parts == 1 { "is" } else { "are" };
                let text = format!(
                    "At most {most} of {pods} may be in one {level}, and there {are} {parts} that they may use."
                );
                (None, parts * u64::from(*most), text)
            }
            _ => return None,
        };
        Some(Cramped { level: level.clone(), part, wanted, room, message })
    }
}

impl From<Cramped> for BlockedBy {
    fn from(cramped: Cramped) -> Self {
        BlockedBy {
            level: Some(cramped.level),
            part: cramped.part,
            requested: Some(cramped.wanted.to_string()),
            available: Some(cramped.room.to_string()),
            ..BlockedBy::new(BlockedReason::NoRoomInLevel, cramped.message)
        }
    }
}
