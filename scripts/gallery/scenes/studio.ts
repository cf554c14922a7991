import { press, refuse, type Scene, statesOf, whose } from "../define-states.ts";

/** Returns the address of a studio page of the busy workspace. */
export const busy =
  (page: string, search = "") =>
  ({ world }: Scene) =>
    `/workspaces/${world.busy}/ai${page}${search}`;
/** Returns the address of a studio page of the visitor's own workspace, which is empty. */
export const empty =
  (page: string, search = "") =>
  async (scene: Scene) =>
    `/workspaces/${await scene.world.ownWorkspace(whose(scene))}/ai${page}${search}`;

/** Returns the address of a task limit of the busy workspace in a state. */
const envelopeIn =
  (state: "waiting" | "open" | "ended" | "expired", search = "") =>
  ({ world }: Scene) =>
    `/workspaces/${world.busy}/ai/envelopes/${world.envelopes[state]}${search}`;

async function createKey({ page }: Scene): Promise<void> {
  await page.getByLabel("Name").fill("Release notes");
  await press(page, "Create key");
  await page.getByText("Copy the key now").waitFor();
}

/** Sets the credits of a guest to the given number. Returns the address of the guest's credits page. */
const withCredits =
  (balance: number) =>
  async (scene: Scene): Promise<string> => {
    const { id } = whose(scene);
    await scene.world.query("select ai.grant_credits('member', $1, 25, 'Welcome credits', 'welcome')", [id]);
    if (balance < 25) {
      await scene.world.query("select ai.grant_credits('member', $1, $2, 'Correction')", [id, balance - 25]);
    }
    return empty("/credits")(scene);
  };

/**
 * Returns the keys page of a guest whose workspace has requested approval. If a reason is given, the request was
 * declined.
 */
const requested = (declineReason: string | null) => async (scene: Scene) => {
  const person = whose(scene);
  const workspace = await scene.world.ownWorkspace(person);
  await scene.world.query(
    `insert into ai.key_approval_requests (workspace_id, requested_by, note, state, answered_at, decline_reason)
     select $1, $2, 'Nightly summaries of support tickets, about 200 calls a day.',
       case when $3::text is null then 'open' else 'declined' end, case when $3 is not null then now() end, $3`,
    [workspace, person.id, declineReason],
  );
  return `/workspaces/${workspace}/ai/keys`;
};

/**
 * Returns a page of a guest's workspace in which one agent is connected with a task limit and a member has requested
 * access for a second agent.
 */
const withAgents =
  (page: string) =>
  async (scene: Scene): Promise<string> => {
    const person = whose(scene);
    const workspace = await scene.world.ownWorkspace(person);
    await scene.world.query(
      `with app as (
         insert into private.apps (name, display_name, kind, scopes)
         values ('gatehouse', 'Gatehouse command', 'openid', '{profile,workspaces:read,studio:keys}')
         on conflict (name) do update set display_name = excluded.display_name
         returning id
       ), client as (
         insert into private.openid_clients (app_id, is_public, allows_device_grant) select id, true, true from app
         on conflict (app_id) do nothing
       ), login as (
         insert into private.openid_grants (source_id, app_id, user_id, proof, authentication, scopes, ends_at)
         select gen_random_uuid(), a.id, $2, private.handoff_proof(jsonb_build_object('user', $2::uuid)),
           row(now(), 'aal1', '{pwd}')::private.openid_authentication, '{studio:keys}', now() + interval '29 days'
         from app a
         returning id
       ), connection as (
         insert into ai.agent_connections (workspace_id, user_id, login_id, tool, host)
         select $1, $2, id, 'claude', 'ann-laptop' from login returning id
       ), approval as (
         insert into ai.key_approvals (workspace_id) values ($1)
       ), key as (
         insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, expires_at, connection_id)
         select k.id, k.id, $1, $2, 'Claude Code on ann-laptop', left(replace(k.id::text, '-', ''), 12), sha256(k.id::text::bytea),
           now() + interval '7 hours', c.id
         from (select gen_random_uuid() as id) as k, connection c
         returning lineage_id
       ), envelope as (
         insert into ai.envelopes (workspace_id, principal_id, holds_all, key_lineage_id, actor_id, opened_usd, opened_by)
         select $1, k.lineage_id, true, k.lineage_id, $2, 5, $2 from key k
         returning id
       ), budget as (
         insert into ai.budgets (
           scope, subject_id, workspace_id, period, limit_usd, spent_usd, starts_at, ends_at, max_calls, calls
         )
         select 'envelope', id, $1, 'total', 5, 1.25, '-infinity', now() + interval '30 days', 200, 12 from envelope
       ), member as (
         insert into public.workspace_members (workspace_id, user_id, role_id)
         select $1, $3, r.id from public.workspace_roles r where r.workspace_id = $1 and r.name = 'member'
       )
       insert into ai.agent_access (workspace_id, user_id, tool, host) values ($1, $3, 'codex', 'build-box')`,
      [workspace, person.id, scene.world.colleagueId],
    );
    return `/workspaces/${workspace}/ai${page}`;
  };

/** The pages about a workspace's usage, costs and permissions. */
export const studioStates = statesOf("AI studio", [
  ["Models", "studio/models", "user", busy("/models")],
  ["Models, none found", "studio/models", "user", busy("/models", "?q=unheard-of")],
  ["Usage", "studio/usage", "user", busy("")],
  ["Usage, by key and tokens", "studio/usage", "user", busy("", "?by=key&show=tokens&range=7d")],
  ["Usage, another range without calls", "studio/usage", "user", busy("", "?from=2025-01-01&to=2025-01-31")],
  ["Usage, by model", "studio/usage", "user", busy("", "?by=model")],
  ["Usage, by model over a year", "studio/usage", "user", busy("", "?by=model&range=365d&show=tokens")],
  ["Usage, by member", "studio/usage", "user", busy("", "?by=member")],
  ["Usage, by label", "studio/usage", "user", busy("", "?by=label")],
  ["Usage, wrong days", "studio/usage", "user", busy("", "?from=2026-02-01&to=2026-01-01"), 400],
  ["Usage, unknown range", "studio/usage", "user", busy("", "?range=fortnight"), 400],
  ["Usage, no requests yet", "studio/usage", "guest", empty("")],
  ["Runs", "studio/runs", "user", busy("/runs")],
  ["Runs, filtered to none", "studio/runs", "user", busy("/runs", "?requestId=nothing-like-it&status=failed")],
  ["Runs, none yet", "studio/runs", "guest", empty("/runs")],
  ["Runs, by cost", "studio/runs", "user", busy("/runs", "?sort=cost&range=30d")],
  ["Runs, refused calls", "studio/runs", "user", busy("/runs", "?status=refused")],
  [
    "A run, a refused call",
    "studio/run",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.refusedCallId}?status=refused`,
  ],
  ["A run", "studio/run", "user", ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.runId}`],
  [
    "A run, second provider answered",
    "studio/run",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.retriedRunId}`,
  ],
  ["Runs, filtered by key", "studio/runs", "user", (scene) => busy("/runs", `?keyId=${scene.world.keyId}`)(scene)],
  ["A run, several calls", "studio/run", "user", ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.toolRunId}`],
  ["A run, no answer", "studio/run", "user", ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.failedRunId}`],
  ["A run, words kept", "studio/run", "user", ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.saidRunId}`],
  [
    "A run, words shown",
    "studio/run",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/runs/${world.saidRunId}`,
    async ({ page }) => {
      await press(page, "Show prompts and answers");
      await page.locator("#said").getByText("northern lights tonight").waitFor();
    },
  ],
  ["Keys", "studio/keys", "user", busy("/keys")],
  [
    "Keys, asked before one ends",
    "studio/keys",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/keys?revoke=${world.keyId}`,
  ],
  ["Keys, none and no approval", "studio/keys", "guest", empty("/keys")],
  ["Keys, approval requested", "studio/keys", "guest", requested(null)],
  ["Keys, request declined", "studio/keys", "guest", requested("Use the workspace of your team, which is approved.")],
  ["Keys, coding agents", "studio/keys", "guest", withAgents("/keys")],
  ["Coding agents", "studio/keys-agents", "guest", withAgents("/keys/agents")],
  ["Request approval", "studio/keys-approval", "guest", empty("/keys/approval")],
  [
    "Keys, revoked",
    "studio/keys",
    "guest",
    async (scene) => {
      const id = await scene.world.ownWorkspace(whose(scene));
      await scene.world.query("insert into ai.key_approvals (workspace_id) values ($1)", [id]);
      return `/workspaces/${id}/ai/keys/new`;
    },
    async (scene) => {
      await createKey(scene);
      await scene.page.getByRole("link", { name: "I’ve copied it" }).click();
      await scene.page.getByRole("link", { name: /^Revoke/ }).click();
      await press(scene.page, "Revoke key");
      await scene.page.getByText("The key no longer works.").waitFor();
    },
  ],
  [
    "Rotating a key",
    "studio/keys-rotate",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/keys/${world.keyId}/rotate`,
  ],
  ["Editing a key", "studio/keys-edit", "user", ({ world }) => `/workspaces/${world.busy}/ai/keys/${world.keyId}/edit`],
  [
    "Editing a key, refused",
    "studio/keys-edit",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/keys/${world.keyId}/edit`,
    async ({ page }) => {
      await page.getByLabel("Name").fill("");
      await refuse(page, "Save key");
    },
  ],
  ["New key", "studio/keys-new", "user", busy("/keys/new")],
  [
    "New key, refused",
    "studio/keys-new",
    "user",
    busy("/keys/new"),
    async ({ page }) => {
      await page.getByText("More settings").click();
      await page.getByLabel("Requests per minute").fill("0");
      await page.getByLabel("Only selected models").check();
      await refuse(page, "Create key");
    },
  ],
  [
    "New key, shown once",
    "studio/keys-new",
    "guest",
    async (scene) => {
      const id = await scene.world.ownWorkspace(whose(scene));
      await scene.world.query("insert into ai.key_approvals (workspace_id) values ($1)", [id]);
      return `/workspaces/${id}/ai/keys/new`;
    },
    createKey,
  ],
  ["Budgets", "studio/budgets", "user", busy("/budgets")],
  [
    "Budgets, changing one",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=key.${world.keyId}`,
  ],
  [
    "Budgets, changing a daily one",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=key.${world.keyId}/day`,
  ],
  [
    "Budgets, adding one",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=workspace.${world.busy}/new`,
  ],
  [
    "Budgets, a time zone refused",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=key.${world.keyId}/day`,
    async ({ page }) => {
      await page.getByLabel("Time zone").fill("Berlin");
      await refuse(page, "Save budget");
    },
  ],
  [
    "Budgets, limiting concurrent calls",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=workspace.${world.busy}/concurrent`,
  ],
  [
    "Budgets, refused",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=workspace.${world.busy}`,
    async ({ page }) => {
      await page.getByLabel(/^Monthly budget of/).fill("a lot");
      await refuse(page, "Save budget");
    },
  ],
  [
    "Budgets, a label refused",
    "studio/budgets",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/budgets?change=label.`,
    async ({ page }) => {
      await page.getByLabel("Entity label").fill("customer 7");
      await refuse(page, "Save budget");
    },
  ],
  [
    "Budgets, set",
    "studio/budgets",
    "guest",
    empty("/budgets"),
    async ({ page }) => {
      await page
        .getByRole("link", { name: /^Set budget of/ })
        .first()
        .click();
      await page.getByLabel(/^Budget of/).fill("12.5");
      await press(page, "Save budget");
      await page.getByText("Budget saved: $12.50 per month").waitFor();
    },
  ],
  ["Task limits", "studio/envelopes", "user", busy("/envelopes")],
  ["Task limits, of a member", "studio/envelopes", "member", busy("/envelopes")],
  ["Task limits, none yet", "studio/envelopes", "guest", empty("/envelopes")],
  [
    "New task limit, refused",
    "studio/envelopes",
    "user",
    busy("/envelopes", "?new=1"),
    async ({ page }) => {
      await page.getByLabel(/^Label/).fill("release notes");
      await refuse(page, "Set task limit");
    },
  ],
  ["Task limit, waiting for a decision", "studio/envelope", "user", envelopeIn("waiting")],
  ["Task limit, open", "studio/envelope", "user", envelopeIn("open")],
  ["Task limit, stopped", "studio/envelope", "user", envelopeIn("ended")],
  ["Task limit, expired", "studio/envelope", "user", envelopeIn("expired")],
  ["Task limit, stopping", "studio/envelope", "user", envelopeIn("open", "?confirm=stop")],
  [
    "Task limit, refused",
    "studio/envelope",
    "user",
    envelopeIn("open"),
    async ({ page }) => {
      await page.getByLabel("Limit, in dollars").fill("a lot");
      await refuse(page, "Save limits");
    },
  ],
  ["Policy", "studio/policy", "user", busy("/policy")],
  ["Policy, for who may not change it", "studio/policy", "member", busy("/policy")],
  [
    "Policy, refused",
    "studio/policy",
    "user",
    busy("/policy"),
    async ({ page }) => {
      await page.getByLabel("Requests per minute").fill("none");
      await refuse(page, "Save policy");
    },
  ],
  [
    "Policy, without a selected region",
    "studio/policy",
    "user",
    busy("/policy"),
    async ({ page }) => {
      await page.getByLabel("Only selected regions").check();
      await refuse(page, "Save policy");
    },
  ],
  [
    "Policy, saved",
    "studio/policy",
    "guest",
    empty("/policy"),
    async ({ page }) => {
      await page.getByLabel("Requests per minute").fill("30");
      await press(page, "Save policy");
      await page.getByText("Policy saved.").waitFor();
    },
  ],
  ["Credits", "studio/credits", "user", busy("/credits")],
  ["Credits, a member's own", "studio/credits", "guest", empty("/credits")],
  ["Statement of credits", "studio/credits-statement", "user", busy("/credits/statement")],
  [
    "Statement of credits, month to date",
    "studio/credits-statement",
    "user",
    busy("/credits/statement", `?month=${new Date().toISOString().slice(0, 7)}`),
  ],
  ["Statement of credits, nothing yet", "studio/credits-statement", "guest", empty("/credits/statement")],
  ["Credits, low", "studio/credits", "guest", withCredits(25)],
  ["Credits, used up", "studio/credits", "guest", withCredits(0)],
]);
