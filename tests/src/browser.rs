//! A real headless Chromium, for tests and screenshots, with WebDriver, which is JSON over HTTP.
//!
//! About a dozen of its calls are needed, so they are implemented here, without a crate that has
//! its own HTTP client.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use queue_conformance::{
    folder::folder,
    patience::{Wait, patience, wait},
    port::Port,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Process, guard};

/// A Chromium may take this many attempts to start.
const STARTS: usize = 3;

/// A Chromium takes three seconds of processor time to start. The next test of this process
/// therefore reuses the Chromium of a test that passed.
static IDLE: Mutex<Vec<Chromium>> = Mutex::new(Vec::new());

/// A browser with one page, without state of earlier tests.
#[derive(Debug)]
pub struct Browser {
    /// `None` once it is dropped.
    chromium: Option<Chromium>,
}

/// A running Chromium and its driver. It ends when it is dropped.
#[derive(Debug)]
struct Chromium {
    port: Port,
    session: String,
    /// Kills Chromium if this process ends, because Chromium would outlive a killed driver.
    guard: Option<Child>,
    _driver: Process,
    _folder: TempDir,
}

/// Finds a program: named by a variable, or on the path.
fn program(variable: &str, names: &[&str]) -> PathBuf {
    if let Some(program) = std::env::var_os(variable) {
        return program.into();
    }
    // Absolute paths, because the driver does not search the path for a browser.
    let folders: Vec<PathBuf> = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs {}: run `cargo xtask test --install`, or set {variable}", names[0]))
}

impl Browser {
    /// Opens a new page in an idle Chromium. Starts one if there is none, and another one if it
    /// starts too slowly on a busy machine.
    ///
    /// # Panics
    /// If there is no Chromium (a test is never skipped silently), or none that starts.
    pub fn start() -> Browser {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(chromium) = idle {
            let browser = Browser { chromium: Some(chromium) };
            browser.forget();
            return browser;
        }
        let mut problems = Vec::new();
        for _ in 0..STARTS {
            match Chromium::start() {
                Ok(chromium) => return Browser { chromium: Some(chromium) },
                Err(problem) => problems.push(problem),
            }
        }
        panic!("verdict: SLOW: a Chromium to start: {problems:#?}")
    }

    /// Replaces the page by a new one, and deletes the stored data of the browser.
    fn forget(&self) {
        let origin = self.script("return location.origin");
        if origin.as_str().is_some_and(|origin| origin.starts_with("http")) {
            self.devtools("Storage.clearDataForOrigin", &json!({ "origin": origin, "storageTypes": "all" }));
        }
        self.devtools("Network.clearBrowserCookies", &json!({}));
        self.devtools("Network.clearBrowserCache", &json!({}));
        let page = self.of_session("POST", "/window/new", &json!({ "type": "tab" }));
        self.of_session("DELETE", "/window", &Value::Null);
        self.of_session("POST", "/window", &json!({ "handle": page["handle"] }));
        // The complaints of the closed page.
        self.complaints();
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.of_session("POST", "/url", &json!({ "url": url }));
    }

    /// Goes back one page.
    pub fn back(&self) {
        self.of_session("POST", "/back", &json!({}));
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        self.of_session("GET", "/url", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script and returns its result.
    pub fn script(&self, script: &str) -> Value {
        self.of_session("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The visible text.
    pub fn text(&self) -> String {
        self.wait_for("the text of a page that stays").block_some(|| {
            let found = self.element("body");
            // Another page may have been loaded in the meantime.
            let answer = self.answer("GET", &format!("/session/{}/element/{found}/text", self.chromium().session), &Value::Null);
            answer.as_str().map(str::to_owned)
        })
    }

    /// A wait for an event on the page, which reports its address and text.
    #[track_caller]
    pub fn wait_for(&self, what: &str) -> Wait<'_> {
        wait(what).seeing(|| self.shown()).every(Duration::from_millis(20))
    }

    /// The address and the text of the page, or the error of the driver.
    pub fn shown(&self) -> String {
        let path = format!("/session/{}/execute/sync", self.chromium().session);
        let script = "return document.URL + '\n' + (document.body ? document.body.innerText : '')";
        let answer = self.answer("POST", &path, &json!({ "script": script, "args": [] }));
        answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
    }

    /// Clicks on the element of a CSS selector, which must be visible.
    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    /// Types into the element of a CSS selector.
    pub fn write(&self, selector: &str, text: &str) {
        self.act(selector, "value", &json!({ "text": text }));
    }

    /// Performs an action on an element. If the page has replaced it in the meantime, the new
    /// element is used.
    fn act(&self, selector: &str, action: &str, body: &Value) {
        self.wait_for(&format!("an element `{selector}` that stays")).block_some(|| {
            let path = format!("/session/{}/element/{}/{action}", self.chromium().session, self.element(selector));
            let answer = self.answer("POST", &path, body);
            let gone = answer["error"] == "stale element reference" || answer.to_string().contains("does not belong to the document");
            assert!(gone || answer.get("error").is_none(), "POST {path}: {answer}");
            (!gone).then_some(())
        });
    }

    /// Presses keys at the focus.
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({ "type": "keyDown", "value": key.to_string() }), json!({ "type": "keyUp", "value": key.to_string() })])
            .collect();
        self.of_session("POST", "/actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    /// Opens the page with this end of its address by its keys. It presses them again if the page
    /// has received them as separate keys.
    pub fn go(&self, keys: &str, end: &str) {
        self.wait_for(&format!("the page {end} behind the keys `{keys}`")).block_some(|| {
            self.keys(keys);
            let again = Instant::now() + Duration::from_secs(2);
            while Instant::now() < again {
                if self.url().ends_with(end) {
                    return Some(());
                }
                std::thread::sleep(Duration::from_millis(30));
            }
            None
        });
    }

    /// The number of elements of a CSS selector.
    pub fn count(&self, selector: &str) -> usize {
        let found = self.of_session("POST", "/elements", &json!({ "using": "css selector", "value": selector }));
        found.as_array().map_or(0, Vec::len)
    }

    /// Waits until a script returns true.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn wait(&self, script: &str) {
        // A page that is still loading may lack the elements that the script reads.
        let path = format!("/session/{}/execute/sync", self.chromium().session);
        let body = json!({ "script": format!("return !!({script})"), "args": [] });
        self.wait_for(&format!("`{script}`")).block_until(|| self.answer("POST", &path, &body) == Value::Bool(true));
    }

    /// Waits until a CSS selector has `count` elements, because the page may still be loading.
    pub fn wait_for_count(&self, selector: &str, count: usize) {
        self.wait_for(&format!("{count} elements `{selector}`")).block_until(|| self.count(selector) == count);
    }

    /// Waits until the page has a text.
    pub fn wait_for_text(&self, text: &str) {
        self.wait_for(&format!("the text `{text}`")).every(Duration::from_millis(5)).block_until(|| self.text().contains(text));
    }

    /// A command of Chromium's own protocol.
    pub fn devtools(&self, command: &str, params: &Value) -> Value {
        self.of_session("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Turns scripts of pages off or on.
    pub fn scripts(&self, on: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": !on }));
    }

    /// The size of the window, and whether the system's theme is dark.
    pub fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }));
    }

    /// The complaints of scripts and policies since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.of_session("POST", "/se/log", &json!({ "type": "browser" }));
        let severe =
            |entry: &&Value| entry["level"] == "SEVERE" || entry["message"].as_str().is_some_and(|text| text.contains("Content Security"));
        entries.as_array().into_iter().flatten().filter(severe).map(|entry| entry["message"].to_string()).collect()
    }

    /// A screenshot of the page as PNG.
    ///
    /// # Panics
    /// If it is not a picture.
    pub fn picture(&self) -> Vec<u8> {
        let answer = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        base64(answer["data"].as_str().expect("a picture"))
    }

    fn element(&self, selector: &str) -> String {
        // An earlier click may still be loading the page with the element.
        let found = self.wait_for(&format!("an element `{selector}`")).block_some(|| {
            let found = self.of_session("POST", "/elements", &json!({ "using": "css selector", "value": selector }));
            found.as_array().and_then(|found| found.first().cloned())
        });
        let name = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        name.unwrap_or_else(|| panic!("`{selector}` has no name: {found}")).to_owned()
    }

    fn chromium(&self) -> &Chromium {
        self.chromium.as_ref().expect("it is not dropped")
    }

    fn of_session(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.chromium().session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.answer(method, path, body);
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }

    /// The answer of the driver, which may be an error.
    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        self.chromium().ask(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let chromium = self.chromium.take();
        if !std::thread::panicking() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(chromium);
        }
    }
}

impl Chromium {
    fn start() -> Result<Chromium, String> {
        let (chromium, driver) = (
            program("QUEUE_TEST_CHROMIUM", &["chromium", "chromium-browser", "google-chrome"]),
            program("QUEUE_TEST_CHROMEDRIVER", &["chromedriver"]),
        );
        let (folder, port) = (folder(), Port::reserve());
        let mut command = Command::new(driver);
        command.arg(format!("--port={port}")).env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = Process::in_folder(&mut command, folder.path());
        let mut started = Chromium { port, session: String::new(), guard: None, _driver: driver, _folder: folder };
        let connected = wait("chromedriver to start").every(Duration::from_millis(20)).try_block_some(|| started.connect());
        connected.map_err(|late| late.to_string())?;
        let options = json!({
            "binary": chromium,
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en", "--window-size=1280,900"],
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = started.ask("POST", "/session", &wanted).map_err(|error| error.to_string())?;
        started.session = answer["sessionId"].as_str().ok_or_else(|| answer.to_string())?.to_owned();
        let process = answer["capabilities"]["goog:processID"].as_u64().and_then(|process| u32::try_from(process).ok());
        started.guard = Some(guard(process.ok_or_else(|| format!("no process: {answer}"))?, "-KILL", &[]));
        Ok(started)
    }

    fn connect(&self) -> Option<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port.number())).ok()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = self.connect().expect("chromedriver is there");
        stream.set_read_timeout(Some(patience()))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes())?;
        // The driver keeps the connection open after its answer.
        let mut answer = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if answer.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let header = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = header.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(length);
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        let answer: Value = serde_json::from_slice(&body)?;
        Ok(answer["value"].clone())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            let _ = guard.kill();
            let _ = guard.wait();
        }
        // Chromium ends with its session. After a failed test, this may fail as well.
        if let Some(mut stream) = self.connect() {
            let _ = write!(stream, "DELETE /session/{} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n", self.session);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 512]);
        }
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|each| *each == byte);
    let digits: Vec<u32> = text.bytes().filter_map(digit).filter_map(|digit| u32::try_from(digit).ok()).collect();
    let quartets = digits.chunks(4).flat_map(|quartet| {
        let bits = quartet.iter().fold(0, |bits, digit| (bits << 6) | digit) << (6 * (4 - quartet.len()));
        let bytes = bits.to_be_bytes();
        bytes[1..quartet.len()].to_vec()
    });
    quartets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_read_from_their_text() {
        assert_eq!(["", "YQ==", "YWI=", "YWJj", "YWJjZA=="].map(base64), [&b""[..], b"a", b"ab", b"abc", b"abcd"]);
    }
}
