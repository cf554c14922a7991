import { escapeHtml } from "./encoding.ts";
import { htmlPage } from "./http.ts";
import type { SignInPreview } from "./platform-client.ts";

/** Takes the token out of the address bar and the history, then finishes a sign-in that this browser started. */
const script = `history.replaceState(null, "", "/verify-token");
const form = document.getElementById("handoff");
if (form?.dataset.auto === "true") {
  const { token, state, nextUrl } = Object.fromEntries(new FormData(form));
  const response = await fetch("/api/auth/verify-app-token", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token, state }),
  }).catch(() => null);
  if (response?.ok) location.replace(nextUrl);
  else if (response?.status === 401) form.requestSubmit();
}
form?.addEventListener("submit", (event) => {
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "true";
});
// A browser may keep the page and show it again after Back.
addEventListener("pageshow", ({ persisted }) => {
  if (persisted) delete form?.dataset.sent;
});`;

const hidden = (name: string, value: string) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`;

/** Renders the page for a sign-in that this browser started. Its script submits the form. */
export function signingInPage(fields: { token: string; nextUrl: string; state: string }): Response {
  const inputs = hidden("token", fields.token) + hidden("nextUrl", fields.nextUrl) + hidden("state", fields.state);
  return htmlPage({
    title: "Signing in",
    main: `<h1>Signing you in</h1><form id="handoff" method="post" action="/verify-token" data-auto="true">${inputs}
<button class="primary">Continue</button></form>`,
    script,
  });
}

/**
 * Renders the page for a sign-in that another browser started. It names the account and asks for confirmation, which
 * prevents login CSRF.
 */
export function confirmPage({
  person,
  ...fields
}: {
  token: string;
  nextUrl: string;
  person: SignInPreview;
}): Response {
  const name = person.email ?? person.name;
  const as = name === null ? "Continue" : `Continue as ${escapeHtml(name)}`;
  const inputs = hidden("token", fields.token) + hidden("nextUrl", fields.nextUrl);
  return htmlPage({
    title: "Signing in",
    main: `<h1>${name === null ? "Continue signing in" : as}?</h1>
<p>This sign-in wasn’t started in this browser. Continue only if you started it.</p>
<form id="handoff" method="post" action="/verify-token" data-auto="false">${inputs}
<button class="primary">${as}</button><a class="button" href="/">Cancel</a></form>`,
    script,
  });
}

export function expiredPage({ status }: { status: number }): Response {
  return htmlPage(
    {
      title: "This sign-in link doesn’t work",
      main: `<h1>This sign-in link doesn’t work</h1>
<p>It has expired, was already used, or was started in another browser.</p>
<a class="button primary" href="/sign-in">Sign in again</a>`,
      script,
    },
    { status },
  );
}
