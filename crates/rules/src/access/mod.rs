//! Who may reach whom: one guard for every act of one session upon another (row S3).
//!
//! Pure: the caller brings both parties and the settings, and gets a typed decision; text is made from it elsewhere.
//!
//! The relation comes first. A session reaches itself, and what it started as far as its visibility says, whoever owns
//! it. Mail also goes up to ancestors and across to the named agents of the tree, whatever the visibility: seeing is
//! one thing, answering another. Anything else is judged by owner: the same one needs visibility `agent`, another one
//! needs `all`, then agent-to-agent turned on, then an entry that allows the pair. A sandboxed caller is stopped before
//! all that at what it did not start, always in the same words, so that it learns nothing from being refused.
//!
//! - [`decide`]: one caller, one target, one act.
//! - [`deliver`]: the same for a message, which the user may let in where the caller sees too little.
//! - [`scope`]: what a list may read for a caller, as index ranges; [`decide`] still judges each row.
//! - [`Settings::read`]: the settings of all this, from a configuration.
//! - [`explain`]: a refusal in words.

mod agents;
mod decide;
mod explain;
mod party;
mod scope;
mod settings;
mod visibility;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod table;

pub use agents::{AgentToAgent, Glob, Pattern};
pub use decide::{Decision, Delivery, Reason, decide, deliver};
pub use explain::explain;
pub use party::{Party, Relation, relation};
pub use scope::{Scope, scope};
pub use settings::{Clamp, Levels, Settings};
pub use visibility::{Act, Visibility};
