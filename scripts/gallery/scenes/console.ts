import { explain, refuse, type Scene, statesOf } from "../define-states.ts";
import { comparePrices } from "./compare-prices.ts";

/** Returns an address after a provider's requests were limited. */
const limited =
  (at: string) =>
  async ({ world }: Scene) => {
    await world.query(
      `insert into ai.provider_limits (provider_id, requests_per_minute, tokens_per_minute)
       values ('openai', 60, 200000) on conflict do nothing`,
    );
    return at;
  };

/** Returns the address of the providers after the gateway reported a route in each state. */
async function reported({ world }: Scene) {
  await world.query(
    `insert into ai.route_health (
       provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, answered_at,
       skipped_until
     )
     select distinct on (s.place) r.provider_id, r.provider_model, 'chat', now() - s.failing, s.failures,
       s.failure, s.status, now() - s.failed, now() - s.answered, now() + s.skipped
     from (
       select row_number() over (order by o.provider_id, o.provider_model) as place, o.provider_id, o.provider_model
       from (
         select distinct x.provider_id, x.provider_model
         from ai.model_routes x join ai.models m on m.id = x.model_id and m.enabled where x.enabled
       ) as o
     ) as r
     join (values
       (1, interval '6 minutes', 9, 'timeout', null::smallint, interval '20 seconds', interval '7 minutes', interval '95 seconds'),
       (2, '2 minutes', 4, 'server_error', 503, '5 seconds', '3 minutes', null),
       (3, null, 0, 'rate_limited', 429, '40 minutes', '2 seconds', null)
     ) as s (place, failing, failures, failure, status, failed, answered, skipped) using (place)
     on conflict do nothing`,
  );
  return "/admin/providers";
}

const ofMember = (path: string) => (scene: Scene) => {
  const { id } = scene.world.people.member;
  return `/admin/users/${id}${path}`;
};

/** Creates an account with a recovery override, and returns the address of a page about the override. */
const ofOverride =
  (step: string) =>
  async ({ world }: Scene) => {
    const account = await world.createAccount("Nadia Lind", "nadia.lind");
    const id = await world.override(account);
    const email = new URLSearchParams({ email: account.email });
    return step === "" ? `/admin/recovery?${email}` : `/admin/recovery/${id}/${step}?${email}`;
  };

/** Returns the address of a page about a workspace that has requested approval. */
const ofRequest =
  (at: (workspaceId: string) => string) =>
  async ({ world }: Scene) => {
    const account = await world.createAccount("Nadia Lind", "nadia.lind");
    const workspace = await world.ownWorkspace(account);
    await world.query(
      `insert into ai.key_approval_requests (workspace_id, requested_by, note)
       values ($1, $2, 'Nightly summaries of support tickets, about 200 calls a day.')`,
      [workspace, account.id],
    );
    return at(workspace);
  };

/** Blocks an IP address, and returns the path of a page about the block. */
const ofBlock =
  (at: (blockId: string) => string) =>
  async ({ world }: Scene) => {
    const [block] = await world.query<{ id: string }>(
      `insert into private.address_blocks (address, action, level, blocked_until)
       values ('203.0.113.7', 'password', 2, now() + interval '1 hour') returning id`,
    );
    return at(block?.id ?? "");
  };

/** The console's pages for infrastructure admins. */
export const consoleStates = statesOf("Console", [
  ["Accounts", "admin/accounts", "admin", "/admin/accounts"],
  ["Users, found", "admin/accounts", "admin", "/admin/accounts?q=northern-lights.example"],
  ["Users, none found", "admin/accounts", "admin", "/admin/accounts?q=no-such-user"],
  ["An account", "admin/user", "admin", ofMember("")],
  ["An account, the admin's own", "admin/user", "admin", ({ world }) => `/admin/users/${world.people.admin.id}`],
  ["Require MFA", "admin/user-mfa", "admin", ofMember("/mfa/require")],
  [
    "Require MFA, not confirmed",
    "admin/user-mfa",
    "admin",
    ofMember("/mfa/require"),
    (scene) => explain(scene, "Require MFA").then(() => scene.page.getByRole("alert").first().waitFor()),
  ],
  [
    "An account, MFA required now",
    "admin/user",
    "admin",
    async ({ world }) => {
      const account = await world.createAccount("Nadia Lind", "nadia.lind");
      return `/admin/users/${account.id}/mfa/require`;
    },
    async (scene) => {
      const label = await scene.page.getByText(/^Type .* to confirm$/).textContent();
      await scene.page.getByLabel(/to confirm$/).fill(label?.match(/“(.*)”/)?.[1] ?? "");
      await explain(scene, "Require MFA");
      await scene.page.getByText("MFA is now required for this account.").waitFor();
    },
  ],
  ["Sign out everywhere", "admin/user-step", "admin", ofMember("/sign-out")],
  ["Address blocks", "admin/address-blocks", "admin", ofBlock(() => "/admin/address-blocks")],
  ["Address blocks, none of an address", "admin/address-blocks", "admin", "/admin/address-blocks?q=198.51.100.9"],
  ["Lift a block", "admin/address-blocks-lift", "admin", ofBlock((id) => `/admin/address-blocks/${id}/lift`)],
  ["Recovery", "admin/recovery", "admin", "/admin/recovery"],
  ["Recovery, wrong email", "admin/recovery", "admin", "/admin/recovery?email=nadia"],
  [
    "Recovery, of an email",
    "admin/recovery",
    "admin",
    ({ world }) => `/admin/recovery?${new URLSearchParams({ email: world.people.member.email })}`,
  ],
  ["Recovery, with an override", "admin/recovery", "admin", ofOverride("")],
  [
    "Create override",
    "admin/recovery-new",
    "admin",
    ({ world }) => `/admin/recovery/new?${new URLSearchParams({ email: world.people.member.email })}`,
  ],
  [
    "Create override, refused",
    "admin/recovery-new",
    "admin",
    ({ world }) => `/admin/recovery/new?${new URLSearchParams({ email: world.people.member.email })}`,
    async ({ page }) => {
      await page.getByLabel("Valid for (days)").fill("90");
      await refuse(page, "Create override");
    },
  ],
  ["Send recovery email", "admin/recovery-override", "admin", ofOverride("send")],
  ["Revoke override", "admin/recovery-override", "admin", ofOverride("revoke")],
  ["Approvals", "admin/approvals", "admin", ofRequest(() => "/admin/approvals")],
  ["Approve keys", "admin/workspaces-approval", "admin", ofRequest((id) => `/admin/workspaces/${id}/approve`)],
  ["Decline a request", "admin/workspaces-approval", "admin", ofRequest((id) => `/admin/workspaces/${id}/decline`)],
  ["Workspaces", "admin/workspaces", "admin", "/admin/workspaces"],
  ["Workspaces, found", "admin/workspaces", "admin", "/admin/workspaces?q=Northern"],
  ["Workspaces, none found", "admin/workspaces", "admin", "/admin/workspaces?q=nothing-of-that-name"],
  [
    "Revoke an approval",
    "admin/workspaces-approval",
    "admin",
    ({ world }) => `/admin/workspaces/${world.busy}/withdraw`,
  ],
  ["A workspace", "admin/workspace", "admin", ({ world }) => `/admin/workspaces/${world.busy}`],
  [
    "A workspace whose members pay",
    "admin/workspace",
    "admin",
    async ({ world }) => `/admin/workspaces/${await world.ownWorkspace(world.people.member)}`,
  ],
  ["Choose a plan", "admin/workspace-plan", "admin", ({ world }) => `/admin/workspaces/${world.busy}/plan`],
  ["Move to plan", "admin/workspace-plan", "admin", ({ world }) => `/admin/workspaces/${world.busy}/plan?plan=free`],
  ["Plans", "admin/plans", "admin", "/admin/plans"],
  ["Add plan", "admin/plan", "admin", "/admin/plans/new"],
  ["Edit plan", "admin/plan", "admin", "/admin/plans/team"],
  ["Credits of a workspace", "admin/credits", "admin", ({ world }) => `/admin/credits/workspace/${world.busy}`],
  ["Credits of a member", "admin/credits", "admin", ({ world }) => `/admin/credits/member/${world.people.member.id}`],
  [
    "Credits, the admin's own",
    "admin/credits",
    "admin",
    ({ world }) => `/admin/credits/member/${world.people.admin.id}`,
  ],
  ["Grant credits", "admin/credits-change", "admin", ({ world }) => `/admin/credits/workspace/${world.busy}/grant`],
  [
    "Withdraw credits, more than available",
    "admin/credits-change",
    "admin",
    ({ world }) => `/admin/credits/workspace/${world.busy}/withdraw`,
    async (scene) => {
      await scene.page.getByLabel("Credits", { exact: true }).fill("999999999999");
      await explain(scene, "Withdraw credits");
      await scene.page
        .getByText(/^This is more than the available balance/)
        .first()
        .waitFor();
    },
  ],
  ["Price proposals", "admin/prices", "admin", "/admin/prices"],
  ["Price proposals, no file", "admin/prices", "admin", "/admin/prices", ({ page }) => refuse(page, "Compare prices")],
  ["Price proposals, compared", "admin/prices", "admin", "/admin/prices", comparePrices],
  [
    "Price proposals, without a reason",
    "admin/prices",
    "admin",
    "/admin/prices",
    async (scene) => {
      await comparePrices(scene);
      await scene.page.getByRole("checkbox").first().check();
      await refuse(scene.page, "Apply chosen prices");
    },
  ],
  ["Providers", "admin/providers", "admin", limited("/admin/providers")],
  ["Providers, routes skipped and failing", "admin/providers", "admin", reported],
  ["Limits of a provider", "admin/provider-limit", "admin", limited("/admin/providers/openai")],
  ["Providers, runs found", "admin/providers", "admin", "/admin/providers?q=req-9b41"],
  ["Providers, no run found", "admin/providers", "admin", "/admin/providers?q=req-unknown"],
  ["A run of any workspace", "admin/run", "admin", ({ world }) => `/admin/runs/${world.retriedRunId}`],
  ["A run that no provider answered", "admin/run", "admin", ({ world }) => `/admin/runs/${world.failedRunId}`],
]);
