//! Laying one layer over another: objects merge, arrays replace, lists of instructions append, and rules are kept apart
//! by layer, because their order decides.

use crate::document::{Field, Node, Value};

/// Puts `over` on top of `base`.
pub(crate) fn merge(base: &mut Node, over: Node) {
    if is_rules(&over.path) {
        return stack(base, over);
    }
    match (&mut base.value, over.value) {
        (Value::Object(fields), Value::Object(more)) => {
            more.into_iter().for_each(|field| put(fields, field));
        }
        (Value::List(items), Value::List(more)) if over.path == "instructions" => items.extend(more),
        (value, other) => {
            *value = clean(other);
            base.place = over.place;
            base.secret = over.secret;
        }
    }
}

fn put(fields: &mut Vec<Field>, mut over: Field) {
    match fields.iter_mut().find(|field| field.key == over.key) {
        Some(field) => {
            field.place = over.place;
            merge(&mut field.node, over.node);
        }
        None => {
            if is_rules(&over.node.path) {
                let (path, place) = (over.node.path.clone(), over.node.place.clone());
                over.node = Node::new(path, place, Value::Layers(vec![over.node]));
            } else {
                over.node.value = clean(over.node.value);
            }
            fields.push(over);
        }
    }
}

/// A value with nothing below it yet: a key that is written twice in it counts once, as everywhere.
fn clean(value: Value) -> Value {
    let Value::Object(written) = value else { return value };
    let mut fields = Vec::with_capacity(written.len());
    written.into_iter().for_each(|field| put(&mut fields, field));
    Value::Object(fields)
}

fn stack(base: &mut Node, over: Node) {
    base.place = over.place.clone();
    match &mut base.value {
        Value::Layers(layers) => layers.push(over),
        _ => {
            let first = std::mem::replace(&mut base.value, Value::Null);
            let first = Node::new(base.path.clone(), base.place.clone(), first);
            base.value = Value::Layers(vec![first, over]);
        }
    }
}

/// `permission` and `agent.<name>.permission`. An agent's name holds no dot.
pub(crate) fn is_rules(path: &str) -> bool {
    let of_agent = || path.strip_prefix("agent.").and_then(|rest| rest.strip_suffix(".permission"));
    path == "permission" || of_agent().is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;
    use crate::layer::Source;

    #[track_caller]
    fn check(layers: &[&str], expected: &str) {
        let mut base = parse(&Source::named("0"), "{}").unwrap();
        for (number, text) in layers.iter().enumerate() {
            merge(&mut base, parse(&Source::named(&number.to_string()), text).unwrap());
        }
        assert_eq!(base.json().to_string(), expected, "{layers:?}");
    }

    #[test]
    fn objects_merge_and_the_rest_is_replaced() {
        check(&[r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"y":3,"z":4}}"#], r#"{"a":{"x":1,"y":3,"z":4}}"#);
        check(&[r#"{"a":[1,2]}"#, r#"{"a":[3]}"#], r#"{"a":[3]}"#);
        check(&[r#"{"a":{"x":1}}"#, r#"{"a":2}"#, r#"{"a":{"y":1}}"#], r#"{"a":{"y":1}}"#);
        check(&[r#"{"a":1,"a":2}"#], r#"{"a":2}"#);
    }

    #[test]
    fn lists_of_instructions_append() {
        check(&[r#"{"instructions":["a"]}"#, r#"{"instructions":["b"]}"#], r#"{"instructions":["a","b"]}"#);
        check(
            &[r#"{"x":{"instructions":["a"]}}"#, r#"{"x":{"instructions":["b"]}}"#],
            r#"{"x":{"instructions":["b"]}}"#,
        );
    }

    #[test]
    fn rules_of_each_layer_are_kept() {
        let mut base = parse(&Source::named("0"), "{}").unwrap();
        for text in [r#"{"permission":"allow"}"#, r#"{"permission":{"edit":"deny"}}"#] {
            merge(&mut base, parse(&Source::named("f"), text).unwrap());
        }
        assert_eq!(base.fields().unwrap()[0].node.layers().len(), 2);
        for (path, rules) in
            [("agent.a.permission", true), ("agent.permission", false), ("agent.a.options.permission", false)]
        {
            assert_eq!(is_rules(path), rules, "{path}");
        }
    }
}
