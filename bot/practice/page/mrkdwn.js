// Slack's mrkdwn to DOM nodes. Text goes in as text nodes alone, so markup in it stays text.

const INLINE = new RegExp(
  [
    "`([^`\\n]+)`", // 1 code
    "<([^<>\\n]+)>", // 2 reference
    "(?<![\\p{L}\\p{N}*])\\*([^\\s*](?:[^*\\n]*[^\\s*])?)\\*(?![\\p{L}\\p{N}*])", // 3 bold
    "(?<![\\p{L}\\p{N}_])_([^\\s_](?:[^_\\n]*[^\\s_])?)_(?![\\p{L}\\p{N}_])", // 4 italic
    "(?<![\\p{L}\\p{N}~])~([^\\s~](?:[^~\\n]*[^\\s~])?)~(?![\\p{L}\\p{N}~])", // 5 strike
    ":([a-z][a-z0-9_+-]*):", // 6 emoji
  ].join("|"),
  "gu",
);

const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", warning: "⚠️", hourglass: "⌛", rotating_light: "🚨",
  hourglass_flowing_sand: "⏳", arrows_counterclockwise: "🔄", large_green_circle: "🟢", red_circle: "🔴",
  large_yellow_circle: "🟡", eyes: "👀", mag: "🔍", fire: "🔥", rocket: "🚀", tada: "🎉", bell: "🔔", zzz: "💤",
  octagonal_sign: "🛑", skull: "💀", wave: "👋", "+1": "👍", thumbsup: "👍", wrench: "🔧", clock1: "🕐",
};

export const emoji = (name) => EMOJI[name] ?? `:${name}:`;

export function element(tag, className = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const unescape = (text) =>
  text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

/** A link, or plain words where the address is none a browser should open. */
export function link(url, label) {
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return document.createTextNode(label || url);
  const made = element("a", "", label || url);
  made.href = url;
  if (new URL(url).origin === location.origin && url.includes("/archives/")) {
    made.dataset.permalink = "yes";
  } else {
    made.target = "_blank";
    made.rel = "noopener noreferrer";
  }
  return made;
}

/** `names`: users, groups and channels by id. */
export function mention(kind, id, names, label = "") {
  if (kind === "@") return element("span", "mention", `@${names.users[id] ?? (label || id)}`);
  if (kind === "#") return element("span", "mention", `#${names.channels[id] ?? (label || id)}`);
  return element("span", "mention", `@${names.groups[id] ?? (label.replace(/^@/, "") || id)}`);
}

const FORMATS = {
  date: { year: "numeric", month: "long", day: "numeric" },
  date_num: { year: "numeric", month: "2-digit", day: "2-digit" },
  date_short: { year: "numeric", month: "short", day: "numeric" },
  date_long: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  time: { hour: "2-digit", minute: "2-digit" },
  time_secs: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
};

/** `<!date^UNIX^{time}|fallback>` in the reader's own zone. */
export function date(unix, format) {
  const at = new Date(Number(unix) * 1000);
  const words = format.replace(/\{(\w+?)(_pretty)?\}/g, (whole, name) =>
    FORMATS[name] ? new Intl.DateTimeFormat(undefined, FORMATS[name]).format(at) : whole);
  const made = element("time", "", words);
  if (!Number.isNaN(at.valueOf())) made.dateTime = at.toISOString();
  return made;
}

function reference(inner, names) {
  const [body, label = ""] = inner.split(/\|(.*)/s).map(unescape);
  if (body.startsWith("@")) return mention("@", body.slice(1), names, label);
  if (body.startsWith("#")) return mention("#", body.slice(1), names, label);
  if (body.startsWith("!subteam^")) return mention("S", body.slice(9), names, label);
  if (body.startsWith("!date^")) {
    const [unix, format = "", url = ""] = body.slice(6).split("^");
    const made = date(unix, format);
    return url ? link(url, made.textContent) : made;
  }
  if (body.startsWith("!")) return element("span", "mention loud", `@${label || body.slice(1)}`);
  return link(body, label);
}

/** ✅, ❌ and 🔴 are drawn by the page, since not every machine has a font for them; the text stays the same. */
const DRAWN = { "✅": "drawn yes", "❌": "drawn no", "🔴": "drawn down" };

function drawn(text) {
  return unescape(text).split(/(✅|❌|🔴)/u).map((run) => (DRAWN[run] ? element("span", DRAWN[run], run) : run));
}

function inline(text, names, parent) {
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, inner, bold, italic, strike, name] = found;
    parent.append(...drawn(text.slice(last, found.index)));
    last = found.index + whole.length;
    if (code !== undefined) parent.append(element("code", "", unescape(code)));
    else if (inner !== undefined) parent.append(reference(inner, names));
    else if (bold !== undefined) parent.append(inline(bold, names, element("b")));
    else if (italic !== undefined) parent.append(inline(italic, names, element("i")));
    else if (strike !== undefined) parent.append(inline(strike, names, element("s")));
    else parent.append(emoji(name));
  }
  parent.append(...drawn(text.slice(last)));
  return parent;
}

function lines(text, names, parent) {
  let quote = null;
  text.split("\n").forEach((line, index, all) => {
    const quoted = /^(&gt;|>) ?/.exec(line);
    if (quoted) {
      if (quote) quote.append("\n");
      else parent.append((quote = element("blockquote")));
      inline(line.slice(quoted[0].length), names, quote);
      return;
    }
    quote = null;
    inline(line, names, parent);
    if (index < all.length - 1) parent.append("\n");
  });
  return parent;
}

export function mrkdwn(text, names) {
  const parent = element("div", "text");
  text.split("```").forEach((part, index, all) => {
    const fenced = index % 2 === 1 && index < all.length - 1;
    if (fenced) parent.append(element("pre", "", unescape(part.replace(/^\n|\n$/g, ""))));
    else lines(index % 2 === 1 ? "```" + part : part, names, parent);
  });
  return parent;
}

export const plain = (text) =>
  element("div", "text", text.replace(/:([a-z][a-z0-9_+-]*):/g, (whole, name) => EMOJI[name] ?? whole));

/** A text object of either kind. */
export const words = (object, names) =>
  object.type === "mrkdwn" ? mrkdwn(object.text, names) : plain(object.text);
