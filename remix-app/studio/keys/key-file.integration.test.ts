import { expect, test } from "vitest";
import { createPerson, deletePerson, enter } from "../../../scripts/test/people.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createGatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

test("the CSV of keys has the page's data for each key, including limits, and no secret", async () => {
  const [tenant, person] = await Promise.all([createGatewayTenant(), createPerson()]);
  const { db, workspaceId, keyId, key } = tenant;
  await join(db, { workspaceId, userId: person.id, role: "admin" });
  await db.query(
    `update ai.keys set name = 'Nightly', requests_per_minute = 30, tokens_per_minute = 4000,
       allowed_models = '{demo-chat,demo-slow}', allowed_addresses = '{192.0.2.0/24,2001:db8::/32}',
       is_strict = true
     where id = $1`,
    [keyId],
  );
  await db.query(
    "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('key', $1, $2, 12.500000000001)",
    [keyId, workspaceId],
  );
  const { status, text } = await (await enter(person)).get(`/workspaces/${workspaceId}/ai/keys.csv`);
  const [names = "", line = "", ...more] = text.trimEnd().split("\r\n");
  expect([status, more]).toEqual([200, []]);
  const values = Object.fromEntries(names.split(",").map((name, at) => [name, line.split(",")[at]]));
  expect(values).toMatchObject({
    name: "Nightly",
    state: "active",
    requests_per_minute: "30",
    tokens_per_minute: "4000",
    models: "demo-chat demo-slow",
    addresses: "192.0.2.0/24 2001:db8::/32",
    strict: "true",
    spent_this_month_usd: "0",
    budget_usd: "12.500000000001",
    spent_usd: "0",
  });
  expect(text).not.toContain(key);
  await tenant.close();
  await deletePerson(person);
});
