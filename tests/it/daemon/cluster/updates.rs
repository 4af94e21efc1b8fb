//! Daemons of this version on the tables of the next one, whose schema is newer.

use super::support::{create_key, cutout, started};
use crate::support::postgres::name_of;
use backdrop::store::{PostgresServer, StoreConfig};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_go_on_and_start_again_beside_an_additive_schema_of_the_next_version_and_on_no_breaking_one() {
    let Some((server, _folder, mut cluster, caller)) = started(2).await else { return };
    assert_eq!(caller.picture("first", &cutout()).await.status(), 200);
    let config = StoreConfig { url: Some(cluster.url.clone().into()), ca_file: None };
    let configured = PostgresServer::configured(&config).expect("a valid URL").expect("one is configured");
    let next = configured.for_next_version("ALTER TABLE usage ADD COLUMN region text NOT NULL DEFAULT 'eu'", true);
    let _next = next.open(50).await.expect("it waits for nothing");
    cluster.kill(0);
    cluster.restart_ended();
    cluster.until_ready(&caller.client).await;
    for key in ["first", "second", "third"] {
        assert_eq!(caller.picture(key, &cutout()).await.status(), 200);
    }
    let sql = |text: &str| server.sql(name_of(&cluster.url), text);
    assert_eq!(sql("SELECT images, region FROM usage").trim(), "3|eu");
    let key = create_key(&cluster).expect("commands work too");
    caller.all_answer("/account", &key, 200).await;

    // As a breaking migration does.
    sql("UPDATE meta SET number = (SELECT number FROM meta WHERE name = 'schema') WHERE name = 'oldest_compatible'");
    cluster.kill(0);
    cluster.restart_ended();
    cluster.until_failed(0, "from a newer version").await;
}
