// Tells this browser's other tabs who is signed in, and listens for the same message from them. This affects only the
// display: a notified tab asks the server who is signed in before it changes anything, and the server checks every
// request anyway. The script also checks again when client-side navigation changes the page's account.
const page = document.documentElement;
// Fields that received input. Comparing `value` with `defaultValue` does not detect a changed checkbox or selection.
const touched = new Set();
let channel;

function subscribe() {
  channel = new BroadcastChannel("gatehouse-session");
  channel.onmessage = ({ data }) => {
    if (data !== page.dataset.account) void compare();
  };
}

async function compare() {
  const response = await fetch("/api/v1/auth/session", { headers: { Accept: "application/json" } });
  if (!response.ok && response.status !== 401) return;
  const session = response.ok ? await response.json() : null;
  if ((session?.user.id ?? "") === page.dataset.account) {
    document.getElementById("session-notice").hidden = true;
    return;
  }
  // Stays on a page with a key that is shown only once, unless the person has signed out.
  if (somethingTyped() || (session && document.querySelector("[data-shown-once]")))
    tell(session ? `You’re signed in as ${session.user.email} in another tab.` : "You signed out in another tab.");
  else openAnew();
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

function tell(sentence) {
  const notice = document.getElementById("session-notice");
  notice.firstElementChild.textContent = sentence;
  notice.querySelector("button").onclick = openAnew;
  notice.hidden = false;
}

if ("BroadcastChannel" in window) {
  subscribe();
  addEventListener("input", ({ target }) => touched.add(target), { capture: true });
  channel.postMessage(page.dataset.account);
  new MutationObserver(() => void compare()).observe(page, { attributeFilter: ["data-account"] });
  // A page in the back/forward cache must not listen, and may be outdated when it returns.
  addEventListener("pagehide", () => channel.close());
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    subscribe();
    void compare();
  });
}
