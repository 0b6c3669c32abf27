"use strict";
// The token is in the address that `holdfast serve` printed. Keep it for this tab only.
const place = new URL(location.href);
if (place.searchParams.has("token")) {
  sessionStorage.setItem("holdfast-token", place.searchParams.get("token"));
  place.searchParams.delete("token");
  history.replaceState(null, "", place);
}
const token = () => sessionStorage.getItem("holdfast-token");
const markToken = () => document.body.classList.toggle("no-token", !token());

function say(text, canUndo = false) {
  const box = document.getElementById("said");
  box.querySelector("[data-text]").textContent = text;
  box.querySelector("[data-undo]").hidden = !canUndo;
  box.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { box.hidden = true; }, 8000);
}

const isTyping = () => ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
const shownRules = () => [...document.querySelectorAll("main tr[data-rule]")];

// Replaces the shown page by the current one and keeps the focus.
async function renew() {
  const active = document.activeElement;
  if (isTyping()) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const opened = [...document.querySelectorAll("main details")].map((d) => d.open);
  const focused = active?.closest("tr[data-rule]")?.dataset.rule;
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  document.querySelectorAll("main details").forEach((d, i) => { d.open = Boolean(opened[i]); });
  if (focused) focusRule(focused);
}

// Decisions of this tab, newest last: the rule, and its status before.
const decided = [];

async function decide(rule, status, before, undoing = false) {
  const next = nextAfter(rule);
  try {
    const answer = await fetch(`/api/rules/${encodeURIComponent(rule)}/decision`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Holdfast-Token": token() || "" },
      body: JSON.stringify({ status }),
    });
    const result = await answer.json();
    if (!answer.ok) { say(typeof result.detail === "string" ? result.detail : "The server refused this."); return; }
    if (!undoing) decided.push({ rule, before });
    say(`${undoing ? "undone, now " : ""}${result.status}: ${result.said}`, decided.length > 0);
    await renew();
    focusRule(undoing ? rule : next);
  } catch (error) {
    say(`The server does not answer: ${error.message}`);
  }
}

async function undo() {
  const last = decided.pop();
  if (last) await decide(last.rule, last.before, null, true);
  else say("There is nothing to undo.");
}

// The rule below one in its list: where the focus goes after a decision, because the decided rule moves.
function nextAfter(rule) {
  const rows = shownRules();
  const at = rows.findIndex((row) => row.dataset.rule === rule);
  return at < 0 ? rule : (rows[at + 1] || rows[at - 1] || rows[at]).dataset.rule;
}

function focusRule(rule) {
  const link = document.querySelector(`tr[data-rule="${CSS.escape(rule)}"] a`);
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const rows = shownRules();
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
  if (row) focusRule(row.dataset.rule);
}

// The rule that a key decides about: the one with the focus in a list, or the rule of the page.
function chosen() {
  return document.activeElement?.closest("tr[data-rule]") || document.querySelector("main p[data-rule]");
}

document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-undo]")) { await undo(); return; }
  const button = event.target.closest("[data-decide]");
  if (!button) return;
  button.disabled = true;
  await decide(button.dataset.rule, button.dataset.decide, button.closest("[data-status]").dataset.status);
  button.disabled = false;
});

const actions = {
  j: () => move(1),
  k: () => move(-1),
  a: () => decideByKey("accepted"),
  r: () => decideByKey("rejected"),
  u: () => undo(),
  "?": () => document.getElementById("keys").showModal(),
  "/": () => {
    const search = document.querySelector("[data-search]");
    if (search) search.focus();
    else location.href = "/rules";
  },
};

function decideByKey(status) {
  const rule = chosen();
  if (!token()) say("To accept or reject rules, open the address that holdfast serve printed.");
  else if (rule && rule.dataset.status !== status) decide(rule.dataset.rule, status, rule.dataset.status);
}

document.addEventListener("keydown", (event) => {
  const action = actions[event.key];
  if (!action || isTyping() || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  action();
});

markToken();
let shownSummary = null;
const news = new EventSource("/api/events");
news.addEventListener("version", (event) => {
  const summary = JSON.parse(event.data);
  document.querySelectorAll("[data-live=version]").forEach((e) => { e.textContent = summary.version; });
  if (shownSummary !== null && shownSummary !== event.data) renew();
  shownSummary = event.data;
});
window.addEventListener("beforeunload", () => news.close());
