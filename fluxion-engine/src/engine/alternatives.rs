//! The alternatives that a jobspec leaves: `xor_slot` decided in each way.

use crate::jobspec::Resource;
use crate::limits::{ALTERNATIVE_RESOURCES_MAX, ALTERNATIVES_MAX};
use crate::{Error, Reason};

/// Sibling lists with each `xor_slot` decided, in order.
pub(super) fn of(siblings: &[Resource]) -> Result<Vec<Vec<Resource>>, Error> {
    expand(siblings, most(count(siblings).max(1)))
}

/// How many alternatives there may be that have as many resources each.
fn most(each: usize) -> usize {
    (ALTERNATIVE_RESOURCES_MAX.max / each).clamp(1, ALTERNATIVES_MAX.max)
}

/// How many resources there are in a list, with all that they hold.
fn count(resources: &[Resource]) -> usize {
    resources.iter().map(Resource::count_all).sum()
}

/// Sibling lists with each `xor_slot` decided, in order; `max` at most.
fn expand(siblings: &[Resource], max: usize) -> Result<Vec<Vec<Resource>>, Error> {
    let check = |alternatives: usize| {
        if alternatives <= max {
            return Ok(());
        }
        Err(Error {
            reason: Reason::Overflow,
            text: format!(
                "resources: xor_slot: more than {ALTERNATIVES_MAX}, or {ALTERNATIVE_RESOURCES_MAX}"
            ),
        })
    };
    let mut all: Vec<Vec<Resource>> = vec![Vec::new()];
    let mut choices: Vec<Resource> = Vec::new();
    for resource in siblings {
        let mut insides = expand(&resource.with, max)?;
        if &*resource.kind == "xor_slot" {
            check(choices.len() + insides.len())?;
            choices.extend(insides.into_iter().map(|with| with_inside("slot", resource, with)));
            continue;
        }
        check(all.len() * insides.len())?;
        if insides.len() == 1 {
            let only = with_inside(&resource.kind, resource, insides.swap_remove(0));
            for list in &mut all {
                list.push(only.clone());
            }
            continue;
        }
        let with_each = |before: &Vec<Resource>| {
            let lists = insides.iter().map(|with| {
                let mut list = before.clone();
                list.push(with_inside(&resource.kind, resource, with.clone()));
                list
            });
            lists.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with_each).collect();
    }
    if choices.is_empty() {
        return Ok(all);
    }
    check(all.len() * choices.len())?;
    let with_each = |choice: &Resource| {
        let lists = all.iter().map(|list| {
            let mut list = list.clone();
            list.push(choice.clone());
            list
        });
        lists.collect::<Vec<_>>()
    };
    Ok(choices.iter().flat_map(with_each).collect())
}

/// A resource of another type that holds something else.
fn with_inside(kind: &str, resource: &Resource, with: Vec<Resource>) -> Resource {
    Resource { kind: kind.into(), with, label: resource.label.clone(), ..*resource }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobspec::Count;

    fn resource(kind: &str, with: Vec<Resource>) -> Resource {
        Resource { kind: kind.into(), count: Count::exactly(1), exclusive: None, label: None, with }
    }

    #[test]
    fn alternatives_are_limited_with_all_that_they_hold() {
        let of = |racks: usize, cores: usize| {
            let choice = |kind: &str| resource("xor_slot", vec![resource(kind, Vec::new())]);
            let rack = resource("rack", vec![choice("core"), choice("gpu")]);
            let mut siblings = vec![rack; racks];
            siblings.push(resource("node", vec![resource("core", Vec::new()); cores]));
            siblings
        };
        let expanded = |siblings: &[Resource]| {
            let each = count(siblings);
            expand(siblings, most(each)).map(|all| all.len())
        };
        assert_eq!(expanded(&of(9, 1)).unwrap(), 512);
        for siblings in [
            of(10, 1),
            of(9, 10_000),
            vec![resource("xor_slot", Vec::new()); ALTERNATIVES_MAX.max + 1],
        ] {
            let error = expanded(&siblings).unwrap_err();
            assert_eq!(error.reason, Reason::Overflow, "{error}");
        }
        // Without a choice there is one, however long it is.
        assert_eq!(expanded(&of(0, 200_000)).unwrap(), 1);
        assert_eq!(expanded(&vec![resource("core", Vec::new()); 200_000]).unwrap(), 1);
    }
}
