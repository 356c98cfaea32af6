//! Both backends under the one suite.

mod memory {
    use convoke_store::Memory;
    use convoke_store::conformance::Bed;

    fn open() -> Bed {
        Bed::new((), Memory::new)
    }

    convoke_store::every_rule!(open);
}

mod sqlite {
    use convoke_store::Sqlite;
    use convoke_store::conformance::Bed;

    fn open() -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        Bed::new(dir, |on_kept| Sqlite::open(&path, on_kept).unwrap())
    }

    convoke_store::every_rule!(open);
}
