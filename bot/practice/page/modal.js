// Dialogs: the question before a dangerous press, and the modals the bot opens.

import { renderBlock } from "./blocks.js";
import { element, plain, words } from "./mrkdwn.js";

function plainButton(label, className = "") {
  const made = element("button", className, label);
  made.type = "button";
  return made;
}

/** Ask as Slack asks; resolves to true or false. */
export function ask(dialog, confirm, names) {
  return new Promise((resolve) => {
    const no = plainButton(confirm.deny.text, "press deny");
    const yes = plainButton(confirm.confirm.text, `press ${confirm.style ?? "primary"} confirm`);
    dialog.replaceChildren(
      element("h2", "", plain(confirm.title.text).textContent),
      words(confirm.text, names),
      element("div", "choices", no, yes),
    );
    // Not by the close event: it fires later, when the next question may already be open.
    const end = (answer) => { dialog.close(); resolve(answer); };
    no.addEventListener("click", () => end(false));
    yes.addEventListener("click", () => end(true));
    dialog.oncancel = (event) => { event.preventDefault(); end(false); };
    dialog.showModal();
  });
}

function field(item) {
  if (item.options) {
    const made = element("select");
    made.append(...item.options.map((option) => new Option(option.text.text, option.value)));
    if (item.initial_option) made.value = item.initial_option.value;
    return made;
  }
  const made = element(item.multiline ? "textarea" : "input");
  made.value = item.initial_value ?? "";
  made.placeholder = item.placeholder?.text ?? "";
  if (item.max_length) made.maxLength = item.max_length;
  return made;
}

function input(block) {
  const box = field(block.element);
  box.name = block.block_id;
  box.dataset.action = block.element.action_id;
  box.required = !block.optional;
  return element(
    "label", "input",
    element("span", "", block.label.text), box,
    block.hint ? element("small", "", block.hint.text) : null,
    element("small", "wrong"),
  );
}

function values(form) {
  const collected = {};
  for (const box of form.querySelectorAll("[data-action][name]")) {
    collected[box.name] = { [box.dataset.action]: box.value };
  }
  return collected;
}

function complain(form, errors) {
  for (const box of form.querySelectorAll("[data-action][name]")) {
    box.parentElement.querySelector(".wrong").textContent = errors?.[box.name] ?? "";
  }
}

/** Show the view, keep it as it is while nothing changed, close it when there is none. */
export function showModal(dialog, view, { names, act, submit, close }) {
  if (!view) {
    dialog.dataset.view = "";
    dialog.close();
    return;
  }
  const version = `${view.id} ${view.hash}`;
  if (dialog.dataset.view === version) return;
  dialog.dataset.view = version;
  const form = element("form", "", element("h2", "", view.title.text));
  const press = (item, extra, node) => act(item, { ...extra, view: view.id }, node);
  form.append(...view.blocks.map((block) =>
    block.type === "input" ? input(block) : renderBlock(block, names, press)));
  const no = plainButton(view.close?.text ?? "Cancel", "press");
  no.addEventListener("click", close);
  form.append(element("div", "choices", no, view.submit ? element("button", "press primary", view.submit.text) : null));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    complain(form, await submit(values(form)));
  });
  dialog.oncancel = (event) => { event.preventDefault(); close(); };
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
}
