// The agent's page without a reload: parts that change are put in place by server-sent events, so that focus,
// selection, scroll position and what is unfolded stay. The page is whole without this script.
"use strict";

const live = document.getElementById("live");
const pauseButton = document.getElementById("pause");
const connection = document.getElementById("connection");
const state = {
  stream: null, paused: false, waiting: new Map(), changes: 0, lost: false, gone: false, asked: "", seen: new Map(),
  heardAt: Date.now(), triedAt: 0,
};
// Nobody tells how the agent is: what is shown was so when it was last heard.
const isOld = () => state.lost || state.gone;

// --- Times: "in 3 min", counted on; the time itself is in the tooltip ---

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function relative(seconds, isLasting) {
  const away = Math.abs(Math.round(seconds));
  const at = UNITS.findIndex(([size]) => away >= size);
  if (at < 0) return "now";
  const [size, unit] = UNITS[at];
  const parts = [`${Math.floor(away / size)} ${unit}`];
  // The second unit only where it says something: 1 h 20 min, but 9 h.
  const [finer, name] = UNITS[at + 1] ?? [];
  const rest = finer && Math.floor((away % size) / finer);
  if (rest && away / size < 5 && unit !== "min") parts.push(`${rest} ${name}`);
  if (isLasting) return `for ${parts.join(" ")}`;
  return seconds > 0 ? `in ${parts.join(" ")}` : `${parts.join(" ")} ago`;
}

function tickTime(element, now) {
  const instant = Date.parse(element.dateTime) / 1000;
  if (Number.isNaN(instant) || element.classList.contains("fixed")) return;
  const away = relative(instant - now, element.classList.contains("lasting"));
  const whole = element.dateTime.replace("T", " ").replace("Z", " UTC");
  const text = element.classList.contains("whole") ? `${away} (${whole})` : away;
  if (element.textContent !== text) element.textContent = text;
  element.title = whole;
}

function tickLine(line, now) {
  const from = Number(line.dataset.from);
  const place = `${Math.min(100, Math.max(0, (100 * (now - from)) / (Number(line.dataset.until) - from))).toFixed(2)}%`;
  line.setAttribute("x1", place);
  line.setAttribute("x2", place);
}

function tick() {
  if (isOld()) return;
  const now = Date.now() / 1000 + clockOffset;
  for (const each of document.querySelectorAll("time[datetime]")) tickTime(each, now);
  for (const each of document.querySelectorAll("line.now[data-from]")) tickLine(each, now);
}

// The node's clock counts, not the browser's.
const servedAt = Date.parse(document.querySelector(".foot time.fixed")?.dateTime ?? "");
const clockOffset = Number.isNaN(servedAt) ? 0 : servedAt / 1000 - Date.now() / 1000;

// --- Copy buttons ---

function addCopyButtons(root) {
  for (const old of root.querySelectorAll("button.copy")) {
    if (!old.previousElementSibling?.classList.contains("copied")) old.remove();
  }
  for (const code of root.querySelectorAll(".copied")) {
    const next = code.nextElementSibling;
    const button = next?.classList.contains("copy") ? next : addCopyButton(code);
    button.setAttribute("aria-label", `Copy ${code.textContent}`);
  }
}

function addCopyButton(code) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.dataset.own = "";
  button.textContent = "Copy";
  button.addEventListener("click", () => copy(code, button));
  code.after(button);
  return button;
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    // Without the right to write, the text is selected, to be copied with a key.
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

// A name whose middle is cut is in two boxes, between which a browser would copy a line break.
document.addEventListener("copy", (event) => {
  const selected = getSelection().toString();
  let text = selected;
  for (const { children, textContent } of document.querySelectorAll(".middle")) {
    if (children.length === 2) text = text.replaceAll([...children].map((each) => each.textContent).join("\n"), textContent);
  }
  if (text === selected) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
});

// --- Bring a part up to date: only what differs is touched ---

const isOwn = (node) => node.nodeType === Node.ELEMENT_NODE && "own" in node.dataset;
const isSame = (old, fresh) => old.nodeName === fresh.nodeName && (old.id ?? "") === (fresh.id ?? "");

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime) return;
  morphAttributes(old, fresh);
  morphChildren(old, fresh);
}

function morphAttributes(old, fresh) {
  // What the reader has unfolded stays so.
  const kept = old.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

function morphChildren(old, fresh) {
  const coming = new Set([...fresh.children].map((each) => each.id).filter(Boolean));
  const byId = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  const next = () => {
    while (place && (isOwn(place) || (place.id && !coming.has(place.id)))) {
      const passed = place;
      place = place.nextSibling;
      if (!isOwn(passed)) passed.remove();
    }
    return place;
  };
  for (const wanted of [...fresh.childNodes]) {
    const here = next();
    const known = wanted.id ? byId.get(wanted.id) : here && isSame(here, wanted) ? here : null;
    if (known && known.nodeName === wanted.nodeName) {
      if (known === here) place = here.nextSibling;
      else old.insertBefore(known, here);
      morph(known, wanted);
    } else {
      const added = document.importNode(wanted, true);
      if (added.id && byId.size) added.classList.add("fresh");
      old.insertBefore(added, here);
    }
  }
  while (next()) {
    const rest = place;
    place = place.nextSibling;
    rest.remove();
  }
}

function swap(sections) {
  for (const [id, html] of Object.entries(sections)) {
    const old = document.getElementById(id);
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById(id);
    if (!old || !fresh) continue;
    morph(old, fresh);
    addCopyButtons(old);
  }
  showTitle();
  tick();
}

// A tab in the background tells as well how the agent does: by its title and by its icon.
const titleName = document.querySelector("title").dataset.name;
const icon = document.getElementById("icon");
const ICONS = new Set(["bad", "warning", "unknown"]);

function showTitle() {
  const health = document.getElementById("health");
  const level = isOld() ? "unknown" : (health?.dataset.level ?? "");
  document.title = (isOld() ? "? " : (health?.dataset.mark ?? "")) + titleName;
  const name = `/static/icon${ICONS.has(level) ? `-${level}` : ""}.svg`;
  if (icon.getAttribute("href") !== name) icon.setAttribute("href", name);
}

// Nobody tells any more how the agent does: since when, and why.
const unknown = document.getElementById("unknown");

function showUnknown() {
  if (!unknown || unknown.hidden === !isOld()) return;
  unknown.hidden = !isOld();
  if (unknown.hidden) return;
  const at = new Date(state.heardAt + clockOffset * 1000).toISOString().slice(11, 19);
  document.getElementById("unknown-line").textContent = `Unknown since ${at} UTC`;
  document.getElementById("unknown-why").textContent = state.gone
    ? "The agent has stopped. What is shown was so then; another agent at this address is found by itself."
    : "The connection is lost. What is shown was so then; it is tried again and again.";
}

// --- Live ---

function show() {
  const held = state.changes ? ` · ${state.changes} ${state.changes === 1 ? "change waits" : "changes wait"}` : "";
  const text = state.gone
    ? "The agent has stopped"
    : state.lost
      ? "Connection lost"
      : state.paused
        ? "Paused"
        : "Live";
  if (connection.textContent !== text) connection.textContent = text;
  live.classList.toggle("is-lost", isOld());
  document.body.classList.toggle("is-old", isOld());
  showUnknown();
  showTitle();
  live.classList.toggle("is-held", state.paused);
  pauseButton.textContent = (state.paused ? "Resume" : "Pause") + held;
}

function pause() {
  state.paused = !state.paused;
  if (!state.paused) {
    swap(Object.fromEntries(state.waiting));
    state.waiting.clear();
    state.changes = 0;
  }
  show();
}

// An agent that hangs, or a machine that is cut off, closes no connection; others send something every 15 seconds.
const SILENCE_MS = 40_000;

function notice() {
  if (!state.stream || document.hidden || Date.now() - Math.max(state.heardAt, state.triedAt) < SILENCE_MS) return;
  state.lost = true;
  show();
  listen();
}

function listen() {
  state.stream?.close();
  state.triedAt = Date.now();
  const stream = new EventSource("/events?view=" + encodeURIComponent(location.pathname + location.search));
  state.stream = stream;
  stream.addEventListener("sections", (event) => {
    state.heardAt = Date.now();
    receive(JSON.parse(event.data));
  });
  stream.addEventListener("alive", () => { state.heardAt = Date.now(); });
  stream.addEventListener("gone", () => { state.gone = true; show(); });
  // A stream begins with all parts, so nothing else has to be asked for: its reply could come late, and be older.
  stream.addEventListener("open", () => {
    state.heardAt = Date.now();
    state.lost = state.gone = false;
    show();
  });
  stream.addEventListener("error", () => {
    state.lost = true;
    show();
    // A stream that is refused is not tried again by the browser.
    if (stream.readyState !== EventSource.CLOSED) return;
    refresh();
    setTimeout(() => { if (state.stream === stream) listen(); }, 5000);
  });
}

// A part as this browser writes it, so that two of them can be compared.
const parse = (id, html) => new DOMParser().parseFromString(html, "text/html").getElementById(id)?.outerHTML;

// The parts that differ from what was last told; a new stream begins with all of them.
function note(sections) {
  const parts = Object.entries(sections).map(([id, html]) => [id, parse(id, html)]);
  const changed = parts.filter(([id, html]) => html && state.seen.get(id) !== html);
  for (const [id, html] of changed) state.seen.set(id, html);
  return changed;
}

function receive(sections) {
  const changed = note(sections);
  if (!changed.length) return;
  if (!state.paused) {
    swap(Object.fromEntries(changed));
    return;
  }
  for (const [id, html] of changed) state.waiting.set(id, html);
  state.changes += 1;
  show();
}

// The live parts of a view, as the server renders them now; null if it does not.
async function fetchSections(url) {
  const asked = { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(SILENCE_MS) };
  const reply = await fetch(url, asked).catch(() => null);
  // The link of this page is no longer good: the reply says what to do.
  if (reply?.status === 401) location.reload();
  if (!reply?.ok) return null;
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  const parts = [...fresh.querySelectorAll("[data-part]")];
  return Object.fromEntries(parts.map((each) => [each.id, each.outerHTML]));
}

async function refresh() {
  const url = location.href;
  const sections = await fetchSections(url);
  if (sections && url === location.href) receive(sections);
  return sections !== null;
}

// A tab that nobody sees has no stream, but its title and its icon still tell how the agent does.
const HIDDEN_MS = 20_000;

async function refreshHidden() {
  const isApart = () => document.hidden && state.stream?.readyState === EventSource.CLOSED;
  if (!isApart()) return;
  const isHeard = await refresh();
  if (!isApart()) return;
  if (isHeard) {
    state.heardAt = Date.now();
    state.gone = false;
  }
  state.lost = !isHeard;
  show();
}

// --- Search while typing: the same address as the form would have, and the address bar follows ---

function searchOf(form) {
  const given = [...new FormData(form)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(given).toString();
  return form.getAttribute("action") + (query ? `?${query}` : "");
}

async function search(form) {
  const url = searchOf(form);
  state.asked = url;
  const sections = await fetchSections(url);
  // Another letter was typed meanwhile.
  if (!sections || state.asked !== url) return;
  note(sections);
  swap(sections);
  history.replaceState(null, "", url);
  state.waiting.clear();
  state.changes = 0;
  listen();
  show();
}

function watch(form) {
  let timer = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => search(form), 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search(form);
  });
}

// --- Keys: single letters can disturb those who speak to their computer, so they can be turned off ---

const keysButton = document.getElementById("keys-off");
const areKeysOn = () => localStorage.getItem("keys") !== "off";

function showKeys() {
  keysButton.textContent = areKeysOn() ? "Turn keys off" : "Turn keys on";
}

function onKey(event) {
  const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !areKeysOn()) return;
  if (event.key === "p") pause();
  if (event.key === "/") {
    const box = document.querySelector("main form input");
    if (box) event.preventDefault();
    box?.focus();
  }
}

// --- Start ---

// Before anything is changed here: as the server wrote it.
for (const each of document.querySelectorAll("[data-part]")) state.seen.set(each.id, each.outerHTML);
tick();
showTitle();
setInterval(tick, 1000);
addCopyButtons(document);
if (live) {
  live.hidden = false;
  document.getElementById("unscripted").hidden = true;
  document.getElementById("keys").hidden = false;
  pauseButton.addEventListener("click", pause);
  keysButton.addEventListener("click", () => {
    localStorage.setItem("keys", areKeysOn() ? "off" : "on");
    showKeys();
  });
  document.addEventListener("keydown", onKey);
  for (const form of document.querySelectorAll("form[data-live]")) watch(form);
  // Browsers open six connections to a server at most: a tab that nobody sees gives its own back, and asks at times.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) state.stream?.close();
    else listen();
  });
  showKeys();
  show();
  listen();
  setInterval(notice, 1000);
  setInterval(refreshHidden, HIDDEN_MS);
}
