// Tells this browser's other tabs who is signed in here, and heeds what they tell. For show alone: what a tab hears it
// asks of the server before it does anything, and the server decides about every request anyway.
// Whose page this is changes where a script brings the next one after another tab has switched.
const page = document.documentElement;
// What somebody has changed by hand here: a tick or a choice is not seen in a value, nor what a script keeps in step.
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
  // A key that is shown this once can still be copied, until nobody is signed in any more.
  if (somethingTyped() || (session && document.querySelector("[data-shown-once]")))
    tell(session ? `You’re signed in as ${session.user.email} in another tab.` : "You signed out in another tab.");
  else openAnew();
}

// By its address: to reload what a form was answered with is to send that form again.
function openAnew() {
  location.replace(`${location.pathname}${location.search}`);
}

function somethingTyped() {
  if ([...touched].some((field) => field.isConnected)) return true;
  // What the browser has put back on the way here was typed, too.
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
  // A page that the browser keeps for "back" must not listen, and may be out of date when it returns.
  addEventListener("pagehide", () => channel.close());
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    subscribe();
    void compare();
  });
}
