// Runs Cloudflare Turnstile's widget in the element of abuse/bot-challenge-field.tsx, whose docstring says what other
// scripts can rely on.
const loadLimitMs = 10_000;
// The flexible widget needs 300 px; the compact one is 150 px wide.
const flexibleWidth = 300;

const root = document.querySelector("[data-bot-challenge]");
const field = root.querySelector("input");
const holder = root.querySelector("[data-bot-challenge-widget]");
const status = root.querySelector("[role=status]");
const retry = root.querySelector("[data-bot-challenge-retry]");
const blocked = document.querySelectorAll("[data-needs-bot-challenge]");
const host = new URL(root.dataset.script).host;

const messages = {
  running: "Checking that you’re human…",
  expired: "The check that you’re human expired. Running it again…",
  blocked: `We couldn’t load the check that you’re human. If your browser or network blocks ${host}, allow it and try again.`,
  unregistered: `The check that you’re human isn’t set up for ${location.hostname} (error 110200). Contact the site’s administrator.`,
  misconfigured: "The check that you’re human isn’t set up correctly on this site. Contact the site’s administrator.",
  clock: "Your device’s clock is wrong, so we can’t check that you’re human. Set the correct time and try again.",
  timeout: "The check that you’re human timed out. Try again.",
  failed: "The check that you’re human failed. Try again, or use another browser.",
};

let widget;
let pendingSubmit;

function show(token, reason, { again = false } = {}) {
  field.value = token ?? "";
  status.textContent = token ? "" : reason;
  const broken = !token && (again || reason === messages.unregistered || reason === messages.misconfigured);
  status.classList.toggle("text-bad", broken);
  status.classList.toggle("text-muted", !broken);
  retry.hidden = !again;
  holder.hidden = broken && widget === undefined;
  for (const button of blocked) {
    button.setAttribute("aria-disabled", String(!token));
    if (token) button.removeAttribute("aria-describedby");
    else button.setAttribute("aria-describedby", status.id);
  }
  document.dispatchEvent(new CustomEvent("bot-challenge:change", { detail: { token, reason: token ? "" : reason } }));
  if (token && pendingSubmit) {
    const { form, submitter } = pendingSubmit;
    pendingSubmit = undefined;
    form.requestSubmit(submitter);
  }
}

// https://developers.cloudflare.com/turnstile/troubleshooting/client-side-errors/error-codes/
function showFailure(code) {
  const errorCode = String(code);
  if (errorCode === "110200") show(null, messages.unregistered);
  else if (/^(1101|40002|40007)/.test(errorCode)) show(null, messages.misconfigured);
  else if (errorCode === "200100") show(null, messages.clock, { again: true });
  else if (errorCode === "200500") show(null, messages.blocked, { again: true });
  else if (/^1106/.test(errorCode)) show(null, messages.timeout, { again: true });
  else show(null, `${messages.failed} (${errorCode})`, { again: true });
  // Keeps the widget from also logging the error to the console.
  return true;
}

function load() {
  return new Promise((resolve, reject) => {
    if (window.turnstile) return resolve(window.turnstile);
    const script = document.createElement("script");
    script.src = root.dataset.script;
    script.addEventListener("load", () => (window.turnstile ? resolve(window.turnstile) : reject()));
    script.addEventListener("error", reject);
    setTimeout(reject, loadLimitMs);
    document.head.append(script);
  });
}

async function run() {
  show(null, messages.running);
  try {
    const turnstile = await load();
    if (widget !== undefined) return turnstile.reset(widget);
    const { theme } = document.documentElement.dataset;
    widget = turnstile.render(holder, {
      sitekey: root.dataset.siteKey,
      theme: theme === "light" || theme === "dark" ? theme : "auto",
      size: holder.clientWidth < flexibleWidth ? "compact" : "flexible",
      retry: "never",
      "response-field": false,
      callback: (token) => show(token),
      "expired-callback": () => show(null, messages.expired),
      "timeout-callback": () => show(null, messages.timeout, { again: true }),
      "error-callback": showFailure,
    });
  } catch {
    show(null, messages.blocked, { again: true });
  }
}

retry.addEventListener("click", run);
document.addEventListener("bot-challenge:used", run);
// When the person returns to this page, its token has already been used.
addEventListener("pageshow", (event) => event.persisted && run());
document.addEventListener(
  "click",
  (event) => {
    if (field.value || !event.target.closest?.("[data-needs-bot-challenge]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  { capture: true },
);
// Runs before the form's own listeners, so that they don't see this submit.
field.form?.addEventListener(
  "submit",
  (event) => {
    if (field.value || "skipsBotChallenge" in (event.submitter?.dataset ?? {})) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    pendingSubmit = { form: event.target, submitter: event.submitter };
    if (!retry.hidden) retry.focus();
  },
  { capture: true },
);
run();
