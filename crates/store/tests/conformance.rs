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

/// The suite once more, on a disk that would lose what is not synced: until it does, nobody can tell.
#[cfg(feature = "power")]
#[test]
fn a_disk_that_may_lose_power_is_a_disk() {
    let itself = std::env::current_exe().unwrap();
    let again = std::process::Command::new(itself).arg("sqlite::").env("CONVOKE_POWER_SEED", "5").output().unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && !told.contains(" 0 passed"), "{told}");
}
