import { html, raw } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";
import { accountMenu } from "#satellite/account-menu";
import type { Workspace, WorkspaceDetails } from "#satellite/central-api";
import type { SatelliteUser } from "#satellite/sessions";

type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

export interface Frame {
  appName: string;
  user: SatelliteUser | null;
}

function layout({ title, frame, main }: { title: string; frame: Frame; main: Html }): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="stylesheet" href="/styles.css">
</head>
<body>
<header><a href="/">${frame.appName}</a>${frame.user ? raw(accountMenu(frame.user)) : ""}</header>
<main>${main}</main>
</body>
</html>`;
}

export function signedOutPage(frame: Frame, { brandName }: { brandName: string }): Html {
  const main = html`<div><h1>${frame.appName}</h1><p class="lead">Sign in with your ${brandName} account to continue.</p></div>
<a class="button primary" href="/sign-in">Sign in</a>`;
  return layout({ title: frame.appName, frame, main });
}

export function homePage(
  frame: Frame,
  page: { workspaces: Workspace[]; nextCursor: string | null; isFirst: boolean },
): Html {
  const { workspaces, nextCursor, isFirst } = page;
  const { user, appName } = frame;
  const next =
    nextCursor === null
      ? ""
      : html`<a class="link" href="/?${new URLSearchParams({ cursor: nextCursor })}">Next page</a>`;
  const main = html`<div><h1>${appName}</h1>
<p class="lead">Signed in as <strong>${user?.email ?? user?.name ?? user?.id}</strong></p></div>
<section>
<h2>Your workspaces</h2>
${workspaces.length === 0 ? html`<p class="muted">You’re not in a workspace yet.</p>` : ""}
<ul>${workspaces.map(({ id, name, role }) => html`<li><a href="/w/${id}">${name}</a><p class="role">${role}</p></li>`)}</ul>
${isFirst && !next ? "" : html`<nav aria-label="Pages of workspaces">${isFirst ? "" : html`<a class="link" href="/">First page</a>`}${next}</nav>`}
</section>
<form method="post" action="/sign-out"><button>Sign out of ${appName}</button></form>`;
  return layout({ title: appName, frame, main });
}

export function workspacePage(
  frame: Frame,
  { workspace, name, error, renamed }: { workspace: WorkspaceDetails; name?: string; error?: string; renamed: boolean },
): Html {
  const { id, role, permissions } = workspace;
  const describedBy = error ? html` aria-invalid="true" aria-describedby="name-error"` : "";
  const form = html`<form method="post" action="/w/${id}" novalidate>
<input type="hidden" name="person" value="${frame.user?.id ?? ""}">
<div><label for="name">Name</label>
<input id="name" name="name" required maxlength="80" value="${name ?? workspace.name}"${describedBy}>
${error ? html`<p class="error" id="name-error">${error}</p>` : ""}</div>
<button class="primary">Save name</button>
</form>`;
  const main = html`<div><h1>${workspace.name}</h1><p class="lead">Your role here: ${role}</p></div>
${renamed && !error ? html`<p class="notice good" role="status">Name changed, here and on the platform.</p>` : ""}
${error ? html`<div class="notice bad" role="alert" tabindex="-1"><a href="#name">${error}</a></div>` : ""}
${
  permissions.includes("manage_workspace_settings")
    ? form
    : html`<p class="muted">Your role doesn’t allow you to change the name.</p>`
}
<p><a class="link" href="/">All workspaces</a></p>`;
  return layout({ title: workspace.name, frame, main });
}

export function failurePage(frame: Frame, { title, detail }: { title: string; detail: string }): Html {
  const main = html`<div><h1>${title}</h1><p class="lead">${detail}</p></div><a class="button" href="/">Home</a>`;
  return layout({ title, frame, main });
}
