"use strict";
// The token comes once in the address that `holdfast serve` printed, and stays in this tab only.
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

// Puts the page as it is now in the place of the one shown, and leaves the focus where it was.
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
    const told = await answer.json();
    say(answer.ok ? `${told.status}: ${told.said}` : told.detail);
    if (answer.ok) await renew();
  } catch (error) {
    say(`not reached: ${error.message}`);
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
let shown = null;
const news = new EventSource("/api/events");
news.addEventListener("version", (event) => {
  const told = JSON.parse(event.data);
  document.querySelectorAll("[data-live=version]").forEach((e) => { e.textContent = told.version; });
  const key = event.data;
  if (shown !== null && shown !== key) renew();
  shown = key;
});
window.addEventListener("beforeunload", () => news.close());
