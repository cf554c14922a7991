import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { scheduleSecret } from "../../scripts/start/secrets.ts";
import { createApp, createPerson, service } from "../../scripts/test/apps.ts";
import { lockOutbox, mailEnv } from "../../scripts/test/mail-env.ts";
import { deletePerson, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { createServerSchedule } from "./server-schedule.ts";

const { base, supabase } = readStack();
const secret = scheduleSecret(supabase.secretKey);
const call = (authorization: string | null, method = "POST") =>
  fetch(`${base}/api/v1/schedule`, { method, headers: authorization === null ? {} : { authorization } });

test.for([
  null,
  "Bearer ",
  `Bearer ${secret.slice(1)}`,
  `Bearer ${secret}x`,
  `Bearer ${supabase.secretKey}`,
  `Basic ${btoa(`web:${secret}`)}`,
])("refuses to run the schedule with Authorization %s", async (authorization) => {
  const response = await call(authorization);
  expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
  expect(await response.json()).toMatchObject({ code: "UNAUTHENTICATED" });
});

test("GET does not run the schedule", async () => {
  expect((await call(`Bearer ${secret}`, "GET")).status).toBe(405);
});

describe("with due emails and logout notices", () => {
  lockOutbox();

  test("concurrent calls, another server and the loop send each email and each logout notice once", async () => {
    const received: string[] = [];
    const appServer = createServer((request, response) => {
      received.push(request.url ?? "");
      // Still unanswered when the claims of other calls begin.
      setTimeout(() => response.writeHead(200).end(), 200);
    });
    await new Promise<void>((resolve) => appServer.listen(0, "127.0.0.1", resolve));
    const [app, person] = await Promise.all([createApp({ scopes: ["profile"] }), createPerson()]);
    const to = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
    try {
      const { port } = appServer.address() as AddressInfo;
      await query("update private.apps set backchannel_logout_uri = $2 where id = $1", [
        app.id,
        `http://127.0.0.1:${port}/logout`,
      ]);
      await query(
        `insert into private.logout_notices (app_id, user_id, sid, next_attempt_at)
       select $1, $2, gen_random_uuid(), now() - interval '1 minute' from generate_series(1, 5)`,
        [app.id, person.id],
      );
      const due = { recipient: to, subject: "One of many", body: "T", next_attempt_at: new Date(0).toISOString() };
      await service
        .schema("private")
        .from("outgoing_mails")
        .insert(Array.from({ length: 12 }, () => due));

      const otherServer = createServerSchedule(mailEnv).runOnce(AbortSignal.timeout(20_000));
      const responses = await callAtOnce(() => call(`Bearer ${secret}`), { times: 6 });
      await otherServer;
      for (const response of responses) {
        expect(response.status).toBe(200);
        const { completed } = (await response.json()) as { completed: string[] };
        expect(completed).toEqual(expect.arrayContaining(["sweep-runs", "send-due-mails", "send-logout-notices"]));
      }
      await expect.poll(() => received, { timeout: 5_000 }).toHaveLength(5);
      await expect.poll(() => mailsTo(to), { timeout: 10_000 }).toHaveLength(12);
      // Nothing is left that a later call would send again.
      expect((await call(`Bearer ${secret}`)).status).toBe(200);
      expect([received.length, (await mailsTo(to)).length]).toEqual([5, 12]);
    } finally {
      await query("delete from private.logout_notices where user_id = $1", [person.id]);
      await deletePerson(person);
      appServer.close();
      appServer.closeAllConnections();
    }
  }, 30_000);
});
