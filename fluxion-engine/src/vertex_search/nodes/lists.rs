//! The candidates of a request, kept from match to match: for policies with scores that are full of
//! ties.
//!
//! Where every node numbers its cores from 0, `low`, `high`, `locality` and `variation` know a
//! thousand best cores, and which of them is chosen depends on how `std::sort` treats all
//! candidates of the machine. So these are kept: their scores in the order of the walk, node after
//! node. When a node has changed, its own part is made again, by looking into it as the walk would;
//! then only the elements that the sort brings to the front are followed
//! ([`crate::vertex_search::sort::front`]). Where the candidates of every node get dearer from one
//! to the next, as slots do, a node is a word of bits, and whole nodes are skipped
//! ([`crate::vertex_search::sort::front_of_rows`]).

use super::answer::Answer;
use super::index::NodeIndex;
use super::kept::{Costs, List};
use super::plan::{Origin, Plan};
use crate::graph::VertexId;
use crate::vertex_search::choose::{Gathered, Group};
use crate::vertex_search::walk::Walk;

/// With this number of nodes without jobs, others are compared before they are looked into.
const SAMPLES_MAX: usize = 4;

/// Chooses as [`Walk::run`] does, from candidates that are kept.
pub(crate) fn run(walk: &mut Walk<'_>, index: &NodeIndex, plan: &Plan) -> Answer {
    let scene = walk.scene();
    if !scene.window.is_now || matches!(plan.origin, Origin::SlotsOfNodes(_)) {
        return Answer::Unsure;
    }
    if index.places().parents().iter().any(|parent| !is_reached(walk, *parent)) {
        return Answer::Unsure;
    }
    let (lists, _) = index.kept();
    let mut list = lists.take(&scene).unwrap_or_else(|| List::new(&scene, index.places().len()));
    let answer = refresh(walk, index, plan, &mut list).and_then(|()| pick(walk, index, &list));
    // A list that was not finished knows less than there is.
    if answer.is_some() && !scene.graph.pools.effort.is_spent() {
        lists.keep(list);
    }
    answer.unwrap_or(Answer::Unsure)
}

/// Looks again into the nodes that have changed. `None`: only the walk can tell.
fn refresh(walk: &mut Walk<'_>, index: &NodeIndex, plan: &Plan, list: &mut List) -> Option<()> {
    let (scene, places, (_, journal)) = (walk.scene(), index.places(), index.kept());
    let mut looked: Vec<usize> = match list.since(journal) {
        None => (0..places.len()).collect(),
        // What will be taken later may be in the way of one request and not of another.
        Some(changed) => {
            changed.iter().map(|place| *place as usize).chain(index.planned().iter()).collect()
        }
    };
    looked.sort_unstable_by_key(|place| places.walked(*place));
    looked.dedup();
    let constraint = scene.request.constraint.as_ref();
    let admitted = constraint.map(|constraint| index.admitted(scene.graph, constraint));
    let mut changed: Vec<(usize, Costs)> = Vec::with_capacity(looked.len());
    // Places in `changed` of nodes without jobs, no two alike.
    let mut samples: Vec<(VertexId, usize)> = Vec::new();
    let below = matches!(plan.origin, Origin::Inside(_)) && !scene.policy.is_node_centric();
    for place in looked {
        let mut costs = Costs::new();
        let may = plan.may(index.rows().row(place), scene.window)
            && admitted.as_ref().is_none_or(|admitted| admitted.contains(place));
        list.refuse(!may);
        let node = index.node(place);
        let is_fresh =
            may && below && scene.graph.is_marked_up(node) && !scene.schedule.is_occupied(node);
        let alike = samples
            .iter()
            .position(|(sample, _)| is_fresh && scene.graph.are_alike_below(*sample, node));
        if let Some(at) = alike {
            // The subtree decides alone, and was visited: also whether anything of it is refused.
            samples[..=at].rotate_right(1);
            costs.clone_from(&changed[samples[0].1].1);
        } else if may {
            if is_fresh && samples.len() < SAMPLES_MAX {
                samples.insert(0, (node, changed.len()));
            }
            let before = walk.obstacles().take_refused();
            for group in look(walk, node) {
                if group.score <= 0 || group.count != 1 {
                    return None;
                }
                costs.push(list.cost(group.score)?);
            }
            walk.forget();
            let refused = walk.obstacles().take_refused();
            list.refuse(refused);
            walk.obstacles().pass_over(refused || before);
        }
        changed.push((places.walked(place) as usize, costs));
    }
    list.replace(&changed, journal)
}

/// The candidates of a node.
fn look(walk: &mut Walk<'_>, node: VertexId) -> Vec<Group> {
    let request = walk.scene().request;
    let mut gathered = Gathered::default();
    let _ = walk.offer(node, &request.top, true, false, 0, &mut gathered);
    gathered.take(request.levels[request.top.start].kind)
}

/// Takes the best candidates.
fn pick(walk: &mut Walk<'_>, index: &NodeIndex, list: &List) -> Option<Answer> {
    walk.obstacles().pass_over(list.is_refused());
    let request = walk.scene().request;
    let count = request.levels[request.top.start].count.choose(list.len() as u64);
    if count == 0 {
        walk.obstacles().pass_over(true);
        return Some(Answer::Nothing);
    }
    let count = usize::try_from(count).ok()?;
    let mut of_nodes: Vec<(usize, Vec<Group>)> = Vec::new();
    let mut groups: Vec<Group> = Vec::with_capacity(count);
    for position in list.best(count) {
        let (walked, at) = list.place_of(position);
        let known = of_nodes.iter().position(|(known, _)| *known == walked).unwrap_or_else(|| {
            let found = look(walk, index.places().by_walk(walked));
            of_nodes.push((walked, found));
            of_nodes.len() - 1
        });
        groups.push(*of_nodes[known].1.get(at)?);
    }
    // Choices inside of nodes lie before choices of them.
    Some(Answer::Chosen(walk.take(&groups)))
}

/// Whether the walk comes as far as below a vertex.
fn is_reached(walk: &mut Walk<'_>, vertex: VertexId) -> bool {
    let scene = walk.scene();
    let mut way = scene.graph.way_up(vertex);
    way.all(|above| walk.may_enter(above, &scene.request.top))
}
