//! One Fluxqueue in the cluster: its core, the messages to and from it, and its knowledge.

use fluxqueue_core::{Action, ActionId, Event};
use fluxqueue_workload::Time;

use crate::channel::Channel;
use crate::checks;
use crate::executor::Executor;
use crate::gangs;
use crate::machine::{Factory, Machine, Start};
use crate::promises::Promises;
use crate::server::Server;
use crate::succession::Succession;
use crate::view::View;
use crate::violation::{Violation, broken};

/// A leader, and its successors.
pub(crate) struct Instance {
    /// The settings of its process.
    pub(crate) start: Start,
    core: Box<dyn Machine>,
    pub(crate) channel: Channel,
    pub(crate) executor: Executor,
    pub(crate) view: View,
    pub(crate) succession: Succession,
    pub(crate) promises: Promises,
    last_id: Option<ActionId>,
}

impl Instance {
    /// Makes the first process.
    pub(crate) fn new(start: Start, factory: &Factory) -> Self {
        Instance {
            core: factory(&start),
            channel: Channel::default(),
            executor: Executor::default(),
            view: View::new(&start),
            start,
            succession: Succession::default(),
            promises: Promises::default(),
            last_id: None,
        }
    }

    /// Lets another process take over, which knows nothing yet.
    pub(crate) fn succeed(&mut self, factory: &Factory, server: &Server, offset: i64) {
        self.start.epoch += 1;
        self.core = factory(&self.start);
        self.view = View::new(&self.start);
        self.last_id = None;
        self.promises = Promises::default();
        self.succession = Succession::of(server, &self.start.scheduler);
        self.channel.relist(server, offset);
    }

    /// Hands an event to the core.
    pub(crate) fn tell(&mut self, event: Event, now: Time) {
        self.view.tell(&event, now);
        self.promises.tell(&event);
        self.core.handle(event, now);
    }

    /// Judges that the core's account of taken amounts matches the pods.
    pub(crate) fn judge_accounts(&self) -> Result<(), Violation> {
        match self.core.audit_differences() {
            0 => Ok(()),
            found => broken(
                "the account of taken amounts matches the pods",
                format!("{found} differences"),
            ),
        }
    }

    /// Lets the core decide.
    pub(crate) fn step(&mut self, now: Time) -> Vec<Action> {
        self.core.step(now)
    }

    /// Returns when the core wants to be called again.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    /// Judges each action at the moment of its request, and adds it to `view`.
    pub(crate) fn judge(
        &mut self,
        server: &Server,
        now: Time,
        actions: &[Action],
    ) -> Result<(), Violation> {
        gangs::judge(&self.view, now, actions)?;
        self.succession.judge(&self.view, now, actions)?;
        self.promises.judge(&self.view, now, actions)?;
        checks::judge(&mut self.view, server, now, &mut self.last_id, actions)
    }
}
