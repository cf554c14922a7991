// Offers runs that began after the page was sent. Without JavaScript, the page is reloaded as usual.
const pollMs = 10_000;
// An hour.
const maxPolls = 360;
const maxCount = 20;
const region = document.getElementById("new-runs");
const { poll, newest } = region.dataset;
const link = region.querySelector("a");

async function look(left) {
  if (document.visibilityState === "visible") {
    const response = await fetch(poll, { headers: { Accept: "application/json" } }).catch(() => null);
    // The person signed out, or left the workspace.
    if (response && [401, 403, 404].includes(response.status)) return;
    const { runs = [] } = response?.ok ? await response.json().catch(() => ({})) : {};
    const count = runs.filter(({ id }) => id !== newest).length;
    if (count > 0) show(count);
  }
  if (left > 0) setTimeout(look, pollMs, left - 1);
}

function show(count) {
  const number = count > maxCount ? `More than ${maxCount}` : count;
  const text = `${number} new ${count === 1 ? "run" : "runs"}`;
  if (link.textContent === text) return;
  link.textContent = text;
  link.hidden = false;
  region.classList.remove("sr-only");
}

setTimeout(look, pollMs, maxPolls);
