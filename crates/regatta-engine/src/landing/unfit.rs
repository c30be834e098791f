//! Cars that must not land, whatever their gate says.

use regatta_core::state::BlockReason;
use regatta_core::train::Car;
use regatta_store::StoreError;

use super::chain::approval;
use super::train::{LandError, Train};

impl Train {
    /// Refuses every car that contains a `.regatta`: in a checkout it would become live state. Each is checked once.
    /// Returns whether any was refused.
    pub(super) async fn refuse_unfit(&mut self) -> Result<bool, LandError> {
        let mut refused = false;
        for car in self.cars.clone() {
            if self.fit.contains(&approval(&car)) {
                continue;
            }
            if !self.brings_state(&car).await? {
                self.fit.insert(approval(&car));
                continue;
            }
            let detail = format!(
                "its commits contain .regatta, which is Regatta's own state and never lands; its work is on {}",
                car.task.branch()
            );
            refused = true;
            match self.reject(&car, BlockReason::Policy, detail, vec![".regatta".to_owned()]).await {
                // It was cancelled meanwhile.
                Err(LandError::Store(StoreError::Conflict(_))) => {}
                other => other?,
            }
        }
        Ok(refused)
    }

    async fn brings_state(&self, car: &Car) -> Result<bool, LandError> {
        let (base, head) = (car.request.base.clone(), car.request.head.clone());
        let brings = move |ctx: &crate::context::Context| {
            // A missing commit is handled by another step.
            if !ctx.repository.work.exists(&head)? || !ctx.repository.work.holds_state(&head)? {
                return Ok(false);
            }
            Ok(!ctx.repository.work.exists(&base)? || !ctx.repository.work.holds_state(&base)?)
        };
        Ok(self.ctx.blocking(brings).await?)
    }
}
