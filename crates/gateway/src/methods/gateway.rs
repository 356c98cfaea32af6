//! `health` and `gateway.stop`: the process itself.

use crate::Gateway;
use proto::methods::{Done, GatewayStop, Handle, Health, HealthReport, Nothing, StopInput};
use proto::{Code, Error};

impl Handle<Health> for Gateway {
    async fn handle(&self, _: Nothing) -> Result<HealthReport, Error> {
        Ok(HealthReport {
            ok: !self.stop.is_cancelled(),
            version: self.identity.version.clone(),
            fingerprint: self.identity.fingerprint.clone(),
            pid: std::process::id(),
            implicit: self.identity.implicit,
            busy: self.runtime.busy() as u64,
            awake: self.runtime.awake() as u64,
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

impl Handle<GatewayStop> for Gateway {
    async fn handle(&self, input: StopInput) -> Result<Done, Error> {
        let busy = self.runtime.busy();
        if busy > 0 && !input.force {
            return Err(Error::new(Code::Conflict, format!("{busy} sessions are busy"))
                .hint("wait for them, or stop with `force` (`--force`): they go on when the next gateway starts"));
        }
        self.stop();
        Ok(Done { ok: true })
    }
}
