//! The description of everything that is served, written from the table of methods (P1).

use crate::caller::name;
use proto::Error;
use proto::methods::{Row, Scope, TABLE};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// How every refusal looks.
#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
pub(crate) struct Refusal {
    pub(crate) error: Error,
}

/// The document, for OpenAPI 3.1.
pub(crate) fn document(version: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(say_the_range)));
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for row in TABLE {
        paths.insert(format!("/rpc/{}", row.name), json!({ "post": method(row, &mut generator) }));
    }
    let refusal = generator.subschema_for::<Refusal>().to_value();
    paths.extend(others());
    let responses: Map<String, Value> =
        REFUSALS.iter().map(|(status, about)| refused(status, about, &refusal)).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Convoke",
            "version": version,
            "description": "Sessions of AI agents that persist, start each other and write to each other.",
        },
        "paths": paths,
        "security": [{ "bearer": [] }],
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": responses,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Integers are read into so many bits; most readers of a schema do not know its `format`.
fn say_the_range(schema: &mut Schema) {
    let (least, most) = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    schema.insert("minimum".into(), least);
    schema.insert("maximum".into(), most);
}

/// Statuses of refusals, and which codes they carry.
const REFUSALS: &[(&str, &str)] = &[
    ("400", "The input does not fit"),
    ("401", "No token, or one that is not valid"),
    ("403", "The token may not do this, or the rules forbid it"),
    ("404", "There is no such thing"),
    ("405", "Not with this HTTP method"),
    ("409", "It conflicts with what is there"),
    ("429", "Too much, for now"),
    ("500", "The gateway failed"),
    ("503", "Not now; try again"),
];

fn refused(status: &str, about: &str, schema: &Value) -> (String, Value) {
    let response = json!({ "description": about, "content": { "application/json": { "schema": schema } } });
    (format!("Refused{status}"), response)
}

/// The answers an operation can have: its own, and the refusals.
fn responses(own: Value) -> Value {
    let mut all = Map::new();
    all.insert("200".into(), own);
    for (status, _) in REFUSALS {
        all.insert((*status).into(), json!({ "$ref": format!("#/components/responses/Refused{status}") }));
    }
    all.into()
}

fn method(row: &Row, generator: &mut SchemaGenerator) -> Value {
    let (input, output) = ((row.input)(generator).to_value(), (row.output)(generator).to_value());
    let about = row.about.trim();
    let raised = |(field, scope): &(&str, Scope)| format!(" `{field}` also needs `{}`.", name(*scope));
    let raised: String = row.raised.iter().map(raised).collect();
    json!({
        "operationId": row.name,
        "summary": about,
        "tags": [row.name.split('.').next().unwrap_or(row.name)],
        "description": format!("{about} Needs the scope `{}`.{raised}", name(row.scope)),
        "requestBody": { "required": true, "content": { "application/json": { "schema": input } } },
        "responses": responses(json!({
            "description": "Done",
            "content": { "application/json": { "schema": output } },
        })),
    })
}

/// What is not a method.
fn others() -> Map<String, Value> {
    let text = |about: &str, kind: &str| json!({ "description": about, "content": { kind: { "schema": { "type": "string" } } } });
    let object = |about: &str| json!({ "description": about, "content": { "application/json": { "schema": { "type": "object" } } } });
    let get = |id: &str, scope: Option<Scope>, about: &str, own: Value| {
        let scope = scope.map(|scope| format!(" Needs the scope `{}`.", name(scope))).unwrap_or_default();
        json!({
            "operationId": id,
            "summary": about,
            "tags": ["gateway"],
            "description": format!("{about}{scope}"),
            "responses": responses(own),
        })
    };
    let mut events = get(
        "events",
        Some(Scope::Read),
        "Events of a tree, a session or everything: what is kept since a cursor, then what happens.",
        text(
            "A stream that goes on until somebody closes it; the header `convoke-cursor` tells where it begins",
            "text/event-stream",
        ),
    );
    events["parameters"] = json!([
        query("root", "Any session of the tree to watch"),
        query("session", "One session alone"),
        query("after", "The last cursor seen; from now on without it"),
        { "name": "follow", "in": "query", "description": "`false`: end where the store ends now", "schema": { "type": "boolean" } },
        { "name": "Last-Event-ID", "in": "header", "description": "The same as `after`", "schema": { "type": "string" } },
    ]);
    let mut health = get("healthz", None, "Whether somebody is there. Open to everybody.", object("Somebody is"));
    health["security"] = json!([]);
    let metrics = text("In the text format of OpenMetrics", "application/openmetrics-text");
    [
        ("/events", events),
        ("/openapi.json", get("openapi", None, "This document.", object("OpenAPI 3.1"))),
        ("/healthz", health),
        ("/metrics", get("metrics", Some(Scope::Read), "Numbers for operators.", metrics)),
    ]
    .into_iter()
    .map(|(path, operation)| (path.to_owned(), json!({ "get": operation })))
    .chain([("/ws".to_owned(), web_socket())])
    .collect()
}

/// OpenAPI has no words for a WebSocket: the path is there, without an operation that a client could try as one.
fn web_socket() -> Value {
    json!({
        "summary": "Methods and events over one WebSocket",
        "description": "Frames `{id, method, params}` are answered by `{id, ok, payload | error}`. `events.subscribe` with the parameters of /events leads to frames `{event, cursor?, subscription}`, until `events.unsubscribe {subscription}`. Needs a token, as everything does, and for each method its scope.",
    })
}

fn query(name: &str, about: &str) -> Value {
    json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_method_is_described() {
        let document = document("1.2.3");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > TABLE.len());
        for reference in found {
            let target = document.pointer(reference.trim_start_matches('#'));
            assert!(target.is_some(), "{reference}");
        }
        for row in TABLE {
            let operation = &document["paths"][format!("/rpc/{}", row.name)]["post"];
            assert_eq!(operation["operationId"], row.name);
            assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object(), "{}", row.name);
        }
        let mut ids: Vec<&str> = Vec::new();
        for operations in document["paths"].as_object().unwrap().values() {
            ids.extend(
                operations.as_object().unwrap().values().filter_map(|operation| operation["operationId"].as_str()),
            );
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "operations have names of their own");
    }
}
