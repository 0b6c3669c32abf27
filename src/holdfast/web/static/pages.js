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

function say(text) {
  const box = document.getElementById("said");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { box.hidden = true; }, 6000);
}

// Replaces the shown page by the current one and keeps the focus.
async function renew() {
  const active = document.activeElement;
  if (active && ["INPUT", "SELECT", "TEXTAREA"].includes(active.tagName)) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const opened = [...document.querySelectorAll("main details")].map((d) => d.open);
  const focused = active && active.dataset ? active.dataset.rule && `[data-decide][data-rule="${CSS.escape(active.dataset.rule)}"]` : null;
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  document.querySelectorAll("main details").forEach((d, i) => { d.open = Boolean(opened[i]); });
  if (focused) document.querySelector(focused)?.focus();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-decide]");
  if (!button) return;
  button.disabled = true;
  try {
    const answer = await fetch(`/api/rules/${encodeURIComponent(button.dataset.rule)}/decision`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Holdfast-Token": token() || "" },
      body: JSON.stringify({ status: button.dataset.decide }),
    });
    const result = await answer.json();
    say(answer.ok ? `${result.status}: ${result.said}` : result.detail);
    if (answer.ok) await renew();
  } catch (error) {
    say(`The server does not answer: ${error.message}`);
  } finally {
    button.disabled = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) {
    const search = document.querySelector("[data-search]");
    event.preventDefault();
    if (search) search.focus();
    else location.href = "/rules";
  }
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
