// Keeps the page up to date, and adds what is comfortable. Without this script every page works: it is loaded again by hand.
(() => {
  'use strict';
  const root = document.documentElement;
  const store = { get: () => { try { return localStorage.getItem('queue-theme'); } catch { return null; } }, set: (value) => { try { localStorage.setItem('queue-theme', value); } catch { /* kept for this page */ } } };
  const themes = ['system', 'light', 'dark'];
  let theme = themes.includes(store.get()) ? store.get() : 'system';
  const applyTheme = () => { if (theme === 'system') root.removeAttribute('data-theme'); else root.dataset.theme = theme; };
  applyTheme();

  // What changed is written into the page, element by element: what a person has focused, selected or opened stays.
  const keyOf = (node) => (node.nodeType === 1 && node.id ? node.id : null);
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const morph = (from, to) => {
    if (from.nodeType === 3) { if (from.data !== to.data) from.data = to.data; return; }
    if (from.nodeType !== 1) return;
    const kept = from.nodeName === 'DETAILS' ? 'open' : null;
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== kept && !from.hasAttribute('data-kept-' + name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value && !from.hasAttribute('data-kept-' + name)) from.setAttribute(name, value);
    const keyed = new Map();
    for (const child of from.children) if (child.id) keyed.set(child.id, child);
    let at = from.firstChild;
    for (const next of [...to.childNodes]) {
      const known = keyOf(next) && keyed.get(keyOf(next));
      if (known && known !== at) from.insertBefore(known, at);
      const here = known || at;
      if (here && alike(here, next)) { morph(here, next); at = here.nextSibling; } else { from.insertBefore(next, at); }
    }
    while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
  };

  const span = (seconds) => {
    const s = Math.floor(seconds), m = Math.floor(s / 60), h = Math.floor(s / 3600);
    if (s < 60) return s + ' s';
    if (s < 3600) return m + ' min';
    if (s < 86400) return m % 60 === 0 || h >= 10 ? h + ' h' : h + ' h ' + (m % 60) + ' min';
    return Math.floor(s / 86400) + ' d';
  };
  // The server's clock counts: this machine's may be wrong.
  let ahead = 0;
  const tickTimes = () => {
    const now = Date.now() - ahead;
    for (const time of document.querySelectorAll('time[data-ago], time[data-age]')) {
      const seconds = (now - Date.parse(time.dateTime)) / 1000;
      if (Number.isNaN(seconds)) continue;
      const text = 'age' in time.dataset ? span(Math.max(0, seconds)) : Math.abs(seconds) < 1 ? 'now' : seconds < 0 ? 'in ' + span(-seconds) : span(seconds) + ' ago';
      if (time.textContent !== text) time.textContent = text;
    }
  };

  document.addEventListener('DOMContentLoaded', () => {
    const body = document.body, live = document.getElementById('live'), signal = document.getElementById('signal');
    const show = (kind, text) => {
      if (!signal) return;
      signal.hidden = false;
      signal.className = 'signal ' + kind;
      const label = signal.lastElementChild;
      if (label.textContent !== text) label.textContent = text;
    };

    // `made`: when what the page shows was made.
    let source = null, lastMessage = 0, gone = false, held = false, made = Date.now();
    const open = () => {
      if (!body.dataset.live || source || document.hidden || gone || held || !window.EventSource) return;
      show('wait', 'Connecting');
      lastMessage = Date.now();
      source = new EventSource(body.dataset.live);
      source.addEventListener('page', (event) => {
        lastMessage = made = Date.now();
        const fresh = document.createElement('div');
        fresh.id = 'live';
        fresh.innerHTML = event.data;
        morph(live, fresh);
        after();
        show('', 'Live');
      });
      source.addEventListener('same', () => { lastMessage = made = Date.now(); show('', 'Live'); });
      source.addEventListener('late', (event) => {
        const fresh = document.createElement('template');
        fresh.innerHTML = event.data;
        const banner = fresh.content.querySelector('.banner'), old = live.querySelector('.banner.bad[role=alert]');
        banner.querySelector('[data-seen]').dateTime = new Date(made).toISOString();
        if (old) morph(old, banner); else live.prepend(banner);
        tickTimes();
        if (Date.now() - lastMessage < 7000) show('old', 'Not up to date');
      });
      source.addEventListener('gone', (event) => { gone = true; close(); show('old', 'Gone'); signal.title = event.data; });
      source.addEventListener('error', () => { if (source && source.readyState === EventSource.CLOSED) { close(); setTimeout(open, 5000); } });
    };
    const close = () => { if (source) source.close(); source = null; };
    document.addEventListener('visibilitychange', () => { if (document.hidden) { close(); show('wait', 'Paused'); } else open(); });
    document.addEventListener('click', (event) => {
      const pause = event.target.closest('[data-pause]');
      if (!pause) return;
      held = !held;
      pause.textContent = held ? 'Continue' : 'Pause';
      if (held) { close(); show('wait', 'Paused'); } else open();
    });
    window.addEventListener('pagehide', close);
    window.addEventListener('pageshow', open);
    setInterval(() => {
      if (document.hidden) return;
      tickTimes();
      const silent = Math.floor((Date.now() - lastMessage) / 1000);
      if (body.dataset.live && !gone && !held && lastMessage && silent >= 7) show('old', 'Not up to date for ' + span(silent));
    }, 1000);

    // Selecting jobs.
    const picks = () => [...document.querySelectorAll('[data-pick]')];
    const after = () => {
      const all = document.querySelector('[data-all]'), chosen = document.querySelector('[data-chosen]');
      const some = picks(), on = some.filter((box) => box.checked).length;
      if (all) { all.parentElement.hidden = false; all.parentElement.setAttribute('data-kept-hidden', ''); all.checked = on > 0 && on === some.length; all.indeterminate = on > 0 && on < some.length; }
      if (chosen) chosen.textContent = on ? on + (on === 1 ? ' job selected' : ' jobs selected') : 'Select jobs to act on them';
      for (const verb of document.querySelectorAll('[data-verb]')) { verb.disabled = on === 0; verb.setAttribute('data-kept-disabled', ''); }
      const pause = document.querySelector('[data-pause]');
      if (pause) { pause.hidden = !body.dataset.live; pause.setAttribute('data-kept-hidden', ''); }
      tickTimes();
    };
    document.addEventListener('change', (event) => {
      if (event.target.matches('[data-all]')) for (const box of picks()) box.checked = event.target.checked;
      if (event.target.matches('[data-all], [data-pick]')) after();
    });

    const button = document.getElementById('theme');
    const nameTheme = () => button.setAttribute('aria-label', 'Theme: ' + (theme === 'system' ? 'as the system' : theme));
    button.hidden = false;
    nameTheme();
    button.title = 'Theme';
    button.addEventListener('click', () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; store.set(theme); applyTheme(); nameTheme(); });

    // One letter for each page of the navigation.
    const pages = [...document.querySelectorAll('[data-key]')];
    const help = () => {
      let dialog = document.querySelector('dialog');
      if (!dialog) {
        dialog = document.createElement('dialog');
        const rows = pages.map((page) => `<div><dt><kbd>g</kbd> <kbd>${page.dataset.key}</kbd></dt><dd>${page.textContent}</dd></div>`);
        dialog.innerHTML = '<h2>Keyboard</h2><dl>' + rows.join('') + '<div><dt><kbd>/</kbd></dt><dd>Filter</dd></div><div><dt><kbd>?</kbd></dt><dd>This list</dd></div></dl><form method="dialog"><button>Close</button></form>';
        body.append(dialog);
      }
      dialog.showModal();
    };
    const keysButton = document.getElementById('keys');
    keysButton.hidden = false;
    keysButton.addEventListener('click', help);
    let prefix = 0;
    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input:not([type=checkbox]), textarea, select')) return;
      if (event.key === '/') { const search = document.querySelector('[data-search]'); if (search) { event.preventDefault(); search.focus(); search.select(); } }
      else if (event.key === '?') help();
      else if (event.key === 'g') { prefix = Date.now(); return; }
      else if (Date.now() - prefix < 1500) pages.find((page) => page.dataset.key === event.key)?.click();
      prefix = 0;
    });

    after();
    open();
    // A search that has found nothing yet.
    const more = document.querySelector('[data-continue]');
    if (more) location.replace(more.href);
  });
})();
