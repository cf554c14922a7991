import { afterAll, expect, test } from "vitest";
import { bearer, createApp, createPerson, paths, send, service } from "../../scripts/test/apps.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { openLine, untilItWaits } from "../../supabase/tests/race-fixtures.ts";

const { db, close } = openPool(1);
const [person, app, line] = await Promise.all([
  createPerson(),
  createApp({ scopes: ["profile"] }),
  openLine("service_role"),
]);
afterAll(async () => {
  await service.auth.admin.deleteUser(person.id);
  await Promise.all([line.client.end(), close()]);
});

test("a token request for an app that is being turned off waits, and is refused as if the app were already off", async () => {
  await line.client.query("begin");
  await line.db.query("select private.set_app_enabled($1, false, 'test')", [app.name]);
  const answer = send(paths.mint, { body: { targetApp: app.name }, headers: bearer(person.accessToken) });
  await untilItWaits(db, { work: answer, blocker: line.pid });
  await line.client.query("commit");
  const { status, body } = await answer;
  expect([status, body]).toMatchObject([
    404,
    { code: "NOT_FOUND", detail: "This app doesn’t exist, or it’s turned off." },
  ]);
});
