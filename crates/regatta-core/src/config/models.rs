//! The `models` of a configuration: names that become arguments, and what their tokens cost.

use crate::budget::Price;
use crate::diagnostic::Report;

use super::fields::{Fields, Spot};
use super::reading::no_word;
use super::values::{Config, Origin};

/// Takes the prices of a file into `config`. A price with a mistake is left out.
pub(super) fn prices(config: &mut Config, named: &[(Spot<String>, Fields)], report: &mut Report) {
    for (model, fields) in named {
        for name in ["in", "out"] {
            if fields.lacks(name) {
                let message = format!("the price of {:?} has no `{name}`", model.value);
                report.error(model.pos, &fields.path_of(name), message).hint =
                    Some("dollars per million tokens, such as `{ in: 3, out: 15 }`".into());
            }
        }
        if let (Some(input), Some(output)) = (fields.number("in"), fields.number("out")) {
            let cached_input = fields.number("cached_input");
            config.models.prices.insert(model.value.clone(), Price { input, output, cached_input });
            config.origins.insert("models.prices".to_owned(), Origin::File);
        }
    }
}

/// Model names that cannot be arguments, with the keys that contain them.
pub(super) fn bad_names(config: &Config) -> Vec<(&'static str, String)> {
    let models = &config.models;
    let labels = models.labels.values().map(|model| ("models.labels", model));
    let ladder = models.escalation.iter().map(|model| ("models.escalation", model));
    let own = config.agents.values().flat_map(|agent| {
        let labels = agent.labels.iter().flat_map(|labels| labels.values());
        labels.chain(agent.escalation.iter().flatten()).map(|model| ("agents", model))
    });
    let named = labels.chain(ladder).chain(own);
    named
        .filter_map(|(key, model)| no_word(model).map(|why| (key, format!("model {model:?} {why}"))))
        .collect()
}
