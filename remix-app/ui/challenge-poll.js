// Polls the state of the challenge on this page, and continues when the phone has answered. Without JavaScript there is
// a button.
const pollMs = 2000;
const waiting = document.getElementById("waiting");
const { poll, next } = waiting.dataset;
const ended = new Set(["consumed", "bound"]);
const open = new Set(["created", "approved"]);

async function look() {
  const response = await fetch(poll, { headers: { Accept: "application/json" } }).catch(() => null);
  // Retries if the server does not answer or is overloaded.
  if (!response || response.status === 429 || response.status >= 500) return setTimeout(look, pollMs);
  const { status } = response.ok ? await response.json().catch(() => ({})) : {};
  if (ended.has(status)) location.replace(next);
  else if (open.has(status)) setTimeout(look, pollMs);
  // The challenge was rejected, has expired or now belongs to another session. The reloaded page shows which.
  else location.reload();
}
setTimeout(look, pollMs);
