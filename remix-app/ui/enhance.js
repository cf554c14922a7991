// Adds conveniences to every page. The pages work without this script. It listens on the window, so that it also serves
// elements that a page renders later, and so that the page's own listeners decide first.
const copyResultMs = 4000;
// Allows another submission later, in case the user stopped the first.
const resendAfterMs = 3000;
const sentKey = "gatehouse-sent-form";
// Forms with these fields are never kept, because the browser may write what is kept to its disk.
const secrets = "[autocomplete=one-time-code], [name=code], [name=recoveryCode], [name=secret]";
const filled = "input:not([type=hidden], [type=password], [type=file]), select, textarea";

if (!navigator.clipboard) document.documentElement.dataset.clipboard = "none";

addEventListener("click", async ({ target }) => {
  const button = target.closest?.("button");
  const { copies, reveals, prints } = button?.dataset ?? {};
  if (prints !== undefined) print();
  if (copies !== undefined) {
    const label = button.firstElementChild;
    label.textContent = await navigator.clipboard.writeText(copies).then(
      () => "Copied",
      () => "Couldn’t copy: select it",
    );
    setTimeout(() => {
      label.textContent = "Copy";
    }, copyResultMs);
  }
  if (reveals !== undefined) {
    const input = document.getElementById(reveals);
    const reveal = input.type === "password";
    input.type = reveal ? "text" : "password";
    button.setAttribute("aria-pressed", String(reveal));
    button.firstElementChild.textContent = reveal ? "Hide" : "Show";
  }
});

addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  // Prevents the browser from saving a shown password as text.
  for (const { dataset } of form.querySelectorAll("button[data-reveals]"))
    document.getElementById(dataset.reveals).type = "password";
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (form.dataset.sent) return event.preventDefault();
  form.querySelector("[data-sending]")?.remove();
  if (!navigator.onLine && !form.dataset.reached) {
    event.preventDefault();
    return sendOffline(form, submitter);
  }
  form.dataset.sent = "true";
  setTimeout(() => delete form.dataset.sent, resendAfterMs);
  if (form.elements.pageAccount && !form.querySelector(secrets))
    sessionStorage.setItem(sentKey, JSON.stringify(describe(form)));
});

// `onLine` is false without a network, even if the server runs on this machine. So a request tests whether the server
// can be reached.
function sendOffline(form, submitter) {
  fetch("/healthz", { method: "HEAD", cache: "no-store" }).then(
    () => {
      form.dataset.reached = "true";
      form.requestSubmit(submitter);
      delete form.dataset.reached;
    },
    () => say(form, "alert", "This device is offline. Nothing was sent. Try again once it’s connected."),
  );
}

function say(form, role, text) {
  const line = document.createElement("p");
  line.dataset.sending = "";
  line.setAttribute("role", role);
  line.className = role === "alert" ? "w-full text-bad" : "w-full text-warn";
  line.textContent = text;
  form.prepend(line);
}

// A form that is sent is kept in this tab until a page answers it. If none does, the values are restored when its page
// is shown again.
function describe(form) {
  const hidden = [...form.querySelectorAll("input[type=hidden]")].map(({ name, value }) => [name, value]);
  const fields = [...form.querySelectorAll(filled)];
  return {
    page: location.pathname,
    name: JSON.stringify([hidden, fields.map(({ name }) => name)]),
    values: fields.map((field) => (isTicked(field) ? field.checked : field.value)),
  };
}

function isTicked({ type }) {
  return type === "checkbox" || type === "radio";
}

function restore({ name, values }) {
  const form = [...document.forms].find((each) => describe(each).name === name);
  if (!form) return;
  for (const [index, field] of [...form.querySelectorAll(filled)].entries()) {
    if (isTicked(field)) field.checked = values[index];
    else field.value = values[index];
  }
  say(form, "status", "This may not have been saved. Here’s what you sent.");
}

addEventListener("pageshow", ({ persisted }) => {
  // A page that the browser kept returns with its submitted form.
  if (persisted) for (const form of document.forms) delete form.dataset.sent;
  const sent = JSON.parse(sessionStorage.getItem(sentKey));
  if (!sent) return;
  const [visit] = performance.getEntriesByType("navigation");
  if (!persisted && visit.responseStatus >= 500) {
    return sessionStorage.setItem(sentKey, JSON.stringify({ ...sent, failed: true }));
  }
  sessionStorage.removeItem(sentKey);
  const returned = persisted || visit.type === "back_forward" || sent.failed;
  if (returned && sent.page === location.pathname) restore(sent);
});
