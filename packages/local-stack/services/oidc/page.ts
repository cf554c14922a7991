import { html, raw } from "hono/html";
import { demoPeople, type Person } from "./people.ts";

const style = `
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { max-width: 400px; margin: 64px auto; padding: 0 16px; }
h1 { font-size: 20px; font-weight: 600; line-height: 1.25; }
label { display: block; font-weight: 500; }
input[type="email"] { box-sizing: border-box; width: 100%; padding: 8px 12px; font: inherit; border: 1px solid #767d85; border-radius: 6px; }
.choice { display: flex; gap: 8px; min-height: 24px; margin: 16px 0; font-weight: 400; }
.buttons { display: flex; gap: 8px; }
button { padding: 8px 16px; font: inherit; font-weight: 500; color: inherit; background: none; border: 1px solid #767d85; border-radius: 6px; }
button.main { color: #fff; background: #0f766e; border-color: #0f766e; }
:focus-visible { outline: 2px solid #0f766e; outline-offset: 2px; }
fieldset { display: grid; gap: 8px; margin: 24px 0 0; padding: 12px; border: 1px solid #767d85; border-radius: 6px; }
legend { padding: 0 4px; font-weight: 500; }
fieldset button { text-align: left; overflow-wrap: anywhere; }
.notice { padding: 12px; border: 2px dashed #0f766e; border-radius: 6px; font-weight: 500; }
[role="alert"] { margin: 4px 0 0; font-weight: 500; }
`;

const headers = {
  "Content-Type": "text/html; charset=utf-8",
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

type Page = { headers: typeof headers; body: string };

async function render(title: string, content: ReturnType<typeof html>): Promise<Page> {
  const document = await html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>
<style>${raw(style)}</style></head>
<body><main><h1>${title}</h1>${content}</main></body>
</html>`;
  return { headers, body: document.toString() };
}

/** The company whose sign-in page is simulated. */
export type Title = { company?: string | undefined };

const describePerson = ({ name, email, verified, others }: Person) =>
  `${name}: ${email}, ${verified ? "verified" : "not verified"}${others.length > 0 ? `, and ${others.length} more` : ""}`;

/** Renders the page on which a demo person signs in. */
export function signInPage({
  action,
  email,
  error,
  company,
}: { action: string; email: string; error?: string } & Title): Promise<Page> {
  const alert = error ? html`<p role="alert" id="email-error">${error}</p>` : "";
  const described = error ? raw('aria-invalid="true" aria-describedby="email-error"') : "";
  const provider = company
    ? html`<p class="notice">This is a demo on this machine in the place of ${company}, which is not asked anything.</p>`
    : "";
  return render(
    company ? `Sign in to the demo of ${company}` : "Sign in to the demo provider",
    html`${provider}<p>Any address will do. Nothing is sent to it, and there is no password.</p>
<form method="post" action="${action}" novalidate>
<label for="email">Email</label>
<input type="email" id="email" name="email" value="${email}" autocomplete="email" required ${described}>
${alert}
<label class="choice"><input type="checkbox" name="verified" checked> The address is verified</label>
<div class="buttons"><button class="main">Continue</button><button name="cancel" value="yes">Cancel</button></div>
<fieldset><legend>Or sign in as one of these people</legend>
${[...demoPeople].map(([key, person]) => html`<button name="person" value="${key}">${describePerson(person)}</button>`)}
</fieldset>
</form>`,
  );
}

/** Renders the error page for a request that cannot redirect back to the client. */
export function errorPage(message: string): Promise<Page> {
  return render("This sign-in cannot continue", html`<p>${message}</p><p>Go back to the app and begin again.</p>`);
}
