//! Run slots: how many model calls and local tools run at once, per gateway and per tree.
//!
//! A slot is held while a model streams or a tool runs, and never while a call waits for a child, a person or a peer: so
//! a tree of waiting parents cannot lock out the children they wait for.

use proto::SessionId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Slots {
    gateway: Arc<Semaphore>,
    per_tree: usize,
    trees: Mutex<HashMap<SessionId, Weak<Semaphore>>>,
    /// For steps that are given up if the gateway dies once more.
    last_attempts: Arc<Semaphore>,
}

/// Permission to work; dropped, it goes to the next in line.
pub(crate) struct Slot {
    _tree: OwnedSemaphorePermit,
    _gateway: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(gateway: usize, per_tree: usize) -> Self {
        Self {
            gateway: Arc::new(Semaphore::new(gateway.max(1))),
            per_tree: per_tree.max(1),
            trees: Mutex::default(),
            last_attempts: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits until no other step makes its last attempt.
    pub(crate) fn last_attempt(&self) -> impl Future<Output = OwnedSemaphorePermit> + Send + 'static {
        let last = self.last_attempts.clone();
        async move { last.acquire_owned().await.expect("slots are never closed") }
    }

    /// The tree's own queue; kept by its awake sessions, gone with the last of them.
    pub(crate) fn tree(&self, root: &SessionId) -> Arc<Semaphore> {
        let mut trees = self.trees.lock().expect("no holder of this lock panics");
        if let Some(tree) = trees.get(root).and_then(Weak::upgrade) {
            return tree;
        }
        // Now and then, so that looking after gone trees costs nothing per tree.
        if trees.len().is_power_of_two() {
            trees.retain(|_, tree| tree.strong_count() > 0);
        }
        let tree = Arc::new(Semaphore::new(self.per_tree));
        trees.insert(root.clone(), Arc::downgrade(&tree));
        tree
    }
}

/// One session's way to a slot: its model call and its tools share one.
pub(crate) struct SessionSlot {
    slots: Arc<Slots>,
    tree: Arc<Semaphore>,
    held: tokio::sync::Mutex<Weak<Slot>>,
}

impl SessionSlot {
    pub(crate) fn new(slots: &Arc<Slots>, root: &SessionId) -> Self {
        Self { slots: slots.clone(), tree: slots.tree(root), held: tokio::sync::Mutex::default() }
    }

    /// Waits for a slot, or shares the one this session already holds.
    pub(crate) async fn acquire(&self) -> Arc<Slot> {
        let mut held = self.held.lock().await;
        if let Some(slot) = held.upgrade() {
            return slot;
        }
        // The tree first: a tree at its limit must not sit on the gateway's slots.
        let tree = self.tree.clone().acquire_owned().await.expect("slots are never closed");
        let gateway = self.slots.gateway.clone().acquire_owned().await.expect("slots are never closed");
        let slot = Arc::new(Slot { _tree: tree, _gateway: gateway });
        *held = Arc::downgrade(&slot);
        slot
    }
}
