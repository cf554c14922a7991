// Asks how the challenge on this page stands, and goes on when the phone has answered. Without it there is a button.
const pollMs = 2000;
const waiting = document.getElementById("waiting");
const { poll, next } = waiting.dataset;
const ended = new Set(["consumed", "bound"]);
const open = new Set(["created", "approved"]);

async function look() {
  const response = await fetch(poll, { headers: { Accept: "application/json" } }).catch(() => null);
  // Where nobody answers, or too much is going on, it is asked again.
  if (!response || response.status === 429 || response.status >= 500) return setTimeout(look, pollMs);
  const { status } = response.ok ? await response.json().catch(() => ({})) : {};
  if (ended.has(status)) location.replace(next);
  else if (open.has(status)) setTimeout(look, pollMs);
  // Rejected, too old, or another session's by now: the page itself says so.
  else location.reload();
}
setTimeout(look, pollMs);
