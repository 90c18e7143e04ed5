//! The pages in a real browser. `make ui-test` runs this, and leaves pictures in `target/ui`.

use std::path::Path;

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::browser::Browser;
use super::command::Ui;
use super::scene::{Doing, HOSTILE, NAMESPACE, Scene, ready};
use crate::harness::SOON;

const SHOWN: &str = "document.body.dataset.shown === 'true' && document.body.dataset.connection === 'live'";
/// Nothing is wider than the window.
const FITS: &str = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";

async fn scene() -> Scene {
    let scene = Scene::start().await;
    scene.clusters(200).await;
    scene.healthy("calm", 4).await;
    scene
        .rollout(
            "web",
            &[
                Doing::Ready,
                Doing::Ready,
                Doing::Failed,
                Doing::NotReady,
                Doing::Held,
                Doing::Held,
            ],
        )
        .await;
    let many: Vec<_> = (0..200)
        .map(|index| match index {
            2 => Doing::Failed,
            0..120 if index % 9 == 4 => Doing::NotReady,
            0..120 => Doing::Ready,
            _ => Doing::Held,
        })
        .collect();
    scene.rollout("many", &many).await;
    let mut hostile = ready(1);
    hostile["version"] = json!(HOSTILE);
    hostile["conditions"][2] = super::scene::condition("Ready", "False", "NotReady", HOSTILE);
    scene.helmop("hostile", json!({}), hostile).await;
    scene
}

#[tokio::test]
#[ignore = "needs Chromium: make ui-test"]
async fn pages_are_live_accessible_and_harmless_in_a_browser() {
    let scene = scene().await;
    let mut ui = Ui::start(&scene.bed, &scene.bed.kubeconfig, &[]).await;
    let mut browser = Browser::start(&scene.bed.directory).await.unwrap();

    the_key_is_exchanged_and_removed(&mut browser, &ui).await;
    texts_of_the_cluster_stay_texts(&mut browser, &ui).await;
    changes_appear_without_a_reload_and_keep_the_focus(&mut browser, &ui, &scene).await;
    the_keyboard_reaches_everything(&mut browser, &ui).await;
    every_page_fits_and_is_pictured(&mut browser, &ui).await;
    other_pages_learn_nothing(&mut browser, &ui).await;

    browser.open(&format!("{}/helmops", ui.origin)).await.unwrap();
    browser.until(SHOWN).await;
    ui.process.terminate(SOON).await.unwrap();
    browser.until("document.body.dataset.connection === 'lost'").await;
    let alarm = browser
        .value("document.querySelector('[role=alert]').innerText")
        .await
        .unwrap();
    assert!(
        alarm
            .as_str()
            .unwrap()
            .contains("The connection to kubectl helmop ui is lost."),
        "{alarm}"
    );
}

async fn the_key_is_exchanged_and_removed(browser: &mut Browser, ui: &Ui) {
    browser.open(&format!("{}/helmops", ui.origin)).await.unwrap();
    browser
        .until("document.body.dataset.connection === 'denied'")
        .await;
    browser.open(&ui.link("/")).await.unwrap();
    browser.until(SHOWN).await;
    assert_eq!(
        browser.value("location.href").await.unwrap(),
        format!("{}/helmops", ui.origin)
    );
    assert_eq!(
        browser.value("document.cookie").await.unwrap(),
        "",
        "no script reads the cookie"
    );
    assert_eq!(
        browser
            .value("document.querySelectorAll('tbody tr').length")
            .await
            .unwrap(),
        4
    );
}

async fn texts_of_the_cluster_stay_texts(browser: &mut Browser, ui: &Ui) {
    for path in ["/helmops", "/helmops/shop/hostile"] {
        browser.open(&format!("{}{path}", ui.origin)).await.unwrap();
        browser.until(SHOWN).await;
        let text = browser.value("document.body.innerText").await.unwrap();
        assert!(text.as_str().unwrap().contains(HOSTILE), "{text}");
        assert_eq!(
            browser
                .value("document.querySelectorAll('img, body script').length")
                .await
                .unwrap(),
            0
        );
        assert_ne!(browser.value("document.title").await.unwrap(), "hacked");
    }
}

async fn changes_appear_without_a_reload_and_keep_the_focus(browser: &mut Browser, ui: &Ui, scene: &Scene) {
    let link = "document.querySelector('a[href=\"/helmops/shop/calm\"]')";
    browser.open(&format!("{}/helmops", ui.origin)).await.unwrap();
    browser.until(SHOWN).await;
    browser.until(&format!("{link} !== null")).await;
    browser
        .value(&format!("window.marker = 1; {link}.focus()"))
        .await
        .unwrap();
    scene.status("calm", json!({ "version": "1.3.0" })).await;
    browser
        .until(&format!("{link}.closest('tr').innerText.includes('1.3.0')"))
        .await;
    assert_eq!(browser.value("window.marker").await.unwrap(), 1, "no reload");
    assert_eq!(
        browser
            .value(&format!("document.activeElement === {link}"))
            .await
            .unwrap(),
        true
    );
    browser
        .until("document.getElementById('announcer').textContent.includes('shop/calm has version 1.3.0')")
        .await;
}

async fn the_keyboard_reaches_everything(browser: &mut Browser, ui: &Ui) {
    browser.open(&format!("{}/helmops", ui.origin)).await.unwrap();
    browser.until(SHOWN).await;
    browser.press("Tab", 9).await.unwrap();
    assert_eq!(
        browser.value("document.activeElement.className").await.unwrap(),
        "skip"
    );
    browser.press("Enter", 13).await.unwrap();
    browser.until("document.activeElement.id === 'main'").await;
    // All, Ready, In progress, Failing.
    for _ in 0..4 {
        browser.press("Tab", 9).await.unwrap();
    }
    assert_eq!(
        browser
            .value("document.activeElement.dataset.focus")
            .await
            .unwrap(),
        "filter-bad"
    );
    browser.press("Enter", 13).await.unwrap();
    browser
        .until("document.activeElement.getAttribute('aria-pressed') === 'true'")
        .await;
    browser
        .until(
            "[...document.querySelectorAll('tbody tr')].every((row) => row.innerText.includes('ErrApplied'))",
        )
        .await;
    let unnamed = "[...document.querySelectorAll('a, button, input, [role=img], [role=region]')].filter((one) => !(one.innerText || one.getAttribute('aria-label') || one.labels?.length)).length";
    assert_eq!(browser.value(unnamed).await.unwrap(), 0);
}

async fn every_page_fits_and_is_pictured(browser: &mut Browser, ui: &Ui) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ui");
    for (name, path, has) in [
        ("list", "/helmops", "shop/web"),
        ("healthy", "/helmops/shop/calm", "all clusters are up to date"),
        ("rollout", "/helmops/shop/web", "waits for canary"),
        ("many", "/helmops/shop/many", "200 clusters"),
        ("clusters", "/clusters", "silent"),
    ] {
        browser.open(&format!("{}{path}", ui.origin)).await.unwrap();
        browser
            .until(&format!(
                "{SHOWN} && document.body.innerText.includes({})",
                json!(has)
            ))
            .await;
        for (look, width, scheme, font) in [
            ("light", 1280, "light", 100),
            ("dark", 1280, "dark", 100),
            ("narrow", 320, "light", 100),
            ("large", 640, "dark", 200),
        ] {
            browser.look(width, scheme, font).await.unwrap();
            browser.until(FITS).await;
            browser
                .picture(&folder.join(format!("{name}-{look}.png")))
                .await
                .unwrap();
        }
        browser.look(1280, "light", 100).await.unwrap();
    }
}

/// A page of another port: the same site, another origin. Its browser even has the cookie.
async fn other_pages_learn_nothing(browser: &mut Browser, ui: &Ui) {
    let page = format!(
        "<!doctype html><title>other</title><script>
        const of = async (what) => {{ try {{ const r = await what(); return r.type + ' ' + r.status; }} catch {{ return 'refused'; }} }};
        const stream = '{origin}/stream/helmops/{NAMESPACE}/web';
        const loaded = (element) => new Promise((done) => {{ element.onload = () => done('loaded'); element.onerror = () => done('refused'); document.documentElement.append(element); }});
        const script = Object.assign(document.createElement('script'), {{ src: '{origin}/assets/main.js', type: 'module' }});
        const plain = Object.assign(document.createElement('script'), {{ src: '{origin}/assets/words.js' }});
        window.results = Promise.all([
            of(() => fetch(stream, {{ credentials: 'include' }})),
            of(() => fetch(stream, {{ credentials: 'include', headers: {{ 'x-helmop-page-key': 'x' }} }})),
            of(() => fetch('{origin}/session', {{ method: 'POST', body: 'x' }})),
            new Promise((done) => {{ const s = new EventSource(stream, {{ withCredentials: true }}); s.onopen = () => done('open'); s.onerror = () => done('refused'); }}),
            loaded(script), loaded(plain),
        ]);
        </script><iframe src='{origin}/helmops'></iframe>",
        origin = ui.origin
    );
    let app = Router::new().route("/", get(move || std::future::ready(Html(page.clone()))));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await });
    browser.open(&format!("http://{address}/")).await.unwrap();
    browser
        .until("document.title === 'other' && window.results !== undefined")
        .await;
    let results = browser.value("window.results").await.unwrap();
    assert_eq!(
        results,
        json!(["refused", "refused", "refused", "refused", "refused", "refused"])
    );
    let frames = browser.call("Page.getFrameTree", json!({})).await.unwrap();
    let frame = &frames["frameTree"]["childFrames"][0]["frame"]["url"];
    assert_eq!(
        frame, "chrome-error://chromewebdata/",
        "no page is shown in a frame of another one"
    );
}
