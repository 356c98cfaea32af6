//! What is known about models: limits, prices, thinking, eyes. Embedded, and overridden by a file of the same shape.
//!
//! Prices and limits change; the file is how a person is ahead of a release.

use crate::{Cost, Limits, Model, Reasoning};
use serde::Deserialize;
use std::collections::BTreeMap;

const EMBEDDED: &str = include_str!("models.json");

/// Models by vendor and name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Catalogue(BTreeMap<String, BTreeMap<String, Known>>);

/// One model. Whatever a file leaves out of a known model stays as it was.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Known {
    context: Option<u64>,
    output: Option<u64>,
    cost: Option<Cost>,
    reasoning: Option<Reasoning>,
    images: Option<bool>,
    defers: Option<bool>,
}

impl Catalogue {
    /// What this program was built with.
    pub fn embedded() -> Self {
        serde_json::from_str(EMBEDDED).expect("the embedded catalogue is tested")
    }

    /// The same with what a file says instead; the error says where it is wrong.
    pub fn overridden(mut self, file: &str) -> Result<Self, String> {
        let other: Self = serde_json::from_str(file).map_err(|error| error.to_string())?;
        for (vendor, models) in other.0 {
            let known = self.0.entry(vendor).or_default();
            for (name, model) in models {
                let place = known.entry(name).or_default();
                *place = model.or(place);
            }
        }
        Ok(self)
    }

    /// What is known about a model of a vendor. A name with more behind it, such as a date, is the model itself; of a
    /// name nobody knows `usual` limits are assumed.
    pub fn model(&self, vendor: &str, name: &str, usual: Limits) -> Model {
        let known = self.known(vendor, name).copied().unwrap_or_default();
        known.model(name, usual)
    }

    /// Every model of a vendor.
    pub fn of<'a>(&'a self, vendor: &str) -> impl Iterator<Item = Model> + use<'a> {
        self.0.get(vendor).into_iter().flatten().map(|(name, known)| known.model(name, Limits::default()))
    }

    fn known(&self, vendor: &str, name: &str) -> Option<&Known> {
        let models = self.0.get(vendor)?;
        if let Some(known) = models.get(name) {
            return Some(known);
        }
        let found = models.iter().find(|(known, _)| name.strip_prefix(known.as_str()).is_some_and(is_edition));
        found.map(|(_, known)| known)
    }
}

/// What may stand behind a model's name without making it another: a date, `latest`, or how it is served.
fn is_edition(rest: &str) -> bool {
    let date = |rest: &str| rest.len() >= 4 && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    rest.starts_with(['@', ':']) || rest.strip_prefix('-').is_some_and(|rest| rest == "latest" || date(rest))
}

impl Known {
    fn or(self, other: &Self) -> Self {
        Self {
            context: self.context.or(other.context),
            output: self.output.or(other.output),
            cost: self.cost.or(other.cost),
            reasoning: self.reasoning.or(other.reasoning),
            images: self.images.or(other.images),
            defers: self.defers.or(other.defers),
        }
    }

    fn model(&self, name: &str, usual: Limits) -> Model {
        Model {
            name: name.to_owned(),
            context: self.context.unwrap_or(usual.context),
            output: self.output.unwrap_or(usual.output),
            cost: self.cost,
            reasoning: self.reasoning.unwrap_or_default(),
            images: self.images.unwrap_or(false),
            defers: self.defers.unwrap_or(false),
            ..Model::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendors::VENDORS;

    fn model(catalogue: &Catalogue, vendor: &str, name: &str) -> Model {
        catalogue.model(vendor, name, Limits::default())
    }

    #[test]
    fn the_embedded_catalogue_makes_sense() {
        let catalogue = Catalogue::embedded();
        for (vendor, models) in &catalogue.0 {
            assert!(VENDORS.iter().any(|known| known.name == vendor), "{vendor}");
            for (name, known) in models {
                let model = known.model(name, Limits::default());
                assert!(known.context.is_some() && known.output.is_some(), "{vendor}/{name}");
                assert!(model.output <= model.context, "{vendor}/{name}");
                let cost = model.cost.unwrap_or_else(|| panic!("{vendor}/{name} has no price"));
                assert!(cost.input > 0.0 && cost.output >= cost.input, "{vendor}/{name}");
                assert!(cost.cache_read.is_none_or(|price| price <= cost.input), "{vendor}/{name}");
            }
        }
    }

    #[test]
    fn the_model_a_key_alone_leads_to_is_known() {
        let catalogue = Catalogue::embedded();
        for vendor in VENDORS.iter().filter(|vendor| !vendor.model.is_empty() && vendor.name != "openrouter") {
            assert!(catalogue.known(vendor.name, vendor.model).is_some(), "{}/{}", vendor.name, vendor.model);
        }
    }

    #[test]
    fn a_name_with_a_date_is_the_model_and_a_similar_name_is_not() {
        let catalogue = Catalogue::embedded();
        let price = |name: &str| model(&catalogue, "anthropic", name).cost.map(|cost| cost.input);
        assert_eq!(price("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(price("claude-haiku-4-5@20251001"), Some(1.0));
        assert_eq!((price("claude-sonnet-4-9"), price("claude-nova")), (None, None));
        assert_eq!(model(&catalogue, "openai", "gpt-4o-2024-08-06").output, 16_384);
        assert_eq!(model(&catalogue, "acme", "x").context, Limits::default().context);
    }

    #[test]
    fn a_file_overrides_what_it_names_and_nothing_else() {
        let file =
            r#"{ "anthropic": { "claude-sonnet-4-5": { "context": 1000000 } }, "acme": { "x": { "output": 5 } } }"#;
        let catalogue = Catalogue::embedded().overridden(file).unwrap();
        let sonnet = model(&catalogue, "anthropic", "claude-sonnet-4-5");
        assert_eq!((sonnet.context, sonnet.output), (1_000_000, 64_000));
        assert_eq!(model(&catalogue, "acme", "x").output, 5);
        let wrong = Catalogue::embedded().overridden("{\n \"a\": { \"m\": { \"contxt\": 1 } } }").unwrap_err();
        assert!(wrong.contains("contxt") && wrong.contains("line 2"), "{wrong}");
    }
}
