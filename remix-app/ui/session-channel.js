// Tells this browser's other tabs who is signed in, and listens for the same message from them. This affects only the
// display: a notified tab asks the server who is signed in before it changes anything, and the server checks every
// request anyway. A page that was prefetched, or kept for the back button, stays hidden until the server has confirmed
// its session.
const page = document.documentElement;
const maxPrefetchMs = 30_000;
const maxAnswerMs = 10_000;
// Fields that received input. Comparing `value` with `defaultValue` does not detect a changed checkbox or selection.
const touched = new Set();
// This script runs before the rest of the page is parsed.
const parsed = new Promise((resolve) => addEventListener("DOMContentLoaded", resolve, { once: true }));
let channel;

function join() {
  channel = new BroadcastChannel("gatehouse-session");
  channel.onmessage = ({ data }) => {
    if (data !== page.dataset.account) void compare();
  };
}

// Returns the session, null without a session, or undefined if the server cannot say.
async function readSession() {
  const options = { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(maxAnswerMs) };
  try {
    const response = await fetch("/api/v1/auth/session", options);
    const now = Date.parse(response.headers.get("date"));
    if (response.status === 401) return { session: null, now };
    return response.ok ? { session: await response.json(), now } : {};
  } catch {
    return {};
  }
}

async function compare() {
  const { session } = await readSession();
  if (session === undefined) return;
  await parsed;
  if ((session?.user.id ?? "") === page.dataset.account) {
    document.getElementById("session-notice").hidden = true;
    return;
  }
  // Stays on a page with a key that is shown only once, unless the person has signed out.
  if (somethingTyped() || (session && document.querySelector("[data-shown-once]")))
    tell(
      session ? `You’re signed in as ${session.user.email} in another tab.` : "You signed out in another tab.",
      "Reload this page",
      openAnew,
    );
  else openAnew();
}

// Shows a page that was prefetched or kept if its session, with its second step, is still the current one. A secret
// that is shown once does not come back.
async function confirm() {
  const { session, now } = await readSession();
  await parsed;
  if (session === undefined)
    return tell(
      "The server can’t be reached. This page is hidden until it confirms your session.",
      "Try again",
      confirm,
    );
  const state = session && `${session.sessionId} ${session.aal} ${session.mfa.required} ${session.mfa.satisfied}`;
  const isSecret = document.querySelector("[data-shown-once]") !== null;
  const age = page.dataset.unconfirmed ? now - Date.parse(page.dataset.unconfirmed) : 0;
  if ((state ?? "") === page.dataset.session && age <= maxPrefetchMs && !isSecret) {
    delete page.dataset.unconfirmed;
    document.getElementById("session-notice").hidden = true;
    // Browsers don't focus what is hidden.
    if (document.activeElement === document.body) document.querySelector("[autofocus]")?.focus();
  } else openAnew();
}

// Navigates instead of reloading, because reloading a form's response would submit the form again.
function openAnew() {
  location.replace(`${location.pathname}${location.search}`);
}

function somethingTyped() {
  if ([...touched].some((field) => field.isConnected)) return true;
  // Values that the browser restored count as typed.
  return [...document.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
}

function tell(sentence, action, act) {
  const notice = document.getElementById("session-notice");
  notice.firstElementChild.textContent = sentence;
  const button = notice.querySelector("button");
  button.textContent = action;
  button.onclick = act;
  notice.hidden = false;
}

function arrive() {
  join();
  if ("unconfirmed" in page.dataset) void confirm();
  else channel.postMessage(page.dataset.account);
}

addEventListener("input", ({ target }) => touched.add(target), { capture: true });
// A kept page must not listen, and must not show an account before it has been confirmed.
addEventListener("pagehide", () => {
  channel?.close();
  if (page.dataset.account) page.dataset.unconfirmed = "";
});
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  arrive();
  if (!page.dataset.account) void compare();
});
// The server refuses to prerender. A page that ran in advance anyway would be confirmed too early.
if (document.prerendering) document.addEventListener("prerenderingchange", openAnew, { once: true });
else arrive();
