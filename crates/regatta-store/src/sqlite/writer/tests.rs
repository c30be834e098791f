use std::sync::mpsc;

use super::*;
use crate::sqlite::open;

/// A writer over a table of numbers.
fn numbers(directory: &tempfile::TempDir) -> Writer {
    let path = directory.path().join("db");
    let db = open::writer(&path, open::Marks::Refused).unwrap();
    db.execute_batch("create table number(n integer primary key, filler blob)").unwrap();
    Writer::start(db, &path, Reading::AtOnce).unwrap()
}

fn insert(tx: &Tx, n: i64) -> Result<()> {
    tx.execute("insert into number(n) values(?1)", [n])?;
    Ok(())
}

async fn all(writer: &Writer) -> Vec<i64> {
    let read = |tx: &Tx| -> Result<Vec<i64>> {
        let mut query = tx.prepare("select n from number order by n")?;
        Ok(query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
    };
    writer.call(read).await.unwrap()
}

#[tokio::test]
async fn a_write_that_fails_in_a_group_takes_back_its_own_changes_only() {
    let directory = tempfile::tempdir().unwrap();
    let writer = numbers(&directory);
    // Holds the writer inside the first write until the others wait behind it.
    let (go, wait) = mpsc::channel::<()>();
    let first = writer.call(move |tx| {
        wait.recv().expect("the test says go");
        insert(tx, 1)
    });
    let refused = writer.call(|tx| {
        insert(tx, 2)?;
        Err::<(), _>(StoreError::Refused("no".into()))
    });
    let panics = writer.call(|tx| {
        insert(tx, 3)?;
        panic!("a defect");
        #[expect(unreachable_code, reason = "gives the closure its type")]
        Ok(())
    });
    let last = writer.call(|tx| insert(tx, 4));
    let release = async { go.send(()).unwrap() };
    let (first, refused, panics, last, ()) = tokio::join!(first, refused, panics, last, release);
    first.unwrap();
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(matches!(&panics, Err(StoreError::Corrupt(why)) if why.contains("a defect")), "{panics:?}");
    last.unwrap();
    assert_eq!(all(&writer).await, [1, 4]);
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let writer = numbers(&directory);
    writer.call(|tx| insert(tx, 1)).await.unwrap();
    let limit = |pages: i64| {
        move |tx: &Tx| -> Result<()> {
            let now: i64 = tx.query_row("pragma page_count", [], |row| row.get(0))?;
            tx.query_row(&format!("pragma max_page_count = {}", now + pages), [], |_| Ok(()))?;
            Ok(())
        }
    };
    writer.call(limit(4)).await.unwrap();
    let fill = |tx: &Tx| -> Result<()> {
        tx.execute("insert into number(n, filler) values(2, zeroblob(1000000))", [])?;
        Ok(())
    };
    for _ in 0..2 {
        let full = writer.call(fill).await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    }
    assert_eq!(all(&writer).await, [1]);
    writer.call(limit(10_000)).await.unwrap();
    writer.call(fill).await.unwrap();
    assert_eq!(all(&writer).await, [1, 2]);
}

#[tokio::test]
async fn a_lock_held_elsewhere_is_said_to_all_who_wait_once_the_wait_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = open::writer(&path, open::Marks::Refused).unwrap();
    db.busy_timeout(std::time::Duration::from_millis(200)).unwrap();
    let writer = std::sync::Arc::new(Writer::start(db, &path, Reading::AtOnce).unwrap());
    let other = open::writer(&path, open::Marks::Refused).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let begun = std::time::Instant::now();
    let write = |_| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.call(|_| Ok(())).await })
    };
    for write in (0..50).map(write).collect::<Vec<_>>() {
        let locked = write.await.unwrap();
        assert!(matches!(locked, Err(StoreError::Busy(_))), "{locked:?}");
    }
    assert!(begun.elapsed() < std::time::Duration::from_millis(200 * 50), "not one after the other");
    other.execute_batch("rollback").unwrap();
    writer.call(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn closing_waits_for_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let writer = numbers(&directory);
    // Sent and then abandoned: the future is dropped before its answer arrives.
    let mut sent = Box::pin(writer.call(|tx| insert(tx, 7)));
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(sent.as_mut().poll(context))).await;
    assert!(polled.is_pending() || polled.is_ready());
    drop(sent);
    drop(writer);
    let db = open::writer(&directory.path().join("db"), open::Marks::Refused).unwrap();
    let n: i64 = db.query_row("select n from number", [], |row| row.get(0)).unwrap();
    assert_eq!(n, 7);
}
