import type { Page } from "playwright";

/** What the pages are shown with. `busy` is a workspace with runs, `empty` one without. */
export type World = { busy: string; empty: string; appId: string; userId: string; runId: string; satellite: string };

/** Who looks: nobody, the demo user, the admin with the second step done, or the same still owing it. */
export type Visitor = "nobody" | "user" | "admin" | "owing";

/** A page in one of its states. */
export type State = {
  name: string;
  /** The module of the route, as routes.ts names it. */
  route: string;
  visitor: Visitor;
  at: (world: World) => string;
  /** Leads to the state, where the address alone does not. */
  act?: (page: Page) => Promise<void>;
};

const state = (name: string, route: string, visitor: Visitor, at: State["at"], act?: State["act"]): State => ({
  name,
  route: `routes/${route}.tsx`,
  visitor,
  at,
  ...(act && { act }),
});

async function signInWrongly(page: Page): Promise<void> {
  await page.getByLabel("Email").fill("nobody@example.com");
  await page.getByLabel("Password").fill("not the password");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").first().waitFor();
}

async function ask(page: Page): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill("Hello");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("local demo provider").first().waitFor();
}

const studio = (page: string) => [
  state(
    `studio ${page || "overview"}, with data`,
    page ? `studio.${page}` : "studio",
    "user",
    ({ busy }) => `/workspaces/${busy}/ai${page && `/${page}`}`,
  ),
  state(
    `studio ${page || "overview"}, empty`,
    page ? `studio.${page}` : "studio",
    "user",
    ({ empty }) => `/workspaces/${empty}/ai${page && `/${page}`}`,
  ),
];

/** Every page that can be shown, in its states. */
export const states: readonly State[] = [
  state("start, signed out", "home", "nobody", () => "/"),
  state("start", "home", "user", () => "/"),
  state("sign in", "login", "nobody", () => "/login"),
  state("sign in, refused", "login", "nobody", () => "/login", signInWrongly),
  state("add an account", "login", "user", () => "/add-account"),
  state("sign up", "signup", "nobody", () => "/signup"),
  state("forgotten password", "forgot-password", "nobody", () => "/forgot-password"),
  state("accounts", "accounts", "user", () => "/accounts"),
  state("second step owed", "mfa", "owing", () => "/mfa"),
  state("recovery code", "mfa.recovery", "owing", () => "/mfa/recovery"),
  state("link of a mail, over", "confirm", "nobody", () => "/auth/confirm?token_hash=none&type=signup"),
  state("invitation, over", "invitation", "user", () => "/invitation?token=none"),
  state("profile", "settings.profile", "user", () => "/settings/profile"),
  state("security", "settings.security", "user", () => "/settings/security"),
  state("security, long", "settings.security", "admin", () => "/settings/security"),
  state("activity", "settings.security.activity", "user", () => "/settings/security/activity"),
  state("QR", "qr", "user", () => "/qr"),
  state("QR, opened in a browser", "qr.open", "nobody", () => "/qr/open"),
  state("workspaces", "workspaces", "user", () => "/workspaces"),
  state("workspace", "workspace", "user", ({ busy }) => `/workspaces/${busy}`),
  state("members", "workspace.members", "user", ({ busy }) => `/workspaces/${busy}/members`),
  state("roles", "workspace.roles", "user", ({ busy }) => `/workspaces/${busy}/roles`),
  state("workspace settings", "workspace.settings", "user", ({ busy }) => `/workspaces/${busy}/settings`),
  state("workspace activity", "workspace.activity", "user", ({ busy }) => `/workspaces/${busy}/activity`),
  ...["", "runs", "keys", "budgets", "policy", "credits", "costs", "invoices", "reconciliation"].flatMap(studio),
  state("a run", "studio.run", "user", ({ busy, runId }) => `/workspaces/${busy}/ai/runs/${runId}`),
  state("new key", "studio.keys.new", "user", ({ busy }) => `/workspaces/${busy}/ai/keys/new`),
  state("new invoice", "studio.invoices.new", "user", ({ busy }) => `/workspaces/${busy}/ai/invoices/new`),
  state("playground", "studio.playground", "user", ({ busy }) => `/workspaces/${busy}/ai/playground`),
  state("playground, answered", "studio.playground", "user", ({ busy }) => `/workspaces/${busy}/ai/playground`, ask),
  state("console", "admin", "admin", () => "/admin"),
  state("console, an account", "admin.user", "admin", ({ userId }) => `/admin/users/${userId}`),
  state("console, recovery", "admin.recovery", "admin", () => "/admin/recovery"),
  state("console, new recovery", "admin.recovery.new", "admin", () => "/admin/recovery/new"),
  state("console, apps", "admin.apps", "admin", () => "/admin/apps"),
  state("console, new app", "admin.apps.new", "admin", () => "/admin/apps/new"),
  state("console, an app", "admin.app", "admin", () => "/admin/apps/notes"),
  state("console, workspaces", "admin.workspaces", "admin", () => "/admin/workspaces"),
  state("console, models", "admin.models", "admin", () => "/admin/models"),
  state("console, audit", "admin.audit", "admin", () => "/admin/audit"),
  state("API reference", "docs.api", "nobody", () => "/docs/api"),
  state("satellite, signed out", "satellite.home", "nobody", ({ satellite }) => satellite),
  state("satellite, link over", "satellite.verify-token", "nobody", ({ satellite }) => `${satellite}/verify-token`),
  state("not found", "not-found", "nobody", () => "/nowhere"),
];

const oneTime = "comes once, in the middle of a journey; its browser test looks at it";
const confirmation = "asks for a reason before a change; its browser test looks at it";

/** Page routes that are not in the gallery, and why. */
export const leftOut: Readonly<Record<string, string>> = {
  "routes/continue.tsx": oneTime,
  "routes/check-mail.tsx": oneTime,
  "routes/reset-password.tsx": oneTime,
  "routes/recovery.tsx": oneTime,
  "routes/oauth-callback.tsx": oneTime,
  "routes/step-up.tsx": "asks only where the sign-in is ten minutes old; its browser test looks at it",
  "routes/mfa.app.tsx": oneTime,
  "routes/mfa.enroll.tsx": oneTime,
  "routes/mfa.recovery-codes.tsx": oneTime,
  "routes/mfa.remove.tsx": confirmation,
  "routes/settings.profile.email.tsx": oneTime,
  "routes/settings.security.delete-account.tsx": confirmation,
  "routes/settings.security.password.tsx": oneTime,
  "routes/settings.security.passkeys.new.tsx": oneTime,
  "routes/settings.security.passkeys.rename.tsx": oneTime,
  "routes/settings.security.passkeys.delete.tsx": confirmation,
  "routes/settings.unlink-account.tsx": confirmation,
  "routes/workspace.role.tsx": "is the form of the roles' page with values in it",
  "routes/studio.invoice.tsx": oneTime,
  "routes/admin.user.mfa.tsx": confirmation,
  "routes/admin.recovery.override.tsx": confirmation,
  "routes/admin.app.change.tsx": confirmation,
  "routes/admin.workspaces.approval.tsx": confirmation,
  "routes/admin.models.change.tsx": confirmation,
  "routes/docs.api.tag.tsx": "looks as the reference's first page does",
  "routes/satellite.workspace.tsx": oneTime,
};
