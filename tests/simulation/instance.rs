//! One Fluxqueue in the cluster: its core, what is on the way to it and from it, and what it knows.

use fluxqueue_core::{Action, ActionId, Event};
use fluxqueue_workload::Time;

use crate::channel::Channel;
use crate::checks::{self, Violation};
use crate::executor::Executor;
use crate::gangs;
use crate::machine::{Factory, Machine, Start};
use crate::promises::Promises;
use crate::server::Server;
use crate::succession::Succession;
use crate::view::View;

/// A leader that works, and its followers to come.
pub(crate) struct Instance {
    /// What its process was told.
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
    /// Its first process.
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

    /// Another process takes over, and knows nothing yet.
    pub(crate) fn succeed(&mut self, factory: &Factory, server: &Server, offset: i64) {
        self.start.epoch += 1;
        self.core = factory(&self.start);
        self.view = View::new(&self.start);
        self.last_id = None;
        self.promises = Promises::default();
        self.succession = Succession::of(server, &self.start.scheduler);
        self.channel.relist(server, offset);
    }

    /// The core is told this.
    pub(crate) fn tell(&mut self, event: Event, now: Time) {
        self.view.tell(&event, now);
        self.promises.tell(&event);
        self.core.handle(event, now);
    }

    /// What its core counts as taken is what pods take.
    pub(crate) fn judge_accounts(&self) -> Result<(), Violation> {
        match self.core.audit_differences() {
            0 => Ok(()),
            found => checks::broken(
                "what is counted as taken is what pods take",
                format!("{found} differences"),
            ),
        }
    }

    /// The core decides.
    pub(crate) fn step(&mut self, now: Time) -> Vec<Action> {
        self.core.step(now)
    }

    /// When the core wants to be called again.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    /// Judges each action at the moment it is asked for; `view` learns of it.
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
