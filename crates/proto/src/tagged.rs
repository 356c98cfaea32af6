//! Enums told apart by a field, whose variants may hold raw JSON.
//!
//! serde's own tagged enums buffer a variant before reading it, and a buffer cannot hold a `RawValue`: the exact bytes a
//! provider sent would be lost. So the tag is read first and the same text a second time as the variant's struct.

/// Declares an enum of structs, written and read as `{"type": "<tag>", …fields}`.
macro_rules! tagged {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident($ty:ty) = $tag:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, serde::Serialize)]
        #[serde(tag = "type")]
        #[allow(clippy::large_enum_variant, reason = "an entry is read once and kept as text")]
        pub enum $name { $($(#[$doc])* #[serde(rename = $tag)] $variant($ty),)* }

        impl $name {
            /// The word in the `type` field.
            pub fn tag(&self) -> &'static str {
                match self { $(Self::$variant(_) => $tag,)* }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                struct Tag { r#type: String }
                let raw = Box::<serde_json::value::RawValue>::deserialize(d)?;
                let named: Tag;
                let tag = match crate::tagged::leading(raw.get()) {
                    Some(tag) => tag,
                    None => {
                        named = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
                        named.r#type.as_str()
                    }
                };
                match tag {
                    $($tag => serde_json::from_str(raw.get()).map(Self::$variant).map_err(serde::de::Error::custom),)*
                    other => Err(serde::de::Error::unknown_variant(other, &[$($tag),*])),
                }
            }
        }

    };
}

/// The tag of a text that begins with it, as everything does that we wrote: found without reading the rest.
pub(crate) fn leading(text: &str) -> Option<&str> {
    let (tag, _) = text.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    (!tag.contains('\\')).then_some(tag)
}

pub(crate) use tagged;
