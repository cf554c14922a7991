import { explain, press, refuse, type Scene, statesOf } from "../define-states.ts";

type Owner = "platform" | "workspace";

const publicJwk = {
  kty: "OKP",
  crv: "Ed25519",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
  alg: "Ed25519",
  kid: "deployments-2026",
};

/** Adds a service account with a key and a secret that ends soon. @returns the path of its page, or of a page below */
const accountOf =
  (owner: Owner, page = "", change = "enabled = true") =>
  async ({ world }: Scene) => {
    const [made] = await world.query<{ id: string }>(
      `insert into private.service_accounts (
         workspace_id, name, scopes, allowed_addresses, created_at, expires_at, last_used_at, last_used_ip
       )
       values (
         $1, $2, $3, array['203.0.113.0/24', '2001:db8:7::/48']::cidr[], now() - interval '40 days',
         now() + interval '90 days', now() - interval '3 minutes', '203.0.113.9'
       )
       returning id`,
      owner === "platform"
        ? [null, `Deployments ${crypto.randomUUID().slice(0, 4)}`, ["admin:apps:read", "admin:apps:write"]]
        : [world.busy, `Nightly report ${crypto.randomUUID().slice(0, 4)}`, ["use_ai_studio", "manage_ai_keys"]],
    );
    const id = made?.id ?? "";
    await world.query(
      `insert into private.service_account_credentials (
         service_account_id, secret_hash, public_jwk, kid, created_at, expires_at, last_used_at
       )
       values
         ($1::uuid, null, $2::jsonb, $3::text, now() - interval '40 days', null, now() - interval '3 minutes'),
         (
           $1::uuid, sha256(uuid_send($1::uuid)), null, null, now() - interval '90 days', now() + interval '1 hour', null
         )`,
      [id, JSON.stringify(publicJwk), publicJwk.kid],
    );
    await world.query(`update private.service_accounts set ${change} where id = $1`, [id]);
    const list = owner === "platform" ? "/admin/service-accounts" : `/workspaces/${world.busy}/service-accounts`;
    return `${list}/${id}${page}`;
  };

/** Returns the address of the list, with at least one service account. */
const listOf = (owner: Owner) => async (scene: Scene) =>
  (await accountOf(owner)(scene)).split("/").slice(0, -1).join("/");

/** Returns the address of the form that removes a credential. */
const removalOf = async (scene: Scene) => {
  const page = await accountOf("platform")(scene);
  const [credential] = await scene.world.query<{ id: string }>(
    "select id from private.service_account_credentials where service_account_id = $1 and kid is not null",
    [page.split("/").at(-1)],
  );
  return `${page}/remove?credential=${credential?.id}`;
};

async function fillNewAccount({ page }: Scene): Promise<void> {
  await page.getByLabel("Name").fill(`Backups ${crypto.randomUUID().slice(0, 4)}`);
  await page.getByLabel("Expires after").fill(new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10));
}

/** The pages of service accounts, in the console and in a workspace. */
export const serviceAccountStates = [
  ...statesOf("Console", [
    ["Service accounts", "service-accounts/accounts", "admin", listOf("platform")],
    ["New service account", "service-accounts/accounts-new", "admin", "/admin/service-accounts/new"],
    [
      "New service account, refused",
      "service-accounts/accounts-new",
      "admin",
      "/admin/service-accounts/new",
      ({ page }) => refuse(page, "Create service account"),
    ],
    [
      "New service account, private key",
      "service-accounts/accounts-new",
      "admin",
      "/admin/service-accounts/new",
      async (scene) => {
        await fillNewAccount(scene);
        await scene.page.getByLabel("Read the audit log").check();
        await scene.page.getByLabel("Public key").fill(JSON.stringify({ ...publicJwk, d: "secret" }));
        await explain(scene, "Create service account");
        await scene.page.getByRole("alert").first().waitFor();
      },
    ],
    [
      "Service account created, secret shown once",
      "service-accounts/accounts-new",
      "admin",
      "/admin/service-accounts/new",
      async (scene) => {
        await fillNewAccount(scene);
        await scene.page.getByLabel("Read the audit log").check();
        await scene.page.getByLabel("Credential").selectOption("secret");
        await explain(scene, "Create service account");
        await scene.page.getByText("The new secret").waitFor();
      },
    ],
    ["A service account", "service-accounts/account", "admin", accountOf("platform")],
    ["A revoked service account", "service-accounts/account", "admin", accountOf("platform", "", "revoked_at = now()")],
    ["Edit a service account", "service-accounts/account-change", "admin", accountOf("platform", "/edit")],
    ["New secret of a service account", "service-accounts/account-change", "admin", accountOf("platform", "/rotate")],
    ["Add a service account’s key", "service-accounts/account-change", "admin", accountOf("platform", "/add-key")],
    ["Remove a service account’s credential", "service-accounts/account-change", "admin", removalOf],
    ["Disable a service account", "service-accounts/account-change", "admin", accountOf("platform", "/disable")],
    ["Revoke a service account", "service-accounts/account-change", "admin", accountOf("platform", "/revoke")],
  ]),
  ...statesOf("Workspace", [
    ["Service accounts", "service-accounts/accounts", "user", listOf("workspace")],
    [
      "Service accounts, none yet",
      "service-accounts/accounts",
      "user",
      ({ world }) => `/workspaces/${world.empty}/service-accounts`,
    ],
    ["A service account", "service-accounts/account", "user", accountOf("workspace")],
    [
      "Service account created with a key",
      "service-accounts/account",
      "user",
      ({ world }) => `/workspaces/${world.busy}/service-accounts/new`,
      async (scene) => {
        await fillNewAccount(scene);
        await scene.page.getByLabel("See runs, usage and costs").check();
        await scene.page.getByLabel("Public key").fill(JSON.stringify(publicJwk));
        await press(scene.page, "Create service account");
        await scene.page.getByText("Changes saved.").waitFor();
      },
    ],
    ["Revoke a service account", "service-accounts/account-change", "user", accountOf("workspace", "/revoke")],
  ]),
];
