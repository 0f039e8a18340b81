//! Whoever settles finds what is due by an index.

use super::*;

#[tokio::test]
async fn what_is_due_is_found_by_an_index() {
    let bench = Bench::new().await;
    let plan = |sql: &str| -> String {
        let conn = beside(&bench.path());
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    };
    let due = super::super::cases::LOOK_DUE;
    let uncertain = plan(&format!(
        "SELECT * FROM idempotency_keys WHERE state = 'uncertain' AND {due} <= 9 AND {due} >= 1 AND ({due} > 1 OR id > 2) ORDER BY {due}, id LIMIT 3"
    ));
    assert!(uncertain.contains("idempotency_keys_uncertain") && !uncertain.contains("TEMP B-TREE"), "{uncertain}");
    let next = plan(&format!("SELECT min({due}) FROM idempotency_keys WHERE state = 'uncertain' AND {due} > 9"));
    assert!(next.contains("idempotency_keys_uncertain"), "{next}");
    let silent = plan("SELECT min(lease_until) FROM idempotency_keys WHERE state = 'in_progress'");
    assert!(silent.contains("idempotency_keys_in_progress"), "{silent}");
}
