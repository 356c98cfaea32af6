//! `config.get`, `config.origin`: what is set, and where.

use crate::Gateway;
use proto::Error;
use proto::methods::{
    ConfigGet, ConfigInput, ConfigOrigin, ConfigOutput, Handle, OriginOutput, SettingOrigin, SettingRow,
};

impl Handle<ConfigGet> for Gateway {
    async fn handle(&self, input: ConfigInput) -> Result<ConfigOutput, Error> {
        let here = self.here(input.cwd.as_deref())?;
        let mut value = here.loaded.shown();
        for key in input.path.iter().flat_map(|path| path.split('.')) {
            value = value.get_mut(key).map(serde_json::Value::take).unwrap_or_default();
        }
        Ok(ConfigOutput { value, warnings: here.loaded.warnings.clone() })
    }
}

impl Handle<ConfigOrigin> for Gateway {
    async fn handle(&self, input: ConfigInput) -> Result<OriginOutput, Error> {
        let here = self.here(input.cwd.as_deref())?;
        let wanted = |path: &str| {
            input.path.as_deref().is_none_or(|wanted| {
                path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let rows = here.loaded.origins().into_iter().filter(|shown| wanted(&shown.path));
        let row = |shown: config::Shown| SettingRow {
            path: shown.path,
            value: shown.value,
            origin: SettingOrigin {
                layer: shown.origin.layer.name().into(),
                file: shown.origin.file,
                line: u32::try_from(shown.origin.line).unwrap_or(u32::MAX),
            },
        };
        Ok(OriginOutput { settings: rows.map(row).collect() })
    }
}
