//! Screenshots of a dashboard: every page in three sizes, in light and in dark mode. `cargo xtask
//! screenshots` runs it together with the example `scene`: `screenshots URL FOLDER`. It also prints
//! the size of each page and the time until its first paint.

use std::{error::Error, fs, path::PathBuf, time::Duration};

use queue_tests::browser::Browser;

const SIZES: [(&str, u32, u32); 3] = [("phone", 375, 812), ("tablet", 820, 1100), ("desk", 1280, 900)];

/// The size of a page without a cache, with its style and script, and the time of its first paint.
const FIGURES: &str = "
    const parts = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return [parts.reduce((sum, part) => sum + part.encodedBodySize, 0), performance.getEntriesByName('first-contentful-paint')[0]?.startTime]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the first argument is the address of a dashboard")?;
    let folder = PathBuf::from(arguments.next().ok_or("the second argument is a folder")?);
    fs::create_dir_all(&folder)?;
    let browser = Browser::start();
    // Waits, so that there are rates and data in the chart.
    browser.open(&url);
    let seconds = std::env::var("SCREENSHOTS_AFTER").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(45);
    std::thread::sleep(Duration::from_secs(seconds));
    browser.open(&format!("{url}/jobs?state=dead"));
    let job = browser.script("return document.querySelector('table.jobs th a').getAttribute('href')");
    let of_mail = format!("{url}/jobs?state=retry&queue=mail");
    browser.open(&of_mail);
    let retrying = browser.script("return document.querySelector('table.jobs th a')?.getAttribute('href')");
    let host = &url[..url[8..].find('/').map_or(url.len(), |at| at + 8)];
    let mut pages = vec![
        ("overview", url.clone()),
        ("queues", format!("{url}/queues")),
        ("jobs-dead", format!("{url}/jobs?state=dead")),
        ("jobs-retry", of_mail),
        ("jobs-none", format!("{url}/jobs?state=expired")),
        ("workers", format!("{url}/workers")),
        ("history", format!("{url}/history")),
        ("missing", format!("{url}/jobs/mail/none")),
    ];
    for (name, path) in [("job-dead", job), ("job-retry", retrying)] {
        if let Some(path) = path.as_str() {
            pages.push((name, format!("{host}{path}")));
        }
    }
    for (size, width, height) in SIZES {
        for (theme, dark) in [("light", false), ("dark", true)] {
            browser.look(width, height, dark);
            for (name, url) in &pages {
                browser.open(url);
                browser.wait("!document.getElementById('signal') || document.getElementById('signal').textContent.trim() === 'Live'");
                // The whole page, and not only the window.
                let whole = browser.script("return Math.min(2600, document.documentElement.scrollHeight)").as_u64().unwrap_or(900);
                browser.look(width, height.max(u32::try_from(whole)?), dark);
                fs::write(folder.join(format!("{name}-{size}-{theme}.png")), browser.picture())?;
                if (size, dark) == ("desk", false) {
                    let figures = browser.script(FIGURES);
                    println!("{name:<12} {:>7} bytes, first paint after {:>4.0} ms", figures[0], figures[1].as_f64().unwrap_or(f64::NAN));
                }
                browser.look(width, height, dark);
            }
            let wide = browser.script("return document.documentElement.scrollWidth > document.documentElement.clientWidth");
            if wide == true {
                eprintln!("a page is wider than its window at {size}");
            }
        }
    }
    for complaint in browser.complaints() {
        eprintln!("{complaint}");
    }
    println!("{}", folder.display());
    Ok(())
}
