//! A map that can take back what was done to it since it was last settled.

use std::collections::BTreeMap;

pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    undo: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), undo: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(super) fn rows(&self) -> &BTreeMap<K, V> {
        &self.rows
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        let before = self.rows.insert(key.clone(), value);
        self.undo.push((key, before));
    }

    /// True when there was something to change.
    pub(super) fn change(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(row) = self.rows.get_mut(key) else { return false };
        self.undo.push((key.clone(), Some(row.clone())));
        change(row);
        true
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(before) = self.rows.remove(key) {
            self.undo.push((key.clone(), Some(before)));
        }
    }

    /// What was done stays done.
    pub(super) fn settle(&mut self) {
        self.undo.clear();
    }

    /// Back to how it was when last settled.
    pub(super) fn take_back(&mut self) {
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(row) => drop(self.rows.insert(key, row)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_back_restores_what_was_settled() {
        let mut table = Table::default();
        table.put(1, "one");
        table.put(2, "two");
        table.settle();
        table.put(1, "uno");
        table.remove(&2);
        table.put(3, "three");
        table.change(&1, |row| *row = "eins");
        table.take_back();
        assert_eq!(table.rows().clone(), BTreeMap::from([(1, "one"), (2, "two")]));
    }
}
