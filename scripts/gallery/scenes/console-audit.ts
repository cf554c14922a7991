import { type Scene, statesOf } from "../define-states.ts";

/** An entry of the log. Its actor and time are added when it is written. */
type Entry = { action: string; target: string; targetName?: string; reason: string; before?: object; after?: object };

const price = {
  provider_id: "openai",
  service_tier: "default",
  min_input_tokens: 0,
  cached_input_usd_per_million: null,
};

/** Writes entries of one admin, newest first, and returns the address of the log with only them. */
async function writeLog({ world }: Scene): Promise<string> {
  const admin = await world.createAccount("Ines Park", "ines.park");
  const owner = await world.createAccount("Nadia Lind", "nadia.lind");
  const entries: Entry[] = [
    {
      action: "credits.grant",
      target: `workspace ${crypto.randomUUID()}`,
      targetName: "Northern Lights research",
      reason: "Paid by bank transfer on 27 November",
      before: { balance: "10000" },
      after: { balance: "60000", credits: "50000", reference: "INV-2026-0117", description: "November top-up" },
    },
    {
      action: "model.add_price",
      target: "model demo-chat",
      targetName: "Demo chat",
      reason: "The provider’s price list of December",
      before: {
        ...price,
        valid: '["2026-11-01 00:00:00+00","2026-12-01 00:00:00+00")',
        input_usd_per_million: 2.5,
        output_usd_per_million: 10,
      },
      after: {
        ...price,
        valid: '["2026-12-01 00:00:00+00",)',
        input_usd_per_million: 3,
        output_usd_per_million: 12,
        cached_input_usd_per_million: 0.3,
      },
    },
    {
      action: "app.edit",
      target: "app partner",
      targetName: "Partner portal",
      reason: "Moves to another domain",
      before: {
        origins: ["https://partner.northern-lights.example"],
        scopes: ["profile"],
        logoutUrl: "https://partner.northern-lights.example/backchannel-logout",
      },
      after: {
        origins: ["https://partner.northern-lights.example", "https://portal.harbour-logistics.example"],
        scopes: ["profile", "workspaces:read"],
        logoutUrl: "https://portal.harbour-logistics.example/backchannel-logout",
      },
    },
    {
      action: "plan.move_workspace",
      target: `workspace ${crypto.randomUUID()}`,
      reason: "Contract signed, ticket 5120",
      before: { plan: "free" },
      after: { plan: "pro" },
    },
    {
      action: "books.record_invoice",
      target: `platform invoice ${crypto.randomUUID()}`,
      targetName: "openai INV-4711",
      reason: "Checked against the usage report",
      after: { amountUsd: "1234.50", issuedOn: "2026-11-03", reference: "INV-4711", provider: "openai" },
    },
    {
      action: "model.edit_route",
      target: "model demo-chat",
      targetName: "Demo chat",
      reason: "Slow in the evenings",
      before: { provider_id: "demo", provider_model: "demo-chat", position: 1, first_byte_seconds: null },
      after: { provider_id: "demo", provider_model: "demo-chat", position: 2, first_byte_seconds: 20 },
    },
    { action: "required_mfa.require", target: owner.email, reason: "Handles customer data" },
  ];
  for (const [index, { action, target, targetName, reason, before, after }] of entries.entries()) {
    await world.query(
      `insert into private.admin_audit_log (
         actor_id, action, target_user_id, target, target_name, reason, before, after, request_id, ip, created_at
       )
       values (
         $1, $2, (select u.id from auth.users u where u.email = $3), $3, $4, $5, $6, $7, gen_random_uuid(), '192.0.2.17',
         now() - make_interval(hours => $8)
       )`,
      [admin.id, action, target, targetName, reason, before ?? null, after ?? null, index * 7],
    );
  }
  return `/admin/audit?${new URLSearchParams({ actor: admin.email })}`;
}

/** The console's audit log. */
export const consoleAuditStates = statesOf("Console", [
  ["Audit log", "admin/audit", "admin", writeLog],
  [
    "Audit log, entries unfolded",
    "admin/audit",
    "admin",
    writeLog,
    async ({ page }) => {
      for (const details of (await page.getByText("Details", { exact: true }).all()).slice(0, 3)) await details.click();
      await page.getByRole("cell", { name: "INV-2026-0117" }).waitFor();
    },
  ],
  ["Audit log, filtered to none", "admin/audit", "admin", "/admin/audit?target=unknown@nowhere.example"],
]);
