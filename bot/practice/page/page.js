// The practice page: keeps what the workspace told, draws it, and sends what the person does.

import { renderBlock, renderMessageBody } from "./blocks.js";
import { ask, showModal } from "./modal.js";
import { element, emoji } from "./mrkdwn.js";

const HOME = "home";
const HINTS = ["/kimi help", "/kimi status", "/kimi restart kimi-k2.5", "/kimi logs kimi-k2.5 50"];
const WORDS = {
  operation_timeout: "failed with the error “operation_timeout”: the bot did not acknowledge within 3 seconds.",
  dispatch_failed: "failed with the error “dispatch_failed”: the bot is not connected.",
  not_supported_in_threads: "is not supported in threads. Sorry! Mention @kimi instead.",
  invalid_command: "is not a valid command here.",
  not_in_channel: "was posted, but kimi is not in this channel and does not hear it.",
};

const find = (selector) => document.querySelector(selector);
const state = { user: "", channel: "", thread: "", messages: new Map(), names: { users: {}, groups: {}, channels: {} } };
const drawn = new WeakMap(); // log element → key → {node, version}
let source = null;

async function post(deed, content) {
  const response = await fetch(`/page/${deed}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: state.user, ...content }),
  });
  return response.ok ? response.json() : { acknowledged: false, error: await response.text() };
}

// --- what was told -----------------------------------------------------------------------------

const key = (message) => `${message.channel} ${message.ts}`;

function listen() {
  source?.close();
  source = new EventSource(`/page/changes?user=${encodeURIComponent(state.user)}`);
  source.addEventListener("state", (event) => takeState(JSON.parse(event.data)));
  source.addEventListener("change", (event) => takeChange(JSON.parse(event.data)));
  source.addEventListener("open", () => { find(".link").textContent = ""; });
  source.addEventListener("error", () => { find(".link").textContent = "not connected, trying again…"; });
}

function takeState(told) {
  const people = Object.keys(told.users).filter((id) => id !== told.bot);
  if (!state.user && people.length) {
    state.user = people.find((id) => id === localStorage.getItem("user")) ?? people[0];
    listen();
    return;
  }
  const channels = Object.fromEntries(told.channels.map((channel) => [channel.id, channel.name]));
  Object.assign(state, { bot: told.bot, channels: told.channels, commands: told.commands });
  state.names = { users: told.users, groups: told.groups, channels };
  state.messages = new Map(told.messages.map((message) => [key(message), message]));
  if (!state.channel) followAddress();
  takeSurroundings(told);
  drawSide(people);
  draw();
}

function takeChange(told) {
  if (told.message) state.messages.set(key(told.message), told.message);
  else if (told.ts) state.messages.delete(`${told.channel} ${told.ts}`);
  takeSurroundings(told);
  draw();
}

function takeSurroundings(told) {
  state.home = told.home;
  state.modal = told.modal;
  const box = find(".refused");
  box.hidden = !told.refused;
  box.querySelector("summary").textContent = `Slack refused ${told.refused} call${told.refused === 1 ? "" : "s"}`;
  box.querySelector("ul").replaceChildren(...told.refusals.map((refusal) => element("li", "", refusal.join(" · "))));
}

/** /archives/CHANNEL/pTS?thread_ts=…: a permalink opens its thread. */
function followAddress() {
  const found = /^\/archives\/([^/]+)\/p(\d{10})(\d{6})$/.exec(location.pathname);
  state.channel = found?.[1] ?? state.channels[0]?.id ?? HOME;
  if (found) openThread(new URLSearchParams(location.search).get("thread_ts") ?? `${found[2]}.${found[3]}`);
}

// --- drawing -----------------------------------------------------------------------------------

const time = (ts) => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }).format(new Date(Number(ts) * 1000));
const size = (bytes) => (bytes < 1024 ? `${bytes} B` : bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} kB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`);

function drawPicture(file) {
  const picture = element("img", "picture");
  picture.src = `/files/${file.id}`;
  picture.alt = file.alt || file.title || file.name;
  return picture;
}

function drawFile(file) {
  if (file.kind === "image/png") return drawPicture(file);
  const preview = element("pre", "preview");
  const details = element(
    "details", "file",
    element("summary", "", element("b", "", file.title || file.name), element("small", "", ` ${file.title && file.title !== file.name ? `${file.name} · ` : ""}${file.lines} lines · ${size(file.size)}`)),
    preview,
  );
  details.addEventListener("toggle", async () => {
    if (!details.open || preview.textContent) return;
    const text = await (await fetch(`/files/${file.id}`)).text();
    const whole = element("a", "whole", "Open the whole file");
    whole.href = `/files/${file.id}`;
    whole.target = "_blank";
    preview.textContent = text.slice(-20000);
    preview.after(whole);
    preview.scrollTop = preview.scrollHeight;
  });
  return details;
}

function repliesTo(message) {
  return [...state.messages.values()].filter((other) => other.channel === message.channel && other.thread_ts === message.ts && !other.private);
}

function threadButton(className, label, ts, note = "") {
  const made = element("button", className, label, note);
  made.type = "button";
  made.addEventListener("click", () => openThread(ts));
  return made;
}

function threadLink(message) {
  const replies = repliesTo(message);
  const last = replies.at(-1);
  const label = replies.length ? `${replies.length} ${replies.length === 1 ? "reply" : "replies"}` : "Reply in thread";
  const note = last ? element("small", "", ` last at ${time(last.ts)}`) : "";
  return threadButton(last ? "thread-link" : "thread-link quiet", label, message.ts, note);
}

function drawMessage(message, inThread) {
  const name = state.names.users[message.user] ?? message.user;
  const bot = message.user === state.bot;
  const act = (item, extra, node) => press(item, { ...extra, channel: message.channel, ts: message.ts }, node);
  const head = element("div", "head", element("b", "name", name), bot ? element("span", "app", "APP") : null, element("time", "", time(message.ts)), message.edited ? element("small", "edited", "edited") : null);
  const body = element("div", "body", head);
  if (message.private) body.append(element("p", "only", "Only visible to you"));
  if (message.broadcast && !inThread) body.append(threadButton("only-link", "replied to a thread", message.thread_ts));
  body.append(...[renderMessageBody(message, state.names, act), ...message.files.map(drawFile)].filter(Boolean));
  const reactions = Object.entries(message.reactions).map(([reaction, count]) => element("span", "reaction", `${emoji(reaction)} ${count}`));
  if (reactions.length) body.append(element("div", "reactions", ...reactions));
  if (!inThread && !message.private && !message.thread_ts) body.append(threadLink(message));
  const made = element("article", `message${message.private ? " private" : ""}${message.tombstone ? " tombstone" : ""}`, element("div", `face ${bot ? "bot" : ""}`, name[0]?.toUpperCase() ?? "?"), body);
  made.dataset.ts = message.ts;
  return made;
}

/** Replaces only what changed, so that focus, open files and selections stay. */
function drawLog(log, messages, inThread) {
  const known = drawn.get(log) ?? new Map();
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const next = new Map();
  for (const message of messages) {
    const version = JSON.stringify([message, inThread ? 0 : repliesTo(message).map((reply) => reply.ts), state.names]);
    const old = known.get(key(message));
    next.set(key(message), old?.version === version ? old : { version, node: drawMessage(message, inThread) });
    if (!old) next.get(key(message)).node.classList.add("arrived"); // an edit must not flicker
  }
  drawn.set(log, next);
  const nodes = [...next.values()].map((entry) => entry.node);
  for (const [place, entry] of known) if (next.get(place) !== entry) entry.node.remove();
  nodes.forEach((node, index) => { if (log.children[index] !== node) log.insertBefore(node, log.children[index] ?? null); });
  while (log.children.length > nodes.length) log.lastChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

const byTime = (one, other) => Number(one.ts) - Number(other.ts);

function draw() {
  const here = [...state.messages.values()].filter((message) => message.channel === state.channel).sort(byTime);
  const roots = here.filter((message) => !message.thread_ts || message.broadcast);
  const home = state.channel === HOME;
  document.body.classList.toggle("at-home", home);
  document.body.classList.toggle("in-thread", Boolean(state.thread));
  find(".bar .title").textContent = home ? "kimi" : channelLabel(state.channels.find((channel) => channel.id === state.channel) ?? { name: "" });
  if (home) drawHome();
  else drawLog(find(".messages"), roots, false);
  find(".messages").classList.toggle("empty", !home && !roots.length);
  find(".hints").hidden = roots.length > 3;
  find(".panel").hidden = !state.thread;
  if (state.thread) drawLog(find(".replies"), here.filter((message) => message.ts === state.thread || message.thread_ts === state.thread), true);
  showModal(find(".modal"), state.modal, {
    names: state.names,
    act: press,
    submit: async (values) => (await post("submit", { values })).errors,
    close: () => post("close", {}),
  });
}

function drawHome() {
  const act = (item, extra, node) => press(item, { ...extra, view: state.home.id }, node);
  const blocks = state.home ? state.home.blocks.map((block) => renderBlock(block, state.names, act)) : [element("p", "only", "The bot has not drawn its Home tab.")];
  drawn.delete(find(".messages"));
  find(".messages").replaceChildren(element("div", "blocks", ...blocks));
}

function channelLabel(channel) {
  if (channel.person) return `@ ${state.names.users[state.bot]}`;
  return `# ${channel.name}${channel.private ? " (private)" : ""}`;
}

function drawSide(people) {
  const who = find(".user");
  who.replaceChildren(...people.map((id) => new Option(state.names.users[id], id)));
  who.value = state.user;
  const places = [...state.channels.map((channel) => [channel.id, channelLabel(channel)]), [HOME, "⌂ kimi Home"]];
  find(".channels").replaceChildren(...places.map(([id, label]) => {
    const made = element("button", id === state.channel ? "here" : "", label);
    made.type = "button";
    made.addEventListener("click", () => goTo(id, people));
    return made;
  }));
  find(".main-composer input").placeholder = `Message #${state.names.channels[state.channel] ?? ""}, or /kimi help`;
  find(".thread-composer input").placeholder = "Reply, or @kimi status";
}

// --- what the person does ----------------------------------------------------------------------

function goTo(id, people) {
  state.channel = id;
  openThread("");
  drawSide(people);
  if (id === HOME) post("home", {});
}

function openThread(ts) {
  state.thread = ts;
  drawn.delete(find(".replies"));
  find(".replies").replaceChildren();
  find(".thread-composer .outcome").textContent = "";
  draw();
  find(".replies").scrollTop = find(".replies").scrollHeight;
}

function sayOutcome(place, subject, outcome) {
  place.textContent = outcome.acknowledged || outcome.error === "cancelled" ? "" : `${subject} ${WORDS[outcome.error] ?? outcome.error}`;
}

async function press(item, extra, node) {
  if (item.confirm && !(await ask(find(".ask"), item.confirm, state.names))) return;
  node.disabled = true;
  const outcome = await post("press", { action_id: item.action_id, value: item.value ?? null, ...extra });
  node.disabled = false;
  sayOutcome(find(state.thread ? ".thread-composer .outcome" : ".main-composer .outcome"), "That", outcome);
}

function compose(form, threadOf) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const box = form.elements.text;
    const text = box.value.trim();
    if (!text || !state.channel || state.channel === HOME) return;
    box.value = "";
    const outcome = await post("say", { channel: state.channel, text, thread_ts: threadOf() });
    sayOutcome(form.querySelector(".outcome"), text.split(" ")[0], outcome);
    if (!outcome.acknowledged && !outcome.ts && !box.value) box.value = text;
  });
}

function begin() {
  compose(find(".main-composer"), () => null);
  compose(find(".thread-composer"), () => state.thread);
  find(".panel .close").addEventListener("click", () => openThread(""));
  find(".user").addEventListener("change", (event) => {
    state.user = event.target.value;
    localStorage.setItem("user", state.user);
    state.home = null;
    listen();
  });
  find(".hints").replaceChildren(...HINTS.map((hint) => {
    const made = element("button", "hint", hint);
    made.type = "button";
    made.addEventListener("click", () => { find(".main-composer input").value = hint; find(".main-composer input").focus(); });
    return made;
  }));
  document.addEventListener("click", (event) => {
    const permalink = event.target.closest?.("a[data-permalink]");
    if (!permalink) return;
    event.preventDefault();
    history.pushState(null, "", permalink.href);
    followAddress();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.thread && !document.querySelector("dialog[open]")) openThread("");
  });
  listen();
}

begin();
