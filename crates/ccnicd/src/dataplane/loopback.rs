//! Loopback: packets go back by the queue that they were sent on. Works for every kind of port.

use std::sync::Arc;

use ccnic::nic::{Pipeline, loopback};

use super::Dataplane;
use crate::ports::latency::Latency;
use crate::ports::{InTurn, Port};

/// The loopback of one port on one worker.
#[derive(Debug)]
pub struct Loopback {
    queues: InTurn,
    reflect: bool,
}

impl Loopback {
    /// For so many queues. With `reflect` packets go back in their own buffers where the port can do that.
    pub fn new(queues: usize, reflect: bool) -> Loopback {
        Loopback { queues: InTurn::new(queues), reflect }
    }

    /// True when packets go back in their own buffers.
    pub(super) fn reflects(&self) -> bool {
        self.reflect
    }

    /// Its queues, and whose turn it is.
    pub(super) fn queues(&mut self) -> &mut InTurn {
        &mut self.queues
    }

    /// Shows there how long packets take, by samples.
    pub(super) fn show_latency(&mut self, to: Arc<Latency>) {
        self.queues.show_latency(to);
    }

    /// As [`InTurn::poll`]; `forward` also gets whether to reflect.
    #[inline(always)]
    pub(super) fn poll_queues<P: Port>(
        &mut self,
        port: &mut P,
        mut forward: impl FnMut(&mut P, &mut Pipeline, usize, bool) -> usize,
    ) -> usize {
        let reflect = self.reflect;
        self.queues.poll(
            port,
            #[inline(always)]
            |port, pipeline, at| forward(port, pipeline, at, reflect),
        )
    }
}

impl<P: Port> Dataplane<P> for Loopback {
    #[inline(always)]
    fn poll(&mut self, port: &mut P) -> usize {
        self.poll_queues(
            port,
            #[inline(always)]
            |port, pipeline, at, reflect| {
                let (queues, mem) = port.queues();
                let Some(queue) = queues.get_mut(at) else { return 0 };
                loopback(queue, pipeline, mem, reflect)
            },
        )
    }

    fn round(&self) -> usize {
        self.queues.round()
    }

    fn sweep(&self) -> usize {
        self.queues.sweep()
    }

    fn may_doze(&self) -> bool {
        self.queues.is_idle()
    }

    fn awoke(&mut self) {
        self.queues.awoke();
    }
}
